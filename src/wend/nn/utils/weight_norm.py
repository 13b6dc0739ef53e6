# ruff: noqa: F401
"""Weight normalization."""

from wend.nn.utils._renormalized import WeightNorm, remove_weight_norm
from wend.nn.utils._renormalized import weight_norm as weight_norm
