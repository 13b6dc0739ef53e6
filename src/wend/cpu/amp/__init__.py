"""torch.cpu.amp: autocast and scaling on the CPU, under older names."""

from wend.cpu.amp.autocast_mode import autocast
from wend.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
