"""Ops over the steps of sequences on an accelerator: a group walks along a sequence.

The work items of a group share the units of the state. A step that multiplies the whole state by
the weight waits until all units of the step before are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.compiler.codegen.device_nest import ROW
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, Poly, add, product, scale
from wend._engine.compiler.kernels.on_device.code import DeviceCode
from wend._engine.compiler.kernels.recurrent.lowering import operands_of, operands_read
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type

NAME = "steps"
#: Terms of a sum that are added up by themselves.
FEW = 8
#: The names of the operands of each op; a list of tensors has a star.
OPERANDS = {
    "rnn_scan": "x weight start sizes",
    "gru_scan": "x weight bias start sizes",
    "lstm_scan": "x weight start first sizes",
    "state_steps": "x y weight k* z start sizes",
    "state_steps_back": "x y weight k* z start sizes",
    "memory_steps": "x y_s y_c weight k* p f start first sizes",
    "memory_steps_back": "x_s x_c y weight k* p f start first sizes",
    "steps_before": "x start sizes",
}
#: The names of the results.
RESULTS = {
    "rnn_scan": "states last",
    "gru_scan": "states sums last",
    "lstm_scan": "states memories sums last last_memory",
    "state_steps": "a states last",
    "state_steps_back": "v d last",
    "memory_steps": "a states memories last last_memory",
    "memory_steps_back": "v ds dc last last_memory",
    "steps_before": "before last",
}
#: The extents among the words: groups, rows, sequences, steps, units of a state.
EXTENTS = "GRNTH"


def entries_of(prim: Any, operands: list[Any]) -> list[tuple[str, str, Any]]:
    """Return (name, dims, operand) of each operand that is there; those of lists one by one."""
    rows = zip(OPERANDS[prim.name].split(), prim.dims, operands, strict=True)
    entries = []
    for name, dims, x in rows:
        if name[-1] == "*":
            entries += [(f"{name[:-1]}{k}", dims[:-1], each) for k, each in enumerate(x)]
        elif x is not None:
            entries.append((name, dims, x))
    return entries


def device_steps(f: Function, op: Op) -> Kernel:
    """Return the kernel of an op over steps."""
    prim: Any = op.node.prim
    operands = operands_of(op.node)
    read = entries_of(prim, operands_read(f, op.node))
    places = tuple([(name, dims) for name, dims, _ in read])
    dtype = f.dtypes[op.outputs[0]]
    form = prim.name, prim.count(operands), bool(getattr(prim, "relu", False)), prim.back
    kernel = Kernel(NAME, steps_text(written_for(), *form, places, dtype), prim.name)
    kernel.reads = sorted({f.layout(each.value).base for each in op.reads})
    kernel.writes = list(op.outputs)
    kernel.is_whole = True
    extents: dict[str, Poly] = {}
    for _, dims, i in entries_of(prim, operands):
        shape = f.shape(i)
        extents |= dict(zip(dims, shape[len(shape) - len(dims) :], strict=True))
        extents["G"] = ONE if len(shape) == len(dims) else shape[0]
    firsts = product([add(extents["T"], ONE), extents["G"], extents["N"]])
    kernel.slots = [Slot("extent", extents[letter]) for letter in EXTENTS]
    kernel.slots.append(Slot("scratch", scale(firsts, 8), "firsts"))
    for value in [*(each.value for each in op.reads), *op.outputs]:
        layout = f.layout(value)
        offset = scale(layout.offset, f.dtypes[value].itemsize)
        kernel.slots.append(Slot("pointer", layout.base, offset))
    return kernel


@cache
def steps_text(
    target: Target, name: str, gates: int, relu: bool, back: bool, places: Any, dtype: DType
) -> str:
    """Return the module of an op over steps. places: (name, dims) of each operand that is read"""
    return StepsCode(target, name, gates, relu, back, places, dtype).write()


class StepsCode(DeviceCode):
    """Writes the kernel of an op over steps.

    base: the address of each operand and result, of the group of sequences at hand
    n, row, unit: the sequence, the row of the step, and the unit of the state at hand
    """

    def __init__(
        self, target: Target, name: str, gates: int, relu: bool, back: bool, places: Any, dtype: Any
    ) -> None:
        results = RESULTS[name].split()
        dims = {result: "NH" if result.startswith("last") else "RH" for result in results}
        dims |= {result: "RJ" for result in results if result in ("sums", "a", "v")}
        self.dims = dict(places) | dims
        super().__init__(target, NAME, [*EXTENTS, "firsts", *self.dims], ["firsts", *self.dims])
        self.op, self.gates, self.dtype, self.relu, self.back = name, gates, dtype, relu, back
        self.w["J"] = self.entry.let(f"mul i64 {self.w['H']}, {gates}")
        self.base: dict[str, str] = {}
        self.n = self.row = self.unit = ""
        #: Whether a step has been computed, and the row of the last such step.
        self.begun, self.before = self.variable("i1"), self.variable("i64")

    # -- memory ---------------------------------------------------------------------------------

    def at(self, name: str, line: str, unit: str, gate: int = 0) -> str:
        """The address of an element of a line of an operand or result; "" if there are no lines."""
        dims = self.dims[name]
        lines = [(line, self.w[dims[1]])] if len(dims) > 1 else []
        place = self.place(*lines, (unit, "1"))
        if gate:
            apart = self.text.let(f"mul i64 {self.w['H']}, {gate}")
            place = self.text.let(f"add i64 {place}, {apart}")
        return self.moved(self.base[name], memory_type(self.dtype), (place, "1"))

    def read(self, name: str, line: str, unit: str, gate: int = 0) -> SsaValue:
        """An element of a line; 0 of an operand that is known to be 0."""
        if name not in self.dims:
            return self.b.number(0, self.dtype)
        return self.b.load(self.at(name, line, unit, gate), self.dtype)

    def here(self, name: str, gate: int = 0) -> SsaValue:
        """The element of an operand at the row and unit at hand."""
        return self.read(name, self.row, self.unit, gate)

    def put_here(self, name: str, value: SsaValue, gate: int = 0) -> None:
        """Write the element of a result at the row and unit at hand."""
        self.b.store(value, self.at(name, self.row, self.unit, gate))

    def earlier(self, written: str, first: str) -> str:
        """The address of the line of a state before the step at hand.

        written: the name of the rows of states     first: that of the states before all steps
        """
        text, pointer = self.text, self.target.pointer
        begun = text.let(f"load i1, ptr {self.begun}")
        row = text.let(f"load i64, ptr {self.before}")
        later, at_first = self.at(written, row, "0"), self.at(first, self.n, "0")
        return text.let(f"select i1 {begun}, {pointer} {later}, {pointer} {at_first}")

    def of_line(self, line: str, unit: str) -> SsaValue:
        """An element of a line that begins at an address."""
        return self.element(line, self.dtype, (unit, "1"))

    # -- arithmetic -----------------------------------------------------------------------------

    def total(self, extent: str, term: Callable[[str], SsaValue]) -> SsaValue:
        """The sum of terms by number: sums of `FEW` terms are added up, which rounds less."""
        text, kind = self.text, self.b.type_of(self.dtype)
        whole, part = self.variable(kind), self.variable(kind)

        def value(place: str) -> SsaValue:
            return SsaValue(text.let(f"load {kind}, ptr {place}"), self.dtype)

        def grow(place: str, x: SsaValue) -> None:
            text.line(f"store {kind} {self.b.add(value(place), x).name}, ptr {place}")

        text.line(f"store {kind} 0.0, ptr {whole}")
        with self.loop("0", extent, str(FEW)) as first:
            text.line(f"store {kind} 0.0, ptr {part}")
            last = text.let(f"add i64 {first}, {FEW}")
            last = text.let(f"call i64 @llvm.smin.i64(i64 {last}, i64 {extent})")
            with self.loop(first, last) as k:
                grow(part, term(k))
            grow(whole, value(part))
        return value(whole)

    def by_weight(self, line: str, gate: int) -> SsaValue:
        """The product of a state with the row of the weight for a gate of the unit at hand."""
        text, width = self.text, self.w["H"]
        apart = text.let(f"mul i64 {width}, {gate}")
        row = text.let(f"add i64 {apart}, {self.unit}")
        return self.total(
            width, lambda k: self.b.mul(self.of_line(line, k), self.read("weight", row, k))
        )

    def sigmoid(self, x: SsaValue) -> SsaValue:
        """1 / (1 + exp(-x))."""
        b = self.b
        one = b.number(1, self.dtype)
        return b.div(one, b.add(one, b.function("exp", b.neg(x))))

    def tanh(self, x: SsaValue) -> SsaValue:
        """The hyperbolic tangent."""
        return self.b.function("tanh", x)

    # -- the walk -------------------------------------------------------------------------------

    def write(self) -> str:
        """Return the text of the module."""
        text, verbs, w = self.text, self.verbs, self.w
        turns = self.entry.let(f"mul i64 {w['G']}, {w['N']}")
        with self.shared_turns(turns) as turn:
            self.n = text.let(f"urem i64 {turn}, {w['N']}")
            self.find_group(text.let(f"udiv i64 {turn}, {w['N']}"))
            firsts = self.find_firsts(turn)
            self.clear_rest(firsts)
            self.begin()
            with self.loop("0", w["T"]) as k:
                if self.back:
                    k = text.let(f"sub i64 {w['T']}, {k}")
                    k = text.let(f"sub i64 {k}, 1")
                first, count = self.step(firsts, k)
                with text.when(text.let(f"icmp slt i64 {self.n}, {count}")):
                    self.row = text.let(f"add i64 {first}, {self.n}")
                    self.body()
                    text.line(f"store i1 true, ptr {self.begun}")
                    text.line(f"store i64 {self.row}, ptr {self.before}")
            self.end()
            verbs.barrier(True)  # the memory of firsts may be that of a later turn
        return self.module_text(True, ROW, [("G", 1), ("N", 1)])

    def find_group(self, g: str) -> None:
        """Find the operands and results of a group of sequences."""
        for name, dims in self.dims.items():
            size = g
            for letter in dims:
                size = self.text.let(f"mul i64 {size}, {self.w[letter]}")
            element = "i64" if dims == "T" else memory_type(self.dtype)
            self.base[name] = self.moved(self.w[name], element, (size, "1"))

    def find_firsts(self, turn: str) -> str:
        """Write down the first row of each step, and the number of all rows; return the address."""
        text, w, pointer = self.text, self.w, self.target.pointer
        lines = text.let(f"add i64 {w['T']}, 1")
        firsts = self.moved(w["firsts"], "i64", (turn, lines))
        is_first = text.let(f"icmp eq i64 {self.verbs.number('item')}, 0")
        with text.when(is_first):
            place = self.variable("i64")
            text.line(f"store i64 0, ptr {place}")
            text.line(f"store i64 0, {pointer} {firsts}")
            with self.loop("0", w["T"]) as t:
                first = text.let(f"load i64, ptr {place}")
                size = text.let(
                    f"load i64, {pointer} {self.moved(self.base['sizes'], 'i64', (t, '1'))}"
                )
                left = text.let(f"sub i64 {w['R']}, {first}")
                for most in (w["N"], left):
                    size = text.let(f"call i64 @llvm.smin.i64(i64 {size}, i64 {most})")
                size = text.let(f"call i64 @llvm.smax.i64(i64 {size}, i64 0)")
                following = text.let(f"add i64 {first}, {size}")
                text.line(f"store i64 {following}, ptr {place}")
                after = self.moved(firsts, "i64", (t, "1"), ("1", "1"))
                text.line(f"store i64 {following}, {pointer} {after}")
        self.verbs.barrier(True)
        return firsts

    def step(self, firsts: str, t: str) -> tuple[str, str]:
        """The first row of a step, and the number of rows."""
        text, pointer = self.text, self.target.pointer
        after = text.let(f"add i64 {t}, 1")
        first, following = (
            text.let(f"load i64, {pointer} {self.moved(firsts, 'i64', (place, '1'))}")
            for place in (t, after)
        )
        return first, text.let(f"sub i64 {following}, {first}")

    @contextmanager
    def units(self, extent: str = "H") -> Iterator[None]:
        """A loop over the units of this work item."""
        with self.shares("0", self.w[extent]) as unit:
            self.unit = unit
            yield

    def clear_rest(self, firsts: str) -> None:
        """Write 0 to the rows behind the last step; the first sequence does so."""
        text, w = self.text, self.w
        rows = [name for name in RESULTS[self.op].split() if self.dims[name][0] == "R"]
        with text.when(text.let(f"icmp eq i64 {self.n}, 0")):
            end = self.moved(firsts, "i64", (w["T"], "1"))
            end = text.let(f"load i64, {self.target.pointer} {end}")
            with self.loop(end, w["R"]) as row:
                self.row = row
                for name in rows:
                    with self.units(self.dims[name][1]):
                        self.put_here(name, self.b.number(0, self.dtype))

    # -- the ops --------------------------------------------------------------------------------

    @property
    def kept(self) -> dict[str, tuple[str, str]]:
        """The rows of states and the states before all steps, by the result with the last ones."""
        rows = "x" if self.op == "steps_before" else "states"
        kept = {"last": (rows, "start"), "last_memory": ("memories", "first")}
        return {name: kept[name] for name in RESULTS[self.op].split() if name in kept}

    @property
    def is_back(self) -> bool:
        """Whether states are added to, unit by unit, and not kept as rows."""
        return self.op.endswith("_back")

    def begin(self) -> None:
        """Begin at the states before all steps."""
        self.text.line(f"store i1 false, ptr {self.begun}")
        self.text.line(f"store i64 0, ptr {self.before}")
        if self.is_back:
            with self.units():
                for name, (_, first) in self.kept.items():
                    value = self.read(first, self.n, self.unit)
                    self.b.store(value, self.at(name, self.n, self.unit))

    def end(self) -> None:
        """Write the last states."""
        if self.is_back:
            return
        for name, (rows, first) in self.kept.items():
            line = self.earlier(rows, first)
            with self.units():
                value = self.of_line(line, self.unit)
                self.b.store(value, self.at(name, self.n, self.unit))

    def body(self) -> None:
        """Write a step of the sequence."""
        if self.is_back:
            self.step_back()
            return
        rows, first = self.kept["last"]
        line = self.earlier(rows, first)
        memory = self.earlier("memories", "first") if "last_memory" in self.kept else ""
        with self.units():
            getattr(self, f"_{self.op}")(line, memory)
        self.verbs.barrier(True)

    def _steps_before(self, line: str, memory: str) -> None:
        self.put_here("before", self.of_line(line, self.unit))

    def _rnn_scan(self, line: str, memory: str) -> None:
        total = self.b.add(self.here("x"), self.by_weight(line, 0))
        zero = self.b.number(0, self.dtype)
        self.put_here("states", self.b.maximum(zero, total) if self.relu else self.tanh(total))

    def _gru_scan(self, line: str, memory: str) -> None:
        b, sums = self.b, []
        for gate in range(3):
            bias = self.read("bias", "", self.unit, gate)
            sums.append(b.add(self.by_weight(line, gate), bias))
            self.put_here("sums", sums[gate], gate)
        r, z = (self.sigmoid(b.add(self.here("x", k), sums[k])) for k in (0, 1))
        n = self.tanh(b.add(self.here("x", 2), b.mul(r, sums[2])))
        self.put_here("states", b.add(n, b.mul(z, b.sub(self.of_line(line, self.unit), n))))

    def _lstm_scan(self, line: str, memory: str) -> None:
        b, sums = self.b, []
        for gate in range(4):
            sums.append(b.add(self.here("x", gate), self.by_weight(line, gate)))
            self.put_here("sums", sums[gate], gate)
        i, f, g, o = sums
        kept = b.mul(self.sigmoid(f), self.of_line(memory, self.unit))
        c = b.add(kept, b.mul(self.sigmoid(i), self.tanh(g)))
        self.put_here("memories", c)
        self.put_here("states", b.mul(self.sigmoid(o), self.tanh(c)))

    def parts(self, line: str) -> list[SsaValue]:
        """The products of each k with a = x + s weight.T, which is written."""
        b, parts = self.b, []
        for gate in range(self.gates):
            a = b.add(self.here("x", gate), self.by_weight(line, gate))
            self.put_here("a", a, gate)
            parts.append(b.mul(self.here(f"k{gate}"), a))
        return parts

    def _state_steps(self, line: str, memory: str) -> None:
        b = self.b
        total = b.add(self.here("y"), b.mul(self.here("z"), self.of_line(line, self.unit)))
        for part in self.parts(line):
            total = b.add(total, part)
        self.put_here("states", total)

    def _memory_steps(self, line: str, memory: str) -> None:
        b = self.b
        *parts, last = self.parts(line)
        c = b.add(self.here("y_c"), b.mul(self.here("f"), self.of_line(memory, self.unit)))
        for part in parts:
            c = b.add(c, part)
        self.put_here("memories", c)
        self.put_here("states", b.add(b.add(self.here("y_s"), last), b.mul(self.here("p"), c)))

    def step_back(self) -> None:
        """Write a step of a gradient: all units of v first, then their products by the weight."""
        b, has_memory = self.b, "last_memory" in self.kept
        with self.units():
            state = self.read("last", self.n, self.unit)
            if has_memory:
                ds = b.add(self.here("x_s"), state)
                dc = b.add(self.here("x_c"), self.read("last_memory", self.n, self.unit))
                dc = b.add(dc, b.mul(self.here("p"), ds))
                self.put_here("ds", ds)
                self.put_here("dc", dc)
                factors = [dc, dc, dc, ds]
            else:
                d = b.add(self.here("x"), state)
                self.put_here("d", d)
                factors = [d] * self.gates
            for gate, factor in enumerate(factors):
                v = b.add(b.mul(self.here(f"k{gate}"), factor), self.here("y", gate))
                self.put_here("v", v, gate)
        self.verbs.barrier(True)
        with self.units():
            state = self.total(
                self.w["J"],
                lambda i: b.mul(self.read("v", self.row, i), self.read("weight", i, self.unit)),
            )
            if has_memory:
                memory = b.mul(self.here("f"), self.here("dc"))
                b.store(memory, self.at("last_memory", self.n, self.unit))
            else:
                state = b.add(state, b.mul(self.here("z"), self.here("d")))
            b.store(state, self.at("last", self.n, self.unit))
