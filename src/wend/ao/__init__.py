"""torch.ao: models may carry the marks of quantisation; there are no quantised tensors."""

from wend.ao import quantization

__all__ = ["quantization"]
