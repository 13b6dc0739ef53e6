# ruff: noqa: F403
"""Layer, group and other normalizations."""

from wend.frontend.nn.normalization import *
