# ruff: noqa: F401
"""NAdam."""

from wend.frontend.optim.adam_variants import NAdam
