# ruff: noqa: F401, F403
"""Losses."""

from wend.frontend.nn.loss import *
from wend.frontend.nn.loss import _Loss, _WeightedLoss
