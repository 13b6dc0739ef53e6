"""Ops that move elements without sharing memory: cat, pad, flip, roll, sum_to, clone."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.dtypes import DType, bool_, from_numpy, int64, promote_types
from wend._engine.base.errors import ArgumentError, DimError, ShapeError
from wend._engine.base.shapes import normalize_dim, normalize_dims
from wend._engine.core._types import Program
from wend._engine.core.kinds import Scalar, Size, Sizes, Tensor
from wend._engine.core.op_facts import ANY_DTYPE, OpBatching, OpFacts, TorchCall
from wend._engine.core.primitive import Primitive, Sample, ops
from wend._engine.core.symbolic import ADD, DIM, EQ, hints, make, numel, sym_max
from wend._engine.core.types import Number, Spec
from wend._engine.ops.numeric import accumulator, is_half, sum_accurately
from wend._engine.ops.onnx_builder import OnnxBuilder, OnnxValue
from wend._engine.ops.views.family import Shape
from wend._engine.ops.views.scatters import with_batch


class Cat(Primitive):
    """y = the tensors in a row along dim `dim`.

    tensors: equal shapes but for that dim; 1-d tensors of no elements are passed over. The dtype is
    the common promoted dtype. Raises ShapeError, ArgumentError for no tensors.
    """

    facts = OpFacts(smooth=True, supports=ANY_DTYPE, format_of="all")

    signature = "tensors: tensors, dim: int = 0"
    batching = OpBatching(joins=True)
    dim: int
    torch = TorchCall(functions=("cat", "concat", "concatenate"))

    def infer(self, tensors: list[Spec]) -> Spec:
        if not tensors:
            raise ArgumentError("cat: expected a non-empty list of Tensors")
        for k, t in enumerate(tensors):
            if not t.shape:
                raise ShapeError(
                    f"cat: zero-dimensional tensor (at position {k}) cannot be concatenated; "
                    "use stack"
                )
        kept = self.kept([t.shape for t in tensors])
        first = tensors[kept[0]].shape
        dim = normalize_dim(self.dim, len(first), "cat")
        shape = list(first)
        for k in kept[1:]:
            self._check(first, tensors[k].shape, dim, k)
        shape[dim] = total([tensors[k].shape[dim] for k in kept])
        return Spec(tuple(shape), promoted([t.dtype for t in tensors]))

    def trace_rule(self, types: list[Any], args: list[Any]) -> Program:
        """As for any op; for many tensors of equal type, the result of the rule, without running
        it.

        Lists whose length never comes back are met anew each time.
        """
        type_ = types[0] if len(types) >= MANY else None
        if type_ is None or not type_.shape or any(t is not type_ for t in types):
            return super().trace_rule(types, args)
        rank = len(type_.shape)
        dim = normalize_dim(self.dim, rank, "cat")
        others = range(1, len(types))
        fixed = [d for d in range(rank) if d != dim]
        guards = tuple([(EQ, (DIM, 0, d), (DIM, k, d), True) for k in others for d in fixed])
        shape: list[Any] = [(DIM, 0, d) for d in range(rank)]
        extents: list[Any] = [(DIM, k, dim) for k in range(len(types))]
        shape[dim] = total(extents, lambda a, b: make(ADD, a, b))
        return Program(self, guards, ((tuple(shape), type_.dtype),))

    def joined(self, arrays: list[np.ndarray]) -> np.ndarray | None:
        try:
            return np.concatenate(arrays, axis=self.dim)
        except ValueError:  # no such dim
            return None

    def joins_rows(self) -> bool:
        """Along dim 0, elements lie as before, tensor after tensor."""
        return self.dim == 0

    def by_rows(self, rows: tuple[bool, ...], ranks: tuple[int, ...]) -> bool:
        """Rows are joined with rows."""
        return all(rows) and min(ranks) > 1 and normalize_dim(self.dim, ranks[0], "cat") != 0

    @staticmethod
    def kept(shapes: list[Shape]) -> list[int]:
        """The positions of tensors that count. A 1-d tensor of no elements may be out of place."""
        rank = max(len(shape) for shape in shapes)
        if rank == 1:
            return list(range(len(shapes)))
        return [k for k, n in enumerate(shapes) if not (len(n) == 1 and n[0] == 0)]

    @staticmethod
    def _check(first: Shape, shape: Shape, dim: int, position: int) -> None:
        if len(shape) != len(first):
            raise ShapeError(
                f"cat: tensors must have same number of dimensions: got {len(first)} and "
                f"{len(shape)}, shapes {hints(first)} and {hints(shape)}"
            )
        for d, (n, m) in enumerate(zip(first, shape, strict=True)):
            if d != dim and not n == m:
                raise ShapeError(
                    f"cat: sizes of tensors must match except in dimension {dim}: expected size "
                    f"{n} but got size {m} in dimension {d} for tensor number {position} in the "
                    f"list, shapes {hints(first)} and {hints(shape)}"
                )

    def reference(self, tensors: list[np.ndarray]) -> np.ndarray:
        kept = [tensors[k] for k in self.kept([t.shape for t in tensors])]
        dtype = promoted([from_numpy(t.dtype) for t in tensors]).numpy
        return np.concatenate([t.astype(dtype, copy=False) for t in kept], axis=self.dim)

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for operands of known ranks and dtypes: most lists are of equal dtypes."""
        (tensors,), dim = operands, self.dim
        if len({(t.rank, t.dtype) for t in tensors}) > 1:
            return self.reference
        return lambda tensors: np.concatenate(tensors, dim)

    def vjp(self, g: Tensor, y: Tensor, tensors: list[Any]) -> tuple[Any, ...]:
        kept = self.kept([tuple(t.shape) for t in tensors])
        dim = normalize_dim(self.dim, len(g.shape), "cat")
        parts = dict(zip(kept, cut(g, dim, [tensors[k].shape[dim] for k in kept]), strict=True))
        grads = [
            ops.cast(parts[k], t.dtype) if k in parts else ops.full(t.shape, 0, dtype=t.dtype)
            for k, t in enumerate(tensors)
        ]
        return (grads,)

    def onnx(self, g: OnnxBuilder, tensors: list[Any]) -> OnnxValue:
        kept = [tensors[k] for k in self.kept([t.shape for t in tensors])]
        dim = normalize_dim(self.dim, kept[0].rank, "cat")
        parts = [g.cast(t, g.out[0].dtype) for t in kept]
        return g.node("Concat", *parts, axis=dim) if len(parts) > 1 else parts[0]

    def batch(self, batched: Sequence[Any], size: Size, tensors: list[Any]) -> Tensor:
        flags = batched[0]
        full = [with_batch(t, b, size) for t, b in zip(tensors, flags, strict=True)]
        kept = self.kept([tuple(t.shape)[1:] for t in full])
        full = [full[k] for k in kept]
        return ops.cat(full, normalize_dim(self.dim, len(full[0].shape) - 1, "cat") + 1)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
        yield Sample((a, b))
        yield Sample((a, rng.normal(size=(2, 1)), rng.normal(size=(2, 0))), -1)
        yield Sample((a,), 1)
        yield Sample((a, rng.normal(size=(0,)), b), 0)
        yield Sample((rng.normal(size=(0,)), rng.normal(size=(2,))))
        yield Sample((a, a), 0)


