"""Channels that become pixels, and back."""

from wend.frontend.nn.pixelshuffle import *
