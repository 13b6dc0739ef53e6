"""torch.nested: several tensors of unlike sizes as one tensor."""

from wend.nested import dispatch as dispatch  # ops on ragged batches go there
from wend.nested.creation import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)
from wend.nested.tensor import NestedTensor

__all__ = [
    "NestedTensor",
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
