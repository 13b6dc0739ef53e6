# ruff: noqa: F401
"""Weight normalization."""

from wend.frontend.nn.renormalized import remove_weight_norm, weight_norm
