"""Losses of classes that are shared out among ranks."""

from wend.distributed.tensor._api import refusal

__all__ = ["loss_parallel"]

loss_parallel = refusal("parallel.loss_parallel")
