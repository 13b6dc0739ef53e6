"""The older name of `torch.distributed.tensor._utils`."""

from wend.distributed.tensor._utils import compute_local_shape_and_global_offset  # noqa: F401
