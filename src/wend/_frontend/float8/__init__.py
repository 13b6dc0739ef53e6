"""Tensors of numbers of 8 bits: kept and converted; arithmetic is refused, as in PyTorch."""

from wend._frontend.float8.table import MOVED
from wend._frontend.float8.tensor import DTYPES, Float8Tensor, cast, of_bits, view_of_bits

__all__ = ["DTYPES", "MOVED", "Float8Tensor", "cast", "of_bits", "view_of_bits"]
