# ruff: noqa: F403
"""Distances and similarities."""

from wend.frontend.nn.distance import *
