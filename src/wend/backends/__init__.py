"""wend.backends: PyTorch's switches of backends that Wend does not have."""

from wend.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
