# ruff: noqa: F403
"""torch.nested: several tensors of unlike sizes as one tensor."""

from wend.nested import creation
from wend.nested import table as table  # ops on ragged batches
from wend.nested.creation import *
from wend.nested.tensor import NestedTensor

__all__ = ["NestedTensor"]
__all__ += creation.__all__
