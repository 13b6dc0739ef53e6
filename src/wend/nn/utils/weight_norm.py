# ruff: noqa: F401
"""Weight normalization."""

from wend.frontend.nn.renormalized import remove_weight_norm
from wend.frontend.nn.renormalized import weight_norm as weight_norm
