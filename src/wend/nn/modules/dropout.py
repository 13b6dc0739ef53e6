# ruff: noqa: F401, F403
"""Dropout."""

from wend.frontend.nn.dropout import *
from wend.frontend.nn.dropout import _DropoutNd
