"""torch._custom_ops: the old address of `torch.library`."""

from wend.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]
