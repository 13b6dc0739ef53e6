"""Calls of templates' functions in machine code, on addresses, for any number of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wend._engine.base import config, defects
from wend._engine.base.devices import CPU, accelerator_among, device
from wend._engine.core import _hot
from wend._engine.core._types import TensorType
from wend._engine.runtime.backend import NoMachineCode
from wend._engine.runtime.batching import _slabs_select
from wend._engine.runtime.devices.queue import accelerator_at
from wend._engine.runtime.native import _launch_select
from wend._engine.runtime.native.launcher import maker_of

if TYPE_CHECKING:
    from wend._engine.runtime.batching._slabs import TemplateKernel

_launch: ModuleType = _launch_select.select()
_slabs: ModuleType = _slabs_select.select()

BYTES = np.dtype(np.uint8)


class PlannedFunction(Protocol):
    """A function of a template, as calls need to know, see `templates.TemplateFunction`."""

    @property
    def plan(self) -> object: ...

    picks: list[int]
    n: int
    last: list[Any] | None

    def made_types(self, types: list[Any], numbers: list[Any]) -> list[Any]:
        """Return the types of the values that the plan makes."""


def bound(
    function: PlannedFunction, types: list[Any], numbers: list[Any], shows: bool = False
) -> tuple[Any, Any, Any]:
    """Return (frame, places of made values, numbers) of a function, as `launch_at` takes them.

    types: the types of the operands
    shows: whether results may lie in another result, or in an operand

    Raises NoMachineCode if there is no machine code (yet), or only for a part of the function.
    """
    compiled = getattr(function.plan, "compiled", None)
    if compiled is None:
        raise NoMachineCode
    types = [*types, *function.made_types(types, numbers)]
    found = compiled.find([_hot.held(t, None) for t in types], numbers)
    if found is None:
        raise NoMachineCode
    frame = found.frame
    made, _, _, shown = _launch.sources()
    if any(step[0] == 1 for step in frame.steps) or (frame.shows and not shows):
        raise NoMachineCode
    if any(source not in (made, shown) for _, source, _ in frame.gives):
        raise NoMachineCode
    return frame, found.plan.made, words_of(frame, types, numbers)


def fitted(
    function: PlannedFunction, types: list[Any], numbers: list[Any], made: list[Any] | None = None
) -> tuple[Any, Any, Any, Any]:
    """Return `bound` with a frame that serves any number of rows, and the frame's words for these.

    made: the types of the values that the function makes, if these types are known
    Raises NoMachineCode if there is no machine code on addresses.
    """
    compiled = getattr(function.plan, "compiled", None)
    if compiled is None or not compiled.on_addresses:
        raise NoMachineCode
    types = [*types, *(function.made_types(types, numbers) if made is None else made)]
    found, words = compiled.fitted(types, numbers)
    values = words_of(found.frame, types, numbers, words is None)
    return found.frame, found.plan.made, values, words


def words_of(
    frame: Any, types: list[Any], numbers: list[Any], moving: bool = True
) -> tuple[Any, ...]:
    """Return the numbers that a frame's argument blocks need in each run of `launch_at`.

    moving: whether to include the words that depend on moving args
    """
    found: tuple[Any, ...] = _slabs.words_of(frame, types, numbers, moving)
    return found


def run_at_once(
    function: PlannedFunction, operands: list[Any], types: list[Any], numbers: list[Any]
) -> list[Any] | None:
    """Return the results of a template's function by machine code; None if its plan has to run.

    operands: arrays, held values, or None for operands that are not used
    """
    if config.settings.deterministic:
        return None
    asked = tuple(types), repr(numbers) if numbers else ""  # exact bits of numbers
    try:
        last = function.last
        if last is not None and last[0] == asked:  # a kernel pays when types come twice in a row
            if last[1] is None:
                last[1] = kernel_of(function, types, numbers)
            return last[1].run(operands)  # type: ignore[no-any-return]
        made_types = function.made_types(types, numbers)
        frame, places, values, words = fitted(function, types, numbers, made_types)
    except NoMachineCode:  # no machine code yet: the plan runs
        return None
    function.last = [asked, None]
    made = [make(*kind) for make, *kind in map(kind_of, made_types)]
    table = np.empty(len(operands) + len(made), np.int64)
    if _slabs.call_with(frame, places, values, words, operands, made, table) != 1:
        return None
    made = operands + made
    return [made[k] for k in function.picks]


def kernel_if_ready(
    function: Any,
    types: list[Any],
    numbers: list[Any],
    kind: Callable[..., Any] = _slabs.TemplateKernel,
) -> Any:
    """Return `kernel_of` the function; None without machine code, or if making a kernel fails."""
    try:
        return kernel_of(function, types, numbers, kind)
    except NoMachineCode:  # no machine code yet; any other failure is noted, and the plan runs
        return None
    except Exception as fault:  # no machine code yet; any other failure is noted, and the plan runs
        defects.note(fault)
        return None


def kernel_of(
    function: PlannedFunction,
    types: list[Any],
    numbers: list[Any],
    kind: Callable[..., Any] = _slabs.TemplateKernel,
) -> Any:
    """Return a template's function in machine code for operands of certain types.

    kind: `TemplateKernel`, or a class derived from it
    Raises NoMachineCode if there is no machine code (yet), or only for a part of the function.
    """
    show: Callable[..., None] | None = None
    fit: object = None
    made_types = function.made_types(types, numbers)
    try:
        frame, made, words, fit = fitted(function, types, numbers, made_types)
    except NoMachineCode:
        # A frame for all numbers of rows does not do: a frame for these is bound.
        frame, made, words = bound(function, types, numbers, shows=True)
        shown = _launch.sources()[3]
        #: Results that lie in another result or in an operand: (number, place in `frame.shows`).
        found = [(i, k) for i, source, k in frame.gives if source == shown]
        if found:
            show = functools.partial(fill_in, found, types)
    makes = tuple(map(kind_of, made_types))
    table = np.empty(len(types) + len(makes), np.int64)
    picks = tuple(function.picks)
    return kind(frame, made, words, fit, makes, picks, table, show)


def kind_of(type_: TensorType) -> tuple[Any, Any, Any]:
    """Return (make, shape, dtype) for an array of a type."""
    place = accelerator_among([type_])
    make = maker_of(type_.nbytes) if place is None else accelerator_at(place).empty
    return make, type_.dims, type_.dtype.numpy


def block_of(space: int, place: device) -> tuple[Any, ...]:
    """Return (make, shape, dtype) for a block of so many bytes at a place."""
    make = maker_of(space) if place is CPU else accelerator_at(place).empty
    return make, (space,), BYTES


def fill_in(
    shown: list[tuple[int, int]], types: list[Any], kernel: TemplateKernel, table: list[Any]
) -> None:
    """Fill in the results that lie in another array of a kernel's table.

    shown: (number of the result, place among the values that the frame shows) of each
    """
    values = [
        x if type(x) is _hot.Value else _hot.held(t, x) for x, t in zip(table, types, strict=False)
    ]
    arrays = _launch.show(kernel.frame, values, [table[i] for i in kernel.made])
    for i, k in shown:
        table[i] = np.ascontiguousarray(arrays[k]).reshape(arrays[k].shape)
