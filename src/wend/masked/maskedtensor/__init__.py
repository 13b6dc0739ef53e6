"""torch.masked.maskedtensor: the class, and the functions that make such tensors."""

from wend.masked.maskedtensor import core, creation
from wend.masked.tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor",
    "as_masked_tensor",
    "core",
    "creation",
    "is_masked_tensor",
    "masked_tensor",
]
