"""Parameters and buffers."""

from wend.frontend.nn.parameter import *
