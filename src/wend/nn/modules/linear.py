"""Linear maps."""

from wend.frontend.nn.linear import *
from wend.frontend.nn.linear import NonDynamicallyQuantizableLinear
