# ruff: noqa: F401
"""Adadelta."""

from wend.frontend.optim.adaptive import Adadelta
