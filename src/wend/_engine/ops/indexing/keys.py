"""The meaning of `x[key]`: keys of every kind as steps of view ops, then an index by tensors.

A key is read into its *structure* (which kind each item is, which bounds of a slice are None) and
its *values* (ints, bounds, tensors). The plan of a structure is made once per rank and kept; the
plan says which ops to call on which values. Plans know nothing of tensors: see `subscript.py` for
those.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from wend._engine.base.dtypes import BOOL, FLOAT, INT, int64, uint8
from wend._engine.base.errors import ArgumentTypeError, DimError, IndexOutOfRange
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops

# Kinds of items. A slice adds 1, 2, 4 for a given start, stop, step; a tensor adds its rank.
SELECT, NONE, ELLIPSIS, TRUE, FALSE = range(5)
SLICE = 8
TENSOR = 32
MASK = 1024

Structure = tuple[int, ...]
Values = list[Any]


class Step(NamedTuple):
    """A view op: select(dim, values[slot]), slice(dim, ...), unsqueeze(dim) or alias().

    slots: three places in the values; None for a bound that was left out, and for unused places
    """

    op: str
    dim: int
    slots: tuple[Any, Any, Any]


class Source(NamedTuple):
    """An index tensor of the final index: its source, and the dim of the view that it indexes.

    slot: place in the values, or -1 for no such tensor: then `column` is the number of elements (0
    or 1) of a tensor of zeros. column: of the positions where a mask is True; -1 for a tensor that
    is itself the index.
    """

    dim: int
    slot: int
    column: int


class Plan(NamedTuple):
    """The ops that a key stands for: view steps, then an index by `sources` if there are any."""

    steps: tuple[Step, ...]
    sources: tuple[Source, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims of the view that are indexed by tensors."""
        return tuple(source.dim for source in self.sources)


_NONE = (None, None, None)
_PLANS: dict[tuple[int, Structure], Plan] = {}
_MOST_PLANS = 4096


def plan_of(structure: Structure, rank: int) -> Plan:
    """The plan of a key of this structure on a tensor of `rank` dims. Raises DimError."""
    plan = _PLANS.get((rank, structure))
    if plan is None:
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        plan = _PLANS[rank, structure] = _planned(structure, rank)
    return plan


def plan_getitem(key: object, rank: int) -> tuple[Plan, Values]:
    """The plan of `x[key]` and the values for the plan, for x of `rank` dims."""
    structure, values = read_key(key)
    return plan_of(structure, rank), values


def plan_setitem(key: object, rank: int) -> tuple[Plan, Values]:
    """The plan of `x[key] = v`: that of `x[key]`, whose steps are put back in reverse."""
    return plan_getitem(key, rank)


def _consumed(code: int) -> int:
    """How many dims of the tensor an item of a key speaks of."""
    if code >= MASK:
        return code - MASK
    return 0 if code in (NONE, ELLIPSIS, TRUE, FALSE) else 1


def _slots_used(code: int) -> int:
    if SLICE <= code < TENSOR:
        return (code - SLICE).bit_count()
    return 0 if code in (NONE, ELLIPSIS, TRUE, FALSE) else 1


def _planned(structure: Structure, rank: int) -> Plan:
    spoken_of = sum(map(_consumed, structure))
    _check_rank(structure, spoken_of, rank)
    steps: list[Step] = []
    sources: list[Source] = []
    dim = slot = 0
    open_dims = rank - spoken_of  # the dims that the first ellipsis stands for
    for code in structure:
        if code == SELECT:
            steps.append(Step("select", dim, (slot, None, None)))
        elif code == ELLIPSIS:
            dim += open_dims
            open_dims = 0
        elif code in (NONE, TRUE, FALSE):
            steps.append(Step("unsqueeze", dim, _NONE))
            if code != NONE:
                sources.append(Source(dim, -1, int(code == TRUE)))
            dim += 1
        elif code < TENSOR:
            if code != SLICE:
                steps.append(Step("slice", dim, _bounds(code - SLICE, slot)))
            dim += 1
        elif code < MASK:
            sources.append(Source(dim, slot, -1))
            dim += 1
        else:
            sources += [Source(dim + k, slot, k) for k in range(code - MASK)]
            dim += code - MASK
        slot += _slots_used(code)
    if not steps and not sources:
        steps.append(Step("alias", 0, _NONE))
    return Plan(tuple(steps), tuple(sources))


def _bounds(mask: int, slot: int) -> tuple[Any, Any, Any]:
    """Where the start, stop and step of a slice are found."""
    start = slot if mask & 1 else None
    slot += mask & 1
    end = slot if mask & 2 else None
    slot += (mask & 2) >> 1
    return start, end, slot if mask & 4 else None


def _check_rank(structure: Structure, spoken_of: int, rank: int) -> None:
    if spoken_of <= rank:
        return
    if rank == 0 and structure == (SELECT,):
        raise DimError(
            "getitem: invalid index of a 0-dim tensor; use `tensor.item()` to convert a 0-dim "
            "tensor to a number"
        )
    if rank == 0 and SLICE <= structure[0] < TENSOR:
        raise DimError("getitem: slice() cannot be applied to a 0-dim tensor")
    raise DimError(
        f"getitem: too many indices for tensor of dimension {rank}: the key speaks of {spoken_of}"
    )


