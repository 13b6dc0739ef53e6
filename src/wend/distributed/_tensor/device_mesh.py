"""The older name of `torch.distributed.tensor.device_mesh`."""

from wend.distributed.tensor.device_mesh import *  # noqa: F403
from wend.distributed.tensor.device_mesh import __all__  # noqa: F401
