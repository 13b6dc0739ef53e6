"""Settings of a backend that Wend does not use: accepted, without effect."""

from wend.frontend.platform import is_available

is_built = is_available
enabled = False
benchmark = False
deterministic = False
allow_tf32 = False

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available", "is_built"]
