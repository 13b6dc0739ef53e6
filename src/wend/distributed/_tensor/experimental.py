"""The older name of `torch.distributed.tensor.experimental`."""

from wend.distributed.tensor.experimental import *  # noqa: F403
from wend.distributed.tensor.experimental import __all__  # noqa: F401
