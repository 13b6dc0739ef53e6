# ruff: noqa: F401, F403
"""Instance normalization."""

from wend.frontend.nn.instancenorm import *
from wend.frontend.nn.instancenorm import _InstanceNorm
