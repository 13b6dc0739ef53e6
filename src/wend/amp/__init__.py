"""wend.amp: mixed precision."""

from wend.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from wend.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
