"""Sequences of unlike lengths: padded or packed."""

from wend.frontend.nn.packing import *
