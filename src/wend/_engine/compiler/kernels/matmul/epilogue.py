"""The code of a tail: the epilogue that gets a product's finished tiles (see `matmul.matmul`).

A tail is the group of elementwise ops that are fused behind a product.

    void epilogue(ptr tile, i64 rows, i64 columns, i64 row, i64 column, i64 batch0, i64 batch1,
                  ptr block)

`block` is an argument block as that of a nest: addresses, extents and numbers. Without a tile
(null) nothing is computed: the elements that the tile will need are prefetched.
"""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.kernel_code import KernelCode
from wend._engine.compiler.codegen.known_code import Written
from wend._engine.compiler.codegen.scalar_ops import ElementCode
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, scale
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.microkernel import LINE, fetch
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type
from wend._engine.compiler.llvm_ir.vector_builder import first_lanes
from wend._engine.compiler.schedule.epilogue_ops import Tail
from wend._engine.compiler.schedule.loop_order import Access

NAME = "epilogue"
_PARAMETERS = (
    "ptr %tile, i64 %rows, i64 %columns, i64 %row, i64 %column, i64 %batch0, i64 %batch1, "
    "ptr noalias %block"
)
_PLACES = ("%batch0", "%batch1", "%row", "%column")


class EpilogueCode(KernelCode):
    """Writes the function of a tail. outputs: the values that are stored"""

    def __init__(self, tail: Tail, outputs: list[int]) -> None:
        like_a_nest: Any = tail
        super().__init__(like_a_nest)
        self.tail = tail
        self.outputs = outputs
        self.starts: dict[int, str] = {}  # id of an access -> its address at the tile's beginning
        self.lines: dict[int, str] = {}  # id of an access -> its address at the row's beginning
        # (id of an access, lanes) -> a vector of its element, if it is the same in all of a row
        self.fixed: dict[tuple[int, int], SsaValue] = {}

    def write(self) -> Written:
        """Return the code of the epilogue."""
        text, tail = self.text, self.tail
        self.accesses = [*tail.loads.values(), *(tail.stores[out] for out in self.outputs)]
        for access in self.accesses:
            self.starts[id(access)] = self.start(access)
        dtype = self.function.dtypes[tail.head.out]
        tile = matmul.tile_columns(dtype.name)
        self.strips = matmul.hands_strips(dtype.name)
        line = tile * dtype.itemsize
        self.copies = tile // self.lanes  # vectors at a time
        self.before_the_tile(line)
        if not self.target.masks and self.may_repeat():
            self.pairs(line)
        apart = str(line)
        if self.strips:
            wide = text.let(f"call i64 @llvm.smax.i64(i64 %columns, i64 {tile})")
            apart = text.let(f"mul i64 {wide}, {dtype.itemsize}")
        with self.counted("0", "%rows") as i:
            sums = self.sums_of(i, apart)
            self.row_of(i)
            column = self.alloca("i64")
            text.line(f"store i64 0, ptr {column}")
            for copies in (self.copies, 1):
                self.columns(column, sums, copies, masked=False)
            self.columns(column, sums, 1, masked=True)
        text.line("ret void")
        body = f"{self.entry.render()}\n  br label %start\nstart:\n{text.render()}"
        self.module.add(NAME, f"define void @{NAME}({_PARAMETERS}) nounwind {{\n{body}\n}}")
        return Written(self.module.render(), self.slots.items)

    def before_the_tile(self, line: int) -> None:
        """Write the branch for a null tile, which prefetches short pieces of many rows.

        line: the bytes of a row of the tile
        """
        text = self.text
        ahead, there = text.fresh("ahead"), text.fresh("there")
        none = text.let("icmp eq ptr %tile, null")
        text.line(f"br i1 {none}, label {ahead}, label {there}")
        text.label(ahead)
        matrices = [a for a in self.accesses if a.strides[2] != ZERO and a.strides[3] == ONE]
        if matrices:
            with self.counted("0", "%rows") as i:
                for access in matrices:
                    step = text.let(f"mul i64 {i}, {self.poly(access.strides[2])}")
                    start = self.beyond(self.starts[id(access)], access, step)
                    self.fetch_row(start, line)
        text.line("ret void")
        text.label(there)

    def fetch_row(self, start: str, line: int) -> None:
        """Prefetch a row of an operand or result, as wide as the tile.

        line: the bytes of a row of a single tile
        """
        text = self.text
        if not self.strips:
            for offset in range(0, line, LINE):
                fetch(text, text.let(f"getelementptr i8, ptr {start}, i64 {offset}"), 2)
            return
        tile = matmul.tile_columns(self.function.dtypes[self.tail.head.out].name)
        up = text.let(f"add i64 %columns, {tile - 1}")
        with self.counted("0", text.let(f"udiv i64 {up}, {tile}")) as j:
            step = text.let(f"mul i64 {j}, {line}")
            fetch(text, text.let(f"getelementptr i8, ptr {start}, i64 {step}"), 2)

    # -- places ---------------------------------------------------------------------------------

    def start(self, access: Access) -> str:
        """The address of an access's element for the first element of the tile."""
        offset = scale(access.offset, access.dtype.itemsize)
        base = self.word(self.slots.pointer(access.base, offset), "ptr")
        total = ""
        for place, stride in zip(_PLACES, access.strides, strict=True):
            if stride == ZERO:
                continue
            part = self.text.let(f"mul i64 {place}, {self.poly(stride)}")
            total = self.text.let(f"add i64 {total}, {part}") if total else part
        return self.beyond(base, access, total) if total else base

    def beyond(self, pointer: str, access: Access, elements: str) -> str:
        """The address `elements` elements beyond a pointer."""
        kind = memory_type(access.dtype)
        return self.text.let(f"getelementptr {kind}, ptr {pointer}, i64 {elements}")

    def sums_of(self, i: str, line: str) -> str:
        """The address of row `i` of the tile. line: the bytes from row to row"""
        place = self.text.let(f"mul i64 {i}, {line}")
        return self.text.let(f"getelementptr i8, ptr %tile, i64 {place}")

    def row_of(self, i: str) -> None:
        """Compute the addresses in row `i`, and load the operands that are the same in the row."""
        self.lines, self.fixed = {}, {}
        for access in self.accesses:
            line = self.starts[id(access)]
            if access.strides[2] != ZERO:
                step = self.text.let(f"mul i64 {i}, {self.poly(access.strides[2])}")
                line = self.beyond(line, access, step)
            self.lines[id(access)] = line
        wide = [self.lanes, self.copies * self.lanes] if self.strips else [self.lanes]
        builders = [VectorBuilder(self.text, self.module, n, self.target) for n in wide]
        for access in self.tail.loads.values():
            if access.strides[3] == ZERO:
                scalar = self.scalar.load(self.lines[id(access)], access.dtype)
                for b in builders:
                    self.fixed[id(access), b.lanes] = b.spread(scalar.name, scalar.dtype)

    # -- elements -------------------------------------------------------------------------------

    def columns(self, counter: str, sums: str, copies: int, masked: bool) -> None:
        """Write the loop over columns, `copies` vectors at a time while they fit.

        counter: the address of the next column
        sums: the address of the tile's row
        masked: whether to do the remaining columns with a mask instead
        """
        text = self.text
        head, inside, done = (text.fresh(n) for n in ("head", "body", "done"))
        text.line(f"br label {head}")
        text.label(head)
        j = text.let(f"load i64, ptr {counter}")
        end = text.let(f"add i64 {j}, {copies * self.lanes}")
        more = text.let(f"icmp {'slt' if masked else 'sle'} i64 {j if masked else end}, %columns")
        text.line(f"br i1 {more}, label {inside}, label {done}")
        text.label(inside)
        mask = self.mask(j) if masked else None
        if self.strips:  # a single wide vector: LLVM interleaves the instructions of its halves
            b = VectorBuilder(text, self.module, copies * self.lanes, self.target, None, mask)
            first = [j]
        else:
            b = VectorBuilder(text, self.module, self.lanes, self.target, None, mask)
            first = [j, *(text.let(f"add i64 {j}, {c * self.lanes}") for c in range(1, copies))]
        self.vectors(b, first, sums)
        text.line(f"store i64 {end}, ptr {counter}")
        text.line(f"br label {head}")
        text.label(done)

    def may_repeat(self) -> bool:
        """Whether elements may be computed twice: no result overwrites operands read later."""
        return all(access.strides[3] == ZERO for access in self.tail.loads.values())

    def pairs(self, line: int) -> None:
        """Write the loop for rows of at most two vectors, which may overlap.

        The second vector ends with the row. Where masked stores are slow, storing some elements
        twice is cheaper.

        line: the bytes of a row of the tile
        """
        text = self.text
        pair, other = (text.fresh(n) for n in ("pair", "other"))
        low = text.let(f"icmp sge i64 %columns, {self.lanes}")
        high = text.let(f"icmp sle i64 %columns, {2 * self.lanes}")
        fit = text.let(f"and i1 {low}, {high}")
        text.line(f"br i1 {fit}, label {pair}, label {other}")
        text.label(pair)
        last = text.let(f"sub i64 %columns, {self.lanes}")
        with self.counted("0", "%rows") as i:
            sums = self.sums_of(i, str(line))
            self.row_of(i)
            b = VectorBuilder(text, self.module, self.lanes, self.target)
            self.vectors(b, ["0", last], sums)
        text.line("ret void")
        text.label(other)

    def mask(self, j: str) -> str:
        """The mask of the lanes that are in the product, from column j of the tile on."""
        return first_lanes(self.text, self.text.let(f"sub i64 %columns, {j}"), self.lanes)

    def vectors(self, b: VectorBuilder, first: list[str], sums: str) -> None:
        """Write all ops of the tail on vectors side by side.

        first: the column of the tile at which each vector begins
        sums: the address of the tile's row
        """
        tail, head = self.tail, self.tail.head
        dtype = self.function.dtypes[head.out]
        element = memory_type(dtype)
        values: list[dict[int, SsaValue]] = []
        read: list[dict[Any, SsaValue]] = [{} for _ in first]
        for j in first:
            place = self.text.let(f"getelementptr {element}, ptr {sums}, i64 {j}")
            values.append({head.out: b.load(place, dtype)})
        for op in tail.ops:
            assert op.emit is not None
            for c, j in enumerate(first):
                operands = [
                    self.operand(b, op, k, j, values[c], read[c]) for k in range(len(op.reads))
                ]
                values[c][op.out] = op.emit(ElementCode(self, op, b, None), operands)
        for out in self.outputs:
            access = tail.stores[out]
            for c, j in enumerate(first):
                b.store(values[c][out], self.beyond(self.lines[id(access)], access, j))

    def operand(
        self,
        b: VectorBuilder,
        op: Op,
        k: int,
        j: str,
        values: dict[int, SsaValue],
        read: dict[Any, SsaValue],
    ) -> SsaValue:
        """Return operand `k` of an op, for the vector from column j of the tile on.

        values: the values computed for this vector
        read: the values loaded for this vector, so that each is loaded once
        """
        value = self.tail.inside.get((op.out, k))
        if value is not None:
            return values[value]
        access = self.tail.loads.get((op.out, k))
        if access is None:
            number = self.function.uniform[self.function.base(op.reads[k].value)]
            return self.uniform(b, *number)
        if access.strides[3] == ZERO:
            return self.fixed[id(access), b.lanes]
        key = (access.base, access.offset, tuple(access.strides))
        if key not in read:
            read[key] = b.load(self.beyond(self.lines[id(access)], access, j), access.dtype)
        return read[key]
