"""Code that was written before: nests and tails of equal structure have equal text.

A loop's turns, and paths that differ in length alone, consist of the same few nests.  `KernelForm`
notes all that the writing of a kernel reads: ops with their rules, dtypes, loops, accesses, numbers
and the processor.  A text tells of values, extents and run-time numbers only which are the same,
and which extents are constants.  So these are noted as places in lists.  `recall` writes the code
of a form once, and hands out the same text, with the slots of the kernel at hand, from then on.

Only rules that are marked as `shared` are recognised: such a rule reads nothing but its arguments,
and of `code` only what `codegen.scalar_ops.ElementCode` has methods for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Slot
from wend._engine.compiler.ir.loops import Fold, Function, Op, is_shared
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, add, known, product, scale
from wend._engine.compiler.llvm_ir.jit import written_for
from wend._engine.compiler.schedule.epilogue_ops import Tail
from wend._engine.compiler.schedule.loop_order import Access, Nest
from wend._engine.compiler.schedule.work_items import WorkItems

#: The number of forms whose code is kept.
MOST = 512
#: The slots whose first part is a value, or an extent.
_OF_VALUES = frozenset({"sums", "copies", "streamed"})
_OF_EXTENTS = frozenset({"extent", "scratch"})


class Written(NamedTuple):
    """The code of a kernel.

    text: the module     slots: the words of its argument block
    helpers: further functions of the module     faults: the failures that it may note
    """

    text: str
    slots: list[Slot]
    helpers: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


class KernelForm:
    """All that the writing of a kernel reads.

    facts: what is noted; a value, an extent, an offset or an expression as its place in a list
    """

    def __init__(self, function: Function, *facts: Any) -> None:
        self.function = function
        self.target = written_for()
        self.facts: list[Any] = [*facts, self.target]
        self.values: dict[int, int] = {}
        self.extents: dict[Poly, int] = {}
        self.offsets: dict[Poly, int] = {}
        self.expressions: dict[Any, int] = {}

    # -- noting ---------------------------------------------------------------------------------

    def value(self, i: int) -> int:
        """Return the place of a value."""
        return self.values.setdefault(i, len(self.values))

    def polys(self, polys: Iterable[Poly]) -> tuple[int, ...]:
        """Return the places of several extents."""
        places = self.extents
        return tuple([places.setdefault(p, len(places)) for p in polys])

    def number(self, expr: Any) -> Any:
        """Return the place of a run-time number; how the number reads, bit by bit, if known."""
        if type(expr) is tuple:
            return self.expressions.setdefault(expr, len(self.expressions))
        return type(expr), repr(expr)

    def access(self, access: Access) -> tuple[Any, ...]:
        """Return what is to be noted of an access."""
        offsets, offset, dtype = self.offsets, access.offset, access.dtype
        rest: tuple[Any, ...] = ()
        if offset:  # in elements, and in bytes
            for p in (offset, scale(offset, dtype.itemsize)):
                rest += (offsets.setdefault(p, len(offsets)),)
        if access.row >= 0:
            rows = self.polys((access.row_stride, access.row_extent))
            rest += (access.row, access.row_wraps, rows)
        if access.shifts:
            rest += ("shifts", self.shifts(access.shifts))
        return self.value(access.base), dtype, self.polys(access.strides), rest

    def shifts(self, shifts: Any) -> tuple[Any, ...]:
        """Return what is to be noted of shifts."""
        return tuple([(axis, self.polys((first, count))) for axis, first, count in shifts])

    def op(self, op: Op, inside: Any, loads: Any) -> tuple[Any, ...] | None:
        """Return what is to be noted of an op but for its loops; None if its rules are not shared.

        inside, loads: values of the kernel, and accesses, by (result of the op, operand)
        """
        f, out, fold = self.function, op.out, op.fold
        if not is_shared(op.emit) or not (fold is None or is_plain(fold)):
            return None
        rest: tuple[Any, ...] = ()
        if fold is not None:
            size = self.polys((product(f.shape(out)),))
            rest += (fold.combine, self.number(fold.identity), fold.dtype, size)
        if op.numbers:
            rest += ("numbers", op.node.prim.categories, *map(self.number, op.numbers))
        if op.sizes:
            rest += ("sizes", self.polys(op.sizes))
        if out in f.uniform:
            rest += ("uniform", self.uniform(out))
        operands = [self.operand(op, k, inside, loads) for k in range(len(op.reads))]
        return (
            op.kind, op.emit, self.value(out), f.dtypes[out], self.polys(op.space),
            tuple(op.out_dims), op.cheap, rest, *operands,
        )  # fmt: skip

    def operand(self, op: Op, k: int, inside: Any, loads: Any) -> Any:
        """Return what is to be noted of an operand: a value in here, an access, or a number."""
        value = inside.get((op.out, k))
        if value is not None:
            return self.value(value)
        access = loads.get((op.out, k))
        if access is not None:
            return self.access(access)
        return self.uniform(self.function.base(op.reads[k].value))

    def uniform(self, value: int) -> tuple[Any, ...]:
        """Return what is to be noted of a value that is the same number everywhere."""
        expr, dtype, category = self.function.uniform[value]
        return "number", self.number(expr), dtype, category

    # -- finding --------------------------------------------------------------------------------

    def key(self) -> Any:
        """Return the form as a key: equal keys have equal code, but for what slots name."""
        values = list(self.values)
        # Some lists of values are in the order of their numbers.
        order = sorted(range(len(values)), key=values.__getitem__)
        return (*self.facts, *order, *map(known, self.extents))

    def general(self, slot: Slot) -> Slot:
        """Return a slot with places in lists instead of values, polynomials and expressions.

        Raises KeyError for what is in no list.
        """
        kind, a, b = slot
        if kind == "pointer":
            return Slot(kind, self.values[a], self.offsets[b] if b else -1)
        if kind in _OF_VALUES:
            return Slot(kind, self.values[a], b)
        if kind == "number":
            return Slot(kind, self.expressions[a], b)
        if kind in _OF_EXTENTS:
            return Slot(kind, self.extents[a], b)
        return Slot(kind, a, self.extents[b]) if kind == "last" else slot

    def own(self, slots: list[Slot]) -> list[Slot]:
        """Return slots with this form's values, polynomials and expressions instead of places."""
        values, extents = list(self.values), list(self.extents)
        offsets, expressions = [*self.offsets, ZERO], list(self.expressions)
        own = []
        for slot in slots:
            kind, a, b = slot
            if kind == "pointer":
                slot = Slot(kind, values[a], offsets[b])
            elif kind in _OF_VALUES:
                slot = Slot(kind, values[a], b)
            elif kind == "number":
                slot = Slot(kind, expressions[a], b)
            elif kind in _OF_EXTENTS:
                slot = Slot(kind, extents[a], b)
            elif kind == "last":
                slot = Slot(kind, a, extents[b])
            own.append(slot)
        return own


