# ruff: noqa: F401, F403
"""Linear maps."""

from wend.frontend.nn.linear import *
from wend.frontend.nn.linear import NonDynamicallyQuantizableLinear
