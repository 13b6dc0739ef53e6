# ruff: noqa: F401
"""Adam."""

from wend.frontend.optim.adam import Adam
