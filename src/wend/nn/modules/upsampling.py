"""Resizing."""

from wend.frontend.nn.upsampling import *
