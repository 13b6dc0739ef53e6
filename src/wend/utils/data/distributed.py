"""torch.utils.data.distributed."""

from wend.frontend.data.distributed import DistributedSampler

__all__ = ["DistributedSampler"]
