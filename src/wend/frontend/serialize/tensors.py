"""Between tensors and the arrays that hold their data, as far as checkpoints need it."""

from __future__ import annotations

__all__ = ["StoredView", "stored_view", "tensor_from_array", "view_of"]
