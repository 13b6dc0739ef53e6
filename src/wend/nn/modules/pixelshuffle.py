# ruff: noqa: F403
"""Channels that become pixels, and back."""

from wend.frontend.nn.pixelshuffle import *
