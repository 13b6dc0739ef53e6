# ruff: noqa: F403
"""Gradients clipped by norm or by value."""

from wend.frontend.nn.gradients import *
