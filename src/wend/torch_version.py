"""`TorchVersion`: a version string that compares as a number."""

from wend._engine.base.version import Version as TorchVersion

__all__ = ["TorchVersion"]
