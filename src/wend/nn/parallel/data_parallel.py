# ruff: noqa: F403
"""Wrappers for several devices."""

from wend.frontend.nn.parallel import *
