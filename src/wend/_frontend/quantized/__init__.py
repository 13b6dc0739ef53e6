"""Quantised tensors: whole numbers of 8 or 32 bits, with a scale and a zero point."""

from wend._frontend.quantized import table

__all__ = ["table"]
