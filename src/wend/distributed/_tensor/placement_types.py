"""The older name of `torch.distributed.tensor.placement_types`."""

from wend.distributed.tensor.placement_types import *  # noqa: F403
from wend.distributed.tensor.placement_types import __all__  # noqa: F401
