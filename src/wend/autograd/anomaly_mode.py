"""torch.autograd.anomaly_mode."""

from wend._frontend.autograd.grad_modes import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
