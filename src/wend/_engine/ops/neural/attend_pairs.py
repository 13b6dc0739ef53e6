"""Attention whose scores pass through a program's function: `flex_attention` as a primitive.

    scores S[i, j] = f(scale * query[i] . key[j], batch, head, i, j), where the pair is shown

The function is a `PairFunction`. A table of blocks tells the kernels where no pair is shown; the
results do not depend on the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, INT, bool_, float32, from_numpy, int64, uint8
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Scalar, Size, Tensor
from wend._engine.core.op_facts import OpFacts, TorchCall
from wend._engine.core.primitive import REGISTRY, Sample, ops
from wend._engine.core.symbolic import broadcast_shapes, hints
from wend._engine.core.types import Spec
from wend._engine.ops.neural.attend import (
    Attention,
    Part,
    as_column,
    attended,
    batched_operands,
    gathered,
    mixture,
    outer_product,
    pulled_back,
    scores_shape,
)
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
from wend._engine.ops.numeric import Array, accumulator, array, widen


class PairAttention(Attention, abstract=True):
    """Base: the common part of forward and backward.

    blocks: uint8 (batch or 1, heads or 1, rows, columns), 0 for each block of
        block_rows x block_columns pairs in which the function shows none; None for no table
    numbers: (n,), the numbers of the function
    captured: the tensors of the function
    No gradient flows to numbers and captured tensors: see `flex_attention`.
    """

    facts = OpFacts(fallible=True)  # a captured tensor may be indexed beyond its end
    pairs: PairFunction
    is_causal = False

    def check(
        self,
        q: Spec,
        k: Spec,
        v: Spec,
        blocks: Spec | None,
        numbers: Spec,
        captured: list[Spec],
    ) -> tuple[Any, ...]:
        """The shape of the scores. Raises DTypeError or ShapeError."""
        scores = scores_shape(self.name, q, k, v, None)
        if len(scores) != 4:
            raise ShapeError(f"{self.name}: query, key and value have four dims")
        if blocks is not None and (blocks.dtype is not uint8 or blocks.rank != 4):
            raise DTypeError(
                f"{self.name}: blocks are uint8 of four dims, not {blocks.dtype} of {blocks.rank}"
            )
        if blocks is not None:
            wide = broadcast_shapes(self.name, scores[:2], blocks.shape[:2])
            if not all(a == b for a, b in zip(wide, scores, strict=False)):
                raise ShapeError(
                    f"{self.name}: blocks {hints(blocks.shape)} do not broadcast to {hints(scores)}"
                )
        if numbers.dtype.category not in (INT, FLOAT) or numbers.rank != 1:
            raise DTypeError(f"{self.name}: numbers are ints or floats of a single dim")
        ranks = tuple(x.rank for x in captured)
        if ranks != self.pairs.captured:
            raise ShapeError(
                f"{self.name}: captured tensors have {self.pairs.captured} dims, not {ranks}"
            )
        return scores

    def of_part(
        self,
        q: Array,
        k: Array,
        numbers: Array,
        captured: list[Array],
        scale: float,
        part: Part,
        with_slope: bool,
    ) -> tuple[Array, Array | None]:
        """Scores of the pairs of a part, -inf where a pair is not shown; and the slope."""
        x = np.matmul(q[part.rows] * q.dtype.type(scale), np.swapaxes(k[part.keys], -1, -2))
        n_batch, n_heads, n_rows, _ = q.shape
        n_columns = k.shape[2]
        place = part.rows[:2] if len(part.rows) == 4 else (slice(None), slice(None))
        rows = part.rows[-2]
        places = [
            np.arange(n_batch).reshape(-1, 1, 1, 1),
            np.arange(n_heads).reshape(1, -1, 1, 1),
            np.arange(n_rows).reshape(1, 1, -1, 1),
            np.arange(n_columns).reshape(1, 1, 1, -1),
        ]
        whole = np.broadcast_shapes(*(p.shape for p in places))
        b, h, i, j = (np.broadcast_to(p, whole)[(*place, rows)] for p in places)
        pairs = self.pairs
        wanted = (pairs.score, pairs.shown, pairs.slope if with_slope else NONE)
        score, shown, slope = pairs.arrays(wanted, [x, b, h, i, j, *captured], numbers)
        s: Array = np.broadcast_to(x if score is None else score, x.shape)
        if shown is not None:
            s = np.where(shown, s, -math.inf)
        return s.astype(q.dtype, copy=False), slope

    def open_pairs(
        self, q: Tensor, k: Tensor, numbers: Any, captured: Any, scale: Any,
        on: Sequence[bool] = (), size: Size = 1,
    ) -> tuple[Any, ...]:  # fmt: skip
        """(scores, slope, bend) of all pairs, in ops; both are None where they do not count.

        on: whether numbers, and each captured tensor, has a batch axis; then q and k have one
        """
        pairs = self.pairs
        x = self.open_scores(q, k, None, scale)
        front = len(x.shape) - 4
        places = [_places(x, front + axis) for axis in range(4)]
        wanted = (pairs.score, pairs.shown, pairs.slope, pairs.bend)
        s, shown, *slopes = pairs.open(wanted, [x, *places, *captured], numbers, on, size)
        if shown is None:
            return s, *slopes
        slopes = [None if t is None else ops.where(shown, t, 0.0) for t in slopes]
        return ops.where(shown, s, -math.inf), *slopes


def _places(like: Tensor, axis: int) -> Tensor:
    """The positions along a dim, repeated to the shape of `like`."""
    shape = tuple(like.shape)
    places = ops.arange(0, 0, 1, shape[axis], dtype=int64)
    others = tuple(d for d in range(len(shape)) if d != axis)
    for d in others:
        places = ops.unsqueeze(places, d)
    return ops.expand_to(places, shape, others)


class AttendPairs(PairAttention):
    """(y, total): as `attend`, of scores that pass through a function of the pair.

    query: (b, h, L, E)   key: (b, h, S, E)   value: (b, h, S, V)   ->   (b, h, L, V), (b, h, L)
    A row in which no pair is shown gives zeros, and a total of inf.
    Dong et al.: FlexAttention, a programming model for attention kernels (2024).
    """

    signature = (
        "query, key, value, blocks: tensor?, numbers, captured: tensors, scale: scalar, "
        "block_rows: scalar, block_columns: scalar, *, pairs: attr"
    )
    n_outputs = 2
    result = ("output", "total")
    torch = TorchCall(grad_name="FlexAttentionBackward0")

    def infer(self, q: Spec, k: Spec, v: Spec, blocks: Spec | None, numbers: Spec,
              captured: list[Spec], *rest: Any) -> tuple[Spec, ...]:  # fmt: skip
        scores = self.check(q, k, v, blocks, numbers, captured)
        out = Spec((*q.shape[:-1], v.shape[-1]), q.dtype)
        return out, Spec(scores[:-1], accumulator(q.dtype))

    def reference(
        self, q: Array, k: Array, v: Array, blocks: Array | None, numbers: Array,
        captured: list[Array], scale: float, *sizes: int,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        dtype = from_numpy(q.dtype)
        q, k, v = widen(q), widen(k), widen(v)
        scored = partial(self.of_part, q, k, numbers, captured, scale)
        shape = (*q.shape[:-1], k.shape[-2])
        y, total = attended(shape, v, lambda part: scored(part, False)[0], None)
        return array(y, dtype), array(total, accumulator(dtype))

    def vjp(
        self, g: tuple[Tensor, ...], y: tuple[Tensor, ...], q: Tensor, k: Tensor, v: Tensor,
        blocks: Tensor | None, numbers: Tensor, captured: list[Tensor], scale: Scalar, *sizes: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        wide = accumulator(q.dtype)
        delta = ops.sub(ops.sum(ops.mul(ops.cast(g[0], wide), ops.cast(y[0], wide)), -1), g[1])
        grads = ops.attend_pairs_backward(
            q, k, v, y[1], delta, g[0], blocks, numbers, captured, scale, *sizes, pairs=self.pairs
        )
        return (*grads, None, None, [None] * len(captured))

    def batch(
        self, batched: Sequence[Any], size: Size, q: Tensor, k: Tensor, v: Tensor,
        blocks: Any, numbers: Any, captured: list[Any], scale: Any, *sizes: Any,
    ) -> Any:  # fmt: skip
        # The first of four dims is the batch of each example: the kernel has no room for another.
        (q, k, v), _ = batched_operands(batched, size, (q, k, v), None)
        s, *_ = self.open_pairs(q, k, numbers, captured, scale, _flags(batched, 3, captured), size)
        top = ops.detach(ops.amax(s, (-1,), True))
        top = ops.where(ops.eq(top, -math.inf), 0.0, top)
        powers = ops.exp(ops.sub(s, top))
        sums = ops.sum(powers, (-1,), True)
        hidden = ops.eq(sums, 0.0)
        weights = ops.div(powers, ops.where(hidden, 1.0, sums))
        total = ops.where(hidden, math.inf, ops.add(ops.log(sums), top))
        return mixture(weights, v, q.dtype), ops.squeeze(total, -1)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from _samples(rng)


class AttendPairsBackward(PairAttention):
    """(dq, dk, dv) of attend_pairs, from the gradient of the output; see `attend_backward`."""

    signature = (
        "query, key, value, total, delta, grad, blocks: tensor?, numbers, captured: tensors, "
        "scale: scalar, block_rows: scalar, block_columns: scalar, *, pairs: attr"
    )
    n_outputs = 3
    result = ("query", "key", "value")

    def infer(self, q: Spec, k: Spec, v: Spec, total: Spec, delta: Spec, g: Spec,
              blocks: Spec | None, numbers: Spec, captured: list[Spec], *rest: Any,
              ) -> tuple[Spec, ...]:  # fmt: skip
        scores = self.check(q, k, v, blocks, numbers, captured)
        wanted = (scores[:-1], scores[:-1], (*q.shape[:-1], v.shape[-1]))
        for x, shape in zip((total, delta, g), wanted, strict=True):
            if len(shape) != x.rank or not all(a == b for a, b in zip(shape, x.shape)):
                raise ShapeError(f"{self.name}: {hints(x.shape)} should be {hints(shape)}")
        return q, k, v

    def reference(
        self, q: Array, k: Array, v: Array, total: Array, delta: Array, g: Array,
        blocks: Array | None, numbers: Array, captured: list[Array], scale: float, *sizes: int,
    ) -> tuple[Array, ...]:  # fmt: skip
        dtype = from_numpy(q.dtype)
        q, k, v, g = widen(q), widen(k), widen(v), widen(g)
        scored = partial(self.of_part, q, k, numbers, captured, scale)
        shape = (*q.shape[:-1], k.shape[-2])
        operands = (q, k, v, total, delta, g)
        grads = pulled_back(shape, operands, lambda part: scored(part, True), scale, None)
        return tuple(array(x, dtype) for x in grads)

    def vjp(
        self, gs: Any, y: Any, q: Tensor, k: Tensor, v: Tensor, total: Tensor, delta: Tensor,
        g: Tensor, blocks: Any, numbers: Any, captured: Any, scale: Scalar, *sizes: Any,
    ) -> Any:  # fmt: skip
        a, b, c = gs
        dtype = q.dtype
        s, slope, bend = self.open_pairs(q, k, numbers, captured, scale)
        p = ops.exp(ops.sub(s, as_column(total, s)))

        def along(x: Tensor) -> Tensor:
            return x if slope is None else ops.mul(x, slope)

        distance = ops.sub(outer_product(g, v), as_column(delta, p))
        direct = ops.mul(p, distance)  # gradient of the score that the function gives
        to_ds = ops.mul(ops.add(outer_product(a, k), outer_product(q, b)), scale)
        to_direct = along(to_ds)
        weighted = ops.mul(to_direct, p)
        to_s = ops.mul(ops.add(ops.mul(to_direct, distance), outer_product(g, c)), p)
        to_x = along(to_s)
        if bend is not None:
            to_x = ops.add(to_x, ops.mul(ops.mul(to_ds, direct), bend))
        scaled, straight = ops.mul(to_x, scale), ops.mul(along(direct), scale)
        grad_q = ops.add(mixture(scaled, k, dtype), mixture(straight, b, dtype))
        grad_k = ops.add(gathered(scaled, q, dtype), gathered(straight, a, dtype))
        grad_v = gathered(weighted, g, dtype)
        grad_g = ops.add(mixture(weighted, v, dtype), mixture(p, c, dtype))
        to_total, to_delta = ops.neg(ops.sum(to_s, -1)), ops.neg(ops.sum(weighted, -1))
        rest = (None, None, [None] * len(captured))
        return grad_q, grad_k, grad_v, to_total, to_delta, grad_g, *rest

    def batch(
        self, batched: Sequence[Any], size: Size, q: Tensor, k: Tensor, v: Tensor, total: Tensor,
        delta: Tensor, g: Tensor, blocks: Any, numbers: Any, captured: list[Any], scale: Any,
        *sizes: Any,
    ) -> Any:  # fmt: skip
        operands = (q, k, v, total, delta, g)
        (q, k, v, total, delta, g), _ = batched_operands(batched, size, operands, None)
        on = _flags(batched, 6, captured)
        s, slope, _ = self.open_pairs(q, k, numbers, captured, scale, on, size)
        p = ops.exp(ops.sub(s, as_column(total, s)))
        ds = ops.mul(ops.mul(p, ops.sub(outer_product(g, v), as_column(delta, p))), scale)
        ds = ds if slope is None else ops.mul(ds, slope)
        grads = mixture(ds, k, q.dtype), gathered(ds, q, q.dtype), gathered(p, g, q.dtype)
        return grads

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in _samples(rng):
            query, key, value, *rest = sample.args
            total, delta = (rng.normal(size=query.shape[:-1]) + shift for shift in (3, 0))
            grad = rng.normal(size=(*query.shape[:-1], value.shape[-1]))
            yield Sample(query, key, value, total, delta, grad, *rest, **sample.kwargs)


def _flags(batched: Sequence[Any], blocks: int, captured: list[Any]) -> list[bool]:
    """Whether numbers, and each captured tensor, has the batch axis.

    blocks: the place of the table in the operands
    """
    return [bool(batched[blocks + 1]), *(batched[blocks + 2] if captured else ())]


def _capped() -> PairFunction:
    """The score with a bias by head, capped by tanh; a batch shows each row another end."""
    tensor, pair = ("T",), ("T", "T")
    mul, add = REGISTRY["mul"], REGISTRY["add"]
    index = REGISTRY["index"].of(("T", ("L", 1)), dims=(0,))
    nodes = (
        PairNode(index, (CAPTURED, HEAD), (), float32, 1),
        PairNode(add.of(pair), (SCORE, 6), (), float32, 1),
        PairNode(REGISTRY["tanh"].of(tensor), (7,), (), float32, 1),
        PairNode(None, (), (0,), float32, 1),
        PairNode(mul.of(pair), (8, 8), (), float32, 1),
        PairNode(REGISTRY["sub"].of(pair), (9, 10), (), float32, 1),
        PairNode(mul.of(pair), (8, 11), (), float32, 1),
        PairNode(add.of(pair), (12, 12), (), float32, 1),
        PairNode(REGISTRY["neg"].of(tensor), (13,), (), float32, 1),
        PairNode(add.of(pair), (QUERY, BATCH), (), int64, 1),
        PairNode(REGISTRY["ge"].of(pair), (15, KEY), (), bool_, 1),
    )
    return PairFunction((1,), nodes, score=8, shown=16, slope=11, bend=14)


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    q, k, v = (rng.normal(size=s) for s in ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)))
    none = np.zeros((0,), np.int64)
    plain = PairFunction((), (), SCORE)
    yield Sample(q, k, v, None, none, [], 0.5, 1, 1, pairs=plain)
    bias = rng.integers(0, 3, size=(2,))
    capped = _capped()
    yield Sample(q, k, v, None, np.ones(1, np.int64), [bias], 0.5, 1, 1, pairs=capped)
    blocks = np.ones((1, 2, 2, 2), np.uint8)
    blocks[..., 0, 1] = 0  # rows 0 and 1 do not look at keys from 3 on
    yield Sample(q, k, v, blocks, np.ones(1, np.int64), [bias], 0.5, 2, 3, pairs=capped)
    yield Sample(q[:0], k[:0], v[:0], None, none, [], 0.5, 1, 1, pairs=plain)
