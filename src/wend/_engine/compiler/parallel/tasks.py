"""The calls of a kernel that is cut into parts: functions, and their argument blocks.

For each form (`parallel.partition`) the calls are worked out once, for all sizes: words that depend
on where parts begin are slots of special kinds, see `ir.kernel.Slot`. Memory that the calls of one
kernel share is *private*: copies of sums, and packed operands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wend._engine.base import dtypes
from wend._engine.compiler.ir.kernel import FOLDS, ROWS, Kernel, Slot
from wend._engine.compiler.ir.symbolic_extents import Poly, add, constant, mul, product, scale
from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.kernels.conv.lowering import by_one_weight
from wend._engine.compiler.kernels.conv.winograd.squares import FIRST, FRONT, LATER
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.parallel.partition import Partition, Words, copied_folds, operand_sizes

#: In the place of an edge: an address that does not depend on where a part begins.
NO_EDGE = -1


class SlotPatch(list[Slot]):
    """A kernel's slots with new slots at some places.  changed: these places"""

    __slots__ = ("changed",)

    changed: tuple[int, ...]


class Stage(NamedTuple):
    """Calls of a function, a call for each argument block, which may run side by side."""

    function: str
    blocks: list[list[Slot]]


class StagedTasks(NamedTuple):
    """The stages of a kernel, in order; private: bytes of the pieces of memory they share."""

    stages: list[Stage]
    private: list[Poly]


def schedule(kernel: Kernel, form: Partition) -> StagedTasks:
    """Return the calls of a kernel of this form; kept on the kernel."""
    tasks: StagedTasks | None = kernel.schedules.get(form)
    if tasks is None:
        tasks = kernel.schedules[form] = _schedule(kernel, form)
    return tasks


def _schedule(kernel: Kernel, form: Partition) -> StagedTasks:
    if form.parts < 2 and not form.before:
        return _whole(kernel)
    if form.how == "loops":
        return _loops(kernel, form)
    w = _Blocks(kernel)
    if form.how == "batches":
        return _batches(w, form)
    if form.how == "rows":
        return _rows(w, form)
    if form.how == "sequences":
        blocks = [w.block(first=edge(p), last=edge(p + 1)) for p in range(form.parts)]
        return StagedTasks([Stage(kernel.name, blocks)], [])
    if form.how == "columns":
        stages, private, changes = _turned(w, form)
        blocks = [
            w.block(**changes, first_column=edge(p), last_column=edge(p + 1))
            for p in range(form.parts)
        ]
        return StagedTasks([*stages, Stage(kernel.name, blocks)], private)
    return _channels(w, form) if form.how == "channels" else _images(w, form)


def _whole(kernel: Kernel) -> StagedTasks:
    """Return the calls of an uncut kernel."""
    names = [kernel.name]
    if "clear" in kernel.helpers:
        names.insert(0, "clear")
    names += [name for name in (ROWS, FOLDS) if name in kernel.helpers]
    return StagedTasks([Stage(name, [kernel.slots]) for name in names], [])


def edge(k: int) -> Slot:
    """Return the slot of edge k: where part k begins."""
    return Slot("edge", k)


def _word(n: int) -> Slot:
    return Slot("word", n)


# -- loops --------------------------------------------------------------------------------------


def _loops(kernel: Kernel, form: Partition) -> StagedTasks:
    """Return the calls of a nest in parts: clear sums, run the parts, combine copies."""
    nest: Any = kernel.nest
    function = nest.function
    copied = copied_folds(nest, form.axis)
    sizes = [
        scale(product(function.shape(op.out)), function.dtypes[op.out].itemsize) for op in copied
    ]
    places = {op.out: k for k, op in enumerate(copied)}

    def fill(slot: Slot, p: int) -> Slot:
        if slot.kind == "first":
            return edge(p) if slot.a == form.axis else _word(0)
        if slot.kind == "last" and slot.a == form.axis:
            return edge(p + 1)
        if slot.kind == "copies":
            return _word(form.parts if slot.a in places else 1)
        if slot.kind == "sums" and slot.a in places:
            k = places[slot.a]
            return Slot("private", k, (NO_EDGE, scale(sizes[k], p)))
        return slot

    blocks: list[list[Slot]] = []
    for p in range(form.parts):
        block = SlotPatch([fill(slot, p) for slot in kernel.slots])
        changed = [j for j, slot in enumerate(block) if slot is not kernel.slots[j]]
        block.changed = tuple(changed)
        blocks.append(block)
    stages = [Stage(kernel.name, blocks)]
    if "clear" in kernel.helpers:
        stages.insert(0, Stage("clear", blocks[:1]))
    if copied:
        stages.append(Stage("combine", blocks[:1]))
    return StagedTasks(stages, [scale(size, form.parts) for size in sizes])


# -- products and convolutions --------------------------------------------------------------------


class _Blocks(Words):
    """Argument blocks of a routine's parts."""

    def moved(self, name: str, k: int, step: Poly) -> Slot:
        """Return the slot of a pointer plus edge k times `step` bytes."""
        slot = self.slot(name)
        return Slot("moved", slot, (k, step)) if slot.kind == "pointer" else slot

    def block(self, **changes: Slot) -> list[Slot]:
        """Return the block with new slots for some words, by name.

        Names that the block lacks are ignored.
        """
        block = SlotPatch(self.kernel.slots)
        places = self.kernel.places
        replacements = [(places[name], slot) for name, slot in changes.items() if name in places]
        for place, slot in replacements:
            block[place] = slot
        block.changed = tuple([place for place, _ in replacements])
        return block


