"""Values made of sizes and numbers, composed of arange and full; triangles and diagonals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.devices import CPU, META, MetaPackage, place_asked
from wend._engine.base.dtypes import int64
from wend._engine.base.errors import DTypeError, ShapeError
from wend._engine.base.shapes import normalize_dim
from wend._engine.base.tracebacks import short_errors
from wend._engine.core.kinds import DType, Operand, Scalar, Size, Sizes, Tensor
from wend._engine.core.op_facts import ANY_DTYPE
from wend._engine.core.primitive import Sample, composite, ops
from wend._engine.core.symbolic import category_of, hints, numel
from wend._engine.ops.numeric import require
from wend._engine.ops.placing import full_beside
from wend._engine.ops.sugar import spelled, sugar
from wend._engine.ops.views.strided import arange


@sugar()
def zeros_like(input: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Zeros of input's shape, and of input's dtype unless a dtype is given."""
    return full_beside(input, input.shape, 0, dtype or input.dtype)


@sugar()
def ones_like(input: Tensor, *, dtype: DType | None = None) -> Tensor:
    """1 in input's shape, and in input's dtype unless a dtype is given."""
    return full_beside(input, input.shape, 1, dtype or input.dtype)


@sugar()
def full_like(input: Tensor, fill_value: Operand, *, dtype: DType | None = None) -> Tensor:
    """fill_value in input's shape, and in input's dtype unless a dtype is given."""
    return full_beside(input, input.shape, fill_value, dtype or input.dtype)


