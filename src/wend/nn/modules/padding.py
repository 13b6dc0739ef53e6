# ruff: noqa: F403
"""Padding."""

from wend.frontend.nn.padding import *
