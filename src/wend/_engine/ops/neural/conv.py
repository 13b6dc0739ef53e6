"""Convolution over any number of spatial dims, and its two adjoints.

All three come from a trilinear form, the sum over images n, windows o and taps k of

    x[n, c, o * stride + k * dilation - padding] * w[f, c, k] * g[n, f, o]

`convolve` is the derivative in g, `convolve_input` in x (the transposed convolution), and
`convolve_weight` in w.  The gradients of each are the remaining two, so every order of derivative
exists.  Channels come in `groups`: filter f sees the channels of its group only.

    x: (N, C, *S)   w: (F, C/groups, *K)   g: (N, F, *O)
    padding: low ends, then high ends (2 per dim; negative crops)

Padding and groups are run-time sizes (batching over weights multiplies the groups); stride and
dilation are structure.  The public functions are in `composites/conv.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.op_facts import OpFacts, OpSchedule
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import hints
from wend._engine.core.types import Spec
from wend._engine.ops.neural.patches import check_windows, tap_slices, taps, window_view
from wend._engine.ops.numeric import Array, require, widen
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.reduce import conj
from wend._engine.ops.views.family import Shape

# Elements of the patch matrix that are made at once: small enough to stay in the cache.
_CHUNK = 1 << 20


class Convolution(Primitive, abstract=True):
    """Base of all three: checks and batching."""

    schedule = OpSchedule(heavy=True, ready=True)

    facts = OpFacts(supports=frozenset({"int", "float", "complex"}))
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    def windows(
        self, size: Sequence[Any], kernel: Sizes, padding: Sizes, shape: Shape
    ) -> tuple[Any, ...]:
        """Extents of the output of `convolve` for an input of extents `size`."""
        nd = len(size)
        padded = tuple(
            n + lo + hi for n, lo, hi in zip(size, padding[:nd], padding[nd:], strict=True)
        )
        return check_windows(self.name, padded, kernel, self.stride, self.dilation, shape)

    def check(self, a: Spec, b: Spec) -> None:
        """Raise DTypeError unless both operands have the same supported dtype."""
        require(self.name, self.facts.supports, a.dtype, b.dtype)
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"{self.name}: expected both operands to have the same dtype, "
                f"but got {a.dtype} and {b.dtype}"
            )


def onnx_convolution(
    g: OnnxBuilder,
    operands: Sequence[OnnxValue],
    padding: Sizes,
    stride: Sizes,
    dilation: Sizes,
    groups: Size,
) -> Any:
    """A convolution; operands: input, weight and perhaps a bias."""
    x, *rest = operands
    pads = [g.fixed(p) for p in padding]
    if any(p is None or p < 0 for p in pads):
        x, pads = onnx_padded(g, x, padding), [0] * len(pads)
    how: dict[str, Any] = {"pads": pads, "strides": stride, "dilations": dilation}
    return g.node("Conv", x, *rest, group=onnx_groups(g, groups), **how)


def onnx_groups(g: OnnxBuilder, groups: Size) -> int:
    """The number of groups, which ONNX wants to be part of the model."""
    number = g.fixed(groups)
    if number is None:
        raise g.unsupported("the number of groups depends on sizes")
    return int(number)


def onnx_padded(g: OnnxBuilder, x: OnnxValue, padding: Sizes) -> OnnxValue:
    """x with trailing dims grown by zeros, or cut off where padding is negative."""
    if all(g.fixed(p) == 0 for p in padding):
        return x
    nd, front = len(padding) // 2, (0,) * (x.rank - len(padding) // 2)
    return g.node("Pad", x, g.sizes((*front, *padding[:nd], *front, *padding[nd:])))


def _fold_channels(x: Tensor) -> Tensor:
    """(B, N, C, ...) as (N, B * C, ...)."""
    x = ops.transpose(x, 0, 1)
    n, b, c, *rest = x.shape
    return ops.reshape(x, (n, b * c, *rest))


def _unfold_channels(y: Tensor, size: Size) -> Tensor:
    """(N, B * C, ...) as (B, N, C, ...)."""
    n, bc, *rest = y.shape
    return ops.transpose(ops.reshape(y, (n, size, bc // size, *rest)), 0, 1)


def _fold_images(x: Tensor) -> Tensor:
    """(B, N, ...) as (B * N, ...)."""
    b, n, *rest = x.shape
    return ops.reshape(x, (b * n, *rest))


def _unfold_images(y: Tensor, size: Size) -> Tensor:
    bn, *rest = y.shape
    return ops.reshape(y, (size, bn // size, *rest))


def _everywhere(x: Tensor, batched: bool, size: Size) -> Tensor:
    """x with the batch dim, repeated where x has none."""
    return x if batched else ops.expand(ops.unsqueeze(x, 0), (size, *x.shape))


class Convolve(Convolution):
    """y[n, f, o] = sum over c, k of x[n, c, o * stride + k * dilation - padding] * w[f, c, k].

    input: (N, C, *S)   weight: (F, C/groups, *K)   ->   (N, F, *O)
    Raises ShapeError for channels that do not fit or a kernel larger than the padded input.
    """

    signature = "input, weight, padding: sizes, stride: ints, dilation: ints, groups: size"

    def infer(self, x: Spec, w: Spec, padding: Sizes, groups: Size) -> Spec:
        self.check(x, w)
        if x.shape[1] != w.shape[1] * groups:
            raise ShapeError(
                f"convolve: given groups={groups}, weight of shape {hints(w.shape)} takes "
                f"{w.shape[1] * groups} channels, but input of shape {hints(x.shape)} has "
                f"{x.shape[1]}"
            )
        counts = self.windows(x.shape[2:], w.shape[2:], padding, x.shape)
        return Spec((x.shape[0], w.shape[0], *counts), x.dtype)

    def reference(self, x: Array, w: Array, padding: Sizes, groups: int) -> Array:
        xp = _padded(widen(x), padding)
        view = window_view(xp, w.shape[2:], self.stride, self.dilation)
        counts = view.shape[w.ndim :]
        y = np.empty((x.shape[0], w.shape[0], *counts), xp.dtype)
        if w.shape[1] == 1 and groups > 1:
            _convolve_by_taps(view, widen(w), y)
        else:
            rows = widen(w).reshape(groups, w.shape[0] // groups, math.prod(w.shape[1:]))
            for part in _chunks(view):
                product = np.matmul(rows, _columns(view[part], groups))
                images = len(y[part])
                y[part] = product.reshape(w.shape[0], images, *counts).swapaxes(0, 1)
        return y.astype(x.dtype, copy=False)

    def vjp(
        self, g: Tensor, y: Tensor, x: Tensor, w: Tensor, padding: Sizes, groups: Size
    ) -> tuple[Any, ...]:
        how = (padding, self.stride, self.dilation, groups)
        return (
            ops.convolve_input(g, conj(w), x.shape[2:], *how),
            ops.convolve_weight(conj(x), g, w.shape[2:], *how),
        )

    def onnx(self, g: OnnxBuilder, x: OnnxValue, w: OnnxValue, padding: Sizes, groups: Size) -> Any:
        return onnx_convolution(g, (x, w), padding, self.stride, self.dilation, groups)

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        w: Tensor,
        padding: Sizes,
        groups: Size,
    ) -> Tensor:
        how = (padding, self.stride, self.dilation)
        if not batched[1]:
            return _unfold_images(ops.convolve(_fold_images(x), w, *how, groups), size)
        x = _fold_channels(_everywhere(x, batched[0], size))
        y = ops.convolve(x, _fold_images(w), *how, groups * size)
        return _unfold_channels(y, size)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, padding, stride, dilation, groups in _GEOMETRIES:
            yield Sample(rng.normal(size=x), rng.normal(size=w), padding, stride, dilation, groups)


class ConvolveInput(Convolution):
    """x[n, c, i] = sum of g[n, f, o] * w[f, c, k] with o * stride + k * dilation - padding = i.

    input: (N, F, *O)   weight: (F, C/groups, *K)   size: S   ->   (N, C, *S)
    Raises ShapeError unless `convolve` of (N, C, *S) has the extents O.
    """

    signature = (
        "input, weight, size: sizes, padding: sizes, stride: ints, dilation: ints, groups: size"
    )

    def infer(self, g: Spec, w: Spec, size: Sizes, padding: Sizes, groups: Size) -> Spec:
        self.check(g, w)
        counts = self.windows(size, w.shape[2:], padding, g.shape)
        _check_output(self.name, g, w, counts)
        return Spec((g.shape[0], w.shape[1] * groups, *size), g.dtype)

    def reference(self, g: Array, w: Array, size: Sizes, padding: Sizes, groups: int) -> Array:
        nd = len(size)
        kernel, counts = w.shape[2:], g.shape[2:]
        grown = [n + lo + hi for n, lo, hi in zip(size, padding[:nd], padding[nd:], strict=True)]
        channels = w.shape[1] * groups
        wide, rows = widen(g), widen(w).reshape(groups, -1, math.prod(w.shape[1:]))
        y = np.zeros((g.shape[0], channels, *grown), wide.dtype)
        step = max(1, _CHUNK // max(1, channels * math.prod(kernel) * math.prod(counts)))
        for start in range(0, g.shape[0] if w.size else 0, step):
            part = slice(start, start + step)
            images = len(wide[part])
            columns = wide[part].swapaxes(0, 1).reshape(groups, w.shape[0] // groups, -1)
            columns = np.matmul(rows.swapaxes(1, 2), columns)
            columns = columns.reshape(channels, *kernel, images, *counts)
            for tap in taps(kernel):
                place = (part, slice(None), *tap_slices(tap, counts, self.stride, self.dilation))
                y[place] += columns[(slice(None), *tap)].swapaxes(0, 1)
        return _padded(y, [-p for p in padding]).astype(g.dtype, copy=False)

    def vjp(
        self, h: Tensor, y: Tensor, g: Tensor, w: Tensor, size: Sizes, padding: Sizes, groups: Size
    ) -> tuple[Any, ...]:
        how = (padding, self.stride, self.dilation, groups)
        return (
            ops.convolve(h, conj(w), *how),
            ops.convolve_weight(h, conj(g), w.shape[2:], *how),
        )

    def onnx(
        self, g: OnnxBuilder, x: OnnxValue, w: OnnxValue, size: Sizes, padding: Sizes, groups: Any
    ) -> Any:
        nd = len(size)
        how: dict[str, Any] = {"strides": self.stride, "dilations": self.dilation}
        how["group"] = onnx_groups(g, groups)
        steps = zip(x.shape[2:], self.stride, self.dilation, w.shape[2:], strict=True)
        reach = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in steps]
        ends = zip(size, reach, padding[:nd], padding[nd:], strict=True)
        more = [g.fixed(n - (r - lo - hi)) for n, r, lo, hi in ends]
        pads = [g.fixed(p) for p in padding]
        if all(p is not None and p >= 0 for p in pads) and all(
            m is not None and 0 <= m < max(s, d)
            for m, s, d in zip(more, self.stride, self.dilation, strict=True)
        ):
            return g.node("ConvTranspose", x, w, pads=pads, output_padding=more, **how)
        # Without pads the result is as large as the windows reach; the rest is cut off or put on.
        y = g.node("ConvTranspose", x, w, **how)
        before = [-p for p in padding[:nd]]
        after = [n + lo - r for n, lo, r in zip(size, padding[:nd], reach, strict=True)]
        y = g.shaped(y, (x.shape[0], w.shape[1] * groups, *reach))
        return onnx_padded(g, y, (*before, *after))

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        g: Tensor,
        w: Tensor,
        extents: Sizes,
        padding: Sizes,
        groups: Size,
    ) -> Tensor:
        how = (extents, padding, self.stride, self.dilation)
        if not batched[1]:
            return _unfold_images(ops.convolve_input(_fold_images(g), w, *how, groups), size)
        g = _fold_channels(_everywhere(g, batched[0], size))
        y = ops.convolve_input(g, _fold_images(w), *how, groups * size)
        return _unfold_channels(y, size)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, padding, stride, dilation, groups in _GEOMETRIES:
            g = _output_shape(x, w, padding, stride, dilation)
            yield Sample(
                rng.normal(size=g), rng.normal(size=w), x[2:], padding, stride, dilation, groups
            )


class ConvolveWeight(Convolution):
    """w[f, c, k] = sum over n, o of x[n, c, o * stride + k * dilation - padding] * g[n, f, o].

    input: (N, C, *S)   grad: (N, F, *O)   kernel: K   ->   (F, C/groups, *K)
    Raises ShapeError unless `convolve` of the input has the extents O.
    """

    signature = (
        "input, grad, kernel: sizes, padding: sizes, stride: ints, dilation: ints, groups: size"
    )

    def infer(self, x: Spec, g: Spec, kernel: Sizes, padding: Sizes, groups: Size) -> Spec:
        self.check(x, g)
        w = Spec((g.shape[1], x.shape[1] // groups, *kernel), x.dtype)
        _check_output(self.name, g, w, self.windows(x.shape[2:], kernel, padding, x.shape))
        return w

    def reference(self, x: Array, g: Array, kernel: Sizes, padding: Sizes, groups: int) -> Array:
        view = window_view(_padded(widen(x), padding), kernel, self.stride, self.dilation)
        wide = widen(g)
        filters = g.shape[1]
        total = np.zeros(
            (groups, filters // groups, x.shape[1] // groups * math.prod(kernel)), wide.dtype
        )
        for part in _chunks(view):
            rows = wide[part].swapaxes(0, 1).reshape(groups, filters // groups, -1)
            total += np.matmul(rows, _columns(view[part], groups).swapaxes(1, 2))
        y = total.reshape(filters, x.shape[1] // groups, *kernel)
        return y.astype(x.dtype, copy=False)

    def vjp(
        self,
        v: Tensor,
        y: Tensor,
        x: Tensor,
        g: Tensor,
        kernel: Sizes,
        padding: Sizes,
        groups: Size,
    ) -> tuple[Any, ...]:
        how = (padding, self.stride, self.dilation, groups)
        return (
            ops.convolve_input(conj(g), v, x.shape[2:], *how),
            ops.convolve(conj(x), v, *how),
        )

    def batch(
        self,
        batched: Sequence[bool],
        size: Size,
        x: Tensor,
        g: Tensor,
        kernel: Sizes,
        padding: Sizes,
        groups: Size,
    ) -> Tensor:
        x = _fold_channels(_everywhere(x, batched[0], size))
        g = _fold_channels(_everywhere(g, batched[1], size))
        y = ops.convolve_weight(x, g, kernel, padding, self.stride, self.dilation, groups * size)
        return _unfold_images(y, size)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, padding, stride, dilation, groups in _GEOMETRIES:
            g = _output_shape(x, w, padding, stride, dilation)
            yield Sample(
                rng.normal(size=x), rng.normal(size=g), w[2:], padding, stride, dilation, groups
            )


# x, w, padding, stride, dilation, groups
# fmt: off
_GEOMETRIES: tuple[tuple[Any, ...], ...] = (
    ((2, 3, 5), (4, 3, 3), (0, 0), (1,), (1,), 1),
    ((2, 3, 6), (4, 3, 3), (1, 1), (2,), (1,), 1),
    ((1, 4, 7), (4, 2, 2), (2, 0), (2,), (2,), 2),
    ((2, 2, 5, 4), (3, 2, 3, 2), (0, 0, 0, 0), (1, 1), (1, 1), 1),
    ((1, 2, 5, 6), (3, 2, 3, 3), (1, 2, 1, 2), (2, 1), (1, 2), 1),
    ((2, 3, 4, 4), (6, 1, 2, 2), (1, 0, 0, 1), (1, 1), (1, 1), 3),
    ((2, 3, 4, 4), (2, 3, 1, 1), (0, 0, 0, 0), (1, 1), (1, 1), 1),
    ((2, 3, 6), (2, 3, 2), (1, -2), (1,), (1,), 1),
    ((0, 3, 5), (4, 3, 3), (0, 0), (1,), (1,), 1),
    ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), (0, 1, 0, 0, 0, 1), (1, 2, 1), (1, 1, 1), 1),
)
# fmt: on


def _output_shape(
    x: Array, w: Array, padding: Sizes, stride: Sizes, dilation: Sizes
) -> tuple[int, ...]:
    nd = len(x) - 2
    counts = [
        (x[2 + i] + padding[i] + padding[nd + i] - dilation[i] * (w[2 + i] - 1) - 1) // stride[i]
        + 1
        for i in range(nd)
    ]
    return (x[0], w[0], *counts)


def _check_output(op: str, g: Spec, w: Spec, counts: tuple[Any, ...]) -> None:
    """Raise ShapeError unless g has the shape of a result of `convolve`: (N, F, *counts)."""
    for n, m in zip(g.shape[1:], (w.shape[0], *counts), strict=True):
        if n != m:
            raise ShapeError(
                f"{op}: output of shape {hints(g.shape)} does not fit weight of shape "
                f"{hints(w.shape)}: expected (N, {w.shape[0]}, {', '.join(map(str, counts))})"
            )


def _padded(x: Array, padding: Sizes) -> Array:
    """x with trailing dims grown by zeros, or cropped where padding is negative."""
    nd = len(padding) // 2
    pairs = [(0, 0)] * (x.ndim - nd) + list(zip(padding[:nd], padding[nd:], strict=True))
    if any(lo < 0 or hi < 0 for lo, hi in pairs):
        x = x[
            tuple(
                slice(max(-lo, 0), n + min(hi, 0))
                for n, (lo, hi) in zip(x.shape, pairs, strict=True)
            )
        ]
        pairs = [(max(lo, 0), max(hi, 0)) for lo, hi in pairs]
    return np.pad(x, pairs) if any(lo or hi for lo, hi in pairs) else x


def _chunks(view: Array) -> Iterator[slice]:
    """Ranges of images whose patches fit the cache together."""
    each = math.prod(view.shape[1:])
    step = max(1, _CHUNK // max(1, each))
    for start in range(0, view.shape[0], step):
        yield slice(start, start + step)


def _columns(view: Array, groups: int) -> Array:
    """Patches (n, C, *K, *O) as a matrix per group: (groups, C/groups * K, n * O)."""
    nd = (view.ndim - 2) // 2
    order = (*range(1, 2 + nd), 0, *range(2 + nd, view.ndim))
    rows = view.shape[1] // groups * math.prod(view.shape[2 : 2 + nd])
    columns = view.shape[0] * math.prod(view.shape[2 + nd :])
    return view.transpose(order).reshape(groups, rows, columns)


def _convolve_by_taps(view: Array, w: Array, y: Array) -> None:
    """A single channel per group: too little for matrix products, so add up tap by tap."""
    nd = (view.ndim - 2) // 2
    channels = view.shape[1]
    y = y.reshape(y.shape[0], channels, w.shape[0] // channels, *y.shape[2:])
    w = w.reshape(channels, w.shape[0] // channels, *w.shape[2:])
    y[...] = 0
    for tap in taps(w.shape[2:]):
        at: Any = (slice(None), slice(None), *tap)
        y += view[at][:, :, None] * w[at].reshape(*w.shape[:2], *(1,) * nd)
