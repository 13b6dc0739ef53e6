# ruff: noqa: F403
"""Averages of parameters over training."""

from wend.frontend.optim.swa_utils import *
