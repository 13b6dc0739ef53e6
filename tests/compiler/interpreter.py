"""A slow interpreter of the compiler's passes: what each hands on is run, element by element.

It does what machine code would do, in the same order: nests by phases with the elements of a few
lanes side by side, products with their tails, values in an arena at the places that lifetimes
allow, results over leaves that are given away. What is wrong in a schedule makes wrong numbers
here, without any machine code. Memory that nobody has written to holds no numbers. Before memory is
placed, each value has memory of its own; before ops are fused, each op is a nest by itself.

    Machine(value of a pass, types of leaves, args, lanes).run(leaves) -> {needed value: array}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as turns_of
from math import prod
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.scalar_ops import NUMBER_TYPES, identity_of
from wend._engine.compiler.ir.loops import (
    CONTRACT,
    FOLD,
    HOST,
    MAP,
    NESTED,
    SCATTER,
    Function,
    Op,
)
from wend._engine.compiler.ir.symbolic_extents import Poly
from wend._engine.compiler.schedule.epilogue_ops import Tail, head_of, may_have_tail, place_head
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.schedule.loop_order import Access, Nest
from wend._engine.compiler.stages import CompiledPath, Emitted, Fused, Lowered, Ordered, Result
from wend._engine.core import _types, symbolic
from wend._engine.runtime.compiled.arena import place_all
from wend._engine.runtime.numpy_executor.numpy_builder import NumpyBuilder
from wend._engine.runtime.numpy_executor.runners import runner_of


class Builder(NumpyBuilder):
    """The instructions on NumPy arrays, and those that only generated code asks for."""

    def number(self, value: Any, dtype: Any) -> Any:
        return np.asarray(value).astype(dtype.numpy)

    def spread(self, value: Any, dtype: Any) -> Any:
        return np.asarray(value).astype(dtype.numpy)

    def exp_of_negative(self, x: Any) -> Any:
        return np.exp(x)


class Machine:
    """The value of a pass, from `Lowered` on, bound to sizes.

    types: the types of the path's values, of which those of leaves count
    lanes: the elements of the fastest loop that are computed side by side
    donate: whether results take the memory of the leaves that they may have
    """

    def __init__(
        self, code: Lowered, types: Sequence[Any], args: Sequence[Any], lanes: int, donate: bool
    ) -> None:
        self.code, self.function = code, code.function
        self.parts = list(parts_of(code))
        self.types, self.args = types, args
        self.lanes, self.donate = lanes, donate
        self.b = Builder()
        self.atoms: dict[int, int] = {}
        self.memory: dict[int, Any] = {}

    # -- numbers ----------------------------------------------------------------------------------

    def value(self, p: Poly) -> int:
        """Return the value of a polynomial."""
        return sum(factor * prod(map(self.atom, monomial)) for monomial, factor in p)

    def atom(self, atom: int) -> int:
        found = self.atoms.get(atom)
        if found is None:
            key = self.function.extents.atoms[atom]
            if key[0] == "dim":
                found = int(self.types[key[1]].shape[key[2]])
            elif key[0] == "arg":
                found = int(self.args[key[1]])
            else:
                found = int(symbolic.apply_binary(key[0], self.value(key[1]), self.value(key[2])))
            self.atoms[atom] = found
        return found

    def number(self, expr: Any, category: int) -> Any:
        """Return a run-time number, or a constant, as float64, int64 or bool."""
        found = _types.evaluate(expr, list(self.types), list(self.args))
        return np.asarray(found).astype(NUMBER_TYPES[category].numpy)

    def uniform(self, i: int) -> Any:
        """Return the number that a value holds everywhere."""
        expr, dtype, category = self.function.uniform[i]
        return self.b.convert(self.number(expr, category), dtype)

    # -- memory -----------------------------------------------------------------------------------

    def fits(self) -> bool:
        """Whether these sizes are for kernels: none of certain extents is 0."""
        groups = getattr(self.code, "nonempty", self.function.nonempty)
        return all(self.value(n) for together in groups for n in together)

    def place(self, leaves: dict[int, Any]) -> None:
        """Give each value its memory, as a flat array."""
        f, code = self.function, self.code
        self.memory = {i: np.array(leaves[i]).reshape(-1) for i in f.inputs}
        if not isinstance(code, CompiledPath):
            for op in f.ops:
                for i in op.outputs if op.kind != HOST else ():
                    self.memory[i] = self.empty(i)
            return
        lives = code.lifetimes
        wanted = [(i, self.value(n), first, last) for i, (n, first, last) in lives.items()]
        places, total = place_all(wanted)
        arena = np.full(total + 64, 0xFF, np.uint8)
        for i in [*lives, *code.homes]:
            at, size = places[code.homes.get(i, i)], self.value(f.bytes_of(i))
            self.memory[i] = arena[at : at + size].view(f.dtypes[i].numpy)
        for result in code.results:
            leaf = code.donations.get(result.value) if self.donate else None
            if result.owns and leaf is not None:
                self.memory[result.base] = self.memory[leaf]
            elif result.owns:
                self.memory[result.base] = self.empty(result.base)

    def empty(self, i: int) -> Any:
        """Return memory for a value, without numbers."""
        size = self.value(self.function.bytes_of(i))
        return np.full(size, 0xFF, np.uint8).view(self.function.dtypes[i].numpy)

    def shown(self, base: int, shape: Any, strides: Any, offset: Any) -> Any:
        """Return elements of a value's memory; each of them lies inside."""
        memory, first = self.memory[base], self.value(offset)
        shape, strides = tuple(map(self.value, shape)), tuple(map(self.value, strides))
        if 0 in shape:
            return np.empty(shape, memory.dtype)
        places = np.full(shape, first)
        for d, (n, stride) in enumerate(zip(shape, strides, strict=True)):
            places += (np.arange(n) * stride).reshape((-1,) + (1,) * (len(shape) - d - 1))
        assert places.min() >= 0 and places.max() < memory.size, f"%{base}: beyond its memory"
        size = memory.itemsize
        found = np.lib.stride_tricks.as_strided(memory[first:], shape, [s * size for s in strides])
        return found

    def array(self, i: int) -> Any:
        """Return the elements of a value."""
        layout = self.function.layout(i)
        return self.shown(layout.base, self.function.shape(i), layout.strides, layout.offset)

    # -- steps ------------------------------------------------------------------------------------

    def run(self, leaves: dict[int, Any]) -> dict[int, Any]:
        """Run all parts; return the results."""
        self.place(leaves)
        with np.errstate(all="ignore"):
            for part in self.parts:
                if isinstance(part, Nest):
                    NestRun(self, part).run()
                elif part.kind == CONTRACT:
                    self.contract(part)
                else:
                    for op in part.ops:
                        self.whole(op, op.kind != HOST)
        found = {}
        for i in self.function.outputs:
            r = Result(i, self.function.layout(self.function.resolve(i)).base, True, self.function)
            found[r.value] = np.array(self.shown(r.base, r.shape, r.strides, r.offset))
        return found

    def whole(self, op: Op, placed: bool) -> None:
        """Run an op's reference rule. placed: whether the results have memory"""
        f = self.function
        arrays = [np.array(self.array(read.value)) for read in op.reads]
        numbers = [_types.evaluate(e, list(self.types), list(self.args)) for e in op.node.args]
        made = runner_of(op.node.program)(arrays, numbers)
        results = [made] if op.node.prim.result_wrap() is None else list(made)
        for out, array in zip(op.outputs, results, strict=True):
            if not placed:
                self.memory[out] = np.array(array, f.dtypes[out].numpy).reshape(-1)
            elif out in self.memory:
                self.array(out)[...] = array

    def contract(self, region: Region) -> None:
        """Run a product and the tail behind it, element by element."""
        head, tail = head_of(region), Tail(self.function, region)
        p, value = head.product, self.value
        axes = [*p.batch, p.m, p.n]
        extents, depth = [value(a.extent) for a in axes], range(value(p.k.extent))
        steps = [[value(s) for s in (a.x, a.y, a.out)] for a in axes]
        kx, ky = value(p.k.x), value(p.k.y)
        for at in turns_of(*map(range, extents)):
            x, y, out = (
                value(layout.offset) + sum(i * s[j] for i, s in zip(at, steps, strict=True))
                for j, layout in enumerate((p.x, p.y, p.out))
            )
            xs, ys = ([start + k * step for k in depth] for start, step in ((x, kx), (y, ky)))
            total = self.at(p.x.base, xs) @ self.at(p.y.base, ys)
            made = {head.out: np.asarray(total)}
            place = [0] * (4 - len(at)) + list(at)
            for op in tail.ops:
                operands = [
                    self.tail_operand(tail, op, k, made, place) for k in range(len(op.reads))
                ]
                made[op.out] = op.emit(Code(self, op, None, {}), operands)
            for i in region.outputs:
                where = out if i == head.out else self.along(tail.stores[i], place)
                self.at(i, [where])
                self.memory[i][where] = made[i]

    def tail_operand(self, tail: Tail, op: Op, k: int, made: Any, place: list[int]) -> Any:
        source = tail.inside.get((op.out, k))
        if source is not None:
            return made[source]
        access = tail.loads.get((op.out, k))
        if access is None:
            return self.uniform(self.function.base(op.reads[k].value))
        return self.at(access.base, [self.along(access, place)])[0]

    def along(self, access: Access, place: list[int]) -> int:
        steps = zip(place, access.strides, strict=True)
        return self.value(access.offset) + sum(i * self.value(s) for i, s in steps)

    def at(self, base: int, places: Any) -> Any:
        """Return elements of a value's memory."""
        memory, places = self.memory[base], np.asarray(places, np.int64)
        if places.size:
            inside = places.min() >= 0 and places.max() < memory.size
            assert inside, f"%{base}: {places.tolist()} is beyond its memory of {memory.size}"
        return memory[places]


