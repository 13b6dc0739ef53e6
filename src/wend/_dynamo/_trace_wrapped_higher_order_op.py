"""torch._dynamo: a block in which subscripts by tensors may be mapped by `vmap`."""

from contextlib import nullcontext as TransformGetItemToIndex

__all__ = ["TransformGetItemToIndex"]
