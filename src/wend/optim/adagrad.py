# ruff: noqa: F401
"""Adagrad."""

from wend.frontend.optim.adaptive import Adagrad
