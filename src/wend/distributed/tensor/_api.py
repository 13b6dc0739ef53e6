"""Tensors whose parts lie in several ranks: the class, and the functions that would make them.

Libraries ask whether a tensor is a DTensor, and go another way for those. Wend makes none: such
functions raise where a program calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from wend._engine.base import refusals
from wend._engine.core._hot import Tensor

__all__ = [
    "DTensor",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]

_REMEDY = (
    "tensors whose parts lie in several ranks are not available; share out parameters by "
    "torch.distributed.fsdp.fully_shard, or exchange parts by the collectives of torch.distributed"
)


def refuse(name: str) -> NoReturn:
    """Raises NotImplementedInWend, and names the ways without a DTensor."""
    refusals.refuse(f"torch.distributed.tensor.{name}", _REMEDY)


def refusal(name: str) -> Callable[..., NoReturn]:
    """A function that raises NotImplementedInWend."""
    return refusals.refusal(f"torch.distributed.tensor.{name}", _REMEDY)


class DTensor(Tensor):
    """A tensor whose parts lie in several ranks. Raises NotImplementedInWend when made."""

    _refused_by_wend = True

    def __new__(cls, *args: Any, **kwargs: Any) -> DTensor:
        refuse("DTensor")

    from_local = staticmethod(refusal("DTensor.from_local"))


distribute_tensor = refusal("distribute_tensor")
distribute_module = refusal("distribute_module")
empty = refusal("empty")
full = refusal("full")
ones = refusal("ones")
rand = refusal("rand")
randn = refusal("randn")
zeros = refusal("zeros")
