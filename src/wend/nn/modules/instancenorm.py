"""Instance normalization."""

from wend.frontend.nn.instancenorm import *
from wend.frontend.nn.instancenorm import _InstanceNorm
