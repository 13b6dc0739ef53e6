"""wend.amp: mixed precision, for which there is no device yet."""

from wend.frontend.platform import GradScaler, autocast

__all__ = ["GradScaler", "autocast"]
