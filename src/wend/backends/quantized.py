"""torch.backends.quantized: the name of the kernels of quantised modules; Wend has its own."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from wend._engine.base.errors import ArgumentError

#: PyTorch's names. All of them stand for Wend's kernels; observers differ by name.
supported_engines = ["none", "onednn", "x86", "fbgemm", "qnnpack"]


class _Quantized(ModuleType):
    """The module, with the engine as a property."""

    _engine = "x86"

    @property
    def engine(self) -> str:
        """The name of the engine, which programs read to choose observers."""
        return self._engine

    @engine.setter
    def engine(self, name: Any) -> None:
        if name not in supported_engines:
            raise ArgumentError(
                f"torch.backends.quantized.engine: {name!r} is none of "
                f"{', '.join(supported_engines)}"
            )
        self._engine = name


sys.modules[__name__].__class__ = _Quantized
