"""Records of facts about ops, by purpose: a class states what differs from the bases.

    torch = TorchCall(names=("tanh",), inplace=True)
    facts = OpFacts(supports=FLOAT, smooth=True)

Classes of ops inherit field by field: see `combine`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

#: The kinds of elements of all tensors.
ANY_DTYPE: frozenset[str] = frozenset({"bool", "int", "float", "complex"})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class OpRecord:
    """Base: named facts with defaults, which nobody writes to."""

    defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls.defaults = {name: vars(cls)[name] for name in cls.__annotations__}

    def __init__(self, **stated: object) -> None:
        unknown = stated.keys() - self.defaults.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(stated, stated_=stated, known_=stated)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} of a class is not written to: {name}")

    @property
    def stated(self) -> dict[str, Any]:
        """Return the facts that a class states in its body."""
        return self.__dict__["stated_"]  # type: ignore[no-any-return]

    @property
    def known(self) -> dict[str, Any]:
        """Return the facts that a class or a base of the class states."""
        return self.__dict__["known_"]  # type: ignore[no-any-return]

    def above(self, base: dict[str, Any]) -> Self:
        """Return this record with `base` for the fields that it does not state."""
        return self._with(base | self.stated, self.stated)

    def but(self, **changes: object) -> Self:
        """Return this record with other values for some fields, which count as stated."""
        changes = type(self)(**changes).stated
        return self._with(self.known | changes, self.stated | changes)

    def _with(self, known: dict[str, Any], stated: dict[str, Any]) -> Self:
        """Return a record of fields that have been checked: there are thousands at each start."""
        record = object.__new__(type(self))
        record.__dict__.update(known, stated_=stated, known_=known)
        return record


class OpFacts(OpRecord):
    """The mathematics of an op, and the part of the program that an op touches."""

    supports: frozenset[str] = frozenset({"bool", "int", "float"})  # categories of dtypes
    elementwise: bool = False
    view: bool = False  # the result is a part of the operand's memory
    checks_strides: bool = False  # a view only where the operand's strides allow it,
    must_view: bool = False  # and an error where the strides do not
    pure: bool = True
    random: bool = False
    fallible: bool = False  # refuses some values of operands
    only_ints_fail: bool = False  # of a fallible op: refuses no floats
    labels_leaf: bool = False
    calls_user: bool = False
    smooth: bool = False  # finite operands have finite derivatives
    holomorphic: bool = False  # the gradient rule is written for real numbers, and serves complex
    # numbers too: the result has a complex derivative by each operand
    rises: bool = False  # the result never falls where operands rise, as rounded
    format_of: str = ""  # operands whose order in memory the results take: "first", "any" of the
    # first two, "all", "pointwise": as where each element is computed from elements at the same
    # place (the default of such ops), "copied": strides of the first operand as they are,
    # "indexed" by tensors, or "none" (of all further ops: results are row-major)


class TorchCall(OpRecord):
    """PyTorch's names and calls of an op, and the names of graph nodes."""

    names: tuple[str, ...] = ()  # of a function and a method; or these, where the two differ:
    functions: tuple[str, ...] = ()  # of the package
    methods: tuple[str, ...] = ()  # of `Tensor`
    inplace: bool | tuple[str, ...] = False  # methods with `_` behind the name, or these
    operators: tuple[str, ...] = ()  # such as `__add__`
    reflected: bool = False  # and `__radd__`
    spellings: dict[str, str] = {}  # noqa: RUF012 (a default that nobody writes to); keywords
    of_number: Callable[[Any], Any] | None = None  # a tensor of the first operand, a number
    numbers_inside: bool = False  # called with numbers by Wend's own rules, not by users
    label: str = ""  # name of the result's namedtuple and in errors, where that is not the op's
    indices: str = ""  # in errors, the operand whose elements an op inside takes for indices
    grad_name: str = ""  # `grad_fn.name()`; made of the op's name if empty
    grad_name_along: str = ""  # where a `dim` is given, if that is another name
    cuts: bool = False  # one of several results that PyTorch makes by one node

    if not TYPE_CHECKING:  # type checkers make a constructor of the fields

        def __init__(self, **stated: object) -> None:
            if "names" in stated:
                names = stated.pop("names")
                stated = {"functions": names, "methods": names} | stated
            super().__init__(**stated)


class OpBatching(OpRecord):
    """The rows of an op's operands: for batching by the engine, nested tensors and indices."""

    rows_of: str = ""  # the operand of which each row is computed by itself,
    row_dims: int = 1  # and how many dims a row has at least
    of_one: str = ""  # the op of an example, where this op asks for a batch dim
    pairs_batches: bool = False  # leading dims of the operands belong together
    joins: bool = False  # concatenates its operands
    picks_rows: bool = False  # all that `checked` asks: operand 1 names rows of operand 0


class OpSchedule(OpRecord):
    """Work and memory of an op: for groups, fusion and the order of kernels."""

    heavy: bool = False  # worth a kernel of its own, which light work then joins
    ready: bool = False  # an installation brings machine code, for any sizes
    donates: bool = False  # writes into the first operand if nobody else reads that
    overwrites: bool = False  # the runner may be given an operand as `out`
    turns: bool = False  # the runner may be told that the result is read `matmul.transposed`
    library: str = ""  # whose routine does the work: a call between the kernels of a plan
    unlowered: str = ""  # why no kernel computes the op: the reference does, between kernels


#: The records of an op's class, by attribute.
RECORDS: dict[str, type[OpRecord]] = {
    "facts": OpFacts,
    "torch": TorchCall,
    "batching": OpBatching,
    "schedule": OpSchedule,
}


def combine(cls: type) -> None:
    """Give a class records in which fields that its body leaves out are those of the bases.

    A field is found as an attribute would be: in the order of the class's bases.
    """
    bases = cls.__bases__
    for name, record in RECORDS.items():
        own = vars(cls).get(name)
        if len(bases) == 1:
            if own is not None:
                setattr(cls, name, own.above(getattr(bases[0], name).known))
            continue
        base: dict[str, Any] = {}
        for other in reversed(cls.__mro__[1:]):
            if name in vars(other):
                base |= vars(other)[name].stated
        setattr(cls, name, (record() if own is None else own).above(base))


#: The record of each field, by the attribute of op classes.
RECORD_OF = {field: name for name, record in RECORDS.items() for field in record.defaults}


def in_records(facts: dict[str, Any]) -> dict[str, OpRecord]:
    """Return records of facts that are given by field, such as keywords of a decorator."""
    fields: dict[str, dict[str, Any]] = {}
    for key, value in facts.items():
        name = RECORD_OF.get(key)
        if name is not None:
            fields.setdefault(name, {})[key] = value
    return {name: RECORDS[name](**stated) for name, stated in fields.items()}
