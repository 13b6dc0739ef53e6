"""Wrappers for several devices."""

from wend.frontend.nn.parallel import *
