"""Attention as a primitive: the scores of all pairs stay inside.

`attend` also gives the logarithm of each row's sum. From it the gradient, `attend_backward`,
computes the weights again, block by block.  A further derivative, or the gradient of a mask, takes
formulas over all pairs: these are rare.

    scores S[i, j] = scale * query[i] . key[j] + mask[i, j]     weights P = exp(S - log-sum)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wend._engine.base.dtypes import DType, bool_, float32, from_numpy, int64
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Scalar, Size, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import broadcast_shapes, hints
from wend._engine.core.types import Spec
from wend._engine.ops import philox
from wend._engine.ops.numeric import FLOATING, Array, accumulator, array, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape

#: Scores that the reference keeps in memory at a time.
_MANY = 1 << 21


def scores_shape(
    op: str, query: Spec, key: Spec, value: Spec, mask: Spec | None
) -> tuple[Any, ...]:
    """The shape of the scores. Raises DTypeError or ShapeError."""
    require(op, FLOATING, query.dtype)
    for x in (key, value):
        if x.dtype is not query.dtype:
            raise DTypeError(f"{op}: expected {query.dtype} everywhere, but got {x.dtype}")
    same = query.rank == key.rank == value.rank and query.rank >= 2
    if same:
        q, k, v = query.shape, key.shape, value.shape
        same = q[-1] == k[-1] and k[-2] == v[-2]
        same = same and all(a == b and a == c for a, b, c in zip(q[:-2], k[:-2], v[:-2]))
    if not same:
        shapes = ", ".join(str(hints(x.shape)) for x in (query, key, value))
        raise ShapeError(f"{op}: query, key and value of shapes {shapes} do not fit")
    scores = (*query.shape[:-1], key.shape[-2])
    if mask is not None:
        if mask.dtype is not bool_ and mask.dtype is not query.dtype:
            raise DTypeError(f"{op}: a mask is bool or {query.dtype}, not {mask.dtype}")
        wide = broadcast_shapes(op, scores, mask.shape)
        if len(wide) != len(scores) or not all(a == b for a, b in zip(wide, scores)):
            raise ShapeError(
                f"{op}: mask {hints(mask.shape)} does not broadcast to {hints(scores)}"
            )
    return scores


class Part(NamedTuple):
    """Some rows of scores: the first row, how many scores come before, keys of NumPy."""

    row: int
    before: int
    rows: Any  # of an array with a row for each query
    keys: Any  # of an array with a row for each key


def _parts(shape: tuple[int, ...]) -> Iterator[Part]:
    """All scores of this shape at once, or if there are many, a few rows at a time."""
    *front, n, columns = shape
    whole = slice(None)
    if math.prod(shape) <= _MANY:
        yield Part(0, 0, (..., whole, whole), (..., whole, whole))
        return
    step = max(1, _MANY // columns)
    for number, place in enumerate(np.ndindex(*front)):
        for row in range(0, n, step):
            rows = (*place, slice(row, row + step), whole)
            yield Part(row, (number * n + row) * columns, rows, (*place, whole, whole))


class Attention(Primitive, abstract=True):
    """Base: the common part of forward and backward, with and without dropout."""

    facts = OpFacts(supports=FLOATING)
    schedule = OpSchedule(ready=True)
    is_causal: bool

    def scores(self, q: Array, k: Array, mask: Array | None, scale: float, part: Part) -> Array:
        """Scores of the pairs of a part; -inf where a pair is forbidden."""
        s = np.matmul(q[part.rows] * q.dtype.type(scale), np.swapaxes(k[part.keys], -1, -2))
        if self.is_causal:
            s = np.where(np.tri(s.shape[-2], s.shape[-1], part.row) == 1, s, -math.inf)
        if mask is not None:
            shown = mask[part.rows]
            s = np.where(shown, s, -math.inf) if mask.dtype == bool else s + widen(shown)
        return s.astype(q.dtype, copy=False)

    def open_scores(self, query: Tensor, key: Tensor, mask: Tensor | None, scale: Scalar) -> Tensor:
        """`scores`, in ops."""
        return open_scores(query, key, mask, scale, self.is_causal)

    def open_weights(
        self, query: Tensor, key: Tensor, total: Tensor, mask: Tensor | None, scale: Scalar
    ) -> Tensor:
        """Weights of all pairs before dropout, in ops."""
        s = self.open_scores(query, key, mask, scale)
        return ops.exp(ops.sub(s, as_column(total, s)))


def open_scores(
    query: Tensor, key: Tensor, mask: Tensor | None, scale: Scalar, is_causal: bool
) -> Tensor:
    """Scores of all pairs, in ops."""
    rank = len(query.shape) - 2
    batch = tuple(range(rank))
    s = ops.contract(ops.mul(query, scale), key, (rank + 1,), (rank + 1,), batch, batch)
    s = ops.cast(s, accumulator(query.dtype))
    if is_causal:
        rows = ops.arange(0, 0, 1, query.shape[-2], dtype=int64)
        columns = ops.arange(0, 0, 1, key.shape[-2], dtype=int64)
        pairs = (query.shape[-2], key.shape[-2])
        rows = ops.expand_to(ops.unsqueeze(rows, 1), pairs, (1,))
        columns = ops.expand_to(ops.unsqueeze(columns, 0), pairs, (0,))
        s = ops.where(ops.expand_to(ops.ge(rows, columns), s.shape, batch), s, -math.inf)
    if mask is not None:
        s = ops.where(mask, s, -math.inf) if mask.dtype is bool_ else ops.add(s, mask)
    return s


def as_column(x: Tensor, like: Tensor) -> Tensor:
    """x (..., L) repeated along the last dim of `like` (..., L, S)."""
    rank = len(like.shape)
    return ops.expand_to(ops.unsqueeze(x, rank - 1), like.shape, (rank - 1,))


def _front(x: Tensor, on: bool, size: Size) -> Tensor:
    """x with the batch axis in front."""
    return x if on else ops.expand(ops.unsqueeze(x, 0), (size, *x.shape))


def batched_operands(
    batched: Sequence[bool], size: Size, operands: Sequence[Tensor], mask: Tensor | None
) -> tuple[list[Any], Any]:
    """Operands with the batch axis in front, and the mask aligned with the scores behind it."""
    tensors = [_front(x, on, size) for x, on in zip(operands, batched, strict=False)]
    if mask is not None and batched[len(operands)]:
        missing = len(tensors[0].shape) - len(mask.shape)
        mask = ops.reshape(mask, (size, *(1,) * missing, *mask.shape[1:]))
    return tensors, mask


class Dropout(NamedTuple):
    """Which weights are left out: those whose draw at (seed, offset + place) is below p."""

    p: Any
    factor: Any  # of those that are kept
    seed: Any
    offset: Any

    def kept(self, shape: Shape, dtype: DType) -> Tensor:
        """The factors of the weights, in ops."""
        u = ops.uniform(shape, self.seed, self.offset, dtype=float32)
        return ops.mul(ops.cast(ops.ge(u, self.p), dtype), self.factor)

    def kept_array(self, shape: Shape, dtype: np.dtype[Any], before: int) -> Array:
        """The factors as an array, from the weight on that has `before` weights before it."""
        words = philox.words32(self.seed, self.offset + before, math.prod(shape)).reshape(shape)
        u = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        return (u >= np.float32(self.p)).astype(dtype) * dtype.type(self.factor)


def open_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: Scalar,
    is_causal: bool,
    drop: Dropout | None,
) -> Tensor:
    """Attention in ops, with all weights in memory: for accelerators, which have no kernel of it.

    A row of which all pairs are forbidden gives 0.
    """
    s = open_scores(query, key, mask, scale, is_causal)
    last = len(s.shape) - 1
    top = ops.stop_gradient(ops.amax(s, (last,), True))
    top = ops.where(ops.eq(top, -math.inf), 0.0, top)
    powers = ops.exp(ops.sub(s, top))
    sums = ops.sum(powers, (last,), True)
    weights = ops.div(powers, ops.where(ops.eq(sums, 0), 1.0, sums))
    if drop is not None:
        weights = ops.mul(weights, drop.kept(weights.shape, weights.dtype))
    batch = tuple(range(last - 1))
    return ops.contract(ops.cast(weights, value.dtype), value, (last,), (last - 1,), batch, batch)


def attended(
    shape: tuple[int, ...], v: Array, scores: Callable[[Part], Array], drop: Dropout | None
) -> tuple[Array, Array]:
    """(y, total) of the values and the scores, see `Attend`. shape: of all scores"""
    y = np.empty((*shape[:-1], v.shape[-1]), v.dtype)
    total = np.empty((*shape[:-1], 1), v.dtype)
    for part in _parts(shape):
        s = scores(part)
        top = s.max(-1, keepdims=True, initial=-math.inf)
        with np.errstate(all="ignore"):
            powers = np.exp(s - np.where(top == -math.inf, 0, top).astype(s.dtype))
            sums = powers.sum(-1, keepdims=True)
            total[part.rows] = np.where(sums == 0, math.inf, np.log(sums) + top)
            weights = powers / np.where(sums == 0, 1, sums)
        if drop is not None:
            weights = weights * drop.kept_array(s.shape, s.dtype, part.before)
        y[part.rows] = np.matmul(weights.astype(v.dtype, copy=False), v[part.keys])
    return y, total[..., 0]


def pulled_back(
    shape: tuple[int, ...],
    operands: tuple[Array, ...],
    scores: Callable[[Part], tuple[Array, Array | None]],
    scale: float,
    drop: Dropout | None,
) -> tuple[Array, Array, Array]:
    """(dq, dk, dv), see `AttendBackward`.

    operands: q, k, v, total, delta and the gradient of y
    scores: gives scores, and their derivatives by the scaled products if these are not 1
    """
    q, k, v, total, delta, g = operands
    dq, dk, dv = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
    total, delta = total[..., None], delta[..., None]
    for part in _parts(shape):
        rows, keys = part.rows, part.keys
        s, slope = scores(part)
        with np.errstate(all="ignore"):
            p = np.exp(s - total[rows])
            change = np.matmul(g[rows], np.swapaxes(v[keys], -1, -2))
            kept = p
            if drop is not None:
                keep = drop.kept_array(p.shape, p.dtype, part.before)
                change, kept = change * keep, p * keep
            ds = p * (change - delta[rows]) * q.dtype.type(scale)
            ds = ds if slope is None else np.where(p == 0, 0, ds * slope)
            ds = ds.astype(q.dtype, copy=False)
            dq[rows] = np.matmul(ds, k[keys])
            dk[keys] += np.matmul(np.swapaxes(ds, -1, -2), q[rows])
            dv[keys] += np.matmul(np.swapaxes(kept, -1, -2), g[rows])
    return dq, dk, dv


class Attend(Attention):
    """(y, total): y = P @ value, total = log of the sum of exp(S), inf where all is forbidden.

    query: (..., L, E)   key: (..., S, E)   value: (..., S, V)   ->   (..., L, V), (..., L)
    mask: broadcasts to (..., L, S); numbers to add, or bool, True where to look
    is_causal: row i looks at keys 0 to i     total is of the type sums are accumulated in.
    Online softmax: Milakov, Gimelshein (2018); blocks: Dao et al., FlashAttention (2022).
    """

    signature = "query, key, value, mask: tensor?, scale: scalar, *, is_causal: bool = False"
    n_outputs = 2
    result = ("output", "total")

    def infer(
        self, q: Spec, k: Spec, v: Spec, mask: Spec | None, *numbers: Any
    ) -> tuple[Spec, ...]:
        scores = scores_shape(self.name, q, k, v, mask)
        out = Spec((*q.shape[:-1], v.shape[-1]), q.dtype)
        return out, Spec(scores[:-1], accumulator(q.dtype))

    def reference(
        self, q: Array, k: Array, v: Array, mask: np.ndarray | None, scale: float, *drop: Any
    ) -> tuple[np.ndarray, ...]:
        dtype = from_numpy(q.dtype)
        q, k, v = widen(q), widen(k), widen(v)
        shape = (*q.shape[:-1], k.shape[-2])
        mask = None if mask is None else np.broadcast_to(mask, shape)
        scores = partial(self.scores, q, k, mask, scale)
        y, total = attended(shape, v, scores, Dropout(*drop) if drop else None)
        return array(y, dtype), array(total, accumulator(dtype))

    def vjp(
        self,
        g: tuple[Tensor, ...],
        y: tuple[Tensor, ...],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        scale: Scalar,
        *drop: Any,
    ) -> tuple[Any, ...]:
        wide = accumulator(q.dtype)
        out, total = ops.cast(y[0], wide), y[1]
        # A row of y changes by P (dS - delta), the total of the row by P dS.
        delta = ops.sub(ops.sum(ops.mul(ops.cast(g[0], wide), out), -1), g[1])
        backward = ops.attend_dropout_backward if drop else ops.attend_backward
        grads = backward(q, k, v, total, delta, g[0], mask, scale, *drop, is_causal=self.is_causal)
        if mask is None or mask.dtype is bool_:
            return (*grads, None)
        p = self.open_weights(q, k, total, mask, scale)
        change = outer_product(g[0], v)
        if drop:
            change = ops.mul(change, Dropout(*drop).kept(p.shape, p.dtype))
        return (*grads, ops.mul(p, ops.sub(change, as_column(delta, p))))

    def onnx(
        self,
        g: OnnxBuilder,
        q: OnnxValue,
        k: OnnxValue,
        v: OnnxValue,
        mask: OnnxValue | None,
        scale: Scalar,
        *drop: Any,
    ) -> tuple[OnnxValue, ...]:
        if drop:
            raise g.unsupported("dropout is for training", "export the function after .eval()")
        s = self.onnx_scores(g, q, k, mask, scale)
        b, wide, axis = g.elements, s.dtype, g.sizes((q.rank - 1,))
        if mask is None:  # no row is hidden as a whole
            weights = g.node("Softmax", s, axis=q.rank - 1)
            y = g.cast(g.node("MatMul", weights, g.cast(v, wide)), q.dtype)
            return y, g.node("ReduceLogSumExp", s, axis, keepdims=0)
        top = g.node("ReduceMax", s, axis, keepdims=1)
        hidden = b.eq(top, b.constant(-math.inf, top))
        powers = b.exp(b.sub(s, b.select(hidden, b.constant(0, top), top)))
        sums = g.node("ReduceSum", powers, axis, keepdims=1)
        weights = b.div(powers, b.select(hidden, b.constant(1, sums), sums))
        y = g.cast(g.node("MatMul", weights, g.cast(v, wide)), q.dtype)
        total = b.select(hidden, b.constant(math.inf, top), b.add(b.log(sums), top))
        return y, g.node("Squeeze", total, axis)

    def onnx_scores(
        self, g: OnnxBuilder, q: OnnxValue, k: OnnxValue, mask: OnnxValue | None, scale: Scalar
    ) -> Any:
        """`open_scores`, as ONNX nodes."""
        b, wide, rank = g.elements, accumulator(q.dtype), q.rank
        scaled = b.mul(g.cast(q, wide), g.number(scale, wide))
        order = (*range(rank - 2), rank - 1, rank - 2)
        s = g.node("MatMul", scaled, g.transpose(g.cast(k, wide), order))
        least = b.constant(-math.inf, s)
        if self.is_causal:
            rows, columns = g.arange(q.shape[-2]), g.arange(k.shape[-2])
            shown = b.ge(g.reshape(rows, (q.shape[-2], 1)), columns)
            s = b.select(shown, s, least)
        if mask is not None and mask.dtype is bool_:
            return b.select(mask, s, least)
        return s if mask is None else b.add(s, g.cast(mask, wide))

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        *rest: Any,
    ) -> Any:
        # Positions of draws run on from example to example, as in a draw over all examples.
        tensors, mask = batched_operands(batched, size, (q, k, v), mask)
        return getattr(ops, self.name)(*tensors, mask, *rest, is_causal=self.is_causal)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield from _samples(rng)


class AttendDropout(Attend):
    """`attend` that leaves weights out. p: how likely; factor: multiplies the remaining weights."""

    signature = (
        "query, key, value, mask: tensor?, scale: scalar, p: scalar, factor: scalar, "
        "seed: scalar, offset: scalar, *, is_causal: bool = False"
    )
    facts = OpFacts(random=True)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in _samples(rng):
            yield Sample(*sample.args, *_DROPPED, **sample.kwargs)


def outer_product(a: Tensor, b: Tensor) -> Tensor:
    """a (..., L, E) and b (..., S, E) to (..., L, S), in the type that sums are kept in."""
    rank = len(a.shape) - 2
    batch = tuple(range(rank))
    wide = accumulator(a.dtype)
    a, b = ops.cast(a, wide), ops.cast(b, wide)
    return ops.contract(a, b, (rank + 1,), (rank + 1,), batch, batch)


def mixture(p: Tensor, x: Tensor, dtype: DType) -> Tensor:
    """p (..., L, S) @ x (..., S, E)."""
    rank = len(p.shape) - 2
    batch = tuple(range(rank))
    return ops.cast(
        ops.contract(p, ops.cast(x, p.dtype), (rank + 1,), (rank,), batch, batch), dtype
    )


def gathered(p: Tensor, x: Tensor, dtype: DType) -> Tensor:
    """p (..., L, S), transposed, @ x (..., L, E)."""
    rank = len(p.shape) - 2
    batch = tuple(range(rank))
    return ops.cast(ops.contract(p, ops.cast(x, p.dtype), (rank,), (rank,), batch, batch), dtype)


class AttendBackward(Attention):
    """(dq, dk, dv) of attend, from the gradient of the output.

    With K the factors of dropout:  dS = P (K (grad @ value.T) - delta)
        dq = scale dS @ key     dk = scale dS.T @ query     dv = (K P).T @ grad
    total: (..., L), of the forward pass     delta: (..., L), the sums of grad * output by rows
    """

    signature = (
        "query, key, value, total, delta, grad, mask: tensor?, scale: scalar, *, "
        "is_causal: bool = False"
    )
    n_outputs = 3
    result = ("query", "key", "value")

    def infer(self, q: Spec, k: Spec, v: Spec, total: Spec, delta: Spec, g: Spec,
              mask: Spec | None, *numbers: Any) -> tuple[Spec, ...]:  # fmt: skip
        scores = scores_shape(self.name, q, k, v, mask)
        wanted = (scores[:-1], scores[:-1], (*q.shape[:-1], v.shape[-1]))
        for x, shape in zip((total, delta, g), wanted, strict=True):
            if len(shape) != x.rank or not all(a == b for a, b in zip(shape, x.shape)):
                raise ShapeError(f"{self.name}: {hints(x.shape)} should be {hints(shape)}")
        return q, k, v

    def reference(self, q: Array, k: Array, v: Array, total: Array, delta: Array, g: Array,
                  mask: Array | None, scale: float, *drop: Any) -> tuple[Array, ...]:  # fmt: skip
        dtype = from_numpy(q.dtype)
        q, k, v, g = widen(q), widen(k), widen(v), widen(g)
        shape = (*q.shape[:-1], k.shape[-2])
        mask = None if mask is None else np.broadcast_to(mask, shape)

        def scores(part: Part) -> tuple[Array, None]:
            return self.scores(q, k, mask, scale, part), None

        operands = (q, k, v, total, delta, g)
        grads = pulled_back(shape, operands, scores, scale, Dropout(*drop) if drop else None)
        return tuple(array(x, dtype) for x in grads)

    def vjp(self, gs: Any, y: Any, q: Tensor, k: Tensor, v: Tensor, total: Tensor, delta: Tensor,
            g: Tensor, mask: Tensor | None, scale: Scalar, *drop: Any) -> Any:  # fmt: skip
        a, b, c = gs
        dtype = q.dtype
        p = self.open_weights(q, k, total, mask, scale)
        keep = Dropout(*drop).kept(p.shape, p.dtype) if drop else None

        def dropped(x: Tensor) -> Tensor:
            return x if keep is None else ops.mul(x, keep)

        ds = ops.mul(p, ops.sub(dropped(outer_product(g, v)), as_column(delta, p)))
        to_ds = ops.mul(ops.add(outer_product(a, k), outer_product(q, b)), scale)
        weighted = ops.mul(to_ds, p)
        to_p = ops.sub(dropped(outer_product(g, v)), as_column(delta, p))
        to_s = ops.mul(ops.add(ops.mul(to_ds, to_p), dropped(outer_product(g, c))), p)
        scaled, direct = ops.mul(to_s, scale), ops.mul(ds, scale)
        grad_q = ops.add(mixture(scaled, k, dtype), mixture(direct, b, dtype))
        grad_k = ops.add(gathered(scaled, q, dtype), gathered(direct, a, dtype))
        grad_v = gathered(dropped(weighted), g, dtype)
        grad_g = ops.add(mixture(dropped(weighted), v, dtype), mixture(dropped(p), c, dtype))
        to_total, to_delta = ops.neg(ops.sum(to_s, -1)), ops.neg(ops.sum(weighted, -1))
        to_mask = None if mask is None or mask.dtype is bool_ else to_s
        return grad_q, grad_k, grad_v, to_total, to_delta, grad_g, to_mask

    def batch(
        self, batched: Sequence[bool], size: Size, q: Tensor, k: Tensor, v: Tensor, total: Tensor,
        delta: Tensor, g: Tensor, mask: Tensor | None, *rest: Any,
    ) -> Any:  # fmt: skip
        tensors, mask = batched_operands(batched, size, (q, k, v, total, delta, g), mask)
        return getattr(ops, self.name)(*tensors, mask, *rest, is_causal=self.is_causal)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in _samples(rng):
            query, key, value, mask, scale = sample.args
            total, delta = (rng.normal(size=query.shape[:-1]) + shift for shift in (3, 0))
            grad = rng.normal(size=(*query.shape[:-1], value.shape[-1]))
            args = (query, key, value, total, delta, grad, mask, scale)
            yield Sample(*args, **sample.kwargs)


class AttendDropoutBackward(AttendBackward):
    """The same, of attend_dropout."""

    signature = (
        "query, key, value, total, delta, grad, mask: tensor?, scale: scalar, p: scalar, "
        "factor: scalar, seed: scalar, offset: scalar, *, is_causal: bool = False"
    )
    facts = OpFacts(random=True)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(*sample.args, *_DROPPED, **sample.kwargs)


_DROPPED = (0.3, 1 / 0.7, 5, 8)


def _samples(rng: np.random.Generator) -> Iterator[Sample]:
    q, k, v = (rng.normal(size=s) for s in ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)))
    mask = rng.normal(size=(3, 5)) > 0
    mask[:, 0] = True
    yield Sample(q, k, v, None, 0.5)
    yield Sample(q, k, v, mask, 0.5)
    yield Sample(q, k, v, rng.normal(size=(2, 1, 3, 5)), 0.3)
    yield Sample(q, k, v, None, 0.5, is_causal=True)
    yield Sample(q[0, 0], k[0, 0], v[0, 0], None, 0.5)
    yield Sample(q[:0], k[:0], v[:0], None, 0.5)
    yield Sample(q[..., :0], k[..., :0], v, None, 0.5)
