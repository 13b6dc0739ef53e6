# ruff: noqa: F403
"""Modules that hold other modules or parameters."""

from wend.frontend.nn.container import *
