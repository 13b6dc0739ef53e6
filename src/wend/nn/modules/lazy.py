# ruff: noqa: F403
"""Modules that take their shapes from their first input."""

from wend.frontend.nn.lazy import *
