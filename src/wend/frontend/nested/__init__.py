"""Ragged batches: tensors of unlike sizes as one, in the place of PyTorch's NestedTensor."""

from wend.frontend.nested import creation, dispatch, tensor

__all__ = ["creation", "dispatch", "tensor"]
