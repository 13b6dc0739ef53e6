"""Policies of `fully_shard`: types of a computation, and where rows are kept."""

from __future__ import annotations

from dataclasses import dataclass

from wend._engine.base.dtypes import DType

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Types of a module's computation.

    param_dtype: of gathered parameters, and of inputs with `cast_forward_inputs`
    reduce_dtype: in which gradients are averaged
    output_dtype: of results
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Rows stay where the module's parameters are: on the CPU."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Rows are kept on the CPU, as always.

    pin_memory: changes nothing
    """

    pin_memory: bool = True
