"""The older name of `torch.distributed.tensor`."""

from wend._engine.base.lazy_modules import load_when_named
from wend.distributed.tensor import *  # noqa: F403
from wend.distributed.tensor import __all__  # noqa: F401

load_when_named(__name__, "api device_mesh experimental placement_types")
