"""torch.masked.maskedtensor.creation: the functions that make masked tensors."""

from wend.masked.tensor import as_masked_tensor, masked_tensor

__all__ = ["as_masked_tensor", "masked_tensor"]
