"""Kernels in parts that threads can take: which ranges of its loops each call is given.

How a kernel is cut depends on its sizes alone, so that results do not depend on the number of
threads. Loops are cut along one axis; a product into rows, after its right operand has been packed
(in parts as well), or columns, or products of a batch; a convolution into images, or positions.
What a part needs to itself is *private* memory: copies of what is summed up, packed operands.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from wend.base.errors import CompileError
from wend.compiler import conv, matmul
from wend.compiler.extents import Poly, add, constant
from wend.compiler.kernels import Kernel, Slot

__all__ = ["Schedule", "Stage", "schedule"]

#: Estimated nanoseconds: kernels below WORTH run in one piece, parts take about PART.
WORTH, PART = 60_000, 120_000
MOST_PARTS = 16
#: A left operand up to this size stays in the second-level cache.
LEFT_BYTES = 1 << 20
#: Nanoseconds per multiplication and addition, per cheap op on an element, per dear one, per byte
#: read or written, per element packed.
FMA, CHEAP, DEAR, BYTE, PACKED = 0.02, 0.04, 0.4, 0.06, 0.5
#: Elements at whose multiples the loop along vectors is cut.
GRAIN = 64
#: Rows of a product for which it pays to pack the other operand once more.
ROWS = 320
#: A fold's copies may have so many elements per element of the loops.
COPIES = 1 / 16


class Block(list[Slot]):
    """A kernel's slots with others at some places. changed: these places"""

    __slots__ = ("changed",)

    changed: tuple[int, ...]


class Stage(NamedTuple):
    """Calls of one function that do not depend on one another, by their argument blocks."""

    function: str
    blocks: list[list[Slot]]


class Schedule(NamedTuple):
    """Stages, one after the other; private: bytes of the pieces of memory that they share."""

    stages: list[Stage]
    private: list[int]


Value = Callable[[Poly], int]

#: The words of a product that are the extents of its loops.
_EXTENTS = tuple(
    matmul.PRODUCT.index(name) for name in ("rows", "columns", "depth", "batch0", "batch1")
)


def schedule(kernel: Kernel, value: Value) -> Schedule:
    """How a kernel is run for certain sizes. value: what a polynomial is for them."""
    if kernel.nest is not None:
        return _Loops(kernel, value).schedule()
    if kernel.name == "product":
        work = FMA
        for k in _EXTENTS:
            work *= value(kernel.slots[k].a)
        if _pieces(work) < 2:
            return Schedule([Stage("product", [kernel.slots])], [])
        return _product(_Words(kernel, value))
    if kernel.name in conv.WORDS:
        return _convolution(_Words(kernel, value))
    return Schedule([Stage(kernel.name, [kernel.slots])], [])


def _pieces(cost: float) -> int:
    """In how many parts work of so many nanoseconds is cut."""
    return 1 if cost < WORTH else min(MOST_PARTS, max(2, round(cost / PART)))