#: Extents that are added in a row; rules recurse into sums, which must not nest deeper.
RUN = 128
#: Tensors of equal type from which `Cat` writes its pattern down instead of running the rule.
MANY = 16


def total(extents: list[Any], add: Callable[[Any, Any], Any] = operator.add) -> Any:
    """Sum of extents; of many, a sum of sums."""
    while len(extents) > 1:
        runs = [extents[k : k + RUN] for k in range(0, len(extents), RUN)]
        extents = [functools.reduce(add, run) for run in runs]
    return extents[0]


def cut(g: Tensor, dim: int, lengths: list[Any]) -> list[Any]:
    """Views of the parts of g of these lengths along `dim`.

    Many parts are cut from halves: the start of a part in g would be a sum of all lengths before.
    """
    if len(lengths) > RUN:
        middle = len(lengths) // 2
        left, right = lengths[:middle], lengths[middle:]
        at = total(left)
        return [
            *cut(ops.slice(g, dim, 0, at, 1), dim, left),
            *cut(ops.slice(g, dim, at, at + total(right), 1), dim, right),
        ]
    parts, start = [], 0
    for length in lengths:
        parts.append(ops.slice(g, dim, start, start + length, 1))
        start = start + length
    return parts


def promoted(dtypes: list[DType]) -> DType:
    """The dtype that all of these promote to."""
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote_types(result, dtype)
    return result


