"""Kernels in parts that threads can take: how many, and where they begin.

How a kernel is cut depends on its sizes alone, so that results do not depend on the number of
threads. Loops are cut along one axis; a product into rows, after its right operand has been packed
(in parts as well), or columns, or products of a batch; a convolution into images, channels, or
positions. The outcome is a `Form`, which says nothing of sizes, and the edges of the parts; what is
called for a form is the matter of `compiler.parts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wend.base.errors import CompileError
from wend.compiler import conv, matmul
from wend.compiler.extents import Poly, constant, product
from wend.compiler.kernels import Kernel, Slot

__all__ = ["WHOLE", "Cut", "Form", "Words", "copied_folds", "cut"]

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


class Form(NamedTuple):
    """How a kernel is cut, whatever the sizes.

    how: "loops" (along `axis`), "batches" (axis 0 or 1), "rows" (the right operand packed first, in
    `before` parts), "columns", "images" (weights turned first, in `before` parts), "channels"
    """

    how: str
    parts: int = 1
    axis: int = 0
    before: int = 0


class Cut(NamedTuple):
    """A form, and for certain sizes the edges of its parts, then of the parts that come before."""

    form: Form
    edges: list[int]


WHOLE = Form("whole")
_WHOLE = Cut(WHOLE, [])

Value = Callable[[Poly], int]

#: What decides how a product is cut.
_PRODUCT = tuple(
    matmul.PRODUCT.index(name)
    for name in "rows columns depth batch0 batch1 left_step right_step packed".split()
)


def cut(kernel: Kernel, value: Value) -> Cut:
    """How a kernel is cut for certain sizes. value: what a polynomial is for them."""
    if kernel.nest is not None:
        return _loops(kernel, value)
    if kernel.name == "product":
        found = _product(kernel, value)
    elif kernel.name in conv.WORDS:
        found = _convolution(Words(kernel, value))
    else:
        return _WHOLE
    return found if found.form.parts > 1 or found.form.before else _WHOLE


def _pieces(cost: float) -> int:
    """In how many parts work of so many nanoseconds is cut: few numbers, so that forms are few."""
    if cost < WORTH:
        return 1
    pieces = 2
    while pieces < MOST_PARTS and cost >= 1.5 * pieces * PART:
        pieces *= 2
    return pieces


def _edges(extent: int, parts: int, grain: int) -> list[int]:
    """The edges of up to `parts` ranges of about the same length, cut at multiples of grain."""
    blocks = -(-extent // grain)
    parts = max(1, min(parts, blocks))
    return [min(extent, blocks * p // parts * grain) for p in range(parts + 1)]


# -- loops --------------------------------------------------------------------------------------


def copied_folds(nest: Any, axis: int) -> list[Any]:
    """The folds of which each part along an axis has a copy: parts share what they add up to."""
    return [op for op in nest.late_folds() if not nest.stores[op.out].strides[axis]]


class _Loops:
    """What decides how a nest is cut, as polynomials."""

    def __init__(self, kernel: Kernel) -> None:
        nest: Any = kernel.nest
        shape = nest.function.shape
        self.extents = [nest.extents[a] for a in (*nest.outer, *nest.inner)]
        ops = sum(CHEAP if op.cheap or op.kind != "map" else DEAR for op in nest.region.ops)
        self.cost = float(ops + BYTE * sum(a.dtype.itemsize for a in nest.accesses()))
        self.axes = []  # (axis, extent, grain, elements of each fold that has copies)
        for axis in nest.cut_axes():
            grain = GRAIN if axis == nest.inner[-1] else 1
            copies = [product(shape(op.out)) for op in copied_folds(nest, axis)]
            self.axes.append((axis, nest.extents[axis], grain, copies))


def _loops(kernel: Kernel, value: Value) -> Cut:
    """A nest: along its outermost loop, or along the vectors."""
    found: _Loops | None = kernel.cutter
    if found is None:
        found = kernel.cutter = _Loops(kernel)
    turns = 1
    for extent in found.extents:
        turns *= value(extent)
    parts = _pieces(turns * found.cost)
    if parts < 2:
        return _WHOLE
    best = _WHOLE
    for axis, extent, grain, copies in found.axes:
        edges = _edges(value(extent), parts, grain)
        elements = sum(value(n) for n in copies)
        if elements * (len(edges) - 1) > COPIES * turns:
            edges = _edges(value(extent), max(1, int(COPIES * turns / elements)), grain)
        if len(edges) - 1 > best.form.parts:
            best = Cut(Form("loops", len(edges) - 1, axis), edges)
    return best


# -- products and convolutions --------------------------------------------------------------------


class Words:
    """The words of a routine's argument block, by name; `value` is needed for numbers only."""

    def __init__(self, kernel: Kernel, value: Value | None = None) -> None:
        self.kernel = kernel
        if not kernel.places:
            kernel.places = {name: k for k, name in enumerate(kernel.words)}
        self.value = value
        self.dtype: str = kernel.source

    def __getitem__(self, name: str) -> int:
        slot = self.slot(name)
        if slot.kind == "word":
            return int(slot.a)
        if slot.kind != "extent" or self.value is None:
            raise CompileError(f"{self.kernel.name}: {name} is no number")
        return self.value(slot.a)

    def slot(self, name: str) -> Slot:
        """A slot of the block."""
        return self.kernel.slots[self.kernel.places[name]]


