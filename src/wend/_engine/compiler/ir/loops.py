"""The compiler's form of a path: loops over index spaces, on values with symbolic extents.

An `Op` describes a loop nest.  `space` has the extents of its loops; each operand and the result
say which loop each of their dims follows.  A map has a result element per point of its space.
A fold combines the points along the loops that its result does not follow.  A scatter adds each
point to a row of its result that an index names.  All remaining ops are routines, such as
contractions and convolutions, or host ops, which run their reference rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, Extents, Poly, mul, product, scale
from wend._engine.core.graph import Node
from wend._engine.core.symbolic import Expr

MAP, FOLD, SCATTER, CONTRACT, HOST = "map", "fold", "scatter", "contract", "host"
CONVOLVE, ATTENTION, SCAN, WINDOWS = "convolve", "attention", "scan", "windows"
STEPS = "steps"
JOIN, ROWS = "join", "rows"
BANDS, DRAWS = "band_scan", "draws"
ORDER, SEARCH, UPDATES = "order", "search", "updates"
#: The kinds of ops that are loop nests, and can be fused.
NESTED = frozenset({MAP, FOLD, SCATTER})


class Read:
    """An operand of an op.

    value: the value that is read
    dims: for each dim of the value the loop that the dim follows, or -1 for a dim of extent 1
    shifts: (dim of the value, first, count) each: the value begins where the loop of that dim has
        come to `first`, and ends after `count` places; nothing is read elsewhere
    row: number of another operand, whose element is the place along dim `row_dim` of the value;
        -1 for none
    """

    __slots__ = ("dims", "row", "row_dim", "shifts", "value")

    def __init__(
        self,
        value: int,
        dims: tuple[int, ...],
        shifts: tuple[tuple[int, Poly, Poly], ...] = (),
        row: int = -1,
        row_dim: int = 0,
    ) -> None:
        self.value = value
        self.dims = dims
        self.shifts = shifts
        self.row = row
        self.row_dim = row_dim

    def __repr__(self) -> str:
        at = ",".join("-" if d < 0 else f"i{d}" for d in self.dims)
        more = " shifted" if self.shifts else ""
        more += "" if self.row < 0 else f" row {self.row}"
        return f"%{self.value}[{at}]{more}"


class Fold:
    """How a fold combines: by `combine(b, a, x)` on elements of `dtype`, starting at `identity`."""

    __slots__ = ("combine", "dtype", "identity", "is_sum")

    def __init__(self, combine: Any, identity: Any, dtype: DType, is_sum: bool) -> None:
        self.combine = combine
        self.identity = identity
        self.dtype = dtype
        self.is_sum = is_sum


#: Makes code for an element: emit(code, operands) -> result; code: see `codegen.scalar_ops.Code`.
Emit = Callable[[Any, list[Any]], Any]


def shared(rule: Emit) -> Emit:
    """Mark a rule that all equal ops have, so that kernels of equal structure are recognised.

    The rule reads nothing that differs between these ops, but through its arguments.
    """
    rule.shared = True  # type: ignore[attr-defined]
    return rule


def is_shared(rule: Emit | None) -> bool:
    """Whether a rule was marked as `shared`."""
    return getattr(rule, "shared", False)


class Op:
    """An operation of a function."""

    __slots__ = (
        "cheap",
        "counted",
        "emit",
        "fold",
        "kind",
        "name",
        "node",
        "numbers",
        "out_dims",
        "outputs",
        "placed",
        "product",
        "reads",
        "row_dim",
        "sizes",
        "space",
        "within",
        "wraps",
    )

    def __init__(
        self,
        kind: str,
        node: Node,
        outputs: tuple[int, ...],
        reads: list[Read],
        space: tuple[Poly, ...] = (),
        out_dims: tuple[int, ...] = (),
        emit: Emit | None = None,
        numbers: tuple[Expr, ...] = (),
        fold: Fold | None = None,
        cheap: bool = False,
    ) -> None:
        self.kind = kind
        self.node = node
        self.outputs = outputs
        self.reads = reads
        self.space = space
        self.out_dims = out_dims
        self.emit = emit
        self.numbers = numbers
        self.fold = fold
        self.cheap = cheap
        self.name: str = node.prim.name
        self.placed = False  # whether its code reads the index of a loop
        self.counted = False  # whether its code reads the number of elements before its own
        self.wraps = False  # whether indices below 0 count from the end
        self.within = False  # whether the indexed value may be larger than its loops
        self.sizes: tuple[Poly, ...] = ()  # extents that its code reads, beside those of loops
        self.row_dim = 0  # of a scatter: the dim of the result along which operand 1 says the place
        self.product: Any = None  # of a contraction: see `lower.contraction`

    @property
    def out(self) -> int:
        """The only result of the op."""
        return self.outputs[0]

    @property
    def reduced(self) -> tuple[int, ...]:
        """Loops that the result does not follow."""
        return tuple(d for d in range(len(self.space)) if d not in self.out_dims)

    def __repr__(self) -> str:
        outs = ", ".join(f"%{o}" for o in self.outputs)
        ins = ", ".join(map(repr, self.reads))
        return f"{outs} = {self.kind} {self.name}({ins})"


class Layout:
    """How a value lies in the memory of a base value.

    base: the value that has the memory
    strides: for each dim, elements from an index to the next
    offset: elements from the start of the base to the first element
    """

    __slots__ = ("base", "offset", "strides")

    def __init__(self, base: int, strides: tuple[Poly, ...], offset: Poly) -> None:
        self.base = base
        self.strides = strides
        self.offset = offset

    def __repr__(self) -> str:
        return f"Layout(%{self.base}, {self.strides}, {self.offset})"


def contiguous(shape: tuple[Poly, ...]) -> tuple[Poly, ...]:
    """Return row-major strides."""
    strides = []
    step = ONE
    for extent in reversed(shape):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))


class View:
    """A value that shows the elements of `source`, so that nothing is computed."""

    __slots__ = ("node", "source", "value")

    def __init__(self, value: int, source: int, node: Node) -> None:
        self.value = value
        self.source = source
        self.node = node

    def __repr__(self) -> str:
        return f"%{self.value} = view {self.node.prim!r}(%{self.source})"


class Function:
    """Ops in order, with the values that come from outside and the results needed outside."""

    def __init__(self, extents: Extents) -> None:
        self.extents = extents
        self.ops: Sequence[Op] = []
        self.dtypes: dict[int, DType] = {}
        self.views: dict[int, View] = {}
        self.same: dict[int, int] = {}  # value -> the value to which it is equal
        #: Values that hold the same number everywhere: (number, dtype, category of the number).
        self.uniform: dict[int, tuple[Expr, DType, int]] = {}
        self.layouts: dict[int, Layout] = {}  # of views, and of values that are not row-major
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.nonempty: list[tuple[Poly, ...]] = []  # none of these extents may be 0
        self.small: list[Poly] = []  # element counts of leaves that are copied to change a part
        self.reasons: dict[int, str] = {}  # result of a host op -> why it is no kernel

    def layout(self, i: int) -> Layout:
        """Return the layout of a value; row-major in its own memory if nothing else is noted."""
        entry = self.layouts.get(i)
        if entry is None:
            entry = self.layouts[i] = Layout(i, contiguous(self.shape(i)), ZERO)
        return entry

    def add(self, op: Op) -> None:
        """Append an op."""
        assert isinstance(self.ops, list), "the function is complete"
        self.ops.append(op)

    def seal(self) -> None:
        """Allow no further ops and values: the function is complete."""
        self.ops = tuple(self.ops)

    def with_ops(self, ops: Sequence[Op]) -> Function:
        """Return the complete function with these ops in place of its own."""
        function = copy(self)
        function.ops = tuple(ops)
        return function

    def extended(self, shape: tuple[Poly, ...], dtype: DType) -> tuple[Function, int]:
        """Return this function with a further value, which no op makes, and the value."""
        function = copy(self)
        function.extents, function.dtypes = copy(self.extents), dict(self.dtypes)
        function.extents.shapes = dict(self.extents.shapes)
        return function, function._new_value(shape, dtype)

    def fresh(self, shape: tuple[Poly, ...], dtype: DType) -> int:
        """Return a new value of this shape and dtype."""
        assert isinstance(self.ops, list), "the function is complete"
        return self._new_value(shape, dtype)

    def _new_value(self, shape: tuple[Poly, ...], dtype: DType) -> int:
        i = min(self.extents.shapes) - 1
        self.extents.shapes[i] = shape
        self.dtypes[i] = dtype
        return i

    def shape(self, i: int) -> tuple[Poly, ...]:
        """Return the extents of a value."""
        return self.extents.shapes[i]

    def bytes_of(self, i: int) -> Poly:
        """Return the bytes of a value's elements without gaps."""
        return scale(product(self.shape(i)), self.dtypes[i].itemsize)

    def filters_of_group(self, op: Op) -> Poly:
        """Return how many filters a convolution has in each of its groups."""
        filters = self.shape(op.reads[1].value)[0]
        return self.extents.quotient(filters, self.extents.path_expr(op.node.args[-1]))

    def resolve(self, i: int) -> int:
        """Return the value to which i was found equal, or i."""
        while i in self.same:
            i = self.same[i]
        return i

    def base(self, i: int) -> int:
        """Return the value whose elements i shows: i itself unless i is a view."""
        while i in self.views:
            i = self.views[i].source
        return i

    def producers(self) -> dict[int, Op]:
        """Return the op of each computed value."""
        return {o: op for op in self.ops for o in op.outputs}

    def __repr__(self) -> str:
        show = self.extents.show
        lines = []
        for i in sorted(self.views):
            lines.append(repr(self.views[i]))
        for op in self.ops:
            space = ", ".join(map(show, op.space))
            lines.append(f"{op!r}  over ({space})")
        lines.append(f"return {self.outputs}")
        return "\n".join(lines)

    def verify(self) -> None:
        """Raise AssertionError unless every operand is an input, a view, or computed before."""
        ready = set(self.inputs)
        for op in self.ops:
            for read in op.reads:
                base = self.base(read.value)
                there = base in ready or base in self.uniform
                assert there, f"{op}: %{base} is not there yet"
                assert len(read.dims) == len(self.shape(read.value)), f"{op}: {read}"
            if op.kind in NESTED:
                assert len(op.out_dims) == len(self.shape(op.out)), f"{op}: {op.out_dims}"
            ready.update(op.outputs)
        for i in self.outputs:
            base = self.base(self.resolve(i))
            assert base in ready or self.resolve(i) in self.uniform, f"%{i} is not computed"
