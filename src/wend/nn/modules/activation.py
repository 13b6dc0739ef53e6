# ruff: noqa: F401, F403
"""Activations; multi-head attention."""

from wend.frontend.nn.activation import *
from wend.frontend.nn.attention import MultiheadAttention
