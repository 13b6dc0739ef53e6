"""autocast under its older names: the device is part of the module's name."""

from __future__ import annotations

from wend import amp
from wend._engine.base.dtypes import DType, bfloat16

__all__ = ["autocast"]


class autocast(amp.autocast):
    """torch.amp.autocast("cpu")."""

    def __init__(
        self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)
