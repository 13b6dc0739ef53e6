"""Padding."""

from wend.frontend.nn.padding import *