def parts_of(code: Lowered) -> Iterator[Nest | Region]:
    """Return the value of a pass as nests, and regions that are no nests, in the order to run."""
    if isinstance(code, Emitted):
        for region, step in zip([r for r in code.regions if r.ops], code.steps, strict=True):
            yield getattr(step, "nest", None) or region
    elif isinstance(code, Fused):
        for region in code.regions:
            if region.kind == "nest" and region.ops:
                known = isinstance(code, Ordered)
                yield code.nests[region.number] if known else Nest(code.function, region)
            elif region.ops:
                yield region
    else:
        for op in code.function.ops:
            region = alone(code.function, op)
            yield Nest(code.function, region) if region.kind == "nest" else region


def alone(function: Function, op: Op) -> Region:
    """Return an op as a region by itself."""
    fusion = Fusion(function)
    region = fusion.new("nest" if op.kind in NESTED else op.kind)
    if op.kind in NESTED:
        assert fusion.join(region, op, True), f"{op}: does not fit an empty nest"
    elif may_have_tail(op):
        place_head(function, region, op)
    else:
        region.ops.append(op)
    region.outputs = list(op.outputs)
    return region


class Bound(NamedTuple):
    """An access in numbers."""

    access: Access
    offset: int
    strides: list[int]


class NestRun:
    """A run of a nest: see `codegen.nest` and `codegen.inner_loop`, whose order this follows."""

    def __init__(self, machine: Machine, nest: Nest) -> None:
        self.machine, self.nest = machine, nest
        value = machine.value
        self.extents = [value(n) for n in nest.extents]
        self.bound = {
            id(a): Bound(a, value(a.offset), [value(s) for s in a.strides]) for a in nest.accesses()
        }
        self.demands = [nest.demanded(phase) for phase in range(nest.phases)]
        self.rows: dict[int, Any] = {}
        self.kept: dict[Any, Any] = {}
        self.counters: dict[int, Any] = {}

    def run(self) -> None:
        """Run all turns of the outer loops."""
        nest = self.nest
        for op in nest.region.ops:
            if op.kind == SCATTER or op in nest.late_folds():
                memory = self.machine.memory[op.out]
                memory[...] = identity_of(op.fold.identity, self.machine.function.dtypes[op.out])
        for at in turns_of(*[range(self.extents[a]) for a in nest.outer]):
            self.counters = dict(zip(nest.outer, at, strict=True))
            self.rows, self.kept = {}, {}
            for phase in range(nest.phases):
                for op in nest.region.ops:
                    if nest.is_row[op.out] and nest.phase[op.out] == phase:
                        self.row(op)
                if self.demands[phase][0]:
                    self.phase(phase)

    # -- addresses --------------------------------------------------------------------------------

    def places(self, access: Access, row: Any = 0) -> Any:
        """Return the places of an access at the counters."""
        found = self.bound[id(access)]
        steps = ((self.counters.get(a, 0), s) for a, s in enumerate(found.strides) if s)
        places = found.offset + sum(i * s for i, s in steps)
        return places + row * self.machine.value(access.row_stride)

    def load(self, access: Access, row: Any = 0) -> Any:
        """Load the elements of an access at the counters; 0 where it has none."""
        places = self.places(access, row)
        if not access.shifts:
            return self.machine.at(access.base, places)
        inside = self.inside(access.shifts)
        places, inside = np.broadcast_arrays(places, inside)
        found = np.zeros(places.shape, access.dtype.numpy)
        found[inside] = self.machine.at(access.base, places[inside])
        return found

    def inside(self, shifts: Any) -> Any:
        """Whether a shifted operand has elements at the counters."""
        found = np.asarray(True)
        for axis, first, count in shifts:
            place = self.counters.get(axis, 0) - self.machine.value(first)
            found = found & np.asarray((place >= 0) & (place < self.machine.value(count)))
        return found

    def store(self, access: Access, value: Any, row: Any = 0) -> None:
        """Store elements, in the order of the lanes."""
        places = np.broadcast_to(self.places(access, row), value.shape)
        self.machine.at(access.base, places)
        assert value.dtype == access.dtype.numpy, f"%{access.base}: {value.dtype} is stored"
        self.machine.memory[access.base][places] = value

    def checked(self, index: Any, access: Access) -> int:
        """Return the place that an index names."""
        place, n = int(index), self.machine.value(access.row_extent)
        place += n if access.row_wraps and place < 0 else 0
        assert 0 <= place < n, f"%{access.base}: index {place} of {n}"
        return place

    def combine(self, op: Op, value: Any, row: Any = 0) -> None:
        """Fold elements into memory."""
        access, fold = self.nest.stores[op.out], op.fold
        before = self.machine.b.convert(self.load(access, row), fold.dtype)
        after = fold.combine(self.machine.b, before, value)
        self.store(access, self.machine.b.convert(after, access.dtype), row)

    def operand(self, op: Op, k: int) -> Any:
        """Return an operand that is the same along the lanes."""
        source = self.nest.inside.get((op.out, k))
        if source is not None:
            return self.rows[source]
        access = self.nest.loads.get((op.out, k))
        if access is None:
            return self.machine.uniform(self.machine.function.base(op.reads[k].value))
        row = self.checked(self.operand(op, access.row), access) if access.row >= 0 else 0
        return self.load(access, row)

    # -- rows -------------------------------------------------------------------------------------

    def row(self, op: Op) -> None:
        """Run an op once for the turn of the outer loops."""
        operands = [self.operand(op, k) for k in range(len(op.reads))]
        value = op.emit(Code(self.machine, op, self, self.counters), operands)
        if op.kind == SCATTER:
            self.combine(op, value, self.checked(operands[1], self.nest.stores[op.out]))
        elif op.kind == FOLD:
            self.combine(op, value)
        else:
            self.rows[op.out] = value
            if op.out in self.nest.stores:
                self.store(self.nest.stores[op.out], value)

    # -- elements ---------------------------------------------------------------------------------

    def phase(self, phase: int) -> None:
        """Run the inner loops of a phase."""
        nest, (ops, _) = self.nest, self.demands[phase]
        axis = nest.inner[-1]
        folds = [op for op in ops if op.kind == FOLD and self.is_along(op)]
        totals = {op.out: self.identity(op) for op in folds if op.out in nest.row_folds}
        around = dict(self.counters)
        for at in turns_of(*[range(self.extents[a]) for a in nest.inner[:-1]]):
            self.counters = around | dict(zip(nest.inner, at, strict=False))
            late = [op for op in folds if op.out not in nest.row_folds]
            totals |= {op.out: self.identity(op) for op in late}
            fixed = self.hoisted(ops)
            here = dict(self.counters)
            for start in range(0, self.extents[axis], self.machine.lanes):
                end = min(start + self.machine.lanes, self.extents[axis])
                self.counters = here | {axis: np.arange(start, end)}
                self.elements(phase, totals, fixed, end - start)
            self.counters = here
            for op in late:
                self.combine(op, totals[op.out])
        self.counters = around
        for op in folds:
            if op.out in nest.row_folds:
                dtype = self.machine.function.dtypes[op.out]
                value = self.rows[op.out] = self.machine.b.convert(totals[op.out], dtype)
                if op.out in nest.stores:
                    self.store(nest.stores[op.out], value)

    def is_along(self, op: Op) -> bool:
        """Whether a fold goes along the lanes."""
        return any(self.nest.loops[op.out][d] == self.nest.inner[-1] for d in op.reduced)

    def identity(self, op: Op) -> Any:
        return self.machine.b.number(identity_of(op.fold.identity, op.fold.dtype), op.fold.dtype)

    def hoisted(self, ops: list[Op]) -> dict[Any, Any]:
        """Return the operands that stay the same along the lanes, and the rows that are named."""
        nest, fixed = self.nest, {}
        for op in ops:
            for k in range(len(op.reads)):
                source, access = nest.inside.get((op.out, k)), nest.loads.get((op.out, k))
                if source is not None:
                    if source in self.rows:
                        fixed[source] = self.rows[source]
                elif access is None:
                    fixed[op.out, k] = self.operand(op, k)
                elif access.row >= 0:
                    index = self.operand(op, access.row)
                    fixed["row", op.out, k] = self.checked(index, access)
                still = access is not None and not access.shifts
                if still and not self.bound[id(access)].strides[nest.inner[-1]]:
                    fixed[op.out, k] = self.load(access, fixed.get(("row", op.out, k), 0))
            if op.kind == SCATTER:
                fixed["row", op.out] = self.checked(self.operand(op, 1), nest.stores[op.out])
        return fixed

    def elements(self, phase: int, totals: Any, fixed: Any, count: int) -> None:
        """Run all ops of a phase on some lanes. Operands are read before results are written."""
        nest, (ops, again) = self.nest, self.demands[phase]
        inner = tuple(tuple(np.atleast_1d(self.counters[a])) for a in nest.inner)
        known = dict(fixed)
        for value in again:
            access = nest.stores.get(value)
            known[value] = self.kept[value, inner] if access is None else self.load(access)
        for op in ops:
            for k in range(len(op.reads)):
                if (op.out, k) in nest.loads and (op.out, k) not in known:
                    row = fixed.get(("row", op.out, k), 0)
                    known[op.out, k] = self.load(nest.loads[op.out, k], row)
        for op in ops:
            operands = [
                known[nest.inside.get((op.out, k), (op.out, k))] for k in range(len(op.reads))
            ]
            value = op.emit(Code(self.machine, op, self, self.counters), operands)
            if op.kind == MAP:
                known[op.out] = value
                if nest.phase[op.out] == phase:
                    if op.out in nest.kept:
                        self.kept[op.out, inner] = value
                    if op.out in nest.stores:
                        self.store(nest.stores[op.out], np.broadcast_to(value, count))
            elif op.out in totals:
                for lane in np.broadcast_to(value, count):
                    totals[op.out] = op.fold.combine(self.machine.b, totals[op.out], lane)
            else:
                self.combine(op, np.broadcast_to(value, count), fixed.get(("row", op.out), 0))