@sugar()
def zeros(size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Zeros of shape `size`; dtype: by default the default float type."""
    return ops.full(size, 0.0, dtype=dtype)


@sugar()
def ones(size: Sizes, *, dtype: DType | None = None) -> Tensor:
    """Ones of shape `size`; dtype: by default the default float type."""
    return ops.full(size, 1.0, dtype=dtype)


def _linspace_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(0, 5, 4)
    yield Sample(-1.5, 2.5, 7)
    yield Sample(3, -4, 6, dtype=dtypes.int64)
    yield Sample(2.0, 9.0, 1)
    yield Sample(2, 9, 0, dtype=dtypes.float64)


@composite(samples=_linspace_samples)
def linspace(start: Scalar, end: Scalar, steps: Size, *, dtype: DType | None = None) -> Tensor:
    """y[i] = start + i * (end - start) / (steps - 1): `steps` numbers, with both ends.

    Counted from the nearer end. Raises ShapeError for steps < 0.
    """
    dtype = _spaced_dtype("linspace", dtype, start, end)
    return ops.cast(_linspace("linspace", start, end, steps, dtype), dtype)


def _linspace(op: str, start: Operand, end: Operand, steps: Size, dtype: DType | None) -> Tensor:
    """The numbers in float64, between ends that are in `dtype`."""
    if steps < 0:
        raise ShapeError(f"{op}: number of steps must be non-negative, and is {steps}")
    require(op, frozenset({"int", "float"}), dtype or dtypes.get_default_dtype())
    start, end = (
        ops.cast(ops.full((), number, dtype=dtype), dtypes.float64) for number in (start, end)
    )
    if steps == 1:
        return ops.reshape_to(start, (1,))
    i = ops.arange(0.0, 0.0, 1.0, steps, dtype=dtypes.float64)
    step = (end - start) / (steps - 1)
    # From the nearer end, so that both ends are exact.
    return ops.where(ops.lt(i, steps // 2), i * step + start, end - (steps - 1 - i) * step)


def _spaced_dtype(op: str, dtype: DType | None, *ends: Scalar) -> DType:
    if dtype is None:
        return dtypes.get_default_dtype()
    if any(category_of(end) > dtypes.FLOAT for end in ends):
        raise DTypeError(f"{op}: complex ends are not supported")
    return dtype


def _logspace_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(0, 2, 3)
    yield Sample(-1.0, 1.0, 5, 2.0)
    yield Sample(0, 3, 4, 2, dtype=dtypes.int64)


@composite(
    samples=_logspace_samples,
)
def logspace(
    start: Scalar, end: Scalar, steps: Size, base: Scalar = 10.0, *, dtype: DType | None = None
) -> Tensor:
    """y[i] = base ** (start + i * (end - start) / (steps - 1)). Raises ShapeError for steps < 0."""
    dtype = _spaced_dtype("logspace", dtype, start, end)
    exponents = _linspace("logspace", start, end, steps, dtype)
    y = ops.pow(ops.full((), base * 1.0, dtype=dtypes.float64), exponents)
    return ops.cast(y, dtype)


def _eye_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(3, 3)
    yield Sample(2, 4, dtype=dtypes.int64)
    yield Sample(0, 2)


@composite(samples=_eye_samples)
def eye(n: Size, m: Size | None = None, *, dtype: DType | None = None) -> Tensor:
    """y[i, j] = 1 if i == j else 0; n rows, m columns (n by default)."""
    m = n if m is None else m
    for extent, name in ((n, "n"), (m, "m")):
        if extent < 0:
            raise ShapeError(f"eye: {name} must be greater or equal to 0, got {extent}")
    hit = ops.eq(ops.unsqueeze(arange(n), 1), arange(m))
    return ops.cast(hit, dtype or dtypes.get_default_dtype())


# --- triangles ------------------------------------------------------------------


def _below(op: str, input: Tensor, diagonal: Size) -> Tensor:
    """Where column - row <= diagonal, in the last two dims. Raises ShapeError below 2 dims."""
    if len(input.shape) < 2:
        raise ShapeError(
            f"{op}: input tensor must have at least 2 dimensions, and has shape "
            f"{hints(input.shape)}"
        )
    rows, columns = input.shape[-2], input.shape[-1]
    # Expanded without a guard: the pattern must not tell a single row from many.
    across = ops.expand_to(ops.unsqueeze(arange(columns), 0), (rows, columns), (0,))
    down = ops.expand_to(ops.unsqueeze(arange(rows), 1), (rows, columns), (1,))
    return ops.le(across - down, diagonal)


def _triangle_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3, 4)))
    yield Sample(rng.normal(size=(2, 4, 3)), 1)
    yield Sample(rng.normal(size=(3, 3)), -2)
    yield Sample(rng.normal(size=(0, 3)))
    yield Sample(rng.normal(size=(2, 2)), 9)


@composite(
    functions=("tril",),
    methods=("tril",),
    inplace=True,
    samples=_triangle_samples,
    supports=ANY_DTYPE,
)
def tril(input: Tensor, diagonal: Size = 0) -> Tensor:
    """y = input on and below a diagonal of the last two dims, zero above.

    diagonal: 0 the main diagonal, positive above the main. Raises ShapeError below 2 dims.
    """
    zero = ops.full((), 0, dtype=input.dtype)
    return ops.where(_below("tril", input, diagonal), input, zero)


@composite(
    functions=("triu",),
    methods=("triu",),
    inplace=True,
    samples=_triangle_samples,
    supports=ANY_DTYPE,
)
def triu(input: Tensor, diagonal: Size = 0) -> Tensor:
    """y = input on and above a diagonal of the last two dims, zero below.

    diagonal: 0 the main diagonal, positive above the main. Raises ShapeError below 2 dims.
    """
    zero = ops.full((), 0, dtype=input.dtype)
    return ops.where(_below("triu", input, diagonal - 1), zero, input)


def _count_below(rows: int, columns: int, offset: int) -> int:
    """How many elements of a matrix have column - row <= offset."""
    return sum(min(max(row + offset + 1, 0), columns) for row in range(rows))


def _triangle_indices(op: str, row: int, col: int, offset: int, lower: bool) -> Tensor:
    if row < 0 or col < 0:
        raise ShapeError(f"{op}: row and col must be non-negative, and are {row} and {col}")
    whole = ops.full((row, col), True, dtype=dtypes.bool_)
    if lower:
        return ops.t(
            ops.nonzero_static(ops.tril(whole, offset), size=_count_below(row, col, offset))
        )
    count = row * col - _count_below(row, col, offset - 1)
    return ops.t(ops.nonzero_static(ops.triu(whole, offset), size=count))


@sugar(functions=("tril_indices",))
@short_errors
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = int64,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """(2, count): rows and columns of the elements on and below a diagonal, row by row."""
    place = place_asked(device, "tril_indices")
    indices = ops.cast(_triangle_indices("tril_indices", row, col, offset, True), dtype)
    return _finished(indices, place, requires_grad)


@sugar(functions=("triu_indices",))
@short_errors
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = int64,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """(2, count): rows and columns of the elements on and above a diagonal, row by row."""
    place = place_asked(device, "triu_indices")
    indices = ops.cast(_triangle_indices("triu_indices", row, col, offset, False), dtype)
    return _finished(indices, place, requires_grad)


def _finished(tensor: Any, place: Any, requires_grad: bool) -> Any:
    if place is META:
        tensor = MetaPackage.load().placed(tensor)
    elif place is not CPU:
        tensor = ops.to_device(tensor, place, CPU)
    return tensor.requires_grad_() if requires_grad else tensor


# --- diagonals ------------------------------------------------------------------


def _diag_embed_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3,)))
    yield Sample(rng.normal(size=(2, 3)), 1)
    yield Sample(rng.normal(size=(2, 3)), -2, 0, 2)
    yield Sample(rng.normal(size=(0,)))


@composite(
    functions=("diag_embed",),
    methods=("diag_embed",),
    samples=_diag_embed_samples,
    supports=ANY_DTYPE,
)
def diag_embed(input: Tensor, offset: Size = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """y = zeros with the last dim of input on the diagonal of two new dims dim1 and dim2.

    Raises ShapeError if the two are the same.
    """
    rank = len(input.shape) + 1
    if rank < 2:
        raise ShapeError("diag_embed: input must have at least 1 dimension")
    dim1 = normalize_dim(dim1, rank, "diag_embed")
    dim2 = normalize_dim(dim2, rank, "diag_embed")
    if dim1 == dim2:
        raise ShapeError(f"diag_embed: diagonal dimensions cannot be identical: {dim1}, {dim2}")
    extent = input.shape[-1] + (offset if offset >= 0 else -offset)
    shape = list(input.shape)[:-1]
    for dim in sorted((dim1, dim2)):
        shape.insert(dim, extent)
    whole = ops.full(tuple(shape), 0, dtype=input.dtype)
    return ops.diagonal_scatter(whole, input, offset, dim1, dim2)


def _diag_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(rng.normal(size=(3,)), -1)
    yield Sample(rng.normal(size=(3, 4)))
    yield Sample(rng.normal(size=(3, 4)), 2)


@composite(
    functions=("diag",),
    methods=("diag",),
    samples=_diag_samples,
    supports=ANY_DTYPE,
    grad_nodes=lambda n, x, _: (
        n.DiagEmbed(x) if x.rank == 1 else n.node("DiagonalBackward0_copy", x)
    ),
)
def diag(input: Tensor, diagonal: Size = 0) -> Tensor:
    """y = a matrix with input on the diagonal, or the diagonal of a matrix.

    diagonal: 0 the main, positive above the main. Raises ShapeError unless input is 1-d or 2-d.
    """
    rank = len(input.shape)
    if rank == 1:
        return ops.diag_embed(input, diagonal)
    if rank != 2:
        raise ShapeError(f"diag: supports 1D or 2D tensors, and got shape {hints(input.shape)}")
    return ops.diagonal(input, diagonal)


@composite(
    functions=("diagflat",),
    methods=("diagflat",),
    samples=lambda rng: iter([Sample(rng.normal(size=(2, 2)), 1), Sample(rng.normal(size=()))]),
    supports=ANY_DTYPE,
    grad_nodes=lambda n, x, _: n.DiagEmbed(n.View(x)),
)
def diagflat(input: Tensor, offset: Size = 0) -> Tensor:
    """y = a matrix with all elements of input, in row-major order, on the diagonal."""
    return ops.diag_embed(ops.ravel(input), offset)


def _block_diag_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample((rng.normal(size=(2, 3)), rng.normal(size=(1,)), rng.normal(size=())))
    yield Sample((rng.normal(size=(0, 2)), rng.normal(size=(2, 1))))


@composite(functions=("block_diag",), samples=_block_diag_samples)
def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    """y = a matrix with the given matrices on the diagonal; vectors count as rows."""
    blocks = []
    for k, t in enumerate(tensors):
        if len(t.shape) > 2:
            raise ShapeError(
                f"block_diag: tensors must have 2 or fewer dimensions; number {k} has shape "
                f"{hints(t.shape)}"
            )
        rows = t.shape[0] if len(t.shape) == 2 else 1
        columns = t.shape[-1] if len(t.shape) else 1
        blocks.append(ops.reshape(t, (rows, columns)))
    width: Any = 0
    for block in blocks:
        width = width + block.shape[1]
    padded, start = [], 0
    for block in blocks:
        end = start + block.shape[1]
        padded.append(ops.pad(block, (start, width - end), 0))
        start = end
    return ops.cat(padded, 0)


def _one_hot_samples(rng: np.random.Generator) -> Iterator[Sample]:
    yield Sample(np.array([[0, 2], [1, 1]]), 3)
    yield Sample(np.array(1), 4)
    yield Sample(np.zeros((0, 2), np.int64), 3)


@composite(
    name="one_hot_known",
    samples=_one_hot_samples,
    fallible=True,
)
def one_hot_known(input: Tensor, num_classes: Size) -> Tensor:
    """y[..., k] = 1 if input[...] == k else 0, in int64. Raises IndexOutOfRange."""
    if input.dtype is not int64:
        raise DTypeError(
            f"one_hot: is only applicable to index tensor of type LongTensor, not {input.dtype}"
        )
    whole = ops.full((*input.shape, num_classes), 0, dtype=int64)
    return ops.scatter(whole, len(input.shape), ops.unsqueeze(input, -1), 1)


@sugar()
@spelled(input="tensor")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """(*tensor.shape, num_classes) of int64: 1 at the class of each element, 0 elsewhere.

    num_classes: by default the largest element plus 1, which waits for the value
    Raises ShapeError if the number is unknown, IndexOutOfRange beyond the classes.
    """
    if num_classes == -1:
        if numel(tensor.shape) == 0:
            raise ShapeError(
                "one_hot: can not infer total number of classes from empty tensor; give num_classes"
            )
        num_classes = int(ops.max(tensor)) + 1
    if num_classes < 0 or (num_classes == 0 and numel(tensor.shape) > 0):
        raise ShapeError(f"one_hot: num_classes should be positive, and is {num_classes}")
    return ops.one_hot_known(tensor, num_classes)
