"""Lists that are longer in each turn of a loop: a single tensor stands for all items.

Python goes on to hold a list, whose items are handles. The first and the last stand for the first
and the last item, and become ops when they are used. The tensor in the middle holds all. The
others stand for no item: the loop is unrolled for whoever uses such a slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from wend._engine.base.devices import device as Device
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor, Value
from wend._engine.core._types import TensorType
from wend._engine.core.primitive import ops
from wend._engine.core.symbolic import AnyInt, expr_of, hint_of
from wend._engine.transforms.exploring.numbers import Extent, ids_of
from wend._engine.transforms.exploring.program import Info
from wend._engine.transforms.exploring.sizes import SizesOfInputs, size_of

NOT_RECORDED = -1  # the index of a part, or an item, that nobody has used yet
VOID = 15  # handles on either side of the middle


class Unroll(BaseException):
    """Begins the exploration again, with loops over extents unrolled: the sizes become fixed."""


class ListRun(Protocol):
    """The run of a function that is being explored, as far as lists need to know."""

    error: Any
    live: list[Value]
    serial: int
    sizes: SizesOfInputs

    def known_ids(self) -> Collection[int]:
        """The ids that are known at each place of the program."""

    def type_of(self, info: Info, device: Device) -> TensorType:
        """The type of a value."""


class LongLists:
    """The lists of a run that stand for many items.

    wholes: by id(), the values of all items
    ends: by id(), the values of first and last items, with id() of the whole and the index
    voids: by id(), the values that stand for no item
    """

    def __init__(self, run: ListRun) -> None:
        self.run = run
        self.wholes: dict[int, Value] = {}
        self.ends: dict[int, tuple[Value, int, int]] = {}
        self.voids: dict[int, Value] = {}

    def is_part(self, x: object) -> bool:
        """Whether an item stands for many, or for none."""
        if not self.wholes or type(x) is not Tensor:
            return False
        return id(x.value) in self.wholes or id(x.value) in self.voids

    def is_long(self, items: list[Any]) -> bool:
        """Whether a list has a handle that stands for many."""
        return bool(self.wholes) and any(map(self.is_part, items))

    def parsed(self, items: list[Any]) -> Iterator[tuple[str, Any]]:
        """("item", x), or ("many", value) or ("reversed", value).  Raises Unroll for parts."""
        k, n = 0, 3 + 2 * VOID
        while k < len(items):
            x = items[k]
            end = self.ends.get(id(x.value)) if type(x) is Tensor else None
            row = items[k : k + n]
            if end is not None and len(row) == n and self.is_part(row[1 + VOID]):
                middle = row[1 + VOID].value
                other = self.ends.get(id(row[-1].value))
                whole = all(id(y.value) in self.voids for y in (*row[1 : 1 + VOID], row[-2]))
                if not whole or id(middle) != end[1] or other is None or other[1] != end[1]:
                    raise Unroll
                yield ("many" if end[2] == 0 else "reversed"), middle
                k += n
                continue
            if self.is_part(x):
                raise Unroll
            yield "item", x
            k += 1

    def shown(self, items: list[Any]) -> list[Any]:
        """A list as snapshots see the list."""
        if not self.is_long(items):
            return list(items)
        parts: list[Any] = []
        for kind, x in self.parsed(items):
            parts += [kind, x if kind == "item" else _hot.wrap(x)]
        return parts

    def shorten(self, items: list[Any], info: Info) -> None:
        """Let a list stand for all of its items.

        info: of an item
        """
        parts = list(self.parsed(items))
        if len(parts) == 1 and parts[0][0] == "many":
            value = parts[0][1]
        else:
            value = _hot.refreshed(self.joined(parts, info))
            self.wholes[id(value)] = value
        shape = tuple(value.type.shape)[1:]
        item = Info(tuple(map(expr_of, shape)), value.type.dtype, tuple(map(hint_of, shape)))
        first, last, void = [self.unrecorded(item, value.type.device) for _ in range(3)]
        self.ends[id(first)] = (first, id(value), 0)
        self.ends[id(last)] = (last, id(value), -1)
        self.voids[id(void)] = void
        voids = [[_hot.wrap(void) for _ in range(VOID)] for _ in range(2)]
        items[:] = [_hot.wrap(first), *voids[0], _hot.wrap(value), *voids[1], _hot.wrap(last)]

    def unrecorded(self, info: Info, device: Device) -> Value:
        """A value that is recorded when it is used."""
        value = _hot.symbolic_value(self.run.type_of(info, device), self.run.serial, NOT_RECORDED)
        value.error = self.run.error
        return value

    def item(self, value: Value) -> Tensor | None:
        """The first or last item, recorded; None for a value that is neither."""
        if id(value) in self.voids:
            raise Unroll
        end = self.ends.get(id(value))
        return None if end is None else ops.select(self.twin(self.wholes[end[1]]), 0, end[2])

    def joined(self, parts: list[tuple[str, Any]], info: Info) -> Tensor:
        """A tensor of all items, along a new dim 0."""
        run = self.run
        tensors = []
        for kind, x in parts:
            if kind == "item":
                tensors.append(ops.unsqueeze(x, 0))
            else:
                tensors.append(ops.flip(self.twin(x), (0,)) if kind == "reversed" else self.twin(x))
        if not tensors:
            assert info.extents is not None
            if any(n for e in info.extents for n in ids_of(e) if n not in run.known_ids()):
                raise Unroll
            shape = [
                Extent(e, size_of(e, run.sizes), run) if type(e) is tuple else e
                for e in info.extents
            ]
            tensors = [ops.full((0, *shape), 0, dtype=info.dtype)]
        joined = tensors[0] if len(tensors) == 1 else ops.cat(tensors, 0)
        return self.twin(_hot.refreshed(joined))

    def twin(self, value: Value) -> Tensor:
        """A handle on the same result that is no view, and no item of a list."""
        duplicate = _hot.symbolic_value(value.type, self.run.serial, value.index)
        duplicate.error = self.run.error
        self.run.live.append(duplicate)
        handle: Tensor = _hot.wrap(duplicate)
        return handle

    def length(self, items: list[Any]) -> AnyInt:
        """The length of a list."""
        n: AnyInt = 0
        for kind, x in self.parsed(items):
            n = n + (1 if kind == "item" else x.type.shape[0])
        return n

    def op(self, prim: Any, tensors: list[Tensor]) -> Any:
        """The result of an op on a list that stands for many."""
        if prim.name not in ("stack", "cat"):
            raise Unroll
        parts = list(self.parsed(tensors))
        value = next(x for kind, x in parts if kind != "item")
        rank = value.type.rank - 1
        joined = self.joined(parts, Info((), value.type.dtype))
        dim = prim.dim
        if prim.name == "stack":
            return ops.movedim(joined, 0, dim)
        dim = dim + rank if dim < 0 else dim
        return ops.flatten(ops.movedim(joined, 0, dim), dim, dim + 1)