class Code:
    """The place where an element of an op is computed: see `codegen.scalar_ops.ElementCode`."""

    def __init__(self, machine: Machine, op: Op, run: Any, counters: Any) -> None:
        self.machine, self.op, self.run, self.counters = machine, op, run, counters
        self.b, self.nest = machine.b, self

    def number(self, k: int) -> Any:
        return self.machine.number(self.op.numbers[k], self.op.node.prim.categories[k])

    def uniform(self, expr: Any, dtype: Any, category: int) -> Any:
        return self.b.convert(self.machine.number(expr, category), dtype)

    def filled(self) -> Any:
        return self.uniform(*self.machine.function.uniform[self.op.out])

    def constant(self, value: float, dtype: Any) -> Any:
        return self.b.number(value, dtype)

    def size(self, k: int) -> Any:
        return self.integer(self.op.sizes[k])

    def extent(self, dim: int) -> Any:
        return self.integer(self.op.space[dim])

    def place(self, dim: int) -> Any:
        return np.asarray(self.counters.get(self.run.nest.loops[self.op.out][dim], 0), np.int64)

    def integer(self, p: Poly) -> Any:
        return np.asarray(self.machine.value(p), np.int64)

    def poly(self, p: Poly) -> Any:
        return self.machine.value(p)

    def checked_place(self, index: Any, dim: int) -> Any:
        place = self.b.convert(index, dtypes.int64)
        assert np.all((place >= 0) & (place < self.machine.value(self.op.space[dim])))
        return place

    def inside(self, k: int) -> Any:
        return self.run.inside(self.run.nest.shifts[self.op.out, k])
