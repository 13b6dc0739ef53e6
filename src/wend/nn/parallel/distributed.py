# ruff: noqa: F401
"""Training in several processes."""

from wend.frontend.nn.parallel import DistributedDataParallel
