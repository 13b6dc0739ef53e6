# ruff: noqa: F403
"""Parameters and buffers."""

from wend.frontend.nn.parameter import *
