# ruff: noqa: F401, F403
"""Batch normalization."""

from wend.frontend.nn.batchnorm import *
from wend.frontend.nn.batchnorm import _BatchNorm, _NormBase
