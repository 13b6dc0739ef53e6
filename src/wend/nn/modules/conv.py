# ruff: noqa: F401, F403
"""Convolutions."""

from wend.frontend.nn.conv import *
from wend.frontend.nn.conv import _ConvNd, _ConvTranspose
