"""What a program knows about its variables while it is drawn: types without sizes.

A dim is the text of a Python expression over the program's sizes (``"n"``, ``"3"``, ``"n * m"``);
dims are equal if their texts are. So a program is right for all sizes, and never by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

T = TypeVar("T")
Dims = tuple[str, ...]

FLOATS = ("float64", "float32", "float16", "bfloat16")
LOW = ("float16", "bfloat16")
INTS = ("int64", "int32", "uint8")
CATEGORY = {"bool": 0} | dict.fromkeys(INTS, 1) | dict.fromkeys(FLOATS, 2)
_RANK = {name: i for i, name in enumerate(("bool", "uint8", "int32", "int64", *reversed(FLOATS)))}
LITERALS = ("3", "1", "2", "4", "5", "6", "0")
OPAQUE = "?"  # a dim that is only known when the program runs


@dataclass
class Value:
    """An expression and what is known of its result.

    text: Python, an atom     bound: roughly its greatest magnitude
    grad: may require grad    leaf: a leaf that requires grad, or a view of one
    writable: in-place ops are meant to work     storage: equal for values that share memory
    """

    text: str
    dtype: str
    dims: Dims
    bound: float = 2.0
    grad: bool = False
    leaf: bool = False
    writable: bool = True
    storage: int = -1

    @property
    def is_float(self) -> bool:
        return CATEGORY[self.dtype] == 2

    @property
    def category(self) -> int:
        return CATEGORY[self.dtype]


def promote(a: Value, b: Value) -> str:
    """The dtype of a binary op: tensors with dims before those without, of one category."""
    first, second = (a, b) if (a.category, bool(a.dims)) >= (b.category, bool(b.dims)) else (b, a)
    if (first.category, bool(first.dims)) != (second.category, bool(second.dims)):
        return first.dtype
    if {first.dtype, second.dtype} == set(LOW):
        return "float32"
    return max(first.dtype, second.dtype, key=_RANK.__getitem__)


def broadcast(a: Dims, b: Dims) -> Dims | None:
    """The dims of both together, or None."""
    rank = max(len(a), len(b))
    pairs = zip(("1",) * (rank - len(a)) + a, ("1",) * (rank - len(b)) + b, strict=True)
    if any(x != y and "1" not in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False)):
        return None
    return tuple(y if x == "1" else x for x, y in pairs)


def times(a: str, b: str) -> str:
    """The product of two dims."""
    if a.isdigit() and b.isdigit():
        return str(int(a) * int(b))
    return b if a == "1" else a if b == "1" else f"({a} * {b})"


def plus(a: str, b: str) -> str:
    """The sum of two dims."""
    return str(int(a) + int(b)) if a.isdigit() and b.isdigit() else f"({a} + {b})"


def shape_text(dims: Dims) -> str:
    """Dims as a tuple in Python."""
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


@dataclass
class Scope:
    """A program in the making: its lines, and the variables that the next line may use.

    integer: draws a number of a range, both ends included
    """

    integer: Callable[[int, int], int]
    floats: tuple[str, ...]
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=set)
    viewed: set[int] = field(default_factory=set)  # storages that more than one variable has had
    written: set[int] = field(default_factory=set)  # storages that have been written
    indent: int = 1
    count: int = 0
    recording: bool = True  # whether gradients are
    turns: int = 1  # that the enclosing loops make at most
    depth: int = 0  # of the expression that is drawn

    # -- choices, which shrink towards the first --------------------------------------------

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, one_in: int) -> bool:
        """True once in so many times."""
        return self.integer(0, one_in - 1) == one_in - 1

    @property
    def low(self) -> bool:
        """Whether the program computes in 16 bits, where rounding decides comparisons."""
        return any(name in LOW for name in self.floats)

    # -- lines --------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.indent + line)

    def fresh(self) -> int:
        """A number that nothing else has."""
        self.count += 1
        return self.count

    def name(self, value: Value) -> Value:
        """Assign an expression to a new variable."""
        number = self.fresh()
        self.dtypes.add(value.dtype)
        text = f"v{number}"
        found = replace(
            value,
            text=text,
            dims=tuple(
                f"{text}.shape[{i}]" if d == OPAQUE else d for i, d in enumerate(value.dims)
            ),
            grad=value.grad and self.recording,
            storage=number if value.storage < 0 else value.storage,
        )
        if value.storage >= 0:
            self.viewed.add(value.storage)
        self.emit(f"{found.text} = {value.text}")
        self.values.append(found)
        return found

    @contextmanager
    def block(self, head: str, turns: int = 1) -> Iterator[None]:
        """Lines under a head; variables made inside are not seen outside."""
        self.emit(head)
        known, before = list(self.values), self.turns
        self.indent, self.turns = self.indent + 1, before * turns
        length = len(self.lines)
        try:
            yield
        finally:
            if len(self.lines) == length:
                self.emit("pass")
            self.indent, self.turns = self.indent - 1, before
            self.values[:] = known

    # -- operands -----------------------------------------------------------------------------

    def dims(self, rank: int | None = None) -> Dims:
        """Some dims."""
        count = self.pick((2, 1, 3, 0)) if rank is None else rank
        return tuple(self.pick(("n", "3", "m", self.pick(LITERALS))) for _ in range(count))

    def leaf(self, dims: Dims | None = None, dtype: str | None = None, grad: bool = True) -> Value:
        """New data, assigned to a variable."""
        dims = self.dims() if dims is None else dims
        dtype = dtype or self.pick(self.floats)
        grad = grad and CATEGORY[dtype] == 2 and not self.chance(3)
        last = ", True" if grad else ""
        text = f"data({self.fresh()}, {shape_text(dims)}, torch.{dtype}{last})"
        bound = 2.0 if CATEGORY[dtype] == 2 else 3.0
        self.dtypes.add(dtype)
        number = self.fresh()
        found = Value(f"v{number}", dtype, dims, bound, grad, grad, storage=number)
        self.emit(f"{found.text} = {text}")
        self.values.append(found)
        return found

    def find(self, fits: Callable[[Value], bool]) -> Value | None:
        """A variable that fits, rather a late one."""
        found = [v for v in self.values if fits(v)][::-1]
        return self.pick(found) if found else None

    def a_float(self, rank: int | None = None) -> Value:
        """A variable of floats, made if there is none; kept from growing beyond all bounds."""
        found = None if self.chance(12) else self.find(
            lambda v: v.is_float and (rank is None or len(v.dims) == rank)
        )  # fmt: skip
        return self.tame(found or self.leaf(None if rank is None else self.dims(rank)))

    def tame(self, value: Value) -> Value:
        """The value, or where it may be large, its tanh."""
        if value.bound <= 30 or not value.is_float:
            return value
        return replace(value, text=f"torch.tanh({value.text})", bound=1.0, leaf=False, storage=-1)

    def steady(self, value: Value) -> Value:
        """Floats near the value whose order and signs do not hang on rounding."""
        dtype = value.dtype if value.is_float else self.floats[0]
        if self.low:
            return self.leaf(value.dims, dtype)
        number = self.fresh()
        fresh = f"data({number}, {shape_text(value.dims)}, torch.{dtype})"
        self.dtypes.add(dtype)
        return replace(
            value, text=f"({value.text} + {fresh})", dtype=dtype, leaf=False,
            bound=value.bound + 2, storage=-1, writable=True,
        )  # fmt: skip

    def fitting(self, dims: Dims, accepts: Callable[[Value], bool]) -> Value | None:
        """A variable that broadcasts to exactly these dims."""
        return self.find(lambda v: accepts(v) and broadcast(v.dims, dims) == dims)

    def part_of(self, dims: Dims) -> Dims:
        """Dims that broadcast to these."""
        kept = dims[self.integer(0, len(dims)) :] if self.chance(2) else dims
        return tuple("1" if self.chance(4) else d for d in kept)

    def mask(self, dims: Dims) -> Value:
        """Booleans that broadcast to the dims."""
        found = self.fitting(dims, lambda v: v.dtype == "bool")
        return found or self.leaf(self.part_of(dims), "bool")

    def index(self, dims: Dims, size: str) -> Value:
        """Indices below a size; 0 where the size is."""
        raw = self.leaf(dims, "int64")
        least = size if size.isdigit() and size != "0" else f"max({size}, 1)"
        return replace(raw, text=f"({raw.text} % {least})", storage=-1)
