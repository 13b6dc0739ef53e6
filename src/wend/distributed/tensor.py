"""torch.distributed.tensor: classes of tensors over many processes; no tensor is of these."""

from __future__ import annotations

from typing import Any

from wend.base.errors import NotImplementedInWend

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_tensor"]


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedInWend: tensors whose parts lie in many processes are not available."""
    raise NotImplementedInWend(
        "torch.distributed.tensor: tensors whose parts lie in several processes are not available; "
        "communicate parts by the collectives of torch.distributed"
    )


distribute_tensor = distribute_module = _refuse


class DTensor:
    """A tensor whose parts lie in many processes; raises NotImplementedInWend when made."""

    __init__ = from_local = _refuse


class Placement:
    """The way in which processes share a tensor."""


class Replicate(Placement):
    """Each process has the whole tensor."""


class Shard(Placement):
    """Each process has a part along a dim."""

    def __init__(self, dim: int) -> None:
        self.dim = dim


class Partial(Placement):
    """The tensor is the sum of the parts of all processes."""
