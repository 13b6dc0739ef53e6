"""How a layer's parameters, inputs and outputs are shared out: descriptions, which Wend keeps.

An application takes distributed tensors, which Wend lacks: it raises NotImplementedInWend.
`parallelize_module` applies the program's own styles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._engine.core._modules import ModuleBase
from wend.distributed.device_mesh import DeviceMesh
from wend.distributed.tensor._api import refuse
from wend.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]

Layouts = Placement | tuple[Placement | None, ...] | None


def _each(layouts: object) -> object:
    """A layout for each input; a single layout stands for itself."""
    return (layouts,) if isinstance(layouts, Placement) else layouts


def _same_number(what: str, first: Any, second: Any) -> None:
    if (first is None) != (second is None) or len(first or ()) != len(second or ()):
        raise ArgumentError(f"{what} and desired_{what}: one for each is needed")


class ParallelStyle(ABC):
    """How a layer is shared out; `_apply(module, device_mesh)` shares it out."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: ModuleBase, device_mesh: DeviceMesh) -> ModuleBase: ...


class _Described(ParallelStyle):
    """A style that is described, and not applied."""

    def _apply(self, module: ModuleBase, device_mesh: DeviceMesh) -> ModuleBase:
        refuse(f"parallel.{type(self).__name__}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items())})"


class ColwiseParallel(_Described):
    """Each rank has columns of a linear layer, or of an embedding."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.use_local_output = use_local_output


class RowwiseParallel(_Described):
    """Each rank has rows of a linear layer, or of an embedding."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.use_local_output = use_local_output


class SequenceParallel(_Described):
    """Each rank has some of the places of a sequence, and all parameters."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output


class PrepareModuleInput(_Described):
    """How inputs are shared out before a layer is called."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _each(input_layouts)
        self.desired_input_layouts = _each(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        _same_number("input_layouts", self.input_layouts, self.desired_input_layouts)
        _same_number(
            "input_kwarg_layouts", self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        )


class PrepareModuleOutput(_Described):
    """How outputs are shared out after a layer was called."""

    def __init__(
        self,
        *,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts = _each(output_layouts)
        self.desired_output_layouts = _each(desired_output_layouts)
        self.use_local_output = use_local_output
        _same_number("output_layouts", self.output_layouts, self.desired_output_layouts)


class PrepareModuleInputOutput(_Described):
    """How inputs and outputs are shared out around a layer."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )
