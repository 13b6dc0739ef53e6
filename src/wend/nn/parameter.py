"""Parameters and buffers: the tensors that a module owns."""

from wend._frontend.parameters.parameter import *  # noqa: F403
from wend._frontend.parameters.parameter import __all__ as __all__
from wend._frontend.parameters.parameter import fresh_parameter as fresh_parameter
from wend._frontend.parameters.parameter import rebuild_parameter as rebuild_parameter
from wend._frontend.parameters.parameter import (
    rebuild_parameter_with_state as rebuild_parameter_with_state,
)
