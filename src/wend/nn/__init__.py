# ruff: noqa: F401, F403
"""Modules, parameters, layers and losses; `functional`, `init` and `utils` beside them."""

from wend._engine.base.lazy_modules import load_when_named
from wend.nn import functional, init, modules, parallel, parameter, utils
from wend.nn.modules import *
from wend.nn.modules.utils import factory_kwargs
from wend.nn.parallel import DataParallel
from wend.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)

load_when_named(__name__, "attention common_types grad intrinsic qat quantized")
