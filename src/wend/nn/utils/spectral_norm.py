# ruff: noqa: F401
"""Spectral normalization."""

from wend.nn.utils._renormalized import SpectralNorm, remove_spectral_norm
from wend.nn.utils._renormalized import spectral_norm as spectral_norm
