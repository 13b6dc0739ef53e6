# ruff: noqa: F401
"""AdamW."""

from wend.frontend.optim.adam import AdamW
