# ruff: noqa: F403
"""Changes of shape."""

from wend.frontend.nn.flatten import *