class Pad(Primitive):
    """y = x with `value` put around: pad = (before, after) of the last dim, then of the dim before.

    Negative pads cut off. Raises ShapeError for an odd number of pads, more than x has dims, or an
    extent below 0.
    """

    signature = "input, pad: sizes, value: scalar = 0"
    torch = TorchCall(functions=("constant_pad_nd",), grad_name="ConstantPadNdBackward0")
    facts = OpFacts(supports=ANY_DTYPE, format_of="first")

    def infer(self, x: Spec, pad: Sizes, value: Number) -> Spec:
        if len(pad) % 2:
            raise ShapeError(f"pad: padding length must be divisible by 2, and pad is {hints(pad)}")
        if len(pad) > 2 * len(x.shape):
            raise ShapeError(
                f"pad: padding length should be less than or equal to two times the input "
                f"dimension, but got padding length {len(pad)} and input of dimension "
                f"{len(x.shape)}"
            )
        shape = list(x.shape)
        for k in range(len(pad) // 2):
            d = len(shape) - 1 - k
            shape[d] = shape[d] + pad[2 * k] + pad[2 * k + 1]
            if shape[d] < 0:
                raise ShapeError(
                    f"pad: pads {pad[2 * k]} and {pad[2 * k + 1]} of dim {d} of extent "
                    f"{x.shape[d]} leave an extent of {shape[d]}"
                )
        return Spec(tuple(shape), x.dtype)

    def reference(self, x: np.ndarray, pad: Sizes, value: Scalar) -> np.ndarray:
        lead = x.ndim - len(pad) // 2
        pairs = [(0, 0)] * lead + [
            (pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2 - 1, -1, -1)
        ]
        shape = tuple(n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True))
        y = np.full(shape, np.asarray(value).astype(x.dtype))
        source, place = [], []
        for n, m, (before, _) in zip(x.shape, shape, pairs, strict=True):
            start, end = max(-before, 0), min(n, m - before)
            source.append(slice(start, max(end, start)))
            place.append(slice(start + before, max(end, start) + before))
        y[tuple(place)] = x[tuple(source)]
        return y

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, pad: Sizes, value: Scalar) -> tuple[Any, ...]:
        return (ops.pad(g, tuple(-p for p in pad), 0),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, pad: Sizes, value: Scalar) -> OnnxValue:
        lead = (0,) * (x.rank - len(pad) // 2)
        before, after = (*lead, *pad[-2::-2]), (*lead, *pad[::-2])
        return g.node("Pad", x, g.sizes((*before, *after)), g.number(value, x.dtype)) if pad else x

    def batch(
        self, batched: Sequence[bool], size: Size, x: Tensor, pad: Sizes, value: Scalar
    ) -> Tensor:
        return ops.pad(x, pad, value)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), (1, 2))
        yield Sample(rng.normal(size=(2, 3)), (1, 0, 0, 2), 1.5)
        yield Sample(rng.normal(size=(2, 5)), (-1, 2, -1, 0), 3)
        yield Sample(rng.normal(size=(2, 5)), (-3, -2))
        yield Sample(rng.normal(size=(2, 5)), (-7, 4), 2)
        yield Sample(rng.normal(size=(0, 2)), (1, 1, 1, 1))
        yield Sample(rng.normal(size=()), ())


