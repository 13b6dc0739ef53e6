# ruff: noqa: F401
"""LBFGS."""

from wend.frontend.optim.lbfgs import LBFGS
