# ruff: noqa: F401
"""Spectral normalization."""

from wend.frontend.nn.renormalized import remove_spectral_norm, spectral_norm
