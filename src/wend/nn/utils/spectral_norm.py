# ruff: noqa: F401
"""Spectral normalization."""

from wend.frontend.nn.renormalized import remove_spectral_norm
from wend.frontend.nn.renormalized import spectral_norm as spectral_norm
