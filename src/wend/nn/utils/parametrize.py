# ruff: noqa: F403
"""Parameters computed from others."""

from wend.frontend.nn.parametrize import *
