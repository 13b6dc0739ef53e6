# ruff: noqa: F403
"""Parameters as one vector, and back."""

from wend.frontend.nn.vectors import *
