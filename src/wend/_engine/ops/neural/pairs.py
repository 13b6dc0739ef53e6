"""Functions of a pair of positions, which attention computes inside: a program's score and mask.

A `PairFunction` is a list of elementwise ops. It says nothing of numbers and of tensors that the
program's function refers to: the op that uses it gets them as operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from wend._engine.base.dtypes import BOOL, INT, DType, int64
from wend._engine.core.kinds import Size
from wend._engine.core.primitive import ops
from wend._engine.ops.indexing.index import Index
from wend._engine.ops.numeric import Array

#: The first values: the score, and the numbers of batch, head, query and key.
SCORE: Final = 0
BATCH: Final = 1
HEAD: Final = 2
QUERY: Final = 3
KEY: Final = 4
#: Captured tensors follow, then the results of nodes.
CAPTURED: Final = 5
#: In place of a value: there is none.
NONE: Final = -1


class PairNode(NamedTuple):
    """An op on values of a pair.

    prim: an elementwise op, or `index` of a captured tensor; None for a number
    operands: values
    numbers: places in the list of numbers
    rank: 0 if the result is the same for all pairs, as promotion of types counts, else 1
    """

    prim: Any
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    dtype: DType
    rank: int


class PairFunction:
    """The nodes, and which values are results; compared by content.

    captured: the rank of each captured tensor
    score: the value that takes the place of the score
    shown: whether the pair takes part; NONE if all do
    slope: derivative of `score` by the score; NONE for 1
    bend: derivative of `slope` by the score; NONE for 0
    """

    __slots__ = ("_hash", "bend", "captured", "nodes", "score", "shown", "slope")

    def __init__(
        self,
        captured: tuple[int, ...],
        nodes: tuple[PairNode, ...],
        score: int,
        shown: int = NONE,
        slope: int = NONE,
        bend: int = NONE,
    ) -> None:
        self.captured = captured
        self.nodes = nodes
        self.score = score
        self.shown = shown
        self.slope = slope
        self.bend = bend
        self._hash = hash(self._content())

    def _content(self) -> tuple[Any, ...]:
        return self.captured, self.nodes, self.score, self.shown, self.slope, self.bend

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairFunction):
            return NotImplemented
        return self is other or self._content() == other._content()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        first = CAPTURED + len(self.captured)
        rows = [
            f"{first + k}={node.prim or 'number'}{[*node.operands, *node.numbers]}"
            for k, node in enumerate(self.nodes)
        ]
        return f"{', '.join(rows)} -> {self.score}, {self.shown}, {self.slope}, {self.bend}"

    @property
    def n_numbers(self) -> int:
        """How many numbers the nodes use."""
        return max((n for node in self.nodes for n in node.numbers), default=-1) + 1

    def needed(self, wanted: Iterable[int]) -> list[int]:
        """The nodes, by position and in order, on which values depend."""
        first = CAPTURED + len(self.captured)
        ids = set(wanted)
        kept = []
        for k in range(len(self.nodes) - 1, -1, -1):
            if first + k in ids:
                kept.append(k)
                ids.update(self.nodes[k].operands)
        return kept[::-1]

    def run(
        self,
        wanted: Sequence[int],
        inputs: Sequence[Any],
        numbers: Sequence[Any],
        apply: Callable[[PairNode, list[Any], list[Any]], Any],
    ) -> list[Any]:
        """The wanted values; None for NONE.

        inputs: score, places and captured tensors
        apply: computes a node from operands and numbers
        """
        first = len(inputs)
        values = dict(enumerate(inputs))
        for k in self.needed(wanted):
            node = self.nodes[k]
            row = [numbers[n] for n in node.numbers]
            values[first + k] = apply(node, [values[i] for i in node.operands], row)
        return [None if i == NONE else values[i] for i in wanted]

    def arrays(
        self, wanted: Sequence[int], inputs: Sequence[Array], numbers: Array
    ) -> list[np.ndarray | None]:
        """The wanted values as arrays, which broadcast to the score's shape.

        Raises IndexOutOfRange where a captured tensor is indexed beyond its end.
        """
        return self.run(wanted, inputs, list(numbers), _by_reference)

    def open(
        self,
        wanted: Sequence[int],
        inputs: Sequence[Any],
        numbers: Any,
        on: Sequence[bool] = (),
        size: Size = 1,
    ) -> list[Any]:
        """The wanted values, in ops.

        on: whether numbers, and each captured tensor, has a batch axis of extent `size`
        """
        used = {n for k in self.needed(wanted) for n in self.nodes[k].numbers}
        of_numbers, *of_captured = on or [False] * (1 + len(self.captured))
        row = {n: ops.select(numbers, 1 if of_numbers else 0, n) for n in used}
        if of_numbers:
            row = {n: _in_front(x, size) for n, x in row.items()}
        values = list(inputs)
        for k, (is_on, rank) in enumerate(zip(of_captured, self.captured, strict=True)):
            if is_on and rank == 0:
                values[CAPTURED + k] = _in_front(values[CAPTURED + k], size)

        def apply(node: PairNode, operands: list[Any], mine: list[Any]) -> Any:
            prim = node.prim
            if prim is None:
                return ops.cast(mine[0], node.dtype)
            if not isinstance(prim, Index):
                mine = [ops.cast(x, int64) if c == INT else x
                        for x, c in zip(mine, prim.categories, strict=True)]  # fmt: skip
                return getattr(ops, prim.name)(*prim.arrange(operands, mine), **prim.attrs)
            x, *places = operands
            if not of_captured[node.operands[0] - CAPTURED]:
                return ops.index(x, places, prim.dims)
            first = _in_front(ops.arange(0, 0, 1, size, dtype=int64), size)
            return ops.index(x, [first, *places], (0, *(d + 1 for d in prim.dims)))

        numbered = [row.get(n) for n in range(self.n_numbers)]
        return self.run(wanted, values, numbered, apply)


def _in_front(x: Any, size: Size) -> Any:
    """x (size,) as (size, 1, 1, 1, 1), before the dims of scores."""
    return ops.reshape(x, (size, 1, 1, 1, 1))


def _by_reference(node: PairNode, operands: list[Any], numbers: list[Any]) -> Any:
    prim = node.prim
    if prim is None:
        return np.asarray(numbers[0]).astype(node.dtype.numpy)
    if isinstance(prim, Index):
        # Negative numbers count from the end, for a tensor too.
        return prim.reference(operands[0], operands[1:])
    row = [_number(x, c) for x, c in zip(numbers, prim.categories, strict=True)]
    with np.errstate(all="ignore"):
        return prim.reference(*prim.arrange(operands, row))


def _number(x: float, category: int) -> Any:
    if category == BOOL:
        return bool(x)
    return int(x) if category == INT else float(x)
