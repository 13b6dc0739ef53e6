"""torch.distributions.utils: parameters as tensors, and probabilities and logits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType, finfo, int64
from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor, has_override
from wend._engine.core.kinds import Operand
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._frontend.autograd.backward import enable_grad
from wend._frontend.creation import tensor
from wend._frontend.random import randn

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant: float = 0.57721566490153286060


def broadcast_all(*values: Operand) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of equal shape; numbers take the tensors' dtype.

    Raises ArgumentError (a ValueError) for anything else.
    """
    for value in values:
        if not isinstance(value, Tensor | int | float) and not has_override(value):
            raise ArgumentError(
                "broadcast_all: Input arguments must all be instances of Number, torch.Tensor or "
                f"objects implementing __torch_function__, not {type(value).__name__}"
            )
    tensors = [v for v in values if not isinstance(v, int | float)]
    dtype = tensors[0].dtype if tensors else None
    operands = [tensor(float(v), dtype=dtype) if isinstance(v, int | float) else v for v in values]
    return tuple(ops.broadcast_tensors(*operands))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1, where logarithms are infinite."""
    eps = finfo(probs.dtype).eps
    return ops.clamp(probs, min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: by the sigmoid if binary, else by softmax along the last dim."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities: log odds if they are binary, else logarithms."""
    kept = clamp_probs(probs)
    logs = ops.log(kept)
    return logs - ops.log1p(-kept) if is_binary else logs


def check_one_given(name: str, probs: object, logits: object) -> None:
    """Raise ArgumentError unless either probabilities or logits are given, and not both."""
    if (probs is None) == (logits is None):
        raise ArgumentError(
            f"{name}: Either `probs` or `logits` must be specified, but not both. Got "
            f"{'none' if probs is None else 'both'}"
        )


class lazy_property:
    """A property that is computed once per instance, with gradients recorded."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return _LazyOfClass(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _LazyOfClass(lazy_property, property):
    """A lazy property as its class shows the property: programs ask for either type."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangles of matrices (..., n, n), row by row, as vectors.

    diag: the last diagonal that counts. Raises ArgumentError unless -n <= diag < n.
    """
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ArgumentError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    flat = ops.reshape(mat, (*mat.shape[:-2], n * n))
    return ops.index_select(flat, -1, tensor(_places(n, diag), dtype=int64, device=flat.device))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices (..., n, n) whose lower triangles are the vectors, row by row; 0 above.

    Raises ArgumentError where no n fits.
    """
    count = vec.shape[-1]
    if diag < 0:  # a triangle of n + diag rows
        n = ((1 + 8 * count) ** 0.5 - 1) / 2 - diag
    else:  # count = (n^2 + (2 diag + 1) n - diag (diag + 1)) / 2
        side = 2 * diag + 1
        n = ((side**2 + 8 * count + 4 * diag * (diag + 1)) ** 0.5 - side) / 2
    if abs(n - round(n)) > 1e-6:
        raise ArgumentError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    size = round(n)
    places = _places(size, diag)
    source = [0] * size**2
    for k, place in enumerate(places):
        source[place] = k
    square = (*vec.shape[:-1], size, size)
    matrices = ops.reshape(
        ops.index_select(vec, -1, tensor(source, dtype=int64, device=vec.device)), square
    )
    return ops.tril(matrices, diag)


def _places(n: int, diag: int) -> list[int]:
    """Where, in a flat matrix of n rows, the elements at or below a diagonal lie."""
    return [i * n + j for i in range(n) for j in range(max(0, min(n, i + diag + 1)))]


# -- shared by the distributions -------------------------------------------------------------------


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Normal numbers of the dtype of `like`."""
    return randn(tuple(shape), dtype=like.dtype, device=like.device)


def _standard_normal(shape: Sequence[int], dtype: DType | None, device: DeviceLike) -> Tensor:
    return randn(tuple(shape), dtype=dtype, device=device)


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dims."""
    return ops.sum(value, tuple(range(-dim, 0))) if dim else value


_sum_rightmost = sum_rightmost  # PyTorch's name


def all_rightmost(value: Tensor, dim: int) -> Tensor:
    """Whether all are true in the last `dim` dims."""
    for _ in range(dim):
        value = ops.all(value, -1)
    return value


def nan_like(value: Tensor) -> Tensor:
    """NaN in the shape of a tensor: a fact that a distribution does not have."""
    return full_beside(value, tuple(value.shape), float("nan"))


def enumerated(values: Tensor, batch_shape: Sequence[int], expand: bool) -> Tensor:
    """Values along a first dim, before those of a batch: for each distribution, or of size 1."""
    values = ops.reshape(values, (-1, *(1 for _ in batch_shape)))
    return ops.expand(values, (-1, *batch_shape)) if expand else values
