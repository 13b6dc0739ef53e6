"""The inner loops of one phase of a nest: vectors of elements, and the folds along them."""

from __future__ import annotations

from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.kernel_code import KernelCode
from wend._engine.compiler.codegen.nest_prefetch import Traffic
from wend._engine.compiler.codegen.phase import Phase
from wend._engine.compiler.codegen.scalar_ops import ElementCode, identity_of
from wend._engine.compiler.ir.loops import FOLD, MAP, SCATTER, Fold, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type, register_type, vector_type
from wend._engine.compiler.llvm_ir.vector_builder import first_lanes
from wend._engine.compiler.schedule.loop_order import Access

#: The least ops of a phase in which vectors side by side are folded into a single total. Registers
#: are scarce then, and a total is ready again long before the next turn.
MANY = 3
#: After so many turns, totals of float32 are added to a float64: totals of many elements would lose
#: ever more of each further element.
TURNS = 64


class PhaseCode(Phase):
    """Writes the inner loops of one phase."""

    def __init__(self, code: KernelCode, traffic: Traffic, ops: list[Op], again: set[int]) -> None:
        """again: the values of earlier phases that are read back"""
        super().__init__(code, ops)
        self.traffic = traffic
        self.again = again
        self.folds = [op for op in ops if op.kind == FOLD and self.is_along(op)]
        self.sums = 1 if len(ops) >= MANY else self.copies  # totals of a fold, side by side
        self.totals: dict[tuple[int, int], str] = {}
        self.settled: dict[int, str] = {}  # the totals of folds in float64
        self.unfolded: dict[int, list[SsaValue]] = {}  # fold -> vectors of a turn, not yet folded
        self.fixed: dict[Any, SsaValue] = {}
        self.operands: list[tuple[Op, list[Any]]] = []  # each op, with the keys of its operands
        self.loaded: dict[Any, Access] = {}
        self.waiting = set(self.nest.kept).difference(self.nest.stores)
        self._places: dict[int, SsaValue] = {}
        self._inside: dict[Any, SsaValue] = {}

    def is_along(self, op: Op) -> bool:
        """Whether a fold goes along the vectors."""
        loops = self.nest.loops[op.out]
        return any(loops[d] == self.axis for d in op.reduced)

    # -- loops ------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the loops, and the folds' totals before and after the loops."""
        code = self.code
        row_folds = [op for op in self.folds if op.out in self.nest.row_folds]
        for op in row_folds:
            self.start(op)
        if any(map(self.settles, row_folds)) and len(self.nest.inner) > 1:
            self.lines_in_blocks(row_folds)
        else:
            code.loops(self.nest.inner[:-1], self.line)
        for op in row_folds:
            value = self.finish(op)
            code.rows[op.out] = value
            if op.out in self.nest.stores:
                code.store_row(value, self.nest.stores[op.out])

    def lines_in_blocks(self, row_folds: list[Op]) -> None:
        """Write the loops over lines, whose totals are settled after every so many elements."""
        text, code, counter = self.text, self.code, self.code.alloca("i64")
        text.line(f"store i64 0, ptr {counter}")
        first, last = code.bounds(self.axis)
        size = text.let(f"sub i64 {last}, {first}")
        # A line that is shorter than a vector takes a turn, too.
        size = text.let(f"call i64 @llvm.smax.i64(i64 {size}, i64 {code.lanes})")

        def line() -> None:
            self.line()
            count = text.let(f"add i64 {text.let(f'load i64, ptr {counter}')}, {size}")
            text.line(f"store i64 {count}, ptr {counter}")
            most = TURNS * self.copies * code.lanes
            with text.when(text.let(f"icmp sge i64 {count}, {most}")):
                text.line(f"store i64 0, ptr {counter}")
                self.settle(row_folds)

        code.loops(self.nest.inner[:-1], line)

    def line(self) -> None:
        """Write the loop along the vectors."""
        code, text = self.code, self.text
        late = [op for op in self.folds if op.out not in self.nest.row_folds]
        for op in late:
            self.start(op)
        begin, extent = code.bounds(self.axis)
        self.prepare(begin)
        counter = code.alloca("i64")
        text.line(f"store i64 {begin}, ptr {counter}")
        wide = self.copies * code.lanes

        def whole_turns(end: str) -> None:
            if any(map(self.settles, self.folds)):
                self.blocks(counter, end, extent, wide)
            else:
                self.loop(counter, end, str(wide), self.copies, masked=False)

        if self.streams and self.traffic.gathers:
            self.traffic.gather(self, counter, extent, wide, whole_turns)
        else:
            whole_turns(extent)
        self.loop(counter, extent, str(code.lanes), 1, masked=True)
        for op in late:
            value = self.finish(op)
            code.add_to_memory(op, value, code.address(self.nest.stores[op.out], self.around))

    def blocks(self, counter: str, end: str, extent: str, wide: int) -> None:
        """Write a loop over whole turns up to an element; totals are settled after each block.

        The last block of a line is not settled: most lines are no longer than a block.

        counter, extent: see `loop`, for the whole line
        end: the end of the turns     wide: the elements of a turn
        """
        text = self.text
        head, done = text.fresh("block"), text.fresh("done")
        text.line(f"br label {head}")
        text.label(head)
        last = text.let(f"add i64 {text.let(f'load i64, ptr {counter}')}, {TURNS * wide}")
        last = text.let(f"call i64 @llvm.smin.i64(i64 {last}, i64 {end})")
        self.loop(counter, last, str(wide), self.copies, masked=False)
        following = text.let(f"add i64 {text.let(f'load i64, ptr {counter}')}, {wide}")
        with text.when(text.let(f"icmp sle i64 {following}, {extent}")):
            self.settle(self.folds)
        more = text.let(f"icmp sle i64 {following}, {end}")
        text.line(f"br i1 {more}, label {head}, label {done}")
        text.label(done)

    def loop(self, counter: str, extent: str, step: str, copies: int, masked: bool) -> None:
        """Write a loop over whole vectors, or over the remaining elements with a mask.

        counter: the address of the next element's number
        extent: the end of the elements
        step: the elements of a turn
        copies: the vectors side by side
        """
        text, code = self.text, self.code
        head, inside, done = (text.fresh(n) for n in ("head", "body", "done"))
        text.line(f"br label {head}")
        text.label(head)
        i = text.let(f"load i64, ptr {counter}")
        end = i if masked else text.let(f"add i64 {i}, {step}")
        order = "slt" if masked else "sle"
        more = text.let(f"icmp {order} i64 {end}, {extent}")
        text.line(f"br i1 {more}, label {inside}, label {done}")
        text.label(inside)
        mask = None
        if masked and code.lanes > 1:
            left = text.let(f"sub i64 {extent}, {i}")
            mask = first_lanes(text, left, code.lanes)
        self.index = i
        self.builders = [
            VectorBuilder(text, code.module, code.lanes, code.target, code.faults, mask)
            for _ in range(copies)
        ]
        self._places, self._inside = {}, {}
        if not masked:
            self.traffic.fetch(self)
        self.elements(copies)
        following = text.let(f"add i64 {i}, {step}")
        text.line(f"store i64 {following}, ptr {counter}")
        text.line(f"br label {head}")
        text.label(done)

    def prepare(self, begin: str) -> None:
        """Compute addresses, and load operands that stay the same along the vectors.

        begin: the first element of the loop
        """
        code, nest = self.code, self.nest
        b = VectorBuilder(self.text, code.module, code.lanes, code.target, code.faults)
        self.fixed, self.where = {}, {}
        for op in self.ops:
            for k in range(len(op.reads)):
                value = nest.inside.get((op.out, k))
                if value is not None:
                    if value in code.rows and value not in self.fixed:
                        row = code.rows[value]
                        self.fixed[value] = (
                            b.spread(row.name, row.dtype)
                            if not row.is_constant
                            else b.convert(self._constant(b, row), row.dtype)
                        )
                    continue
                access = nest.loads.get((op.out, k))
                if access is None:
                    number = code.function.uniform[code.function.base(op.reads[k].value)]
                    self.fixed[op.out, k] = code.uniform(b, *number)
                    continue
                if access.row >= 0:
                    code.row_place = code.checked(self.index_of_row(op, access), access)
                where = code.address(access, self.around)
                if access.strides[self.axis] == ZERO and not access.shifts:
                    scalar = code.scalar.load(where, access.dtype)
                    self.fixed[op.out, k] = b.spread(scalar.name, scalar.dtype)
                else:
                    self.where[id(access)] = where
            store = nest.stores.get(op.out)
            if store is not None and op not in self.folds:
                if op.kind == SCATTER:
                    code.row_place = code.checked(self.index_of_row(op, store), store)
                where = self.where[id(store)] = code.address(store, self.around)
                if op.kind == MAP and self.traffic.may_stream(store):
                    self.streams[id(store)] = self.traffic.streams(store, where, begin)
        for value in self.again:
            if value in nest.stores:
                self.where[id(nest.stores[value])] = code.address(nest.stores[value], self.around)
        self.following = self.traffic.next_rows(self)
        self.find_operands()

    def _constant(self, b: VectorBuilder, row: SsaValue) -> SsaValue:
        """Return a vector with a scalar constant in every lane."""
        return b.spread(row.name, row.dtype)

    def index_of_row(self, op: Op, access: Access) -> SsaValue:
        """Return the index of the row that an access reads: the same along the vectors."""
        value = self.nest.inside.get((op.out, access.row))
        if value is not None:
            return self.code.rows[value]
        index = self.nest.loads.get((op.out, access.row))
        if index is None:
            base = self.code.function.base(op.reads[access.row].value)
            return self.code.uniform(self.code.scalar, *self.code.function.uniform[base])
        return self.code.scalar.load(self.code.address(index, self.around), index.dtype)

    # -- elements ---------------------------------------------------------------------------

    def elements(self, copies: int) -> None:
        """Write all ops of the phase, on `copies` vectors side by side."""
        vectors = [dict(self.fixed) for _ in range(copies)]
        for again in sorted(self.again):
            for c, known in enumerate(vectors):
                known[again] = self.read_back(again, c)
        # All operands are read before any result is written: both may have the same memory.
        for key, access in self.loaded.items():
            for c, known in enumerate(vectors):
                known[key] = self.load(access, c)
        stores = self.nest.stores
        for op, keys in self.operands:
            values = []
            for c, known in enumerate(vectors):
                value = self.element(op, c, [known[key] for key in keys])
                if value is not None:
                    known[op.out] = value
                    values.append(value)
            if values and op.out in stores and self.nest.phase[op.out] == self.phase:
                self.keep(stores[op.out], values)

    def keep(self, access: Access, values: list[SsaValue]) -> None:
        """Store the vectors of a result, side by side."""
        stream = self.streams.get(id(access))
        if stream is not None and self.builders[0].mask is None:
            self.traffic.store(self, access, values, stream)
            return
        for c, value in enumerate(values):
            self.store(access, value, c)

    def element(self, op: Op, c: int, operands: list[SsaValue]) -> SsaValue | None:
        """Write an op on vector `c`. Returns the result, or None if it was folded."""
        assert op.emit is not None
        value: SsaValue = op.emit(ElementCode(self.code, op, self.builders[c], self, c), operands)
        if op.kind == MAP:
            out = op.out
            if out in self.waiting and self.nest.phase[out] == self.phase:
                self.builders[c].store(value, self.kept_address(out, c))
            return value
        if op.kind == FOLD and op in self.folds:
            self.fold(op, value, c)
        else:
            self.add_vector(op, value, c)
        return None

    def find_operands(self) -> None:
        """Find the key of each op's operands: a value of the nest, a fixed value, or a load."""
        inside, loads = self.nest.inside, self.nest.loads
        self.loaded, self.operands = {}, []
        for op in self.ops:
            out, keys = op.out, []
            for k in range(len(op.reads)):
                key: Any = out, k
                if key in inside:
                    key = inside[key]
                elif key not in self.fixed:
                    access = loads[key]
                    row = id(access) if access.row >= 0 else -1
                    key = access.base, access.offset, tuple(access.strides), row, access.shifts
                    self.loaded.setdefault(key, access)
                keys.append(key)
            self.operands.append((op, keys))

    def places(self, c: int) -> SsaValue:
        """The numbers of the elements of vector `c`, as int64."""
        numbers = self._places.get(c)
        if numbers is None:
            b = self.builders[c]
            first = b.spread(self.position(c), dtypes.int64)
            if b.lanes == 1:
                numbers = first
            else:
                steps = ", ".join(f"i64 {k}" for k in range(b.lanes))
                numbers = b.add(first, SsaValue(f"<{steps}>", dtypes.int64))
            self._places[c] = numbers
        return numbers

    def inside(self, shifts: Any, c: int) -> SsaValue:
        """The lanes of vector `c` in which a shifted operand has elements."""
        mask = self._inside.get((shifts, c))
        if mask is not None:
            return mask
        b = self.builders[c]
        for axis, first, count in shifts:
            if axis == self.axis and b.lanes > 1 and not self.code.target.masks:
                here = self._lanes_inside(c, self.code.poly(first), self.code.poly(count))
                mask = here if mask is None else b.bitwise_and(mask, here)
                continue
            if axis == self.axis:
                place = self.places(c)
            else:
                place = b.spread(self.code.counters.get(axis, "0"), dtypes.int64)
            start = b.spread(self.code.poly(first), dtypes.int64)
            length = b.spread(self.code.poly(count), dtypes.int64)
            place = b.sub(place, start)
            here = b.bitwise_and(b.ge(place, b.number(0, dtypes.int64)), b.lt(place, length))
            mask = here if mask is None else b.bitwise_and(mask, here)
        assert mask is not None
        self._inside[shifts, c] = mask
        return mask

    def _lanes_inside(self, c: int, first: str, count: str) -> SsaValue:
        """The lanes of vector `c` whose elements are first ... first + count - 1.

        Where masks take whole vectors, comparing 64-bit places would take twice as long as the
        load.
        """
        text, lanes = self.text, self.builders[c].lanes
        begin = text.let(f"sub i64 {first}, {self.position(c)}")
        end = text.let(f"add i64 {begin}, {count}")
        lower, upper = (
            first_lanes(text, text.let(f"call i64 @llvm.smax.i64(i64 {x}, i64 0)"), lanes)
            for x in (begin, end)
        )
        return SsaValue(text.let(f"xor <{lanes} x i1> {lower}, {upper}"), dtypes.bool_)

    def count(self, access: Access, c: int) -> str | SsaValue:
        """The numbers of the elements of vector `c`, see `ElementCode.count`."""
        first = self.code.count(access, self.around)
        b, stride = self.builders[c], access.strides[self.axis]
        if stride == ONE or b.lanes == 1:
            step = self.code.poly(stride)
            part = self.position(c)
            part = part if step == "1" else self.text.let(f"mul i64 {part}, {step}")
            return self.text.let(f"add i64 {first}, {part}")
        apart = b.mul(self.places(c), b.spread(self.code.poly(stride), dtypes.int64))
        return b.add(b.spread(first, dtypes.int64), apart)

    def load(self, access: Access, c: int) -> SsaValue:
        """Load vector `c` of an access."""
        b, code = self.builders[c], self.code
        mask = b.mask
        if access.shifts:
            inside = self.inside(access.shifts, c)
            b = VectorBuilder(self.text, code.module, b.lanes, code.target, code.faults, b.mask)
            both = inside.name
            if mask is not None:
                both = self.text.let(f"and <{b.lanes} x i1> {mask}, {both}")
            b.mask = both
        stride = access.strides[self.axis]
        where = self.where[id(access)]
        if b.lanes == 1:
            return self._single(b, access, where, c)
        if stride == ONE:
            place = self.at(where, memory_type(access.dtype), self.position(c))
            return b.load(place, access.dtype)
        return b.gather(self.pointers(access, where, c), access.dtype)

    def _single(self, b: VectorBuilder, access: Access, where: str, c: int) -> SsaValue:
        """Load an element; outside of the operand, the element at a safe address is read."""
        stride = access.strides[self.axis]
        if stride == ONE:
            where = self.at(where, memory_type(access.dtype), self.position(c))
        elif stride != ZERO:
            where = self.pointers(access, where, c)
        if access.shifts:
            safe = self.code.word(self.code.slots.pointer(access.base, ZERO), "ptr")
            kind = self.code.target.pointer
            where = self.text.let(f"select i1 {b.mask}, {kind} {where}, {kind} {safe}")
        return b.load(where, access.dtype)

    def pointers(self, access: Access, where: str, c: int) -> str:
        """The addresses of the elements of vector `c`, which are not neighbours."""
        b = self.builders[c]
        step = b.spread(self.code.poly(access.strides[self.axis]), dtypes.int64)
        apart = b.mul(self.places(c), step)
        element = memory_type(access.dtype)
        kind = vector_type("i64", b.lanes)
        return self.at(where, element, apart.name, kind)

    def at(self, where: str, element: str, place: str, kind: str = "i64") -> str:
        """The address of an element, or of each of several; place: the number, of type `kind`."""
        pointer = self.code.target.pointer
        return self.text.let(f"getelementptr {element}, {pointer} {where}, {kind} {place}")

    def store(self, access: Access, value: SsaValue, c: int) -> None:
        """Store vector `c` of an access."""
        b = self.builders[c]
        where = self.where[id(access)]
        element = memory_type(access.dtype)
        if access.strides[self.axis] == ONE or b.lanes == 1:
            place = (
                self.at(where, element, self.position(c))
                if access.strides[self.axis] == ONE
                else self.pointers(access, where, c)
            )
            b.store(value, place)
            return
        b.scatter(value, self.pointers(access, where, c))

    def kept_address(self, value: int, c: int) -> str:
        """The address at which vector `c` of a value is kept for later phases."""
        base, dtype = self.code.kept[value]
        text = self.text
        place = self.position(c)
        line = ""
        for axis in self.nest.inner[:-1]:
            counter = self.code.counters[axis]
            if line:
                line = text.let(f"mul i64 {line}, {self.code.poly(self.nest.extents[axis])}")
                line = text.let(f"add i64 {line}, {counter}")
            else:
                line = counter
        if line:
            line = text.let(f"mul i64 {line}, {self.code.poly(self.nest.extents[self.axis])}")
            place = text.let(f"add i64 {line}, {place}")
        return self.at(base, memory_type(dtype), place)

    def read_back(self, value: int, c: int) -> SsaValue:
        """Load vector `c` of a value that an earlier phase computed."""
        b = self.builders[c]
        if value in self.nest.stores:
            return self.load(self.nest.stores[value], c)
        return b.load(self.kept_address(value, c), self.code.kept[value][1])

    # -- folds ------------------------------------------------------------------------------

    def start(self, op: Op) -> None:
        """Set the totals of a fold to its identity."""
        fold = op.fold
        assert fold is not None
        kind = vector_type(register_type(fold.dtype), self.code.lanes)
        b = VectorBuilder(self.text, self.code.module, self.code.lanes, self.code.target)
        identity = b.number(identity_of(fold.identity, fold.dtype), fold.dtype)
        for c in range(self.sums):
            total = self.totals.setdefault((op.out, c), self.code.alloca(kind))
            self.text.line(f"store {kind} {identity.name}, ptr {total}")
        if self.settles(op):
            double = vector_type("double", self.code.lanes)
            total = self.settled.setdefault(op.out, self.code.alloca(double))
            wide = b.number(identity_of(fold.identity, dtypes.float64), dtypes.float64)
            self.text.line(f"store {double} {wide.name}, ptr {total}")

    def settles(self, op: Op) -> bool:
        """Whether totals of a fold are added to a float64 now and then.

        An accelerator may have no float64. Its sums are in parts, one for each work item.
        """
        fold = op.fold
        assert fold is not None
        return fold.is_sum and fold.dtype is dtypes.float32 and not self.code.target.is_device

    def settle(self, ops: list[Op]) -> None:
        """Add the totals of folds to float64, and set them to the identities."""
        text, code = self.text, self.code
        b = VectorBuilder(text, code.module, code.lanes, code.target)
        kind, double = (vector_type(t, code.lanes) for t in ("float", "double"))
        for op in filter(self.settles, ops):
            assert op.fold is not None
            part = b.convert(self.total(b, op), dtypes.float64)
            place = self.settled[op.out]
            before = SsaValue(text.let(f"load {double}, ptr {place}"), dtypes.float64)
            text.line(f"store {double} {b.add(before, part).name}, ptr {place}")
            zero = b.number(identity_of(op.fold.identity, dtypes.float32), dtypes.float32)
            for c in range(self.sums):
                text.line(f"store {kind} {zero.name}, ptr {self.totals[op.out, c]}")

    def total(self, b: VectorBuilder, op: Op) -> SsaValue:
        """Return the totals of a fold in a single vector."""
        fold, text = op.fold, self.text
        assert fold is not None
        kind = vector_type(register_type(fold.dtype), b.lanes)
        totals = [text.let(f"load {kind}, ptr {self.totals[op.out, c]}") for c in range(self.sums)]
        return folded(b, fold, [SsaValue(total, fold.dtype) for total in totals])

    def fold(self, op: Op, value: SsaValue, c: int) -> None:
        """Fold vector `c` into its total.

        Vectors side by side that share a total are folded together first.
        """
        fold, b = op.fold, self.builders[c]
        assert fold is not None
        vectors = self.unfolded.setdefault(op.out, [])
        vectors.append(value)
        if self.sums == 1 and len(vectors) < len(self.builders):
            return
        del self.unfolded[op.out]
        value = folded(b, fold, vectors)
        kind = vector_type(register_type(fold.dtype), b.lanes)
        total = self.totals[op.out, c % self.sums]
        before = SsaValue(self.text.let(f"load {kind}, ptr {total}"), fold.dtype)
        after = fold.combine(b, before, value)
        if b.mask is not None:
            after = b.select(SsaValue(b.mask, dtypes.bool_), after, before)
        self.text.line(f"store {kind} {after.name}, ptr {total}")

    def finish(self, op: Op) -> SsaValue:
        """Fold all lanes of all totals, and return a scalar of the result's dtype."""
        fold, code, text = op.fold, self.code, self.text
        assert fold is not None
        b = VectorBuilder(text, code.module, code.lanes, code.target, code.faults)
        kind = vector_type(register_type(fold.dtype), code.lanes)
        value = self.total(b, op)
        if self.settles(op):
            double = vector_type("double", code.lanes)
            settled = text.let(f"load {double}, ptr {self.settled[op.out]}")
            value = b.add(b.convert(SsaValue(settled, dtypes.float64), dtypes.float32), value)
        half = code.lanes // 2
        while half:
            order = ", ".join(f"i32 {(k + half) % code.lanes}" for k in range(code.lanes))
            other = text.let(
                f"shufflevector {kind} {value.name}, {kind} poison, <{code.lanes} x i32> <{order}>"
            )
            value = fold.combine(b, value, SsaValue(other, fold.dtype))
            half //= 2
        if code.lanes > 1:
            value = SsaValue(text.let(f"extractelement {kind} {value.name}, i64 0"), fold.dtype)
        return code.scalar.convert(value, code.function.dtypes[op.out])

    def add_vector(self, op: Op, value: SsaValue, c: int) -> None:
        """Fold vector `c` into neighbouring elements in memory."""
        b, fold = self.builders[c], op.fold
        assert fold is not None
        access = self.nest.stores[op.out]
        before = b.convert(self.load(access, c), fold.dtype)
        after = b.convert(fold.combine(b, before, value), access.dtype)
        self.store(access, after, c)


def folded(b: VectorBuilder, fold: Fold, vectors: list[SsaValue]) -> SsaValue:
    """Fold vectors pair by pair, and return the result."""
    while len(vectors) > 1:
        vectors = [fold.combine(b, x, y) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]