# --- reading keys ---------------------------------------------------------------


def _not_ready(data: object) -> NoReturn:
    raise ArgumentTypeError(f"getitem: cannot make an index tensor of a {type(data).__name__}")


#: Makes an index tensor of a list or an array; set by the front end.
_as_tensor: Callable[[Any], Any] = _not_ready
#: Reads the value of a 0-d integer tensor; None for a value that is not to be had.
_read_int: Callable[[Any], int | None] = int


def set_readers(as_tensor: Callable[[Any], Any], read_int: Callable[[Any], int | None]) -> None:
    """Install how lists and arrays become tensors, and how the value of a 0-d tensor is read.

    read_int may return None (while a composite is traced): the tensor then stays an index.
    """
    global _as_tensor, _read_int
    _as_tensor, _read_int = as_tensor, read_int


def read_key(key: object) -> tuple[Structure, Values]:
    """(structure, values) of a key. Raises IndexOutOfRange, ArgumentTypeError for bad items."""
    items = key if type(key) is tuple else _items_of(key)
    codes: list[int] = []
    values: Values = []
    for item in items:
        kind = type(item)
        if kind is int:
            codes.append(SELECT)
            values.append(item)
        elif kind is slice:
            codes.append(_read_slice(item, values))
        elif item is None:
            codes.append(NONE)
        elif item is Ellipsis:
            codes.append(ELLIPSIS)
        else:
            codes.append(_read_other(item, values))
    return tuple(codes), values


def _items_of(key: object) -> tuple[Any, ...]:
    """The items of a key that is not a tuple: itself, but for lists that mean a tuple."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32:
        # PyTorch (as NumPy did) reads a list of lists as an index per dim.
        for item in key:
            if item is None or item is Ellipsis or isinstance(item, (slice, Tensor, list, tuple)):
                return tuple(key)
            if hasattr(item, "__len__") and not isinstance(item, str):
                return tuple(key)
    return (key,)


def _read_slice(item: slice, values: Values) -> int:
    code = SLICE
    for bit, bound in ((1, item.start), (2, item.stop), (4, item.step)):
        if bound is not None:
            code += bit
            values.append(bound if type(bound) is int else _slice_bound(bound))
    return code


def _slice_bound(bound: Any) -> Any:
    if hasattr(bound, "guards"):  # a symbolic extent stays symbolic
        return bound
    try:
        return operator.index(bound)
    except TypeError:
        raise ArgumentTypeError(
            "getitem: slice indices must be integers or None or have an __index__ method, "
            f"not {type(bound).__name__}"
        ) from None


def _read_other(item: object, values: Values) -> int:
    """The code of an item that is neither an int, a slice, None nor Ellipsis."""
    if item is True or item is False:
        return TRUE if item else FALSE
    if isinstance(item, Tensor):
        return _read_tensor(item, values)
    if hasattr(item, "guards"):
        values.append(item)
        return SELECT
    shape = getattr(item, "shape", None)
    if shape is not None and len(shape):  # an array of another library
        return _read_tensor(_whole(_as_tensor(item)), values)
    if shape is not None and str(getattr(item, "dtype", "")) == "bool":
        if type(item).__name__ == "ndarray":
            return TRUE if item else FALSE
        raise _wrong_item(item)
    if hasattr(item, "__index__"):
        values.append(operator.index(item))
        return SELECT
    if isinstance(item, (str, bytes)):
        raise ArgumentTypeError(f"getitem: invalid index of type {type(item).__name__}")
    if hasattr(item, "__len__") and hasattr(item, "__getitem__") and not isinstance(item, dict):
        return _read_tensor(_of_sequence(item), values)
    raise _wrong_item(item)


def _of_sequence(item: Any) -> Tensor:
    """A list (or a range, ...) as an index tensor."""
    return _whole(_as_tensor(item if isinstance(item, (list, tuple)) else list(item)))


def _whole(index: Tensor) -> Tensor:
    """Floats that are no tensor's as ints, towards zero: PyTorch's result for such a list."""
    return ops.cast(index, int64) if index.dtype.category == FLOAT else index


def _wrong_item(item: object) -> IndexOutOfRange:
    return IndexOutOfRange(
        "getitem: only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are "
        f"valid indices (got {type(item).__name__})"
    )


def _read_tensor(item: Tensor, values: Values) -> int:
    rank = len(item.shape)
    dtype = item.dtype
    if dtype.category == BOOL or dtype is uint8:
        if rank == 0:
            return TRUE if item else FALSE
        values.append(item)
        return MASK + rank
    if dtype.category != INT:
        raise IndexOutOfRange(
            f"getitem: tensors used as indices must be long, int, byte or bool tensors, not {dtype}"
        )
    if rank == 0:
        number = _read_int(item)
        if number is not None:
            values.append(number)
            return SELECT
    values.append(item)
    return TENSOR + rank
