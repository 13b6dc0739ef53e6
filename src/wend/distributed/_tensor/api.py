"""The older name of `torch.distributed.tensor._api`."""

from wend.distributed.tensor._api import *  # noqa: F403
from wend.distributed.tensor._api import __all__  # noqa: F401
