# ruff: noqa: F403
"""Sequences of unlike lengths: padded or packed."""

from wend.frontend.nn.packing import *
