"""The base of ops over the steps of sequences, and the states before each step.

Rows of all sequences lie step after step: step t has the next sizes[t] rows, of the sequences
0 ... sizes[t] - 1.  A sequence keeps its state where a step lacks the sequence.  So the same ops
serve batches, whose steps all have as many rows, and packed sequences of many lengths.

    R rows    N sequences    T steps    H width of a state    J = gates * H
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from wend._engine.base.dtypes import DType, int64
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Size, Tensor
from wend._engine.core.op_facts import OpFacts
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.numeric import FLOATING, Array, require, widen

#: Dims of operands that all sequences share.
_SHARED = ("JH", "J", "T")


class StepsOp(Primitive, abstract=True):
    """Base: type and batching rules of an op over the steps of sequences.

    operands, results: the dims of each, by the letters of this module
    terms: the numbers of operands that are added, and nothing else
    back: whether the last step comes first
    apart: whether the sequences of a step depend on each other: examples are groups then

    All operands may have a further dim in front, of groups that are computed one by one.  A step
    has no more rows than there are sequences, and than are left.  Rows behind the last step are 0.
    Raises ShapeError or DTypeError where operands do not fit.
    """

    facts = OpFacts(supports=FLOATING)
    operands: ClassVar[str]
    results: ClassVar[str]
    terms: ClassVar[tuple[int, ...]] = ()
    gates: int = 1
    apart: ClassVar[bool] = False
    back: bool

    @property
    def dims(self) -> list[str]:
        """The dims of each operand; of each tensor in a list, with a star behind."""
        return self.operands.split()

    def listed(self, operands: Sequence[Any]) -> list[tuple[Any, str]]:
        """The operands that are given, and the dims of each; those of lists one by one."""
        entries = []
        for x, dims in zip(operands, self.dims, strict=True):
            if dims[-1] == "*":
                entries += [(each, dims[:-1]) for each in x]
            elif x is not None:
                entries.append((x, dims))
        return entries

    def infer(self, *operands: Any) -> tuple[Spec, ...]:
        entries = self.listed(operands)
        first = entries[0][0]
        front = "G" if first.rank == 3 else ""
        extents: dict[str, Any] = {}
        fits = True
        for spec, dims in entries:
            wanted = self.wanted(dims, first.dtype)
            if spec.dtype is not wanted:
                raise DTypeError(f"{self.name}: an operand is {spec.dtype}, and not {wanted}")
            fits = fits and spec.rank == len(front + dims)
            for letter, n in zip(front + dims, spec.shape, strict=False):
                if letter not in extents:
                    extents[letter] = n
                elif fits:
                    fits = bool(extents[letter] == n)
        gates = self.count(operands)
        if fits and "J" in extents:
            fits = bool(extents["J"] == gates * extents["H"])
        if not fits:
            shapes = ", ".join(str(hints(spec.shape)) for spec, _ in entries)
            raise ShapeError(
                f"{self.name}: operands of shapes {shapes} do not fit; "
                f"expected {', '.join(dims for _, dims in entries)}, with J = {gates} H"
            )
        return tuple(
            [
                Spec(tuple(extents[letter] for letter in front + dims), first.dtype)
                for dims in self.results.split()
            ]
        )

    def wanted(self, dims: str, dtype: DType) -> DType:
        """The dtype of an operand of these dims. dtype: that of the first operand"""
        require(self.name, self.facts.supports, dtype)
        return int64 if dims == "T" else dtype

    def count(self, operands: Sequence[Any]) -> int:
        """The number of gates of a call."""
        lists = [x for x, dims in zip(operands, self.dims, strict=True) if dims[-1] == "*"]
        return len(lists[0]) if lists else self.gates

    def reference(self, *operands: Any) -> tuple[Array, ...]:
        entries = self.listed(operands)
        first = entries[0][0]
        rank = first.ndim
        extents: dict[str, int] = {}
        for a, dims in entries:
            extents |= dict(zip(dims, a.shape[rank - 2 :], strict=True))
        front, wide = first.shape[: rank - 2], widen(first).dtype
        outs = [
            np.zeros((*front, *(extents[letter] for letter in dims)), wide)
            for dims in self.results.split()
        ]

        def group(x: Any) -> Any:
            if isinstance(x, list):
                return [group(each) for each in x]
            return None if x is None else widen(x[place])

        with np.errstate(all="ignore"):
            for place in np.ndindex(*front):
                self.run([out[place] for out in outs], *map(group, operands))
        return tuple([out.astype(first.dtype, copy=False) for out in outs])

    def run(self, outs: list[Array], *arrays: Array) -> None:
        """Compute a group. outs: zeros to fill"""
        raise NotImplementedError

    def steps(self, sizes: Array, sequences: int, rows: int) -> Iterator[tuple[slice, slice]]:
        """The rows of each step, and its sequences; in the order of the walk."""
        steps, first = [], 0
        for size in sizes.tolist():
            count = max(0, min(size, sequences, rows - first))
            steps.append((slice(first, first + count), slice(count)))
            first += count
        return reversed(steps) if self.back else iter(steps)

    def again(self, *operands: Tensor) -> Any:
        """The same op on new operands."""
        return getattr(ops, self.name)(*operands, **self.attrs)

    def batch(self, batched: Sequence[Any], size: Size, *operands: Any) -> Any:
        at = len(operands[0].shape) - batched[0] - 2  # the dim of rows
        if self.apart or any(
            on and dims in _SHARED for on, dims in zip(batched, self.dims, strict=True)
        ):
            xs = [
                _each(partial(_repeated, size=size, dim=0), x, on)
                for x, on in zip(operands, batched, strict=True)
            ]
            return self._side_by_side(xs)
        # The examples of a sequence are sequences side by side.
        counts: dict[str, Any] = {}

        def beside(x: Tensor, on: bool, *, dims: str) -> Tensor:
            x = ops.movedim(x, 0, at + 1) if on else _repeated(x, False, size, at + 1)
            *front, n, _, width = x.shape
            counts[dims[0]] = n
            return ops.reshape(x, (*front, n * size, width))

        xs = []
        for x, on, dims in zip(operands, batched, self.dims, strict=True):
            if dims == "T":
                x = ops.mul(x, size)
            elif dims not in _SHARED:
                x = _each(partial(beside, dims=dims), x, on)
            xs.append(x)
        results = []
        for y, dims in zip(self.again(*xs), self.results.split(), strict=True):
            *front, _, width = y.shape
            y = ops.reshape(y, (*front, counts[dims[0]], size, width))
            results.append(ops.movedim(y, at + 1, 0))
        return tuple(results)

    def _side_by_side(self, xs: list[Any]) -> Any:
        """The results for operands with a further dim in front."""
        if len(xs[0].shape) == 3:
            return self.again(*xs)
        size, groups = xs[0].shape[:2]

        def flat(x: Tensor, _: bool) -> Tensor:
            return ops.reshape(x, (size * groups, *x.shape[2:]))

        results = self.again(*[_each(flat, x, True) for x in xs])
        return tuple([ops.reshape(y, (size, groups, *y.shape[1:])) for y in results])

    def more_extents(self, width: int) -> dict[str, int]:
        """The extents of samples by further letters. width: that of a state"""
        return {}

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for width, sizes, spare, groups in (
            (2, (3, 2, 2), 0, 0), (1, (1,), 0, 0), (19, (2, 2), 1, 0), (3, (2, 1), 0, 2),
            (2, (9, 1), 0, 0), (2, (), 0, 0), (2, (0,), 2, 0),
        ):  # fmt: skip
            front = (groups,) if groups else ()
            counts = {"N": max((3, *sizes)) if spare == 0 else 2, "R": sum(sizes) + spare}
            counts |= {"H": width, "J": self.gates * width, **self.more_extents(width)}

            def drawn(dims: str, front: Any = front, counts: Any = counts) -> Array:
                shape = (*front, *(counts[letter] for letter in dims))
                return rng.normal(size=shape) / (1 + (dims == "JH"))

            args: list[Any] = []
            for dims in self.dims:
                if dims == "T":
                    args.append(np.broadcast_to(np.array(sizes, np.int64), (*front, len(sizes))))
                elif dims[-1] == "*":
                    args.append([drawn(dims[:-1]) for _ in range(self.gates)])
                else:
                    args.append(drawn(dims))
            for back in (False, True):
                yield Sample(*args, back)


def _each(change: Callable[[Any, Any], Any], x: Any, on: Any) -> Any:
    """change(x, on) of an operand, or of each tensor of a list; None stays None"""
    if isinstance(x, list):
        flags = on if isinstance(on, (list, tuple)) else [on] * len(x)
        return [change(each, flag) for each, flag in zip(x, flags, strict=True)]
    return None if x is None else change(x, on)


def _repeated(x: Tensor, done: bool, size: Size, dim: int) -> Any:
    """An operand with a dim of `size` at `dim`; done: whether it is there"""
    return x if done else ops.expand(ops.unsqueeze(x, dim), (*x.shape[:dim], size, *x.shape[dim:]))


class StepsBefore(StepsOp):
    """(before, last): the state of its sequence before each row, and each sequence's last state.

    x: (R, H), the states behind the rows   start: (N, H)   sizes: (T,)   ->   (R, H), (N, H)
    """

    signature = "x, start, sizes, back: bool = False"
    operands, results = "RH NH T", "RH NH"
    n_outputs = 2
    result = ("before", "last")

    def run(self, outs: list[Array], *arrays: Array) -> None:
        (before, state), (x, start, sizes) = outs, arrays
        state[:] = start
        for rows, some in self.steps(sizes, len(state), len(x)):
            before[rows] = state[some]
            state[some] = x[rows]

    def vjp(self, g: Any, y: Any, x: Tensor, start: Tensor, sizes: Tensor) -> tuple[Any, ...]:
        return (*ops.steps_before(g[0], g[1], sizes, not self.back), None)