def _cuts(extent: int, parts: int, grain: int) -> list[tuple[int, int]]:
    """(first, last) of up to `parts` ranges of about the same length, cut at multiples of grain."""
    blocks = -(-extent // grain)
    parts = max(1, min(parts, blocks))
    edges = [min(extent, blocks * p // parts * grain) for p in range(parts + 1)]
    return list(pairwise(edges))


# -- loops --------------------------------------------------------------------------------------


class _Loops:
    """A nest: cut along its outermost loop, or along the vectors."""

    def __init__(self, kernel: Kernel, value: Value) -> None:
        self.kernel = kernel
        self.nest: Any = kernel.nest
        self.value = value
        self.folds = self.nest.late_folds()

    def schedule(self) -> Schedule:
        """Clear what is summed up, run the parts, combine copies."""
        axis, ranges = self.choose()
        if len(ranges) < 2:
            names = [name for name in self.kernel.helpers if name == "clear"]
            return Schedule([Stage(n, [self.kernel.slots]) for n in [*names, self.kernel.name]], [])
        if len(ranges) == 1:
            whole = [self.kernel.slots]
            names = [name for name in ("clear",) if name in self.kernel.helpers]
            return Schedule([Stage(name, whole) for name in (*names, self.kernel.name)], [])
        copied = [op for op in self.folds if len(ranges) > 1 and not self.follows(op, axis)]
        private = [len(ranges) * self.bytes_of(op) for op in copied]
        places = {op.out: k for k, op in enumerate(copied)}
        blocks = [
            [self.fill(slot, axis, ranges[p], p, places, len(ranges)) for slot in self.kernel.slots]
            for p in range(len(ranges))
        ]
        stages = [Stage(self.kernel.name, blocks)]
        if "clear" in self.kernel.helpers:
            stages.insert(0, Stage("clear", blocks[:1]))
        if copied:
            stages.append(Stage("combine", blocks[:1]))
        return Schedule(stages, private)

    def fill(
        self, slot: Slot, axis: int, part: tuple[int, int], p: int, places: Any, n: int
    ) -> Slot:
        """A slot as this part has it."""
        if slot.kind == "first":
            return Slot("word", part[0] if slot.a == axis else 0)
        if slot.kind == "last":
            end = part[1] if slot.a == axis else self.value(self.nest.extents[slot.a])
            return Slot("word", end)
        if slot.kind == "copies":
            return Slot("word", n if slot.a in places else 1)
        if slot.kind == "sums" and slot.a in places:
            op = next(op for op in self.folds if op.out == slot.a)
            return Slot("private", places[slot.a], p * self.bytes_of(op))
        return slot

    def choose(self) -> tuple[int, list[tuple[int, int]]]:
        """The axis along which the loops are cut, and the ranges."""
        nest, value = self.nest, self.value
        if self.kernel.cost < 0:
            self.kernel.cost = self.cost()
        extents = {a: value(nest.extents[a]) for a in (*nest.outer, *nest.inner)}
        turns = 1
        for n in extents.values():
            turns *= n
        best: tuple[int, list[tuple[int, int]]] = (-1, [(0, 0)])
        parts = _pieces(turns * self.kernel.cost)
        if parts < 2:
            return best
        for axis in nest.cut_axes():
            grain = GRAIN if axis == nest.inner[-1] else 1
            found = _cuts(extents[axis], parts, grain)
            copies = sum(self.elements(op) for op in self.folds if not self.follows(op, axis))
            if copies * len(found) > COPIES * turns:
                found = found[: max(1, int(COPIES * turns / copies))]
                found = _cuts(extents[axis], len(found), grain)
            if len(found) > len(best[1]):
                best = axis, found
        return best

    def cost(self) -> float:
        """Nanoseconds for one turn of all loops."""
        ops = sum(CHEAP if op.cheap or op.kind != "map" else DEAR for op in self.nest.region.ops)
        return float(ops + BYTE * sum(a.dtype.itemsize for a in self.nest.accesses()))

    def follows(self, op: Any, axis: int) -> bool:
        """Whether each turn of an axis has elements of a fold's result to itself."""
        return bool(self.nest.stores[op.out].strides[axis])

    def elements(self, op: Any) -> int:
        """Elements of a result."""
        n = 1
        for extent in self.nest.function.shape(op.out):
            n *= self.value(extent)
        return n

    def bytes_of(self, op: Any) -> int:
        """Bytes of a result."""
        return self.elements(op) * int(self.nest.function.dtypes[op.out].itemsize)


# -- products and convolutions --------------------------------------------------------------------


class _Words:
    """The words of a routine's argument block, by name."""

    def __init__(self, kernel: Kernel, value: Value) -> None:
        self.kernel = kernel
        if not kernel.places:
            kernel.places = {name: k for k, name in enumerate(kernel.words)}
        self.value = value
        self.dtype: str = kernel.source

    def __getitem__(self, name: str) -> int:
        slot = self.slot(name)
        if slot.kind == "word":
            return int(slot.a)
        if slot.kind != "extent":
            raise CompileError(f"{self.kernel.name}: {name} is no number")
        return self.value(slot.a)

    def slot(self, name: str) -> Slot:
        """A slot of the block."""
        return self.kernel.slots[self.kernel.places[name]]

    def moved(self, name: str, size: int) -> Slot:
        """A pointer, `size` bytes on."""
        slot = self.slot(name)
        if slot.kind == "scratch":  # each part has its own
            return slot
        return Slot(slot.kind, slot.a, add(slot.b, constant(size)))

    def block(self, **changes: Slot) -> list[Slot]:
        """The block with other words at some places; those that it lacks are left out."""
        block = Block(self.kernel.slots)
        places = self.kernel.places
        given = [(places[name], slot) for name, slot in changes.items() if name in places]
        for place, slot in given:
            block[place] = slot
        block.changed = tuple([place for place, _ in given])
        return block

    def whole(self) -> Schedule:
        """In one piece."""
        return Schedule([Stage(self.kernel.name, [self.kernel.slots])], [])


def _word(n: int) -> Slot:
    return Slot("word", n)


def _product(w: _Words) -> Schedule:
    """A product: by batch, by rows, or by columns."""
    rows, columns, depth = w["rows"], w["columns"], w["depth"]
    batch = w["batch0"] * w["batch1"]
    parts = _pieces(rows * columns * depth * batch * FMA)
    if parts < 2:
        return w.whole()
    if batch > 1:
        return _batches(w, 0 if w["batch0"] >= w["batch1"] else 1, parts)
    unit = _sizes(w)["left"]
    stands = w["left_step"] == 1
    along = stands and w["right_step"] == 1 and not w["packed"]
    # Parts by columns read a weight once. Each reads all of the left operand, from a cache; what
    # it packs of that pays for some panels, and so does what it turns (see `compiler.turned`).
    across = min(parts, len(matmul.column_cuts(columns, w.dtype)) + 1)
    across = across if stands else min(across, columns // (4 * matmul.tile_columns(w.dtype)))
    if along and rows * 3 < columns * 2:
        across = min(across, max(1, columns // (4 * rows)))
    if rows >= 64 and (across < 2 or rows * depth * unit > LEFT_BYTES):
        if along and rows * 3 < columns * 2 and rows <= 256:
            return w.whole()
        return _rows(w, rows, columns, depth, min(parts, rows // 32))
    ranges = _columns(columns, across, w.dtype)
    blocks = [w.block(first_column=_word(a), last_column=_word(b)) for a, b in ranges]
    return Schedule([Stage("product", blocks)], [])


def _columns(columns: int, parts: int, dtype: str) -> list[tuple[int, int]]:
    """(first, last) of up to `parts` ranges of columns, cut where products may be cut."""
    cuts = [0, *matmul.column_cuts(columns, dtype), columns]
    panels = len(cuts) - 1
    parts = min(parts, panels)
    edges = [cuts[panels * p // parts] for p in range(parts)] + [columns]
    return list(pairwise(edges))


def _batches(w: _Words, axis: int, parts: int) -> Schedule:
    """Products of a batch, some in each part."""
    blocks = []
    sizes = _sizes(w)
    for first, last in _cuts(w[f"batch{axis}"], parts, 1):
        moved = {name: w.moved(name, first * w[f"{name}{axis}"] * sizes[name]) for name in sizes}
        words = {f"batch{axis}": _word(last - first), f"origin{axis}": _word(first)}
        blocks.append(w.block(**moved, **words))
    return Schedule([Stage("product", blocks)], [])


def _sizes(w: _Words) -> dict[str, int]:
    """Bytes of the elements of the operands and the result."""
    wide = 8 if matmul.accumulator(w.dtype) == "float64" else 4
    narrow = {"float64": 8, "float32": 4}.get(w.dtype, 2)
    return {"left": narrow, "right": wide if w["packed"] else narrow, "out": wide}


def _rows(w: _Words, rows: int, columns: int, depth: int, parts: int) -> Schedule:
    """Rows of a product; what they all read is packed first."""
    ranges = _cuts(rows, parts, 8)
    changes: dict[str, Slot] = {}
    stages, private = [], []
    if not w["packed"]:
        sizes = _sizes(w)
        unit = sizes["out"]
        private = [unit * matmul.packed_size(depth, columns, w.dtype)]
        packs = []
        pieces = max(2, _pieces(PACKED * depth * columns))  # what comes behind waits for it
        for a, b in _columns(columns, pieces, w.dtype):
            words = {
                "right": w.moved("right", a * w["right_column"] * sizes["right"]),
                "packed": Slot("private", 0, a * depth * unit),
                "depth": _word(depth),
                "columns": _word(b - a),
                "right_step": _word(w["right_step"]),
                "right_column": _word(w["right_column"]),
            }
            words |= dict.fromkeys(("batch0", "batch1"), _word(1))
            words |= dict.fromkeys(("right0", "right1"), _word(0))
            packs.append([words[name] for name in matmul.PACK])
        stages.append(Stage("pack", packs))
        changes = {"right": Slot("private", 0, 0), "packed": _word(1)}
    blocks = [w.block(**changes, first_row=_word(a), last_row=_word(b)) for a, b in ranges]
    stages.append(Stage("product", blocks))
    return Schedule(stages, private)


def _convolution(w: _Words) -> Schedule:
    """A convolution: by images, or one image by positions."""
    images, name = w["images"], w.kernel.name
    area = w["out_height"] * w["out_width"]
    taps = w["kernel_height"] * w["kernel_width"]
    work = images * w["groups"] * w["filters"] * w["channels"] * taps * area
    parts = _pieces(work * FMA)
    if parts < 2:
        return w.whole()
    size = 8 if w.dtype == "float64" else 4
    if name == "convolve_weight" and images * area < 2 * w["channels"] * taps and w["groups"] == 1:
        return _channels(w, parts, taps, size)
    if images == 1:
        if name != "convolve":
            return w.whole()
        # All of the weight is read for each chunk of panels.
        parts = max(1, min(parts, area // (4 * matmul.tile_columns(w.dtype))))
        ranges = _columns(area, parts, w.dtype)
        blocks = [w.block(first_column=_word(a), last_column=_word(b)) for a, b in ranges]
        return Schedule([Stage(name, blocks)], [])
    weight = size * w["groups"] * w["filters"] * w["channels"] * taps
    stages, private = [], []
    changes: dict[str, Slot] = {}
    if name == "convolve_input":  # all images read the weight with its taps turned
        private = [weight]
        changes = {"workspace": Slot("private", 0, 0), "turned": _word(1)}
        pieces = max(1, _pieces(PACKED * weight / size))
        cuts = _cuts(w["filters"], pieces, 16)
        turns = [w.block(**changes, first_filter=_word(a), last_filter=_word(b)) for a, b in cuts]
        stages.append(Stage("turn_weight", turns))
    ranges = _cuts(images, parts, 1)
    blocks = []
    for p, (first, last) in enumerate(ranges):
        moved = {
            role: w.moved(role, first * w[f"{role}_image"] * size) for role in ("input", "out")
        }
        if name == "convolve_weight":
            moved["weight"] = Slot("private", 0, p * weight)
        words = {"images": _word(last - first), "origin": _word(first)}
        blocks.append(w.block(**moved, **words, **changes))
    stages.append(Stage(name, blocks))
    if name != "convolve_weight":
        return Schedule(stages, private)
    sums = {
        "out": w.slot("weight"),
        "parts": Slot("private", 0, 0),
        "count": _word(weight // size),
        "copies": _word(len(ranges)),
    }
    stages.append(Stage("add_parts", [[sums[word] for word in conv.ADD_PARTS]]))
    return Schedule(stages, [weight * len(ranges)])


def _channels(w: _Words, parts: int, taps: int, size: int) -> Schedule:
    """A weight's gradient by channels: no part reads or writes all of a large weight.

    Each packs the gradient of the output, which is small.
    """
    channels = w["channels"]
    blocks = []
    for first, last in _cuts(channels, min(parts, max(2, channels * taps // ROWS)), 8):
        moved = {
            "input": w.moved("input", first * w["input_channel"] * size),
            "weight": w.moved("weight", first * taps * size),
        }
        blocks.append(w.block(**moved, channels=_word(last - first)))
    return Schedule([Stage("convolve_weight", blocks)], [])
