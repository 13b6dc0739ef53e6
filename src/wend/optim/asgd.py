# ruff: noqa: F401
"""ASGD."""

from wend.frontend.optim.first_order import ASGD