class Flip(Primitive):
    """y = x with the order of elements reversed along each of dims.

    Raises ShapeError if a dim is named twice.
    """

    signature = "input, dims: ints"
    dims: tuple[int, ...]
    torch = TorchCall(names=("flip",))
    facts = OpFacts(supports=ANY_DTYPE, format_of="copied")

    def infer(self, x: Spec) -> Spec:
        normalize_dims(self.dims, len(x.shape), "flip")
        return Spec(x.shape, x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return np.flip(x, normalize_dims(self.dims, x.ndim, "flip")) if x.ndim else x

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (ops.flip(g, self.dims),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        for dim in normalize_dims(self.dims, x.rank, "flip") if x.shape else ():
            x = g.slice(x, dim, -1, -(2**63), -1)
        return x

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        rank = len(x.shape) - 1
        dims = normalize_dims(self.dims, rank, "flip")
        return ops.flip(x, tuple(d + 1 for d in dims)) if rank else ops.alias(x)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), (0,))
        yield Sample(rng.normal(size=(2, 3, 4)), (0, -1))
        yield Sample(rng.normal(size=(2, 0)), (1,))
        yield Sample(rng.normal(size=(2, 3)), ())
        yield Sample(rng.normal(size=()), (0,))


class Roll(Primitive):
    """y[..., i, ...] = x[..., (i - shift) mod n, ...] along each of dims.

    Without dims, x counts as a row of elements.

    Raises ShapeError if shifts and dims differ in number.
    """

    signature = "input, shifts: sizes, dims: dims = None"
    dims: tuple[int, ...] | None
    torch = TorchCall(names=("roll",))
    facts = OpFacts(supports=ANY_DTYPE, format_of="copied")

    def infer(self, x: Spec, shifts: Sizes) -> Spec:
        dims = self.dims or ()
        if len(shifts) != len(dims) and not (len(shifts) == 1 and not dims):
            raise ShapeError(
                f"roll: shifts and dimensions must align: {len(shifts)} shifts, {len(dims)} dims"
            )
        for d in dims:
            if not x.shape:
                raise DimError(f"roll: dimension specified as {d} but tensor has no dimensions")
            normalize_dim(d, len(x.shape), "roll")
        return Spec(x.shape, x.dtype)

    def reference(self, x: np.ndarray, shifts: Sizes) -> np.ndarray:
        return np.roll(x, shifts, self.dims) if self.dims else np.roll(x, shifts[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, shifts: Sizes) -> tuple[Any, ...]:
        return (ops.roll(g, tuple(-s for s in shifts), self.dims or ()),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, shifts: Sizes) -> OnnxValue:
        shape = x.shape
        if not self.dims:
            rolled = self.onnx_along(g, g.reshape(x, (numel(shape),)), shifts[0], 0)
            return g.reshape(rolled, shape)
        for shift, dim in zip(shifts, self.dims, strict=True):
            x = self.onnx_along(g, x, shift, normalize_dim(dim, len(shape), "roll"))
        return x

    @staticmethod
    def onnx_along(g: OnnxBuilder, x: OnnxValue, shift: Size, dim: int) -> OnnxValue:
        """x rolled along a dim: the two parts exchanged."""
        at = (-shift) % sym_max(x.shape[dim], 1)
        parts = [g.slice(x, dim, at, None, 1), g.slice(x, dim, 0, at, 1)]
        return g.shaped(g.node("Concat", *parts, axis=dim), x.shape)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, shifts: Sizes) -> Tensor:
        if not self.dims:
            flat = ops.reshape_to(x, (x.shape[0], numel(tuple(x.shape)[1:])))
            return ops.reshape_to(ops.roll(flat, shifts, (1,)), x.shape)
        rank = len(x.shape) - 1
        return ops.roll(x, shifts, tuple(normalize_dim(d, rank, "roll") + 1 for d in self.dims))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(5,)), 2)
        yield Sample(rng.normal(size=(2, 3)), -4)
        yield Sample(rng.normal(size=(2, 3)), (1, -1), (0, 1))
        yield Sample(rng.normal(size=(4, 3)), (1, 2), (0, 0))
        yield Sample(rng.normal(size=(4, 0)), 1, 1)
        yield Sample(rng.normal(size=()), 1)


