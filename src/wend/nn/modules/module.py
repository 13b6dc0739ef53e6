# ruff: noqa: F403
"""The base class of all modules."""

from wend.frontend.nn.module import *
