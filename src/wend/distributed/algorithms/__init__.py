"""torch.distributed.algorithms: communication hooks, and processes with unequal amounts of data."""
