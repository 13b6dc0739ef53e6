"""Pooling."""

from wend.frontend.nn.pooling import *
from wend.frontend.nn.pooling import _AvgPoolNd, _MaxPoolNd