def _product(kernel: Kernel, value: Value) -> Cut:
    """A product: by batch, by rows, or by columns."""
    if kernel.cutter is None:
        slots = [kernel.slots[k] for k in _PRODUCT]
        kernel.cutter = [s.a if s.kind == "extent" else constant(s.a) for s in slots]
    rows, columns, depth, batch0, batch1, left_step, right_step, packed = map(value, kernel.cutter)
    parts = _pieces(rows * columns * depth * batch0 * batch1 * FMA)
    if parts < 2:
        return _WHOLE
    if batch0 * batch1 > 1:
        axis = 0 if batch0 >= batch1 else 1
        edges = _edges(batch0 if axis == 0 else batch1, parts, 1)
        return Cut(Form("batches", len(edges) - 1, axis), edges)
    w = Words(kernel, value)
    unit = operand_sizes(w)["left"]
    stands = left_step == 1
    along = stands and right_step == 1 and not packed
    # Parts by columns read a weight once. Each reads all of the left operand, from a cache; what
    # it packs of that pays for some panels, and so does what it turns (see `compiler.turned`).
    across = min(parts, len(matmul.column_cuts(columns, w.dtype)) + 1)
    across = across if stands else min(across, columns // (4 * matmul.tile_columns(w.dtype)))
    if along and rows * 3 < columns * 2:
        across = min(across, max(1, columns // (4 * rows)))
    # A left operand that has to be packed is so for each chunk of columns, in each part again.
    again = not stands and depth * columns * unit <= 2 * LEFT_BYTES
    if rows >= 64 and (across < 2 or again or rows * depth * unit > LEFT_BYTES):
        if along and rows * 3 < columns * 2 and rows <= 256:
            return _WHOLE
        return _rows(w, rows, columns, depth, min(parts, rows // 32))
    edges = _columns(columns, max(1, across), w.dtype)
    return Cut(Form("columns", len(edges) - 1), edges)


def _columns(columns: int, parts: int, dtype: str) -> list[int]:
    """The edges of up to `parts` ranges of columns, cut where products may be cut."""
    cuts = [0, *matmul.column_cuts(columns, dtype), columns]
    panels = len(cuts) - 1
    parts = min(parts, panels)
    return [cuts[panels * p // parts] for p in range(parts)] + [columns]


def operand_sizes(w: Words) -> dict[str, int]:
    """Bytes of the elements of a product's operands and its result."""
    wide = 8 if matmul.accumulator(w.dtype) == "float64" else 4
    narrow = {"float64": 8, "float32": 4}.get(w.dtype, 2)
    return {"left": narrow, "right": wide if w["packed"] else narrow, "out": wide}


def _rows(w: Words, rows: int, columns: int, depth: int, parts: int) -> Cut:
    """Rows of a product; what they all read is packed first."""
    edges = _edges(rows, parts, 8)
    parts = len(edges) - 1
    if w["packed"]:
        return Cut(Form("rows", parts), edges)
    pieces = max(2, _pieces(PACKED * depth * columns))  # what comes behind waits for it
    packs = _columns(columns, pieces, w.dtype)
    return Cut(Form("rows", parts, 0, len(packs) - 1), edges + packs)


def _convolution(w: Words) -> Cut:
    """A convolution: by images; one image by positions; a large weight's gradient by channels."""
    images, name, groups = w["images"], w.kernel.name, w["groups"]
    area = w["out_height"] * w["out_width"]
    taps = w["kernel_height"] * w["kernel_width"]
    weight = groups * w["filters"] * w["channels"] * taps
    parts = _pieces(images * weight * area * FMA)
    if parts < 2:
        return _WHOLE
    if name == "convolve_weight" and images * area < 2 * w["channels"] * taps and groups == 1:
        # Each part packs the gradient of the output, which is small.
        parts = min(parts, max(2, w["channels"] * taps // ROWS))
        edges = _edges(w["channels"], parts, 8)
        return Cut(Form("channels", len(edges) - 1), edges)
    if images == 1:
        if name != "convolve":
            return _WHOLE
        # All of the weight is read for each chunk of panels.
        parts = max(1, min(parts, area // (4 * matmul.tile_columns(w.dtype))))
        edges = _columns(area, parts, w.dtype)
        return Cut(Form("columns", len(edges) - 1), edges)
    edges = _edges(images, parts, 1)
    turns: list[int] = []
    if name == "convolve_input":  # all images read the weight with its taps turned
        turns = _edges(w["filters"], _pieces(PACKED * weight), 16)
    return Cut(Form("images", len(edges) - 1, 0, max(0, len(turns) - 1)), edges + turns)
