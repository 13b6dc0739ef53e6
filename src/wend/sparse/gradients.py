"""Sparse gradients of tables, and checks of gradients by sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.base.dtypes import int64
from wend.base.errors import GraphError
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.frontend.autograd.function import Function
from wend.sparse.layouts import Coordinates
from wend.sparse.tensor import SparseTensor, wrap

__all__ = ["as_sparse_gradcheck", "check_sparse_tensor_invariants", "lookup"]


class SparseEmbedding(Function):
    """weight[indices], with the gradient of the weight as a sparse tensor."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, indices: Tensor, padding_idx: int) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.rows, ctx.padding_idx = int(weight.shape[0]), padding_idx
        return ops.embedding(weight, indices)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (indices,) = ctx.saved_tensors
        flat = indices.reshape(-1)
        values = g.reshape(int(flat.shape[0]), int(g.shape[-1]))
        if ctx.padding_idx >= 0:
            kept = ops.ne(flat, ctx.padding_idx).nonzero().reshape(-1)
            flat, values = flat[kept], ops.index_select(values, 0, kept)
        places = Coordinates((ctx.rows,), tensor=flat.unsqueeze(0).to(int64))
        return wrap(places, values), None, None


def lookup(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """weight[indices]; each look-up is an element of the sparse gradient, in the given order.

    padding_idx: this row gets no gradient; negative for none
    Raises RuntimeError for scale_grad_by_freq, for which gradients must be dense.
    """
    if scale_grad_by_freq:
        raise GraphError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    return SparseEmbedding.apply(weight, indices, padding_idx)  # type: ignore[no-any-return]


class check_sparse_tensor_invariants:
    """The switch of PyTorch's checks of sparse tensors; Wend always makes these checks."""

    _enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._before = check_sparse_tensor_invariants._enabled

    @staticmethod
    def is_enabled() -> bool:
        """Whether checks were asked for."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Ask for checks."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Ask for no checks."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        self._before = check_sparse_tensor_invariants._enabled
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(self, *exc: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, called inside such a block."""

        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """`gradcheck` for functions of sparse tensors: the values are varied."""

    def sparse_gradcheck(func: Callable[..., Any], inputs: Any, **kwargs: Any) -> bool:
        kwargs.pop("masked", None)
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        flat = [x._values_ if isinstance(x, SparseTensor) else x for x in given]

        def of_values(*values: Any) -> Any:
            pairs = zip(given, values, strict=True)
            args = [x.with_values(v) if isinstance(x, SparseTensor) else v for x, v in pairs]
            found = func(*args)
            many = isinstance(found, (list, tuple))
            dense = [
                y.to_dense() if isinstance(y, SparseTensor) else y
                for y in (found if many else [found])
            ]
            return tuple(dense) if many else dense[0]

        return gradcheck(of_values, tuple(flat), **kwargs)

    return sparse_gradcheck
