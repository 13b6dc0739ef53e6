"""Pooling over windows: max, average, power mean; unpooling; unfold and fold.

Kernel, stride, padding and dilation are run-time sizes, so pooling over a whole input of varying
extent is one structure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wend._engine.base.dtypes import FLOAT, float32, int64
from wend._engine.base.errors import DivisionByZero, ShapeError
from wend._engine.core.kinds import Size, Sizes, Tensor
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import hints, numel, sym_min
from wend._engine.ops.composites.layers.conv import as_batch, per_dim
from wend._engine.ops.composites.reduce import widened
from wend._engine.ops.gradient_nodes import NodeBuilder
from wend._engine.ops.numeric import accumulator
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue


class Windows:
    """The geometry of a pooling call, checked, an entry per spatial dim.

    counts: how many windows     spans: how far the windows reach from the padded low end
    Raises ShapeError for sizes that make no sense or leave no window.
    """

    def __init__(
        self, op: str, nd: int, x: Tensor, kernel: Any, stride: Sizes, padding: Sizes,
        dilation: Sizes, ceil_mode: bool,
    ) -> None:  # fmt: skip
        self.size = x.shape[2:]
        self.ceil_mode = ceil_mode  # where windows may reach further than the input, by its size
        self.kernel = per_dim(op, "kernel_size", kernel, nd)
        # An empty stride means none was given, as in PyTorch.
        self.stride = per_dim(op, "stride", stride, nd) if stride else self.kernel
        self.padding = per_dim(op, "padding", padding, nd)
        self.dilation = per_dim(op, "dilation", dilation, nd)
        self._check(op)
        self.counts = tuple(
            _count(n, k, s, p, d, ceil_mode)
            for n, k, s, p, d in zip(
                self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )
        if any(count <= 0 for count in self.counts):
            raise ShapeError(
                f"{op}: given input of shape {hints(x.shape)}, kernel_size "
                f"{hints(self.kernel)}: calculated output size {hints(self.counts)} is too small"
            )
        self.spans = tuple(
            (count - 1) * s + d * (k - 1) + 1
            for count, k, s, d in zip(
                self.counts, self.kernel, self.stride, self.dilation, strict=True
            )
        )

    def _check(self, op: str) -> None:
        for k, s, p, d in zip(self.kernel, self.stride, self.padding, self.dilation, strict=True):
            if k <= 0 or s <= 0 or d <= 0:
                raise ShapeError(
                    f"{op}: kernel size, stride and dilation should be greater than zero, but got "
                    f"kernel_size {hints(self.kernel)}, stride {hints(self.stride)}, dilation "
                    f"{hints(self.dilation)}"
                )
            if p < 0 or 2 * p > d * (k - 1) + 1:
                raise ShapeError(
                    f"{op}: pad should be non-negative and at most half of effective kernel size, "
                    f"but got pad={p}, kernel_size={k} and dilation={d}"
                )

    def padded(self, x: Tensor) -> Tensor:
        """x with zeros around, cut or grown to the reach of the windows."""
        pads: list[Any] = []
        for n, p, span in zip(self.size, self.padding, self.spans, strict=True):
            pads = [p, span - p - n, *pads]  # the last dim comes first
        if not self.ceil_mode and all(p == 0 for p in self.padding):
            return x  # patches() leaves out elements that no window reaches
        return ops.pad(x, tuple(pads))


def _count(n: Size, k: Size, s: Size, p: Size, d: Size, ceil_mode: bool) -> Any:
    room = n + 2 * p - d * (k - 1) - 1
    if not ceil_mode:
        return room // s + 1
    # The last window must begin inside the input or in the low padding.
    return sym_min((room + s - 1) // s + 1, (n + p - 1) // s + 1)


def _require_content(op: str, x: Tensor) -> None:
    for n in x.shape[1:]:
        if n == 0:
            raise ShapeError(
                f"{op}: expected input with non-zero size for non-batch dims, but got shape "
                f"{hints(x.shape)}"
            )


# --- max -------------------------------------------------------------------------------------


def _max_pool(op: str, nd: int, x: Tensor, *how: Any) -> Tensor:
    return _max_pool_with_indices(op, nd, x, *how)[0]


def _max_pool_with_indices(op: str, nd: int, x: Tensor, *how: Any) -> tuple[Tensor, Tensor]:
    kernel, stride, padding, dilation, ceil_mode = how
    x, batched = as_batch(op, x, nd)
    _require_content(op, x)
    w = Windows(op, nd, x, kernel, stride, padding, dilation, ceil_mode)
    values, indices = ops.max_windows(x, w.kernel, w.stride, w.padding, w.dilation, w.counts)
    if not batched:
        values, indices = ops.squeeze(values, 0), ops.squeeze(indices, 0)
    return values, indices


def _distinct(rng: Any, *shape: int) -> Any:
    # Equal elements would make the gradient depend on which is taken.
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 3.0


def _max_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    size = (7, 6, 5)[:nd]
    x = _distinct(rng, 2, 3, *size)
    yield Sample(x, 2)
    yield Sample(x[0], (2,) * nd, 1)
    yield Sample(x, 3, 2, 1)
    yield Sample(x, 2, dilation=2, ceil_mode=True)
    yield Sample(x, 3, 3, 1, 1, True)
    yield Sample(x[:0], 2)


# --- average -----------------------------------------------------------------------------------


def _lengths(w: Windows, i: int, include_pad: bool) -> Tensor:
    """How many elements each window along dim i averages over (int64, 1-D)."""
    count, n, k, s, p = w.counts[i], w.size[i], w.kernel[i], w.stride[i], w.padding[i]
    start = ops.sub(ops.mul(ops.arange(0, count, 1, count, dtype=int64), s), p)
    end = ops.minimum(ops.add(start, k), n + p)
    if not include_pad:
        start, end = ops.maximum(start, 0), ops.minimum(end, n)
    return ops.sub(end, start)


def _divisor(w: Windows, nd: int, ceil_mode: bool, include_pad: bool) -> Any:
    whole = include_pad or all(p == 0 for p in w.padding)
    if whole and not ceil_mode:
        return numel(w.kernel)
    divisor = None
    for i in range(nd):
        lengths = _lengths(w, i, include_pad)
        lengths = ops.reshape(lengths, (w.counts[i], *(1,) * (nd - 1 - i)))
        divisor = lengths if divisor is None else ops.mul(divisor, lengths)
    return divisor


def _average(op: str, nd: int, x: Tensor, *how: Any) -> Tensor:
    kernel, stride, padding, ceil_mode, count_include_pad, *rest = how
    divisor_override = rest[0] if rest else None
    x, batched = as_batch(op, x, nd)
    _require_content(op, x)
    w = Windows(op, nd, x, kernel, stride, padding, (1,), ceil_mode)
    patches = ops.patches(w.padded(widened(x)), w.kernel, w.stride, (1,) * nd)
    total = ops.sum(patches, tuple(range(2, 2 + nd)))
    if divisor_override is not None:
        if divisor_override == 0:
            raise ShapeError(f"{op}: divisor must be not zero")
        divisor = divisor_override
    else:
        divisor = _divisor(w, nd, ceil_mode, count_include_pad)
    y = ops.div(total, divisor)
    if x.dtype.category < FLOAT:
        y = ops.trunc(y)
    y = ops.cast(y, x.dtype)
    return y if batched else ops.squeeze(y, 0)


def _onnx_average(
    self: Any,
    g: OnnxBuilder,
    x: OnnxValue,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    divisor: Any = None,
) -> Any:
    nd, wide = int(self.name[-2]), accumulator(x.dtype)
    if self.ceil_mode or divisor is not None or wide is not float32:
        return NotImplemented
    window = per_dim(self.name, "kernel_size", kernel, nd)
    steps = per_dim(self.name, "stride", stride, nd) if stride else window
    pads = per_dim(self.name, "padding", padding, nd)
    rows = [[g.fixed(n) for n in sizes] for sizes in (window, steps, pads)]
    if any(None in row for row in rows):
        return NotImplemented
    image = (
        x if x.rank == nd + 2 else g.shaped(g.node("Unsqueeze", x, g.sizes((0,))), (1, *x.shape))
    )
    y = g.node(
        "AveragePool",
        g.cast(image, wide),
        kernel_shape=rows[0],
        strides=rows[1],
        pads=rows[2] * 2,
        count_include_pad=int(self.count_include_pad),
    )
    return g.cast(y if image is x else g.node("Squeeze", y, g.sizes((0,))), x.dtype)


def _average_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, *(7, 6, 5)[:nd]))
    yield Sample(x, 2)
    yield Sample(x[0], 3, 1)
    yield Sample(x, 3, 2, 1)
    yield Sample(x, 3, 2, 1, True)
    yield Sample(x, 3, 2, 1, True, False)
    yield Sample(x, 2, ceil_mode=True, count_include_pad=False)
    if nd > 1:
        yield Sample(x, 2, divisor_override=3)


def _lp_pool(op: str, nd: int, x: Tensor, *how: Any) -> Tensor:
    norm_type, kernel, stride, ceil_mode = how
    if norm_type == 0:
        raise DivisionByZero(f"{op}: float division by zero: norm_type is {norm_type}")
    if abs(norm_type) == math.inf:
        sign = math.copysign(1, norm_type)
        greatest = getattr(ops, f"max_pool{nd}d")
        return ops.mul(greatest(ops.mul(ops.abs(x), sign), kernel, stride, 0, 1, ceil_mode), sign)
    power = _average(op, nd, ops.pow(x, norm_type), kernel, stride, (0,), ceil_mode, True, None)
    power = ops.mul(power, numel(per_dim(op, "kernel_size", kernel, nd)))
    return ops.pow(ops.mul(ops.sign(power), ops.relu(ops.abs(power))), 1 / norm_type)


def _lp_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    x = rng.uniform(0.5, 2.0, size=(2, 3, *(7, 6, 5)[:nd]))
    yield Sample(x, 2, 2)
    yield Sample(x[0], 3.0, 3, 2)
    yield Sample(x, 2, 3, ceil_mode=True)


# --- unpooling -----------------------------------------------------------------------------------


def _max_unpool(op: str, nd: int, x: Tensor, indices: Tensor, *how: Any) -> Tensor:
    kernel, stride, padding, output_size = how
    kernel = per_dim(op, "kernel_size", kernel, nd)
    stride = per_dim(op, "stride", stride, nd) if stride else kernel
    padding = per_dim(op, "padding", padding, nd)
    if len(indices.shape) != len(x.shape) or any(
        a != b for a, b in zip(x.shape, indices.shape, strict=True)
    ):
        raise ShapeError(
            f"{op}: expected shape of indices to be the same as that of the input "
            f"({hints(x.shape)}), but got indices of shape {hints(indices.shape)}"
        )
    x, batched = as_batch(op, x, nd)
    indices, _ = as_batch(op, indices, nd)
    if output_size is None:
        size = tuple(
            (n - 1) * s - 2 * p + k
            for n, s, p, k in zip(x.shape[2:], stride, padding, kernel, strict=True)
        )
    else:
        size = tuple(output_size)[len(output_size) - nd :]
    front = x.shape[:2]
    count = numel(x.shape[2:])
    y = ops.scatter(
        ops.full((*front, numel(size)), 0, dtype=x.dtype),
        2,
        ops.reshape(indices, (*front, count)),
        ops.reshape(x, (*front, count)),
    )
    y = ops.reshape(y, (*front, *size))
    return y if batched else ops.squeeze(y, 0)


def _unpool_samples(rng: np.random.Generator, nd: int) -> Iterator[Sample]:
    count, into = 3**nd, 6**nd
    indices = np.stack([rng.permutation(into)[:count] for _ in range(2)])
    indices = indices.reshape(1, 2, *(3,) * nd)
    yield Sample(rng.normal(size=indices.shape), indices, 2)
    yield Sample(rng.normal(size=indices.shape)[0], indices[0], 2, output_size=(7,) * nd)


# --- definitions ---------------------------------------------------------------------------------

_OVER = """
    input: (N, C, *S) or (C, *S)   ->   (N, C, *O) or (C, *O)
    kernel_size, stride (by default the kernel), padding: int or one per dim
    ceil_mode: round the number of windows up     Raises ShapeError for windows that do not fit.
    """


def pool_nodes(n: NodeBuilder, nd: int, name: str, x: object) -> object:
    """The nodes of a pooling; PyTorch pools a single dim with an extra dim of extent 1."""
    pooling = getattr(n, name.format(max(nd, 2)))
    return n.Squeeze1(pooling(n.Unsqueeze(x))) if nd == 1 else pooling(x)


def _lp_nodes(n: NodeBuilder, nd: int, x: object) -> object:
    mean = pool_nodes(n, nd, "AvgPool{}D", n.Pow(x))
    return n.Pow(n.Mul(n.Mul(n.Sign(mean), n.Relu(n.Abs(mean))), None))


def _define(nd: int) -> None:
    """Make the pooling functions over nd dims."""

    def publish(name: str, doc: str, signature: str, rule: Any, samples: Any, **facts: Any) -> None:
        def body(*arguments: Any) -> Any:
            return rule(name, nd, *arguments)

        body.__doc__ = doc + _OVER
        body.__module__ = __name__
        more: Any = {"format_of": "first", "samples": lambda rng: samples(rng, nd)}
        composite(signature, name=name, **more | facts)(body)

    window = "kernel_size: sizes, stride: sizes? = None, padding: sizes = (0,)"
    publish(
        f"max_pool{nd}d",
        "y = the greatest element of each window.",
        f"input, {window}, dilation: sizes = (1,), ceil_mode: bool = False",
        _max_pool,
        _max_samples,
        functions=(f"max_pool{nd}d",),
        grad_nodes=lambda n, x, *_: pool_nodes(n, nd, "MaxPool{}DWithIndices", x),
        supports=frozenset({"int", "float"}),
    )
    publish(
        f"max_pool{nd}d_with_indices",
        "(y, indices): the greatest element of each window, and its flat position in the input.",
        f"input, {window}, dilation: sizes = (1,), ceil_mode: bool = False",
        _max_pool_with_indices,
        _max_samples,
        functional=(f"max_pool{nd}d_with_indices",),
        grad_nodes=lambda n, x, *_: pool_nodes(n, nd, "MaxPool{}DWithIndices", x),
        supports=frozenset({"int", "float"}),
        result=tuple,
    )
    publish(
        f"avg_pool{nd}d",
        "y = the mean of each window.",
        f"input, {window}, ceil_mode: bool = False, count_include_pad: bool = True"
        + (", divisor_override: size? = None" if nd > 1 else ""),
        _average,
        _average_samples,
        onnx=_onnx_average,
        format_of="first" if nd < 3 else "none",  # as PyTorch's kernels do
        functional=(f"avg_pool{nd}d",),
        grad_nodes=lambda n, x, *_: pool_nodes(n, nd, "AvgPool{}D", x),
        supports=frozenset({"int", "float"}),
    )
    publish(
        f"lp_pool{nd}d",
        "y = (sum of x**norm_type over each window) ** (1 / norm_type).",
        "input, norm_type: attr, kernel_size: sizes, stride: sizes? = None, "
        "ceil_mode: bool = False",
        _lp_pool,
        _lp_samples,
        functional=(f"lp_pool{nd}d",),
        grad_nodes=lambda n, x, *_: _lp_nodes(n, nd, x),
        supports=frozenset({"float"}),
    )
    publish(
        f"max_unpool{nd}d",
        "y = zeros with each element of x at its flat index: what max pooling left of its input.",
        f"input, indices, {window}, output_size: sizes? = None",
        _max_unpool,
        _unpool_samples,
        functional=(f"max_unpool{nd}d",),
        grad_nodes=lambda n, x, *_: pool_nodes(n, nd, "MaxUnpool{}D", x),
    )


for _nd in (1, 2, 3):
    _define(_nd)


# --- unfold and fold -----------------------------------------------------------------------------


def _im2col_samples(rng: np.random.Generator) -> Iterator[Sample]:
    x = rng.normal(size=(2, 3, 5, 6))
    yield Sample(x, 2)
    yield Sample(x[0], (2, 3), padding=1, stride=2)
    yield Sample(x, (2, 2), (1, 2), 1, 2)


@composite(
    samples=_im2col_samples,
    functional=("unfold",),
    grad_name="Im2ColBackward0",
)
def im2col(
    input: Tensor,
    kernel_size: Sizes,
    dilation: Sizes = (1,),
    padding: Sizes = (0,),
    stride: Sizes = (1,),
) -> Tensor:
    """y[n, :, l] = all elements of window l of image n.

    input: (N, C, H, W) or (C, H, W)   ->   (N, C * prod(kernel), number of windows)
    Raises ShapeError if no window fits.
    """
    x, batched = as_batch("unfold", input, 2)
    kernel, step, pad, apart = _blocks("unfold", kernel_size, stride, padding, dilation)
    counts = _block_counts("unfold", x.shape[2:], kernel, step, pad, apart)
    if not all(p == 0 for p in pad):
        x = ops.pad(x, (pad[1], pad[1], pad[0], pad[0]))
    y = ops.patches(x, kernel, step, apart)
    y = ops.reshape(y, (x.shape[0], x.shape[1] * numel(kernel), numel(counts)))
    return y if batched else ops.squeeze(y, 0)


def _blocks(op: str, *arguments: Any) -> list[tuple[Any, ...]]:
    names = ("kernel_size", "stride", "padding", "dilation")
    return [per_dim(op, name, value, 2) for name, value in zip(names, arguments, strict=True)]


def _block_counts(
    op: str, size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Any:
    for k, s, p, d in zip(kernel, stride, padding, dilation, strict=True):
        if k <= 0 or s <= 0 or d <= 0 or p < 0:
            raise ShapeError(
                f"{op}: kernel size, stride and dilation should be greater than zero and padding "
                f"non-negative, but got kernel_size {hints(kernel)}, stride {hints(stride)}, "
                f"dilation {hints(dilation)}, padding {hints(padding)}"
            )
    counts = tuple(
        _count(n, k, s, p, d, False)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if any(count <= 0 for count in counts):
        raise ShapeError(
            f"{op}: given spatial size {hints(size)}, kernel_size={hints(kernel)}, "
            f"dilation={hints(dilation)}, padding={hints(padding)}, calculated shape of the array "
            f"of sliding blocks as {hints(counts)}, but its components must be at least one"
        )
    return counts


def _col2im_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(2, 12, 20)), (5, 6), 2)
    yield Sample(rng.normal(size=(12, 20)), (5, 6), (2, 2))
    yield Sample(rng.normal(size=(2, 6, 9)), (5, 6), (2, 3), padding=1, stride=2)


@composite(
    samples=_col2im_samples,
    functional=("fold",),
    grad_name="Col2ImBackward0",
)
def col2im(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = (1,),
    padding: Sizes = (0,),
    stride: Sizes = (1,),
) -> Any:
    """y = the sum of windows, each element at its place: the adjoint of unfold.

    input: (N, C * prod(kernel), number of windows)   ->   (N, C, *output_size); N may be missing
    Raises ShapeError unless that many windows fit into output_size.
    """
    op = "fold"
    x, batched = as_batch(op, input, 1)
    size = per_dim(op, "output_size", output_size, 2)
    kernel, step, pad, apart = _blocks(op, kernel_size, stride, padding, dilation)
    counts = _block_counts(op, size, kernel, step, pad, apart)
    each = numel(kernel)
    if x.shape[1] % each != 0:
        raise ShapeError(
            f"{op}: expected size of input's dimension 1 to be divisible by the product of "
            f"kernel_size {hints(kernel)}, but got input of shape {hints(input.shape)}"
        )
    if x.shape[2] != numel(counts):
        raise ShapeError(
            f"{op}: given output_size={hints(size)}, kernel_size={hints(kernel)}, "
            f"dilation={hints(apart)}, padding={hints(pad)}, stride={hints(step)}, expected size "
            f"of input's dimension 2 to match the calculated number of sliding blocks "
            f"{counts[0]} * {counts[1]} = {numel(counts)}, but got {x.shape[2]}"
        )
    x = ops.reshape(x, (x.shape[0], x.shape[1] // each, *kernel, *counts))
    grown = tuple(n + 2 * p for n, p in zip(size, pad, strict=True))
    y = ops.unpatches(x, grown, step, apart)
    if not all(p == 0 for p in pad):
        y = ops.pad(y, (-pad[1], -pad[1], -pad[0], -pad[0]))
    return y if batched else ops.squeeze(y, 0)
