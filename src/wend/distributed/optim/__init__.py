"""torch.distributed.optim: optimizers whose state is shared out among ranks."""

from wend.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