def _batches(w: _Blocks, form: Partition) -> StagedTasks:
    """Return the calls of a product whose batch is cut, with some products in each part."""
    sizes, axis = operand_sizes(w.dtype, w["packed"]), form.axis
    blocks = []
    for p in range(form.parts):
        moved = {
            name: w.moved(name, p, scale(w.poly(f"{name}{axis}"), sizes[name])) for name in sizes
        }
        words = {f"batch{axis}": Slot("span", p), f"origin{axis}": edge(p)}
        blocks.append(w.block(**moved, **words))
    return StagedTasks([Stage("product", blocks)], [])


def _rows(w: _Blocks, form: Partition) -> StagedTasks:
    """Return the calls of a product cut by rows; the right operand is packed first."""
    changes: dict[str, Slot] = {}
    stages, private = [], []
    if form.before:
        sizes = operand_sizes(w.dtype, w["packed"])
        depth = scale(w.poly("depth"), sizes["out"])
        lanes = constant(matmul.lanes(w.dtype))
        private = [mul(depth, add(w.poly("columns"), lanes))]  # whole vectors
        step = scale(w.poly("right_column"), sizes["right"])
        packs = []
        for p in range(form.before):
            k = form.parts + 1 + p
            words = {
                "right": w.moved("right", k, step),
                "packed": Slot("private", 0, (k, depth)),
                "columns": Slot("span", k),
            }
            words |= {name: w.slot(name) for name in ("depth", "right_step", "right_column")}
            words |= dict.fromkeys(("batch0", "batch1"), _word(1))
            words |= dict.fromkeys(("right0", "right1"), _word(0))
            packs.append([words[name] for name in matmul.PACK])
        stages.append(Stage("pack", packs))
        changes = {"right": Slot("private", 0, (NO_EDGE, ())), "packed": _word(1)}
    blocks = [
        w.block(**changes, first_row=edge(p), last_row=edge(p + 1)) for p in range(form.parts)
    ]
    stages.append(Stage("product", blocks))
    return StagedTasks(stages, private)


def _weight(w: _Blocks) -> Poly:
    """Return the number of elements of a convolution's weight."""
    names = "groups filters channels kernel_height kernel_width".split()
    return product([w.poly(name) for name in names])


def _turned(w: _Blocks, form: Partition) -> tuple[list[Stage], list[Poly], dict[str, Slot]]:
    """Return the stages that turn a weight for all parts, bytes of memory, and changed slots.

    The changed slots tell the parts where the turned weight is.
    """
    if not form.before:
        return [], [], {}
    size = 8 if w.dtype == "float64" else 4
    sums = forward.workspace_sums(w.kernel.name, w.kernel.source)
    changes = {"workspace": Slot("private", 0, (NO_EDGE, ())), "turned": _word(1)}
    first = form.parts + 1
    turns = [
        w.block(**changes, first_filter=edge(first + p), last_filter=edge(first + p + 1))
        for p in range(form.before)
    ]
    return [Stage("turn_weight", turns)], [scale(_weight(w), sums * size)], changes


def keep_turned(kernels: dict[int, Kernel], schedules: dict[int, StagedTasks]) -> list[list[int]]:
    """Let uncut convolutions by the same weight turn this weight only once.

    Changes the schedules of such steps: each has a piece of private memory for the turned weight,
    and the caller has to give all steps of a weight the same piece.

    Returns the steps of each such weight.
    """
    whole = {
        k: kernel
        for k, kernel in kernels.items()
        if len(schedules[k].stages) == len(schedules[k].stages[0].blocks) == 1
    }
    together = by_one_weight(whole)
    for steps in together:
        for k in steps:
            w = _Blocks(kernels[k])
            front = constant(FRONT)
            words = {
                "workspace": Slot("private", 0, (NO_EDGE, front)),
                "turned": _word(FIRST if k == steps[0] else LATER),
            }
            sums = forward.workspace_sums("convolve", kernels[k].source, shared=True)
            room = scale(_weight(w), sums * dtypes.float32.itemsize)
            private = [add(front, room)] if k == steps[0] else []
            schedules[k] = StagedTasks([Stage("convolve", [w.block(**words)])], private)
    return together


def _images(w: _Blocks, form: Partition) -> StagedTasks:
    """Return the calls of a convolution cut by images; the weight may be turned first."""
    name, size = w.kernel.name, 8 if w.dtype == "float64" else 4
    weight = scale(_weight(w), size)
    stages, private, changes = _turned(w, form)
    blocks = []
    for p in range(form.parts):
        moved = {
            role: w.moved(role, p, scale(w.poly(f"{role}_image"), size))
            for role in ("input", "out")
        }
        if name == "convolve_weight":
            moved["weight"] = Slot("private", 0, (NO_EDGE, scale(weight, p)))
        blocks.append(w.block(**moved, **changes, images=Slot("span", p), origin=edge(p)))
    stages.append(Stage(name, blocks))
    if name == "convolve_weight":
        private = [scale(weight, form.parts)]
        sums = {
            "out": w.slot("weight"),
            "parts": Slot("private", 0, (NO_EDGE, ())),
            "count": Slot("extent", _weight(w)),
            "copies": _word(form.parts),
        }
        stages.append(Stage("add_parts", [[sums[word] for word in forward.ADD_PARTS]]))
    return StagedTasks(stages, private)


def _channels(w: _Blocks, form: Partition) -> StagedTasks:
    """Return the calls for a weight's gradient cut by channels.

    No part reads or writes all of a large weight.
    """
    size = 8 if w.dtype == "float64" else 4
    taps = scale(mul(w.poly("kernel_height"), w.poly("kernel_width")), size)
    channel = scale(w.poly("input_channel"), size)
    blocks = [
        w.block(
            input=w.moved("input", p, channel),
            weight=w.moved("weight", p, taps),
            channels=Slot("span", p),
        )
        for p in range(form.parts)
    ]
    return StagedTasks([Stage("convolve_weight", blocks)], [])
