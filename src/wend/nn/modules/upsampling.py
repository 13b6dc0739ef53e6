# ruff: noqa: F403
"""Resizing."""

from wend.frontend.nn.upsampling import *
