"""torch.masked.maskedtensor.core: the class."""

from wend.masked.tensor import MaskedTensor, is_masked_tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]
