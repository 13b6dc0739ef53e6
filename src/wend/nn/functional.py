"""Layers as functions."""

from wend.frontend.nn.functional import *
