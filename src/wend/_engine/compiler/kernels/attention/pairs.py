"""Code for the function of a pair, inside the kernels of attention: see `ops.neural.pairs`.

Values that are the same for a row of scores are computed once for the row. Captured tensors are
read where they lie; a position beyond the end of one is a failure of the kernel.

    numbers numbers_step            the address, and the stride.
    c0 c0_n0 c0_s0 ...              captured tensor 0: the address, extents and strides.
    blocks blocks0 ... blocks_step  the table of blocks, and the strides.
    block_rows block_columns        pairs of a block.
    fault                           where failures are noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wend._engine.base import dtypes
from wend._engine.base.dtypes import BOOL, INT, DType
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import OUT_OF_RANGE, elementwise_code
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.core.types import Spec
from wend._engine.ops.indexing.index import Index
from wend._engine.ops.neural.pairs import (
    BATCH,
    CAPTURED,
    HEAD,
    KEY,
    NONE,
    QUERY,
    SCORE,
    PairFunction,
    PairNode,
)

if TYPE_CHECKING:
    from wend._engine.compiler.kernels.attention.attention import AttentionVariant, Writer


def pair_words(form: AttentionVariant) -> list[str]:
    """The names of the words that a function of pairs adds to an argument block."""
    if form.pairs is None:
        return []
    words = ["numbers", "numbers_step"]
    for k, rank in enumerate(form.pairs.captured):
        words += [f"c{k}", *(f"c{k}_{x}{d}" for x in "ns" for d in range(rank))]
    if form.is_blocked:
        words += [f"blocks{x}" for x in ("", "0", "1", "_row", "_step")]
    return [*words, "block_rows", "block_columns", "fault"]


def pair_pointers(form: AttentionVariant) -> str:
    """Those of `pair_words` that are addresses."""
    if form.pairs is None:
        return ""
    captured = [f"c{k}" for k in range(len(form.pairs.captured))]
    return " ".join(["numbers", "blocks", "fault", *captured])


class _NodeCode:
    """The context in which the code of a node is written; see `scalar_ops.ElementCode`."""

    def __init__(self, b: VectorBuilder, numbers: list[str], categories: tuple[int, ...]) -> None:
        self.b = b
        self.numbers = numbers
        self.categories = categories

    def number(self, k: int) -> SsaValue:
        """The k-th number of the node."""
        b = self.b
        x = b.spread(self.numbers[k], dtypes.float64)
        if self.categories[k] == INT:
            return b.convert(x, dtypes.int64)
        return b.ne(x, b.number(0, dtypes.float64)) if self.categories[k] == BOOL else x


class PairCode:
    """Writes the function of a pair, for a vector of neighbours in a row of scores."""

    def __init__(self, writer: Writer, pairs: PairFunction, captured: tuple[DType, ...]) -> None:
        self.writer = writer
        self.pairs = pairs
        self.captured = captured
        self.first = CAPTURED + len(captured)
        self.numbers = self._numbers()
        # Values that depend on the score or the key; all others are computed once for a row.
        varying = {SCORE, KEY}
        for k, node in enumerate(pairs.nodes, self.first):
            if not varying.isdisjoint(node.operands):
                varying.add(k)
        self.varying = varying

    def _numbers(self) -> list[str]:
        """Load the numbers of the function, as doubles."""
        writer = self.writer
        f, a = writer.f, writer.a
        dtype = writer.form.number_dtype
        one = VectorBuilder(f, writer.module, 1, writer.target)
        names = []
        for n in range(self.pairs.n_numbers):
            step = f.mul(a["numbers_step"], str(n * dtype.itemsize))
            x = one.load(f.at(a["numbers"], step), dtype)
            names.append(one.convert(x, dtypes.float64).name)
        return names

    def wanted(self, with_slope: bool) -> tuple[int, int, int]:
        """The results of a pair: score, shown, slope."""
        pairs = self.pairs
        return pairs.score, pairs.shown, pairs.slope if with_slope else NONE

    def row(self, b: VectorBuilder, places: tuple[str, str, str], with_slope: bool) -> Any:
        """Compute the values that are the same in a row. places: batch, head and query"""
        values: dict[int, SsaValue] = {}
        for i, place in zip((BATCH, HEAD, QUERY), places, strict=True):
            values[i] = b.spread(place, dtypes.int64)
        for k in self.pairs.needed(self.wanted(with_slope)):
            if self.first + k not in self.varying:
                values[self.first + k] = self.node(b, self.pairs.nodes[k], values, None)
        return values

    def element(
        self, b: VectorBuilder, x: SsaValue, row: dict[int, SsaValue], column: str, with_slope: bool
    ) -> list[SsaValue | None]:
        """Return (score, shown, slope) of the pairs from a column on; None for NONE.

        x: the scores; row: the values of the row
        """
        lanes = b.value(f"<{', '.join(f'i64 {k}' for k in range(b.lanes))}>", dtypes.int64)
        keys = b.add(lanes, b.spread(column, dtypes.int64))
        values = {**row, SCORE: x, KEY: keys}
        wanted = self.wanted(with_slope)
        for k in self.pairs.needed(wanted):
            if self.first + k in self.varying:
                values[self.first + k] = self.node(b, self.pairs.nodes[k], values, column)
        return [None if i == NONE else self.value(b, i, values) for i in wanted]

    # -- nodes ----------------------------------------------------------------------------------

    def value(self, b: VectorBuilder, i: int, values: dict[int, SsaValue]) -> SsaValue:
        """A value; a captured tensor without dims is loaded."""
        if CAPTURED <= i < self.first:
            f, k = self.writer.f, i - CAPTURED
            one = VectorBuilder(f, self.writer.module, 1, self.writer.target)
            x = one.load(self.writer.a[f"c{k}"], self.captured[k])
            return b.spread(x.name, x.dtype)
        return values[i]

    def node(
        self, b: VectorBuilder, node: PairNode, values: dict[int, SsaValue], column: str | None
    ) -> SsaValue:
        """Write a node. column: the first lane's key, None for values of a row"""
        numbers = [self.numbers[n] for n in node.numbers]
        if node.prim is None:
            return b.convert(b.spread(numbers[0], dtypes.float64), node.dtype)
        if isinstance(node.prim, Index):
            return self.indexed(b, node, values, column)
        operands = [self.value(b, i, values) for i in node.operands]
        ranks = [self.rank(i) for i in node.operands]
        specs = [Spec((2,) * rank, x.dtype) for rank, x in zip(ranks, operands, strict=True)]
        emit = elementwise_code(node.prim, specs)
        assert emit is not None
        result: SsaValue = emit(_NodeCode(b, numbers, node.prim.categories), operands)
        return result

    def rank(self, i: int) -> int:
        """The rank of a value, as promotion of types counts."""
        if i < CAPTURED:
            return 1
        return 0 if i < self.first else self.pairs.nodes[i - self.first].rank

    def indexed(
        self, b: VectorBuilder, node: PairNode, values: dict[int, SsaValue], column: str | None
    ) -> SsaValue:
        """Load elements of a captured tensor."""
        f, a = self.writer.f, self.writer.a
        k = node.operands[0] - CAPTURED
        dtype = self.captured[k]
        total: SsaValue | None = None
        inside: SsaValue | None = None
        for d, i in zip(node.prim.dims, node.operands[1:], strict=True):
            extent = b.spread(a[f"c{k}_n{d}"], dtypes.int64)
            place = b.convert(self.value(b, i, values), dtypes.int64)
            zero = b.number(0, dtypes.int64)
            if i not in (BATCH, HEAD, QUERY, KEY):  # a negative number counts from the end
                place = b.select(b.lt(place, zero), b.add(place, extent), place)
            here = b.bitwise_and(b.ge(place, zero), b.lt(place, extent))
            inside = here if inside is None else b.bitwise_and(inside, here)
            step = b.mul(place, b.spread(a[f"c{k}_s{d}"], dtypes.int64))
            total = step if total is None else b.add(total, step)
        assert inside is not None and total is not None
        b.require(inside, OUT_OF_RANGE)
        if b.mask is not None:
            inside = b.bitwise_and(inside, SsaValue(b.mask, dtypes.bool_))
        masked = VectorBuilder(f, b.module, b.lanes, b.target, b.faults, inside.name)
        places = b.mul(total, b.number(dtype.itemsize, dtypes.int64))
        far = f.let(f"getelementptr i8, ptr {a[f'c{k}']}, <{b.lanes} x i64> {places.name}")
        indices = node.operands[1:]
        if column is None or [i for i in indices if i in self.varying] != [KEY]:
            return masked.gather(far, dtype)
        start = places.name  # the place of the first lane; b.lanes places beside if the stride is 1
        first = f.let(f"extractelement <{b.lanes} x i64> {start}, i64 0") if b.lanes > 1 else start
        near = f.at(a[f"c{k}"], first)
        beside = f.is_("eq", a[f"c{k}_s{node.prim.dims[indices.index(KEY)]}"], "1")
        return either(masked, beside, near, far, dtype)


def either(b: VectorBuilder, beside: str, near: str, far: str, dtype: DType) -> SsaValue:
    """Load a vector where elements are neighbours, which is quicker, and else gather them.

    beside: whether they are neighbours     near: the first address     far: all addresses
    """
    f: Any = b.text
    number = f.fresh()[1:]
    f.line(f"br i1 {beside}, label %near.{number}, label %far.{number}")
    f.label(f"near.{number}")
    loaded = b.load(near, dtype)
    at_near = f.block
    f.line(f"br label %read.{number}")
    f.label(f"far.{number}")
    gathered = b.gather(far, dtype)
    at_far = f.block
    f.line(f"br label %read.{number}")
    f.label(f"read.{number}")
    kind = b.type_of(loaded.dtype)
    read = f"phi {kind} [ {loaded.name}, %{at_near} ], [ {gathered.name}, %{at_far} ]"
    return SsaValue(f.let(read), loaded.dtype)
