# ruff: noqa: F401
"""RAdam."""

from wend.frontend.optim.adam_variants import RAdam
