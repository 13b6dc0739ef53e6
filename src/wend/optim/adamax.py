# ruff: noqa: F401
"""Adamax."""

from wend.frontend.optim.adam_variants import Adamax