def is_plain(fold: Fold) -> bool:
    """Whether a fold's combination is a function or a method that holds nothing of its own."""
    return getattr(fold.combine, "__closure__", fold) is None


def form_of_nest(nest: Nest) -> KernelForm | None:
    """Return the form of a nest's kernel; None if a rule is not shared."""
    f = nest.function
    form = KernelForm(f, "nest")
    facts = form.facts
    for op in nest.region.ops:
        noted = form.op(op, nest.inside, nest.loads)
        if noted is None:
            return None
        out = op.out
        facts.append(noted)
        facts.append((
            nest.loops[out], nest.is_row[out], nest.phase[out], out in nest.row_folds,
            form.access(nest.counts[out]) if out in nest.counts else None,
            form.access(nest.stores[out]) if out in nest.stores else None,
        ))  # fmt: skip
    for (out, k), shifts in nest.shifts.items():
        facts.append((form.value(out), k, form.shifts(shifts)))
    facts += (tuple(nest.outer), tuple(nest.inner), nest.phases, form.polys(nest.extents))
    for value in nest.kept:
        size = scale(product(nest.extents[a] for a in nest.inner), f.dtypes[value].itemsize)
        facts += (form.value(value), form.polys((size,)))
    # The bytes of all that is gone over, and of rows, decide on prefetching.
    accesses = nest.accesses()
    total, row = ZERO, nest.extents[nest.inner[-1]]
    for base in {access.base for access in accesses} - {-1}:  # no value has elements to count
        total = add(total, f.bytes_of(base))
    sizes = sorted({access.dtype.itemsize for access in accesses})
    facts.append(form.polys([total, *(scale(row, size) for size in sizes)]))
    facts.append(form.values.get(-1))
    if form.target.is_device:
        facts.append(form.polys(WorkItems(nest).extents()))
    return form


def form_of_tail(tail: Tail, outputs: list[int]) -> KernelForm | None:
    """Return the form of a tail's epilogue; None if a rule is not shared.

    outputs: the values that are stored
    """
    form = KernelForm(tail.function, "tail")
    head = tail.head.out
    form.facts.append((form.value(head), tail.function.dtypes[head]))
    for op in tail.ops:
        noted = form.op(op, tail.inside, tail.loads)
        if noted is None:
            return None
        form.facts.append(noted)
    form.facts += [form.access(tail.stores[out]) for out in outputs]
    return form


_WRITTEN: dict[Any, Written] = {}


def recall(form: KernelForm | None, write: Callable[[], Written]) -> Written:
    """Return the code of a form, written now or before.

    form: None for code that is not recognised     write: writes the code
    Raises AssertionError, while plans are verified, if the code written now is another.
    """
    if form is None:
        return write()
    key = form.key()
    before = _WRITTEN.get(key)
    if before is None:
        written = write()
        if len(_WRITTEN) >= MOST:
            _WRITTEN.clear()
        _WRITTEN[key] = written._replace(slots=[form.general(slot) for slot in written.slots])
        return written
    recalled = before._replace(slots=form.own(before.slots))
    if config.settings.verify:
        assert write() == recalled, "a kernel was taken for another of other code"
    return recalled


def forget() -> None:
    """Forget all code: something has changed that forms do not note."""
    _WRITTEN.clear()