class SumTo(Primitive):
    """y = x summed over `axes`: the adjoint of expand.

    size: the shape of y. axes: the dims of x, counted from 0, that are summed out. The first
    x.dim() - len(size) dims are among them and go; all further axes stay with extent 1.
    The dtype stays x's: bool is or-ed, ints wrap, halves are accumulated in float32.
    """

    signature = "input, size: sizes, axes: ints"
    axes: tuple[int, ...]
    torch = TorchCall(grad_name="SumBackward1")
    facts = OpFacts(supports=ANY_DTYPE)

    def infer(self, x: Spec, size: Sizes) -> Spec:
        lead = len(x.shape) - len(size)
        if lead < 0 or any(d not in self.axes for d in range(lead)):
            raise ShapeError(
                f"sum_to: size {hints(size)} does not follow from shape {hints(x.shape)} "
                f"by summing over dims {self.axes}"
            )
        axes = normalize_dims(self.axes, len(x.shape), "sum_to")
        return Spec(
            tuple(1 if d in axes else x.shape[d] for d in range(lead, len(x.shape))), x.dtype
        )

    def reference(self, x: np.ndarray, size: Sizes) -> np.ndarray:
        wide = accumulator(from_numpy(x.dtype)).numpy
        total = sum_accurately(x.astype(wide, copy=False), self.axes, wide).astype(x.dtype)
        lead = x.ndim - len(size)
        kept = tuple(1 if d in self.axes else x.shape[d] for d in range(lead, x.ndim))
        return np.asarray(total.reshape(kept))

    def runner(self, operands: list[Any]) -> Any:
        """`reference` for operands of known ranks and dtypes."""
        x, size = operands
        axes, dtype, lead = self.axes, x.dtype.numpy, x.rank - len(size)
        if not axes or is_half(x.dtype):
            return self.reference
        if all(d < lead for d in axes):  # nothing stays with extent 1
            return lambda x, size: sum_accurately(x, axes, dtype)

        def run(x: np.ndarray, size: Sizes) -> np.ndarray:
            kept = [1 if d in axes else n for d, n in enumerate(x.shape)]
            y: np.ndarray = sum_accurately(x, axes, dtype).reshape(kept[lead:])
            return y

        return run

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, size: Sizes) -> tuple[Any, ...]:
        return (ops.expand_to(g, x.shape, self.axes),)

    def onnx(self, g: OnnxBuilder, x: OnnxValue, size: Sizes) -> OnnxValue:
        axes = normalize_dims(self.axes, x.rank, "sum_to")
        if not axes:
            return x
        wide = int64 if x.dtype is bool_ else accumulator(x.dtype)
        y = g.node("ReduceSum", g.cast(x, wide), g.sizes(axes), keepdims=1)
        lead = x.rank - len(size)
        if lead:
            y = g.node("Squeeze", y, g.sizes(range(lead)))
        return g.cast(y, x.dtype)

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor, target: Sizes) -> Tensor:
        lead = len(x.shape) - 1 - len(target)
        if lead:
            # The batch axis stays in front of the dims that go: sum these first.
            rest = tuple(x.shape)[1 + lead :]
            flat = ops.permute(x, (*range(1, 1 + lead), 0, *range(1 + lead, len(x.shape))))
            x = ops.sum_to(flat, (x.shape[0], *rest), tuple(range(lead)))
        axes = tuple(d - lead + 1 for d in self.axes if d >= lead)
        return ops.sum_to(x, (x.shape[0], *target), axes) if axes else x

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(rng.normal(size=(2, 3)), (3,), (0,))
        yield Sample(rng.normal(size=(2, 3)), (2, 1), (1,))
        yield Sample(rng.normal(size=(4, 2, 3)), (1, 3), (0, 1))
        yield Sample(rng.normal(size=(2, 3)), (), (0, 1))
        yield Sample(rng.normal(size=(0, 3)), (3,), (0,))
        yield Sample(rng.normal(size=(2,)), (2,), ())


class Clone(Primitive):
    """y = x, in new memory."""

    signature = "input, *, memory_format: attr = None"
    memory_format: Any
    torch = TorchCall(names=("clone",))
    facts = OpFacts(supports=ANY_DTYPE, format_of="copied")

    def infer(self, x: Spec) -> Spec:
        return Spec(x.shape, x.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        return np.array(x, order="C")

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Any, ...]:
        return (g,)

    def onnx(self, g: OnnxBuilder, x: OnnxValue) -> OnnxValue:
        return x

    def batch(self, batched: Sequence[bool], size: Size, x: Tensor) -> Tensor:
        return ops.clone(x, memory_format=self.memory_format)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((), (2, 3), (0, 2)):
            yield Sample(rng.normal(size=shape))
