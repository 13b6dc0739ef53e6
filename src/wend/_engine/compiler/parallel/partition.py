"""Cuts kernels into parts that threads can take: how many parts, and where each part begins.

The cut of a kernel depends on its sizes alone, so that results do not depend on the number of
threads. Loops are cut along a single axis. A product is cut into columns, rows, or products of a
batch. Before parts by rows the right operand is packed, in parts as well. A convolution is cut into
images, channels, or positions, a recurrence into sequences. The outcome is a `Partition`, which is
independent of sizes, and the edges of the parts. `parallel.tasks` finds the calls of a partition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from wend._engine.base.errors import CompileError
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.symbolic_extents import Poly, constant, product
from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.few_columns import MOST

#: The largest share of the work for either of two threads before a product is cut differently.
EVEN = 0.51
#: A left operand up to this size stays in the second-level cache.
LEFT_BYTES = 1 << 20
#: Nanoseconds per multiplication and addition, per cheap and per expensive op on an element, per
#: byte read or written, per element packed.
FMA, CHEAP, DEAR, BYTE, PACKED = 0.02, 0.04, 0.4, 0.06, 0.5
#: Estimated nanoseconds: kernels below WORTH run uncut, and parts take about PART.
#: Products of fewer multiplications than MOST are below WORTH.
WORTH, PART = round(MOST * FMA), 120_000
MOST_PARTS = 16
#: The loop along vectors is cut at multiples of this number of elements.
GRAIN = 64
#: Rows of a product per part from which packing the right operand in each part again pays.
ROWS = 320
#: Channels per part from which transforming the gradient of a convolution's output again pays.
CHANNELS = 256
#: Sequences of a recurrence that a part has at least.
SEQUENCES = 8
#: The most elements in the copies of folds, per element of the loops.
COPIES = 1 / 16


class Partition(NamedTuple):
    """How a kernel is cut, whatever the sizes.

    how: "whole", "loops", "batches", "rows", "columns", "images", "channels" or "sequences"
    parts: how many parts there are
    axis: the loop that is cut ("loops"), or the dim of the batch, 0 or 1 ("batches")
    before: how many parts the work before has: packing the right operand ("rows"), or turning the
        weight ("columns" and "images" of a convolution); 0 for no such work
    """

    how: str
    parts: int = 1
    axis: int = 0
    before: int = 0


class Cut(NamedTuple):
    """A form, and its edges for certain sizes: first of the parts, then of the work before."""

    form: Partition
    edges: list[int]


WHOLE = Partition("whole")
_WHOLE = Cut(WHOLE, [])

#: The words of an argument block that decide how a product is cut, and a convolution.
PRODUCT = (
    "rows", "columns", "depth", "batch0", "batch1", "left_step", "right_step", "right_column",
    "packed",
)  # fmt: skip
_SIZES_OF_PRODUCT = 5
_CONVOLUTION = (
    "images", "groups", "filters", "channels", "kernel_height", "kernel_width",
    "out_height", "out_width",
)  # fmt: skip

#: The answers of partitioners, by `kind` and numbers: kernels of like layers share answers.
_KNOWN: dict[Any, dict[tuple[int, ...], Cut]] = {}
#: How many answers are kept for each kind, and for how many kinds.
_ANSWERS, _CUTTERS = 1024, 4096


class Partitioner:
    """How a kernel is cut, as a function of a few numbers.

    polys: the polynomials that give these numbers
    kind: a key with all else on which the answer depends
    decide: finds the answer for numbers not met lately
    leading: how many of the first numbers have to be multiplied for the kernel's work
    cost: nanoseconds per unit of work; where work times cost is below WORTH, the kernel stays whole
    adds: whether the cut divides sums, and so decides their last bits
        (without such sums a kernel may stay whole where a single thread runs all parts)
    """

    __slots__ = ("adds", "cost", "decide", "known", "leading", "polys")

    def __init__(
        self,
        polys: list[Poly],
        kind: Any,
        decide: Callable[[tuple[int, ...]], Cut],
        leading: int,
        cost: float,
        adds: bool,
    ) -> None:
        self.polys, self.decide = polys, decide
        self.leading, self.cost, self.adds = leading, cost, adds
        if len(_KNOWN) >= _CUTTERS:
            _KNOWN.clear()
        self.known = _KNOWN.setdefault(kind, {})

    def cut(self, numbers: tuple[int, ...]) -> Cut:
        """Return how the kernel is cut where the polynomials have these values."""
        answer = self.known.get(numbers)
        if answer is None:
            if len(self.known) >= _ANSWERS:
                self.known.clear()
            answer = self.decide(numbers)
            if answer.form.parts < 2 and not answer.form.before:
                answer = _WHOLE
            self.known[numbers] = answer
        return answer


def cutter(kernel: Kernel) -> Partitioner | None:
    """Return the partitioner of a kernel; None if the kernel always stays whole."""
    if kernel.is_whole:
        return None
    if kernel.nest is not None:
        return _loops(kernel)
    words = Words(kernel)
    dtype = words.dtype
    if kernel.name == "product":
        return Partitioner(
            [words.poly(name) for name in PRODUCT],
            ("product", dtype),
            lambda numbers: _product(dtype, *numbers),
            _SIZES_OF_PRODUCT,
            FMA,
            False,
        )
    if kernel.name == "steps":
        return Partitioner(
            [words.poly(name) for name in ("R", "H", "H", "N")],
            ("steps", dtype),
            _sequences,
            3,
            FMA,
            True,  # tiles of few rows add up in another order
        )
    if kernel.name in forward.WORDS:
        name = kernel.name
        return Partitioner(
            [words.poly(name) for name in _CONVOLUTION],
            (name, dtype),
            lambda numbers: _convolution(name, dtype, *numbers),
            len(_CONVOLUTION),
            FMA,
            name == "convolve_weight",
        )
    return None


def _pieces(cost: float) -> int:
    """Return the number of parts for work that takes `cost` nanoseconds.

    The number is a power of 2, so that there are few forms.
    """
    if cost < WORTH:
        return 1
    pieces = 2
    while pieces < MOST_PARTS and cost >= 1.5 * pieces * PART:
        pieces *= 2
    return pieces


def _power(parts: int) -> int:
    """Return the largest power of 2 up to a number: few numbers of parts make few forms."""
    return 1 << (max(parts, 1).bit_length() - 1)


def _edges(extent: int, parts: int, grain: int) -> list[int]:
    """Return the edges of up to `parts` ranges of like length, cut at multiples of `grain`."""
    blocks = -(-extent // grain)
    parts = _power(min(parts, blocks))
    return [min(extent, blocks * p // parts * grain) for p in range(parts + 1)]


# -- loops --------------------------------------------------------------------------------------


def copied_folds(nest: Any, axis: int) -> list[Any]:
    """Return the folds of which each part along an axis has a copy, to be combined in the end.

    A fold needs copies if all parts along the axis add to the same elements of its result.
    """
    return [op for op in nest.late_folds() if not nest.stores[op.out].strides[axis]]


def _loops(kernel: Kernel) -> Partitioner:
    """Return the partitioner of a nest, which is cut along an axis of its `cut_axes`.

    The axes are the outermost loop, and the loop along vectors.
    """
    nest: Any = kernel.nest
    shape = nest.function.shape
    polys = [nest.extents[a] for a in (*nest.outer, *nest.inner)]
    n = len(polys)
    ops = sum(CHEAP if op.cheap or op.kind != "map" else DEAR for op in nest.region.ops)
    cost = float(ops + BYTE * sum(a.dtype.itemsize for a in nest.accesses()))
    axes: list[tuple[int, int, int, int]] = []  # (axis, grain, place of its extent, next place)
    for axis in nest.cut_axes():
        grain = GRAIN if axis == nest.inner[-1] else 1
        first = len(polys)
        copies = [product(shape(op.out)) for op in copied_folds(nest, axis)]
        polys += [nest.extents[axis], *copies]  # elements of each fold that has copies
        axes.append((axis, grain, first, len(polys)))
    kind = ("loops", n, cost, *axes)
    adds = any(end > first + 1 for _, _, first, end in axes)
    return Partitioner(
        polys, kind, lambda numbers: _cut_loops(cost, numbers[:n], axes, numbers), n, cost, adds
    )


def _cut_loops(cost: float, extents: Any, axes: Any, numbers: tuple[int, ...]) -> Cut:
    turns = prod(extents)
    parts = _pieces(turns * cost)
    if parts < 2:
        return _WHOLE
    best = _WHOLE
    for axis, grain, first, end in axes:
        edges = _edges(numbers[first], parts, grain)
        elements = sum(numbers[first + 1 : end])
        if elements * (len(edges) - 1) > COPIES * turns:
            edges = _edges(numbers[first], max(1, int(COPIES * turns / elements)), grain)
        if len(edges) - 1 > best.form.parts:
            best = Cut(Partition("loops", len(edges) - 1, axis), edges)
    return best


# -- products and convolutions --------------------------------------------------------------------


@cache
def places_of(words: tuple[str, ...]) -> dict[str, int]:
    """Return the number of each word's slot. words: the names of a routine's first slots"""
    return {name: k for k, name in enumerate(words)}


class Words:
    """The words of a routine's argument block, by name."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        if not kernel.places:
            kernel.places = places_of(kernel.words)
        self.dtype: str = kernel.source

    def __getitem__(self, name: str) -> int:
        slot = self.slot(name)
        if slot.kind != "word":
            raise CompileError(f"{self.kernel.name}: {name} is no number")
        return int(slot.a)

    def slot(self, name: str) -> Slot:
        """Return the slot of a word."""
        return self.kernel.slots[self.kernel.places[name]]

    def poly(self, name: str) -> Poly:
        """Return a word as a polynomial."""
        slot = self.slot(name)
        return constant(slot.a) if slot.kind == "word" else slot.a


