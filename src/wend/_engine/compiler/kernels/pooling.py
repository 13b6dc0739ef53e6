"""Kernels on windows: the greatest element of each window, and the adjoint of taking windows.

    void max_windows(ptr args)      per plane, a vector of windows side by side, tap by tap
    void unpatches(ptr args)        per tap, a vector of windows side by side

Both take sizes, strides, paddings and dilations at run time. Texts differ by the number of dims and
the dtype. Windows side by side lie along the last dim, and their elements are `stride` apart.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import convertible, identity_of, rounded_to
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import MAP, WINDOWS, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, product, scale
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask, lane_range
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type, vector_type
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.elementwise.family import widened
from wend._engine.ops.neural.patches import Unpatches
from wend._engine.ops.neural.pool import MaxWindows

#: The strides at which elements are read as vectors of neighbours; else elements are gathered.
NEAR = (1, 2)


@lowers(MaxWindows)
def lower_max_windows(low: Any, node: Node) -> bool:
    """Lower a max pooling: the greatest element of each window, and its place.

    Returns whether the node was lowered.
    """
    f: Function = low.function
    x = node.inputs[0]
    if not convertible(f.dtypes[x]):
        return False
    low.materialise(x)
    layout = f.layout(x)
    dense = is_dense(f.shape(x), layout.strides)
    reads = [Read(x if dense else low.copy(x), tuple(range(len(f.shape(x)))))]
    for out in node.outputs:
        f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    f.add(Op(WINDOWS, node, node.outputs, reads))
    return True


@lowers(Unpatches)
def lower_unpatches(low: Any, node: Node) -> bool:
    """Lower the adjoint of taking windows: each element is added at its place in the image.

    Returns whether the node was lowered.
    """
    f: Function = low.function
    x, out = node.inputs[0], node.outputs[0]
    dtype = f.dtypes[x]
    if not convertible(dtype):
        return False
    low.materialise(x)
    # Sums of half floats are rounded once.
    shape, wide = f.shape(out), widened(dtype)
    total = out if wide is dtype else f.fresh(shape, wide)
    f.layouts[total] = Layout(total, contiguous(shape), ZERO)
    f.add(Op(WINDOWS, node, (total,), [Read(x, tuple(range(len(f.shape(x)))))]))
    if total != out:
        every = tuple(range(len(shape)))
        code = rounded_to(dtype)
        f.add(Op(MAP, node, (out,), [Read(total, every)], shape, every, code, cheap=True))
    return True


def window_words(f: Function, op: Op) -> list[Poly]:
    """The kernel, stride, padding and dilation of a pooling's windows, each for all dims."""
    sizes = _words_of(f, op)
    return sizes[: len(sizes) // 5 * 4]


def _words_of(f: Function, op: Op) -> list[Poly]:
    """The words of `window_words`, and the number of windows along each dim."""
    return [f.extents.path_expr(a) for a in op.node.args]


def windows(f: Function, op: Op, flag: int | None = None) -> Kernel:
    """Return the kernel of an op on windows.

    flag: a value that says whether a convolution has already pooled, or None
    """
    if op.node.prim.name == "unpatches":
        return _unpatches(f, op)
    x, (values, indices) = op.reads[0].value, op.outputs
    sizes = _words_of(f, op)
    nd = len(sizes) // 5
    front = f.shape(x)[: len(f.shape(x)) - nd]
    used = {f.base(f.resolve(i)) for i in f.outputs}
    used |= {f.base(read.value) for other in f.ops for read in other.reads}
    placed = indices in used
    dtype = f.dtypes[x]
    text = _greatest(nd, dtype, placed, flag is not None)
    kernel = Kernel("max_windows", text, f"max_windows {values}")
    kernel.reads = [f.base(x)]
    kernel.writes = [values, indices] if placed else [values]
    kernel.slots = [
        _address(f, x),
        Slot("pointer", values, ZERO),
        Slot("pointer", indices, ZERO) if placed else Slot("word", 0),
        Slot("extent", product(front)),
        *(Slot("extent", n) for n in f.shape(x)[len(front) :]),
        *(Slot("extent", n) for n in sizes),
    ]
    if flag is not None:
        kernel.reads.append(flag)
        kernel.slots.append(Slot("pointer", flag, ZERO))
    return kernel


def _unpatches(f: Function, op: Op) -> Kernel:
    x, out = op.reads[0].value, op.out
    nd = len(op.node.args) // 3
    sizes = [f.extents.path_expr(a) for a in op.node.args[nd:]]  # stride, dilation
    shape, goal = f.shape(x), f.shape(out)
    rank = len(goal) - nd
    kernel = Kernel("unpatches", _adjoint(rank, nd, f.dtypes[x]), f"unpatches {out}")
    kernel.reads, kernel.writes = [f.base(x)], [out]
    numbers: list[Poly] = [
        f.bytes_of(out), *shape, *f.layout(x).strides, *contiguous(goal), *sizes
    ]  # fmt: skip
    kernel.slots = [
        _address(f, x),
        Slot("pointer", out, ZERO),
        *(Slot("extent", n) for n in numbers),
    ]
    return kernel


def _address(f: Function, i: int) -> Slot:
    layout = f.layout(i)
    return Slot("pointer", layout.base, scale(layout.offset, f.dtypes[i].itemsize))


def _words(f: Routine, first: int, count: int) -> list[str]:
    return [f.load("i64", f.at("%args", 8 * (first + k)), 8) for k in range(count)]


def _sum(f: Routine, terms: list[tuple[str, str]]) -> str:
    """The sum of the products of pairs."""
    total = "0"
    for x, y in terms:
        total = f.add(total, f.mul(x, y))
    return total


@cached_by_processor
def _greatest(nd: int, dtype: DType, placed: bool, flagged: bool) -> str:
    """The text of `max_windows` over nd dims.

    placed: whether indices are stored too
    flagged: whether the last word points at a flag that says whether the work is done already
    """
    pools = _Pools(nd, dtype, placed, flagged)
    pools.write()
    return pools.f.text() + "\n" + pools.plain.module.render()


class _Pools:
    """The parts of the function `max_windows`; see `_greatest`."""

    def __init__(self, nd: int, dtype: DType, placed: bool, flagged: bool) -> None:
        f, module, target = Routine("max_windows", [("ptr", "args")]), Module(), written_for()
        self.f, self.nd, self.dtype, self.placed = f, nd, dtype, placed
        self.wide = wide = widened(dtype)
        self.lanes = target.vector_bytes // max(4, wide.itemsize)
        self.plain = plain = VectorBuilder(f, module, self.lanes, target)
        self.kind, self.indices = plain.type_of(wide), plain.type_of(dtypes.int64)
        self.best, self.where = f.let(f"alloca {self.kind}"), f.let(f"alloca {self.indices}")
        if flagged:
            flag = f.load("ptr", f.at("%args", 8 * (4 + 6 * nd)), 8)
            f.leave_when(f.is_("ne", f.load("i64", flag, 8), "0"))
        self.x, self.values, self.places = (
            f.load("ptr", f.at("%args", 8 * k), 8) for k in range(3)
        )
        self.planes = _words(f, 3, 1)[0]
        words = (_words(f, 4 + k * nd, nd) for k in range(6))
        self.size, self.kernel, self.stride, self.padding, self.dilation, self.counts = words
        self.area, self.made = "1", "1"
        for n, m in zip(self.size, self.counts, strict=True):
            self.area, self.made = f.mul(self.area, n), f.mul(self.made, m)
        self.lowest = plain.number(identity_of("lowest", wide), wide)

    def write(self) -> None:
        """Write the loops over planes, and over vectors of windows."""
        f, lanes = self.f, self.lanes
        if self.nd == 2 and not self.placed:
            with f.when(self.are_of_four()):
                arrays = self.x, self.values, self.planes, self.size, self.counts
                _of_four(f, self.plain, arrays, self.dtype)
                f.leave_when("true")
        with ExitStack() as stack:
            plane = stack.enter_context(f.loop("0", self.planes))
            image = f.at(self.x, f.mul(f.mul(plane, self.area), str(self.dtype.itemsize)))
            more = f.select(f.is_("slt", f.add(plane, "1"), self.planes), "1", "0")
            at = [stack.enter_context(f.loop("0", n)) for n in self.counts[:-1]]
            line = f.mul(plane, self.made)
            step = self.made
            for i, n in zip(at, self.counts, strict=False):
                step = f.div(step, n)
                line = f.add(line, f.mul(i, step))
            first = stack.enter_context(f.loop("0", self.counts[-1], str(lanes)))
            mask = lane_mask(f, lanes, f.sub(self.counts[-1], first))
            f.store(self.kind, self.lowest.name, self.best, 4)
            f.store(self.indices, self.plain.number(-1, dtypes.int64).name, self.where, 8)
            begin = f.sub(f.mul(first, self.stride[-1]), self.padding[-1])
            for condition, apart, is_whole in self.ways(first, begin, more):
                with f.when(condition):
                    self.windows(image, at, begin, apart, is_whole)
            self.store(f.add(line, first), mask)

    def are_of_four(self) -> str:
        """Whether windows are 2 x 2, side by side, and all in the image (an i1)."""
        f = self.f
        words = [*self.kernel, *self.stride, *self.padding, *self.dilation]
        fours = "true"
        for word, number in zip(words, (2, 2, 2, 2, 0, 0, 1, 1), strict=True):
            fours = f.both(fours, f.is_("eq", word, str(number)))
        for n, m in zip(self.size, self.counts, strict=True):
            # No window reaches beyond the last element.
            fours = f.both(fours, f.is_("sle", f.mul(m, "2"), n))
        return fours

    def ways(self, first: str, begin: str, more: str) -> list[tuple[str, int, bool]]:
        """The ways to read a vector of windows.

        Each way is (condition, stride or 0 for any, whether all elements are in the row).

        first, begin: the first window, and the column of its first element
        more: 1 if the image goes on in memory, else 0
        """
        f, lanes, size, stride = self.f, self.lanes, self.size, self.stride[-1]
        reach = f.mul(f.sub(self.kernel[-1], "1"), self.dilation[-1])
        last = f.mul(f.sub(f.minimum(f.sub(self.counts[-1], first), str(lanes)), "1"), stride)
        whole = f.is_("slt", f.add(begin, f.add(last, reach)), size[-1])
        whole = f.both(whole, f.is_("sge", begin, "0"))
        # Lanes without a window may read beyond the row, if the image goes on in memory.
        end = f.add(f.add(begin, reach), f.mul(str(lanes), stride))
        followed = f.is_("sle", end, f.add(size[-1], f.mul(self.area, more)))
        whole = f.both(whole, followed)
        near = [(apart, f.is_("eq", stride, str(apart))) for apart in NEAR]
        cases = [(f.both(close, whole), apart, True) for apart, close in near]
        part = f.let(f"xor i1 {whole}, true")
        cases += [(f.both(close, part), apart, False) for apart, close in near]
        far = f.let(f"xor i1 {f.either(*(close for _, close in near))}, true")
        return [*cases, (far, 0, False)]

    def windows(self, image: str, at: list[str], begin: str, apart: int, whole: bool) -> None:
        """Write the loop over the taps of a vector of windows.

        image: the address of the plane
        at: the place of the windows, along all dims but the last
        begin, apart, whole: see `ways`
        """
        f, size = self.f, self.size
        with ExitStack() as inner:
            row = "0"
            for k in range(self.nd - 1):
                tap = inner.enter_context(f.loop("0", self.kernel[k]))
                place = f.add(f.mul(at[k], self.stride[k]), f.mul(tap, self.dilation[k]))
                place = f.sub(place, self.padding[k])
                # The comparison is unsigned: places below 0 are large numbers.
                inner.enter_context(f.when(f.is_("ult", place, size[k])))
                row = f.add(f.mul(row, size[k]), place)
            row = f.mul(row, size[-1])
            tap = inner.enter_context(f.loop("0", self.kernel[-1]))
            here = f.add(begin, f.mul(tap, self.dilation[-1]))
            element = f.at(image, f.mul(f.add(row, here), str(self.dtype.itemsize)))
            step = apart or self.stride[-1]
            elements, inside = _side_by_side(
                f, self.plain, element, here, size[-1], step, self.dtype, whole
            )
            self.take(elements, inside, row, here)

    def take(self, elements: SsaValue, inside: SsaValue | None, row: str, here: str) -> None:
        """Write the comparison of elements with the best ones so far.

        inside: the lanes whose element is in the image; None for all
        row, here: the place in the image of the first lane's element
        """
        f, plain = self.f, self.plain
        value = plain.convert(elements, self.wide)
        before = SsaValue(f.load(self.kind, self.best, 4), self.wide)
        better = plain.gt(value, before)
        if self.wide.category == dtypes.FLOAT:
            better = plain.bitwise_or(better, plain.ne(value, value))
        if self.placed:
            best_index = SsaValue(f.load(self.indices, self.where, 8), dtypes.int64)
            # The first element that is not padding is taken, whatever its value.
            none = plain.lt(best_index, plain.number(0, dtypes.int64))
            better = plain.bitwise_or(better, none)
        if inside is not None:
            better = plain.bitwise_and(better, inside)
        f.store(self.kind, plain.select(better, value, before).name, self.best, 4)
        if self.placed:
            index = _places(plain, f.add(row, here), self.stride[-1])
            f.store(self.indices, plain.select(better, index, best_index).name, self.where, 8)

    def store(self, line: str, mask: str) -> None:
        """Write the stores of a vector of results. line: the number of the first line"""
        f, plain = self.f, self.plain
        out = VectorBuilder(f, plain.module, self.lanes, plain.target, None, mask)
        result = plain.convert(SsaValue(f.load(self.kind, self.best, 4), self.wide), self.dtype)
        out.store(result, f.at(self.values, f.mul(line, str(self.dtype.itemsize))))
        if self.placed:
            place = f.at(self.places, f.mul(line, "8"))
            out.store(SsaValue(f.load(self.indices, self.where, 8), dtypes.int64), place)


def _of_four(f: Routine, plain: VectorBuilder, arrays: Any, dtype: DType) -> None:
    """Write the pooling of windows of 2 x 2: two rows, sorted into even and odd columns.

    arrays: the addresses of the operand and the result, the number of planes, the extents of a
        plane, and the extents of a plane of the result
    """
    x, values, planes, (high, wide), (down, across) = arrays
    lanes, size = plain.lanes, dtype.itemsize
    whole = f.mul(f.div(across, str(lanes)), str(lanes))
    rest = f.sub(across, whole)
    line, plane_bytes = f.mul(wide, str(size)), f.mul(f.mul(high, wide), str(size))
    there = lane_mask(f, lanes, rest)
    parts = [lane_mask(f, lanes, f.sub(f.mul(rest, "2"), k)) for k in ("0", str(lanes))]

    def vector(above: str, out: str, at: str, masks: list[str | None]) -> None:
        """Write a vector of windows. masks: of a row's two vectors, and of the result's vector"""
        loads = [VectorBuilder(f, plain.module, lanes, plain.target, None, m) for m in masks]
        here = f.at(above, f.mul(at, str(2 * size)))
        elements: list[SsaValue] = []
        for place in (here, f.at(here, line)):
            pair = [b.load(f.at(place, k * lanes * size), dtype) for k, b in enumerate(loads[:2])]
            for odd in (0, 1):
                one = _every(plain, pair, 2, odd)
                elements.append(plain.convert(one, widened(dtype)))
        best = reduce(lambda before, value: _greater(plain, value, before), elements)
        loads[2].store(plain.convert(best, dtype), f.at(out, f.mul(at, str(size))))

    with f.loop("0", planes) as plane, f.loop("0", down) as row:
        above = f.add(f.mul(plane, plane_bytes), f.mul(f.mul(row, line), "2"))
        above = f.at(x, above)
        out = f.mul(f.add(f.mul(plane, down), row), f.mul(across, str(size)))
        out = f.at(values, out)
        with f.loop("0", whole, str(lanes)) as at:
            vector(above, out, at, [None] * 3)
        some = f.is_("ne", rest, "0")
        if not plain.target.masks:
            # A whole vector that ends with the row is quicker than a mask, where the row has a
            # whole vector.
            room = f.is_("sge", across, str(lanes))
            with f.when(f.both(some, room)):
                vector(above, out, f.sub(across, str(lanes)), [None] * 3)
            some = f.both(some, f.let(f"xor i1 {room}, true"))
        with f.when(some):
            vector(above, out, whole, [*parts, there])


def _greater(b: VectorBuilder, value: SsaValue, before: SsaValue) -> SsaValue:
    """Return the greater of two elements: `before` if they are equal, NaN if there is any."""
    greater = b.select(b.gt(value, before), value, before)
    if value.dtype.category != dtypes.FLOAT:
        return greater
    return b.select(b.ne(value, value), value, greater)


def _side_by_side(
    f: Routine,
    b: VectorBuilder,
    first: str,
    here: str,
    end: str,
    apart: int | str,
    dtype: DType,
    whole: bool,
) -> tuple[SsaValue, SsaValue | None]:
    """Load elements of a row that are `apart` columns apart.

    Returns the elements, and which of them are in the row (None for all).

    first: the address of the first element
    here: the column of the first element, which may be before the row
    end: the length of the row
    whole: whether all needed elements are in the row, and all memory in between can be read
    """
    lanes = b.lanes
    if isinstance(apart, str):
        columns = _places(b, here, apart)
        inside = b.bitwise_and(
            b.ge(columns, b.number(0, dtypes.int64)), b.lt(columns, b.spread(end, dtypes.int64))
        )
        pointers = _apart(b, first, "0", apart, dtype)
        masked = VectorBuilder(f, b.module, lanes, b.target, None, inside.name)
        return masked.gather(pointers, dtype), inside
    low = f.select(f.is_("sgt", here, "0"), "0", f.sub("0", here))
    high = f.sub(end, here)
    high = f.select(f.is_("sgt", high, "0"), high, "0")
    loads = []
    for k in range(apart):
        there = str(k * lanes)
        mask = None if whole else lane_range(f, lanes, f.sub(low, there), f.sub(high, there))
        part = VectorBuilder(f, b.module, lanes, b.target, None, mask)
        loads.append(part.load(f.at(first, k * lanes * dtype.itemsize), dtype))
    elements = _every(b, loads, apart) if apart > 1 else loads[0]
    if whole:
        return elements, None
    low, high = (f.ceil_div(n, apart) for n in (low, high))
    return elements, SsaValue(lane_range(f, lanes, low, high), dtypes.bool_)


def _every(b: VectorBuilder, pair: list[SsaValue], apart: int, first: int = 0) -> SsaValue:
    """Return every `apart`-th element, from element `first` on, of two consecutive vectors."""
    kind = b.type_of(pair[0].dtype)
    chosen = ", ".join(f"i32 {apart * k + first}" for k in range(b.lanes))
    vectors = f"{kind} {pair[0].name}, {kind} {pair[1].name}"
    mask = f"<{b.lanes} x i32> <{chosen}>"
    return SsaValue(b.text.let(f"shufflevector {vectors}, {mask}"), pair[0].dtype)


def _places(b: VectorBuilder, first: str, apart: str) -> SsaValue:
    """The numbers first, first + apart, ..., a number for each lane."""
    lane = SsaValue(_count(b.lanes, "i64"), dtypes.int64)
    return b.add(b.spread(first, dtypes.int64), b.mul(lane, b.spread(apart, dtypes.int64)))


@cached_by_processor
def _adjoint(rank: int, nd: int, dtype: DType) -> str:
    """The text of `unpatches` over nd dims, with `rank` dims in front of them."""
    f, module, target = Routine("unpatches", [("ptr", "args")]), Module(), written_for()
    wide = widened(dtype)
    lanes = target.vector_bytes // max(4, wide.itemsize)
    x, y = (f.load("ptr", f.at("%args", 8 * k), 8) for k in range(2))
    size = _words(f, 2, 1)[0]
    all_dims = rank + 2 * nd
    shape = _words(f, 3, all_dims)
    steps = _words(f, 3 + all_dims, all_dims)
    goal = _words(f, 3 + 2 * all_dims, rank + nd)
    stride = _words(f, 3 + 2 * all_dims + rank + nd, nd)
    dilation = _words(f, 3 + 2 * all_dims + rank + 2 * nd, nd)
    f.line(f"call void @llvm.memset.p0.i64(ptr {y}, i8 0, i64 {size}, i1 false)")
    width, wider = str(dtype.itemsize), str(wide.itemsize)
    with ExitStack() as stack:
        index = [stack.enter_context(f.loop("0", n)) for n in shape[:-1]]
        source = _sum(f, list(zip(index, steps, strict=False)))
        to = list(zip(index, goal, strict=False))[:rank]
        for d in range(nd):
            unit = goal[rank + d]
            to.append((index[rank + d], f.mul(dilation[d], unit)))
            if d < nd - 1:
                to.append((index[rank + nd + d], f.mul(stride[d], unit)))
        here = f.at(x, f.mul(source, width))
        there = f.at(y, f.mul(_sum(f, to), wider))
        near = f.both(f.is_("eq", stride[-1], "1"), f.is_("eq", steps[-1], "1"))
        far = f.let(f"xor i1 {near}, true")
        for close, condition in ((True, near), (False, far)):
            with f.when(condition), f.loop("0", shape[-1], str(lanes)) as first:
                mask = lane_mask(f, lanes, f.sub(shape[-1], first))
                b = VectorBuilder(f, module, lanes, target, None, mask)
                if close:
                    put = f.at(there, f.mul(first, wider))
                    elements = b.convert(b.load(f.at(here, f.mul(first, width)), dtype), wide)
                    b.store(b.add(b.load(put, wide), elements), put)
                    continue
                begin, step = f.mul(first, steps[-1]), steps[-1]
                elements = b.convert(b.gather(_apart(b, here, begin, step, dtype), dtype), wide)
                pointers = _apart(b, there, f.mul(first, stride[-1]), stride[-1], wide)
                b.scatter(b.add(b.gather(pointers, wide), elements), pointers)
    return f.text() + "\n" + module.render()


def _apart(b: VectorBuilder, base: str, first: str, step: str, dtype: DType) -> str:
    """The pointers to the elements first, first + step, ..., a pointer for each lane."""
    moved = _places(b, first, step)
    kind = vector_type("i64", b.lanes)
    return b.text.let(f"getelementptr {memory_type(dtype)}, ptr {base}, {kind} {moved.name}")


def _count(lanes: int, kind: str) -> str:
    """The vector of the lanes' numbers. kind: the integer type"""
    return f"<{', '.join(f'{kind} {i}' for i in range(lanes))}>"
