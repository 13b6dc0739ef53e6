"""Wend's version, and the facts that PyTorch keeps in `torch.version`."""

__version__: str = "0.1.0"
debug = False
cuda = None
hip = None
rocm = None
xpu = None
git_version = "unknown"