def _sequences(numbers: tuple[int, ...]) -> Cut:
    """Return how a recurrence is cut. Each part packs the weight, and has rows for whole tiles."""
    rows, width, _, sequences = numbers
    edges = _edges(sequences, _pieces(rows * width * width * FMA), SEQUENCES)
    return Cut(Partition("sequences", len(edges) - 1), edges)


def _product(
    dtype: str, rows: int, columns: int, depth: int, batch0: int, batch1: int,
    left_step: int, right_step: int, right_column: int, packed: int,
) -> Cut:  # fmt: skip
    """Return how a product is cut: by batch, by rows, or by columns.

    left_step: elements from a step of the depth to the next in the left operand
    right_step, right_column: elements from a step, or column, to the next in the right operand
    packed: whether the right operand is packed already
    """
    parts = _pieces(rows * columns * depth * batch0 * batch1 * FMA)
    if parts < 2:
        return _WHOLE
    if batch0 * batch1 > 1:
        axis = 0 if batch0 >= batch1 else 1
        edges = _edges(batch0 if axis == 0 else batch1, parts, 1)
        return Cut(Partition("batches", len(edges) - 1, axis), edges)
    unit = operand_sizes(dtype, packed)["left"]
    p = matmul.sizes_of(
        dtype, rows=rows, columns=columns, depth=depth, left_step=left_step,
        right_step=right_step, right_column=right_column, packed=packed,
    )  # fmt: skip
    stands = bool(p.left_along)
    turned = stands and bool(p.both_along) and bool(p.is_flat)
    # Parts by columns read a weight once. Each part reads all of the left operand, from a cache.
    # Packing the left operand in a part pays only for enough panels, and so does computing the
    # transpose.
    across = min(parts, len(matmul.column_cuts(columns, dtype)) + 1)
    across = across if stands else min(across, columns // (4 * matmul.tile_columns(dtype)))
    if turned:
        across = min(across, max(1, columns // (4 * rows)))
    # A left operand that needs packing is packed for each chunk of columns, in each part again.
    again = not stands and depth * columns * unit <= 2 * LEFT_BYTES
    if rows >= 64 and (across < 2 or again or rows * depth * unit > LEFT_BYTES):
        if turned and p.has_few_rows:
            return _WHOLE
        return _rows(dtype, packed, rows, columns, depth, min(parts, rows // 32))
    edges = _columns(columns, max(1, across), dtype)
    by_columns = Cut(Partition("columns", len(edges) - 1), edges)
    if rows < 64:
        return by_columns
    many = rows > matmul.unpacked_rows(dtype)  # with fewer rows the right operand is not packed
    # Few panels make unequal parts, and each part reads all rows.
    if turned or not (_busier(edges) > EVEN or (many and 2 * rows >= columns)):
        return by_columns
    if many:
        return _rows(dtype, packed, rows, columns, depth, min(parts, rows // 32))
    if p.packed | (p.beside & ~p.large):
        edges = _edges(rows, min(parts, rows // 32), 8)
        return Cut(Partition("rows", len(edges) - 1), edges)
    return by_columns


def _busier(edges: list[int]) -> float:
    """Return the larger of two threads' shares of the work, if each takes part after part."""
    loads = [0, 0]
    for first, last in pairwise(edges):
        loads[loads[1] < loads[0]] += last - first
    return max(loads) / sum(loads)


def _columns(columns: int, parts: int, dtype: str) -> list[int]:
    """Return the edges of up to `parts` ranges of about as many columns each.

    The ranges are cut where products may be cut (`matmul.column_cuts`).
    """
    cuts = [0, *matmul.column_cuts(columns, dtype), columns]
    panels = len(cuts) - 1
    parts = _power(min(parts, panels))
    edges = [0]
    for p in range(1, parts):
        k = bisect_left(cuts, columns * p / parts)
        k -= cuts[k - 1] + cuts[k] > 2 * columns * p / parts  # the nearer cut
        edges.append(min(max(k, edges[-1] + 1), panels - parts + p))
    return [cuts[k] for k in edges] + [columns]


def operand_sizes(dtype: str, packed: int) -> dict[str, int]:
    """Return the bytes of an element of a product's operands and result, by name."""
    wide = 8 if matmul.accumulator(dtype) == "float64" else 4
    narrow = {"float64": 8, "float32": 4}.get(dtype, 2)
    return {"left": narrow, "right": wide if packed else narrow, "out": wide}


def _rows(dtype: str, packed: int, rows: int, columns: int, depth: int, parts: int) -> Cut:
    """Cut a product by rows; the right operand, which all parts read, is packed first."""
    edges = _edges(rows, parts, 8)
    parts = len(edges) - 1
    if packed:
        return Cut(Partition("rows", parts), edges)
    pieces = max(2, _pieces(PACKED * depth * columns))  # the product waits for the packing
    packs = _columns(columns, pieces, dtype)
    return Cut(Partition("rows", parts, 0, len(packs) - 1), edges + packs)


def _convolution(
    name: str, dtype: str, images: int, groups: int, filters: int, channels: int,
    kernel_height: int, kernel_width: int, out_height: int, out_width: int,
) -> Cut:  # fmt: skip
    """Return how a convolution is cut.

    Several images are cut by images, a single image by positions, and the gradient of a large
    weight by channels.
    """
    area = out_height * out_width
    taps = kernel_height * kernel_width
    weight = groups * filters * channels * taps
    parts = _pieces(images * weight * area * FMA)
    if parts < 2:
        return _WHOLE
    if name == "convolve_weight" and images * area < 2 * channels * taps and groups == 1:
        # Each part packs the gradient of the output, which is small, or transforms it.
        fit = channels // CHANNELS if taps == 9 else channels * taps // ROWS
        parts = min(parts, max(2, fit))
        edges = _edges(channels, parts, 8)
        return Cut(Partition("channels", len(edges) - 1), edges)
    turns: list[int] = []
    # All parts read the weight with its taps turned, or transformed.
    if name == "convolve_input" or (name == "convolve" and taps == 9):
        turns = _edges(filters, _pieces(PACKED * weight), 16)
    before = max(0, len(turns) - 1)
    if images == 1:
        if name != "convolve":
            return _WHOLE
        # All of the weight is read for each chunk of panels.
        parts = max(1, min(parts, area // (4 * matmul.tile_columns(dtype))))
        edges = _columns(area, parts, dtype)
        if len(edges) < 3:
            return _WHOLE
        return Cut(Partition("columns", len(edges) - 1, 0, before), edges + turns)
    if name != "convolve_weight":
        # Images that form a product stay together, but for two parts that threads can share.
        fit = max(1, forward.bundle_columns(dtype) // max(1, area))
        while parts > 2 and parts // 2 * fit >= images:
            parts //= 2
    edges = _edges(images, parts, 1)
    return Cut(Partition("images", len(edges) - 1, 0, before), edges + turns)
