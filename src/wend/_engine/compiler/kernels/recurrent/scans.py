"""Kernels of recurrences over the steps of sequences, in a function for each op and form.

    void steps(ptr args)        (`copies` for `steps_before`)

`args` holds the words WORDS, then the addresses of the operands and results. G groups, R rows, N
sequences, T steps and H width are extents. A call computes the sequences first ... last - 1 alone.
All operands are dense, and those known to be zeros are left out.

The weight is packed, in panels that a tile multiplies by. A forward scan multiplies the states
first, panel by panel, and makes new states of a tile's sums. A scan back computes the rows of a
step first, and multiplies them then. The last results hold the states from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig, lane_mask
from wend._engine.compiler.kernels.matmul.packing import pack_right
from wend._engine.compiler.kernels.recurrent.tiles import Panel
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue, register_type
from wend._engine.core.primitive import REGISTRY

#: The first words of an argument block: extents, the sequences to compute, scratch memory.
WORDS = (*"GRNTH", "first", "last", "scratch")
#: Vectors side by side in a panel of the columns of a single gate.
_BLOCKS = 2


def name_of(op: Any) -> str:
    """The name of the function of an op: `steps` if there is work for several threads."""
    return "steps" if "JH" in op.operands.split() else "copies"


def scratch_elements(dtype: DType) -> int:
    """The columns that the panels of a gate may have more than the gate."""
    return _BLOCKS * written_for().vector_bytes // dtype.itemsize


class StepsKernel:
    """Base: operands, groups, the first row of each step, and rows behind the last step."""

    blocks: ClassVar[int] = 1
    vectors: ClassVar[int] = 0

    def __init__(
        self, name: str, gates: int, relu: bool, back: bool, zero: tuple[bool, ...], dtype: DType
    ) -> None:
        self.gates, self.relu, self.back, self.dtype = gates, relu, back, dtype
        op: Any = REGISTRY[name]
        self.operands: list[str] = op.operands.split()
        self.results: list[str] = op.results.split()
        self.counts = [
            gates if d[-1] == "*" else int(not none)
            for d, none in zip(self.operands, zero, strict=True)
        ]  # of the tensors of each operand
        self.f, self.module, self.target = (
            Routine(name_of(op), [("ptr", "args")]),
            Module(),
            written_for(),
        )
        self.lanes = self.target.vector_bytes // dtype.itemsize
        self.size = str(dtype.itemsize)

    def builder(self, mask: str | None = None) -> VectorBuilder:
        """Return a builder of instructions on vectors."""
        return VectorBuilder(self.f, self.module, self.lanes, self.target, None, mask)

    def write(self) -> str:
        """Return the text of the module."""
        f = self.f
        dims = [d[:2] for d, n in zip(self.operands, self.counts, strict=True) for _ in range(n)]
        count = len(dims) + len(self.results)
        kinds = ["i64"] * (len(WORDS) - 1) + ["ptr"] * (1 + count)
        loaded = [f.load(kind, f.at("%args", 8 * k), 8) for k, kind in enumerate(kinds)]
        groups, self.rows, self.sequences, self.count, self.width = loaded[:5]
        self.first, self.last, self.scratch, *bases = loaded[5:]
        self.row = f.mul(self.width, self.size)  # the bytes of a row of one gate
        self.wide_row = f.mul(self.row, str(self.gates))
        self.panels = f.at(
            self.scratch, f.let(f"and i64 {f.mul(f.add(self.count, '9'), '8')}, -64")
        )
        self.prepare()
        lengths = {
            "RH": f.mul(self.rows, self.row), "RJ": f.mul(self.rows, self.wide_row),
            "NH": f.mul(self.sequences, self.row), "JH": f.mul(self.wide_row, self.width),
            "J": self.wide_row, "T": f.mul(self.count, "8"), **self.lengths(),
        }  # fmt: skip
        with f.loop("0", groups) as g:
            here = [
                f.at(base, f.mul(g, lengths[d]))
                for base, d in zip(bases, [*dims, *self.results], strict=True)
            ]
            rest = iter(here)
            places = [[next(rest) for _ in range(n)] for n in self.counts]
            self.group(places, list(rest))
        return "\n".join([self.tiles(), f.text(), self.declared(), self.module.render()])

    def declared(self) -> str:
        """Declarations of the memory functions."""
        return (
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
        )

    def tiles(self) -> str:
        """The text of the functions of tiles."""
        return ""

    def prepare(self) -> None:
        """Write what comes before the groups."""

    def lengths(self) -> dict[str, str]:
        """The bytes of a group of operands of further dims, by the first two letters."""
        return {}

    def group(self, places: list[Any], outs: list[str]) -> None:
        """Write the code of a group."""
        f = self.f
        end = self.find_rows(places[-1][0])
        n_states = len([d for d in self.results if d == "NH"])
        states = outs[-n_states:]
        starts = [p[0] for p, d in zip(places, self.operands, strict=True) if d == "NH"]
        away = f.mul(self.first, self.row)
        states = [f.at(state, away) for state in states]
        outs = [*outs[:-n_states], *states]
        for start, state in zip(starts, states, strict=True):
            self.copy(f.at(start, away), state, f.mul(f.sub(self.last, self.first), self.row))
        self.enter(places)
        with f.loop("0", self.count) as turn:
            t = f.sub(f.sub(self.count, "1"), turn) if self.back else turn
            place = f.at(self.scratch, f.mul(t, "8"))
            row = f.load("i64", place, 8)
            behind = f.minimum(f.sub(f.load("i64", f.at(place, 8), 8), row), self.last)
            count = f.maximum(f.sub(behind, self.first), "0")
            self.step(f.add(row, self.first), count, places, outs)
        with f.when(f.is_("eq", self.first, "0")):
            self.clear(end, outs)

    def clear(self, end: str, outs: list[str]) -> None:
        """Write zeros to the rows from `end` on."""
        f = self.f
        for out, dims in zip(outs, self.results, strict=True):
            if dims[0] == "R":
                row = self.wide_row if dims == "RJ" else self.row
                rest = f.mul(f.sub(self.rows, end), row)
                to = f.at(out, f.mul(end, row))
                f.line(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {rest}, i1 false)")

    def enter(self, places: list[Any]) -> None:
        """Write what comes before the steps of a group."""

    def step(self, first: str, count: str, places: list[Any], outs: list[str]) -> None:
        """Write the code of a step, whose rows are first ... first + count - 1.

        outs: of the states, the addresses of those of the sequence `self.first`
        """
        raise NotImplementedError

    def find_rows(self, sizes: str) -> str:
        """Write the first row of each step to scratch memory; the row behind the last step."""
        f = self.f
        f.store("i64", "0", self.scratch, 8)
        with f.turns("0", self.count) as loop:
            first = loop.carry("i64", "0")
            size = f.load("i64", f.at(sizes, f.mul(loop.index, "8")), 8)
            size = f.minimum(f.minimum(size, self.sequences), f.sub(self.rows, first))
            onward = f.add(first, f.maximum(size, "0"))
            f.store("i64", onward, f.at(self.scratch, f.mul(f.add(loop.index, "1"), "8")), 8)
            loop.become(first, onward)
        return first

    def copy(self, source: str, to: str, length: str) -> None:
        """Write a copy of some bytes."""
        self.f.line(
            f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {length}, i1 false)"
        )


class BeforeKernel(StepsKernel):
    """`steps_before`."""

    def step(self, first: str, count: str, places: list[Any], outs: list[str]) -> None:
        f = self.f
        at, length = f.mul(first, self.row), f.mul(count, self.row)
        self.copy(outs[1], f.at(outs[0], at), length)
        self.copy(f.at(places[0][0], at), outs[1], length)


class Element:
    """A vector of a row: the places of operands and results at some columns of a row of a step.

    operands, results: by number, addresses of the row's columns; of "RJ" those of the first gate
    """

    def __init__(self, b: VectorBuilder, dtype: DType, gate: str) -> None:
        self.b, self.dtype, self.gate = b, dtype, gate
        self.operands: list[list[str]] = []
        self.results: list[str] = []

    def read(self, k: int, gate: int = 0) -> SsaValue | None:
        """Operand k, or None if it is known to be zeros; of lists, the tensor of the gate."""
        places = self.operands[k]
        if len(places) > 1:
            return self.b.load(places[gate], self.dtype)
        return self.b.load(self._at(places[0], gate), self.dtype) if places else None

    def state(self, k: int) -> SsaValue:
        """Result k, as it was before."""
        return self.b.load(self.results[k], self.dtype)

    def put(self, k: int, value: SsaValue, gate: int = 0) -> None:
        """Store a vector of result k."""
        self.b.store(value, self._at(self.results[k], gate))

    def _at(self, place: str, gate: int) -> str:
        f: Any = self.b.text
        return place if gate == 0 else f.at(place, f.mul(self.gate, str(gate)))

    def sum(self, *terms: SsaValue | None) -> SsaValue:
        """The sum of those terms that are there."""
        there = [t for t in terms if t is not None]
        total = there[0]
        for term in there[1:]:
            total = self.b.add(total, term)
        return total

    def product(self, x: SsaValue | None, y: SsaValue) -> SsaValue | None:
        """x * y, or None for no x."""
        return None if x is None else self.b.mul(x, y)


class ProductKernel(StepsKernel):
    """Base of the recurrences with a product by the weight."""

    def prepare(self) -> None:
        self.gates_side = self.gates if not self.turned else 1
        self.blocks = _BLOCKS if self.gates_side == 1 else 1  # type: ignore[misc]
        self.panel = Panel(self.target, self.dtype, self.gates_side * self.blocks)
        f, vector = self.f, self.target.vector_bytes
        self.depth = f.mul(self.width, str(self.gates)) if self.turned else self.width
        self.panel_bytes = f.mul(self.depth, str(self.panel.row_bytes))
        self.columns = self.lanes * self.blocks
        most = self.panel.heights[0] * self.panel.vectors * vector
        self.sums = f.let(f"alloca [{most} x i8], align 64")

    #: Whether the product is rows @ weight, and not rows @ weight.T.
    turned: ClassVar[bool] = False

    def tiles(self) -> str:
        shape = TileConfig.of(self.target, register_type(self.dtype))
        return pack_right(shape, self.dtype.name, self.panel.row_bytes) + self.panel.functions()

    def enter(self, places: list[Any]) -> None:
        self.pack(places[self.operands.index("JH")][0])

    def pack(self, weight: str) -> None:
        """Write the copy of the weight to panels."""
        f, vector = self.f, self.target.vector_bytes
        with f.loop("0", self.width, str(self.columns)) as column:
            panel = f.at(self.panels, f.mul(f.div(column, str(self.columns)), self.panel_bytes))
            for k in range(self.panel.vectors):
                gate, block = divmod(k, self.blocks)
                c = f.add(column, str(block * self.lanes))
                line = c if self.turned else f.add(f.mul(self.width, str(gate)), c)
                step, apart = self.row, self.size
                if not self.turned:
                    step, apart = apart, step
                source = f.at(weight, f.mul(line, apart))
                to = f.at(panel, k * vector)
                with f.when(f.is_("slt", c, self.width)):
                    f.line(
                        f"call void @pack_right(ptr {source}, i64 {step}, i64 {apart}, "
                        f"i64 {self.depth}, i64 {f.sub(self.width, c)}, i64 {self.lanes}, ptr {to})"
                    )

    def multiply(
        self, rows: str, row: str, count: str, use: Callable[[str, str, str], None]
    ) -> None:
        """Write the products of `count` rows with all panels.

        rows, row: the address of the rows, and the bytes between them
        use: writes the code for the sums of a row: (address of sums, number of the row, column)
        """
        f = self.f
        with f.loop("0", self.width, str(self.columns)) as column:
            panel = f.at(self.panels, f.mul(f.div(column, str(self.columns)), self.panel_bytes))
            with f.turns("0", count) as loop:
                left = f.sub(count, loop.index)
                a = f.at(rows, f.mul(loop.index, row))
                height, below = "1", None
                for n in self.panel.heights:
                    fits = f.is_("sge", left, str(n))
                    taken = fits if below is None else f.both(fits, f.is_("slt", left, str(below)))
                    with f.when(taken):
                        self.panel.multiply(f, n, a, row, panel, self.depth, self.sums)
                    below = n
                for n in reversed(self.panel.heights):
                    height = f.select(f.is_("sge", left, str(n)), str(n), height)
                with f.loop("0", height) as k:
                    sums = f.at(self.sums, f.mul(k, str(self.panel.row_bytes)))
                    use(sums, f.add(loop.index, k), column)
                loop.step = height

    def at(
        self, first: str, row: str, column: str, places: list[Any], outs: list[str],
        use: Callable[[Element], None],
    ) -> None:  # fmt: skip
        """Write the code for the vector of a row of a step at a column, if the column is one."""
        f = self.f
        left = f.sub(self.width, column)
        if self.target.masks:
            cases = [(f.is_("sgt", left, "0"), True)]
        else:  # a masked store takes long
            whole = f.is_("sge", left, str(self.lanes))
            part = f.both(f.is_("sgt", left, "0"), f.is_("slt", left, str(self.lanes)))
            cases = [(whole, False), (part, True)]
        for condition, masked in cases:
            with f.when(condition):
                mask = lane_mask(f, self.lanes, left) if masked else None
                use(self.element(mask, first, row, column, places, outs))

    def element(
        self, mask: str | None, first: str, row: str, column: str, places: list[Any],
        outs: list[str],
    ) -> Element:  # fmt: skip
        """The vector of a row of a step at a column."""
        f = self.f
        element = Element(self.builder(mask), self.dtype, self.row)
        at = f.mul(column, self.size)
        there = f.add(first, row)
        offsets = {
            "RH": f.add(f.mul(there, self.row), at),
            "RJ": f.add(f.mul(there, self.wide_row), at),
            "NH": f.add(f.mul(row, self.row), at),
            "J": at,
        }
        element.operands = [
            [f.at(p, offsets[d[:2]]) for p in tensors] if d[:2] in offsets else []
            for tensors, d in zip(places, self.operands, strict=True)
        ]
        element.results = [f.at(p, offsets[d]) for p, d in zip(outs, self.results, strict=True)]
        return element


class ForwardKernel(ProductKernel):
    """Base of the scans that multiply the state first."""

    #: The number of the result with the state behind each row.
    states: ClassVar[int] = 0

    def step(self, first: str, count: str, places: list[Any], outs: list[str]) -> None:
        f, vector = self.f, self.target.vector_bytes
        state = outs[self.state]

        def use(sums: str, row: str, column: str) -> None:
            for block in range(self.blocks):
                c = f.add(column, str(block * self.lanes)) if block else column
                plain = self.builder()
                totals = [
                    self.sum_at(plain, f.at(sums, (gate * self.blocks + block) * vector))
                    for gate in range(self.gates)
                ]
                self.at(first, row, c, places, outs, partial(self.cell, sums=totals))

        rows, row = self.left(state, count)
        self.multiply(rows, row, count, use)
        self.copy(f.at(outs[self.states], f.mul(first, self.row)), state, f.mul(count, self.row))

    def left(self, state: str, count: str) -> tuple[str, str]:
        """The rows that a step multiplies, and the bytes between them."""
        return state, self.row

    def sum_at(self, b: VectorBuilder, place: str) -> SsaValue:
        """A vector of sums of a tile."""
        return b.load(place, self.dtype)

    @property
    def state(self) -> int:
        """The number of the result that is multiplied by the weight from step to step."""
        return self.results.index("NH")

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        """Write the new state from the sums of all gates."""
        raise NotImplementedError


class RnnKernel(ForwardKernel):
    """`rnn_scan`."""

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        total = e.sum(sums[0], e.read(0))
        if self.relu:
            e.put(0, e.b.maximum(total, e.b.number(0, self.dtype)))
        else:
            e.put(0, e.b.function("tanh", total))


class GruKernel(ForwardKernel):
    """`gru_scan`."""

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        b = e.b
        totals = [e.sum(s, e.read(2, gate)) for gate, s in enumerate(sums)]
        for gate, total in enumerate(totals):
            e.put(1, total, gate)
        r, z = (b.function("sigmoid", e.sum(totals[k], e.read(0, k))) for k in (0, 1))
        n = b.function("tanh", e.sum(b.mul(r, totals[2]), e.read(0, 2)))
        e.put(0, b.add(n, b.mul(z, b.sub(e.state(2), n))))


class LstmKernel(ForwardKernel):
    """`lstm_scan`."""

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        b = e.b
        totals = [e.sum(s, e.read(0, gate)) for gate, s in enumerate(sums)]
        for gate, total in enumerate(totals):
            e.put(2, total, gate)
        i, f, o = (b.function("sigmoid", totals[k]) for k in (0, 1, 3))
        memory = b.add(b.mul(f, e.state(4)), b.mul(i, b.function("tanh", totals[2])))
        e.put(1, memory)
        e.put(4, memory)
        e.put(0, b.mul(o, b.function("tanh", memory)))


class StateKernel(ForwardKernel):
    """`state_steps`: x, y, weight, k, z -> a, states, last."""

    states = 1

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        terms = [e.read(1), e.product(e.read(4), e.state(2))]
        for gate, s in enumerate(sums):
            a = e.sum(s, e.read(0, gate))
            e.put(0, a, gate)
            terms.append(e.product(e.read(3, gate), a))
        e.put(1, e.sum(*terms, e.b.number(0, self.dtype)))


class MemoryKernel(ForwardKernel):
    """`memory_steps`: x, y_s, y_c, weight, k, p, f -> a, states, memories, last ones."""

    states = 1

    def cell(self, e: Element, sums: list[SsaValue]) -> None:
        terms = []
        for gate, s in enumerate(sums):
            a = e.sum(s, e.read(0, gate))
            e.put(0, a, gate)
            terms.append(e.product(e.read(4, gate), a))
        zero = e.b.number(0, self.dtype)
        memory = e.sum(e.read(2), *terms[:3], e.product(e.read(6), e.state(4)), zero)
        e.put(2, memory)
        e.put(4, memory)
        e.put(1, e.sum(e.read(1), terms[3], e.product(e.read(5), memory), zero))


class BackKernel(ProductKernel):
    """Base of the scans that multiply the rows of a step in the end."""

    turned = True
    #: The number of the state that the products add to, and of an operand with its factors.
    state: ClassVar[int]
    decay: ClassVar[int] = -1

    def step(self, first: str, count: str, places: list[Any], outs: list[str]) -> None:
        f, vector = self.f, self.target.vector_bytes
        with f.loop("0", count) as row, f.loop("0", self.width, str(self.lanes)) as column:
            self.at(first, row, column, places, outs, self.cell)
        adds = self.decay >= 0 and self.counts[self.decay] > 0

        def keep(e: Element, *, total: SsaValue) -> None:
            e.put(self.state, e.b.add(total, e.state(self.state)) if adds else total)

        def use(sums: str, row: str, column: str) -> None:
            for block in range(self.blocks):
                c = f.add(column, str(block * self.lanes)) if block else column
                total = self.builder().load(f.at(sums, block * vector), self.dtype)
                self.at(first, row, c, places, outs, partial(keep, total=total))

        rows = f.at(outs[0], f.mul(first, self.wide_row))
        self.multiply(rows, self.wide_row, count, use)

    def cell(self, e: Element) -> None:
        """Write the rows of the step."""
        raise NotImplementedError


class StateBackKernel(BackKernel):
    """`state_steps_back`: x, y, weight, k, z -> v, d, last."""

    state, decay = 2, 4

    def cell(self, e: Element) -> None:
        d = e.sum(e.state(2), e.read(0))
        e.put(1, d)
        for gate in range(self.gates):
            zero = e.b.number(0, self.dtype)
            e.put(0, e.sum(e.read(1, gate), e.product(e.read(3, gate), d), zero), gate)
        kept = e.product(e.read(4), d)
        if kept is not None:
            e.put(2, kept)


class MemoryBackKernel(BackKernel):
    """`memory_steps_back`: x_s, x_c, y, weight, k, p, f -> v, d_s, d_c, last ones."""

    state = 3

    def cell(self, e: Element) -> None:
        zero = e.b.number(0, self.dtype)
        ds = e.sum(e.state(3), e.read(0))
        dc = e.sum(e.state(4), e.read(1), e.product(e.read(5), ds))
        e.put(1, ds)
        e.put(2, dc)
        for gate in range(4):
            d = ds if gate == 3 else dc
            e.put(0, e.sum(e.read(2, gate), e.product(e.read(4, gate), d), zero), gate)
        e.put(4, e.sum(e.product(e.read(6), dc), zero))


SCANS: dict[str, type[StepsKernel]] = {
    "steps_before": BeforeKernel,
    "rnn_scan": RnnKernel,
    "gru_scan": GruKernel,
    "lstm_scan": LstmKernel,
    "state_steps": StateKernel,
    "state_steps_back": StateBackKernel,
    "memory_steps": MemoryKernel,
    "memory_steps_back": MemoryBackKernel,
}
