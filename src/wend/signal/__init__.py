"""torch.signal: windows for the analysis of signals."""

from wend.signal import windows

__all__ = ["windows"]
