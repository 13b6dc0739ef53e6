"""Names of dims, at the second address that PyTorch has for them."""

from wend.export._dims import Dim, dims
from wend.export._examples import AdditionalInputs, ShapesCollection

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]
