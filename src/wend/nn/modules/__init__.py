"""Layers by family."""

from wend.frontend.nn import *
