# ruff: noqa: F403
"""Layers as functions."""

from wend.frontend.nn.functional import *
