"""Comparing and making tensors in tests: PyTorch's `torch.testing`."""

from wend._frontend.testing import assert_allclose, assert_close, make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
