# ruff: noqa: F403
"""Channels of groups interleaved."""

from wend.frontend.nn.channelshuffle import *
