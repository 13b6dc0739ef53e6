"""Distances and similarities."""

from wend.frontend.nn.distance import *
