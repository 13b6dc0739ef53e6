"""torch.cuda.amp: autocast and scaling for CUDA devices."""

from wend.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from wend.cuda.amp.common import amp_definitely_not_available
from wend.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
