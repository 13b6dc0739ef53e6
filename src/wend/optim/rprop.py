# ruff: noqa: F401
"""Rprop."""

from wend.frontend.optim.first_order import Rprop
