"""Parameters computed from others."""

from wend.frontend.nn.parametrize import *
