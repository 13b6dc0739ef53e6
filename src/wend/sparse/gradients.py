"""Checks of gradients by sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend.sparse.tensor import SparseTensor

__all__ = ["as_sparse_gradcheck", "check_sparse_tensor_invariants"]


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

        def checked(*args: object, **kwargs: object) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """`gradcheck` for functions of sparse tensors: the values are varied."""

    def sparse_gradcheck(func: Callable[..., Any], inputs: Any, **kwargs: object) -> bool:
        kwargs.pop("masked", None)
        arguments = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        flat = [x._values_ if isinstance(x, SparseTensor) else x for x in arguments]

        def of_values(*values: Any) -> Any:
            pairs = zip(arguments, values, strict=True)
            args = [x.with_values(v) if isinstance(x, SparseTensor) else v for x, v in pairs]
            outputs = func(*args)
            many = isinstance(outputs, (list, tuple))
            dense = [
                y.to_dense() if isinstance(y, SparseTensor) else y
                for y in (outputs if many else [outputs])
            ]
            return tuple(dense) if many else dense[0]

        return gradcheck(of_values, tuple(flat), **kwargs)

    return sparse_gradcheck
