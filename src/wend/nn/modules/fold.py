# ruff: noqa: F403
"""Sliding blocks of images as columns, and back."""

from wend.frontend.nn.fold import *
