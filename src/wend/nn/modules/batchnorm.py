"""Batch normalization."""

from wend.frontend.nn.batchnorm import *
from wend.frontend.nn.batchnorm import _BatchNorm, _NormBase
