# ruff: noqa: F403
"""torch.nested: several tensors of unlike sizes as one tensor."""

from typing import TYPE_CHECKING

from wend.nested import creation as creation
from wend.nested import table as table  # ops on ragged batches
from wend.nested.creation import *
from wend.nested.tensor import NestedTensor

if TYPE_CHECKING:  # modules that are names of the package too
    from wend.nested import tensor as tensor

__all__ = ["NestedTensor"]
__all__ += creation.__all__
