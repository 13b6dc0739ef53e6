"""Losses."""

from wend.frontend.nn.loss import *
from wend.frontend.nn.loss import _Loss, _WeightedLoss
