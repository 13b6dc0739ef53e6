"""Mixed precision of `DistributedDataParallel`: a call computes by casts of the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError, GraphError
from wend._engine.core import _hot
from wend.nn.modules.module import Module

__all__ = ["MixedTypes", "cast_buffers", "cast_parameters", "check_types"]


@dataclass
class MixedTypes:
    """Types of a wrapped module's computation; None for the types of the module.

    param_dtype: of parameters and inputs within a call   buffer_dtype: of buffers
    reduce_dtype: in which gradients travel; that of the parameters within a call by default
    """

    __module__ = "wend.nn.parallel.distributed"

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None

    @property
    def wire(self) -> DType | None:
        """The type in which gradients travel; None for their own."""
        return self.param_dtype if self.reduce_dtype is None else self.reduce_dtype


def check_types(types: object) -> MixedTypes | None:
    """The types of an argument. Raises ArgumentTypeError (a TypeError) for other objects."""
    names = ("param_dtype", "reduce_dtype", "buffer_dtype")
    if types is None or isinstance(types, MixedTypes):
        return types
    if not all(hasattr(types, name) for name in names):
        raise ArgumentTypeError(
            "DistributedDataParallel: mixed_precision must be a _MixedPrecision of "
            f"torch.nn.parallel.distributed, got {type(types).__name__}"
        )
    return MixedTypes(*(getattr(types, name) for name in names))


def cast_buffers(module: Module, dtype: DType, left_out: Any) -> None:
    """Give floating-point buffers another type for good."""
    for path, inner in module.named_modules():
        for name, buffer in inner._buffers.items():
            full = f"{path}.{name}" if path else name
            if buffer is not None and buffer.is_floating_point() and full not in left_out:
                inner._buffers[name] = buffer.to(dtype)


@contextmanager
def cast_parameters(module: Module, dtype: DType, left_out: Any) -> Iterator[None]:
    """Context: the module has casts of its parameters, through which gradients flow.

    Raises GraphError (a RuntimeError) within `wend.batched`, whose calls take turns.
    """
    if _hot.current_trace().fiber is not None:
        raise GraphError(
            "DistributedDataParallel: mixed_precision is not available within wend.batched; use "
            "autocast"
        )
    before: list[tuple[dict[str, Any], str, Any]] = []
    casts: dict[int, Any] = {}
    try:
        for path, inner in module.named_modules():
            for name, p in inner._parameters.items():
                full = f"{path}.{name}" if path else name
                if p is None or not p.is_floating_point() or full in left_out:
                    continue
                if id(p) not in casts:
                    casts[id(p)] = p.to(dtype)
                before.append((inner._parameters, name, p))
        for table, name, p in before:
            table[name] = casts[id(p)]
        yield
    finally:
        for table, name, p in before:
            table[name] = p
