# ruff: noqa: F401, F403
"""Pooling."""

from wend.frontend.nn.pooling import *
from wend.frontend.nn.pooling import _AvgPoolNd, _MaxPoolNd
