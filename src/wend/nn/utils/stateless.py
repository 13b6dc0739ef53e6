# ruff: noqa: F403
"""A module called with other parameters than its own."""

from wend.frontend.nn.stateless import *
