"""A plan for the layers of a model, applied layer by layer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from wend._engine.base.errors import ArgumentTypeError, ExecutionError
from wend._engine.core._modules import ModuleBase
from wend.distributed.device_mesh import DeviceMesh, _entered
from wend.distributed.tensor.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def _found(module: Any, path: list[str]) -> Iterator[Any]:
    """The layers that a path of patterns names."""
    if not path:
        yield module
        return
    for name, child in module.named_children():
        if fnmatch(name, path[0]):
            yield from _found(child, path[1:])


def parallelize_module(
    module: ModuleBase,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> ModuleBase:
    """The module, with a style applied to it, or to each of its layers that the plan names.

    parallelize_plan: a style, or {name of a layer: style}; `*` stands for any part of a name
    Styles of `torch.distributed.tensor.parallel` raise NotImplementedInWend when applied; a
    program's own subclasses of ParallelStyle are applied.
    """
    if parallelize_plan is None:
        warnings.warn("parallelize_module: without a plan nothing is done", stacklevel=2)
        return module
    mesh = device_mesh or (_entered[-1] if _entered else None)
    if mesh is None:
        raise ExecutionError("parallelize_module: pass a device_mesh, or enter one by `with`")
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise ArgumentTypeError(
            "parallelize_module: parallelize_plan must be a ParallelStyle or a dict of them, not "
            f"{type(parallelize_plan).__name__}"
        )
    for name, style in parallelize_plan.items():
        layers = list(_found(module, name.split(".") if name else []))
        if not layers:
            warnings.warn(
                f"parallelize_module: no layer is named {name!r}; its style is skipped",
                stacklevel=2,
            )
        for layer in layers:
            parallelize_module(layer, mesh, style, src_data_rank=src_data_rank)
    return module
