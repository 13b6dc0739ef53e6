"""Channels of groups interleaved."""

from wend.frontend.nn.channelshuffle import *
