"""torch.distributed.fsdp: modules whose parameters are shared out among ranks."""

from wend.distributed.fsdp._fully_shard import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
)

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "fully_shard"]
