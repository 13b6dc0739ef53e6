"""The first FSDP, a module around a module: refused, with `fully_shard` in its place.

Libraries ask whether a model is one of these. Settings that go with it are left out.
"""

from __future__ import annotations

from wend._engine.base.refusals import refuse

__all__ = ["FullyShardedDataParallel"]


class FullyShardedDataParallel:
    """Raises NotImplementedInWend when made; `fully_shard(module)` shares out parameters."""

    _refused_by_wend = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse(
            "torch.distributed.fsdp.FullyShardedDataParallel",
            "PyTorch has deprecated it; torch.distributed.fsdp.fully_shard(module) has its place",
        )
