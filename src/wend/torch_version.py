"""`TorchVersion`: a version string that compares as a number."""

from wend.base.version import Version as TorchVersion

__all__ = ["TorchVersion"]
