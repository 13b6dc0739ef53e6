"""Names of dims, at the second address that PyTorch has for them."""

from wend.export._dims import Dim

__all__ = ["Dim"]
