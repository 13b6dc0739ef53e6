"""autocast under its older names: the device is part of the module's name."""

from __future__ import annotations

import functools
from typing import Any

from wend import amp
from wend._engine.base.dtypes import DType, float16

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """torch.amp.autocast("cuda"), which does nothing without such a device."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: DType | None = None) -> Any:
    """torch.amp.custom_fwd for "cuda"."""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")
