"""wend.autograd: backward, grad, and the switches of gradient recording."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from wend.base.errors import ArgumentTypeError, GraphError, ShapeError
from wend.core import _hot
from wend.core._hot import Tensor
from wend.transforms.grad import run_backward, with_grad

__all__ = [
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "run_backward",
    "set_grad_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])


def _tensors(name: str, given: Any) -> list[Tensor]:
    found = [given] if isinstance(given, Tensor) else list(given)
    for t in found:
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(f"{name}: expected Tensors, got {type(t).__name__}")
    return found


def _gradients(name: str, roots: list[Tensor], given: Any) -> list[Any]:
    """One gradient (or None for ones) per root, checked."""
    if given is None:
        gradients: list[Any] = [None] * len(roots)
    else:
        gradients = [given] if isinstance(given, Tensor) else list(given)
    if len(gradients) != len(roots):
        raise GraphError(f"{name}: got {len(roots)} tensors and {len(gradients)} gradients")
    for root, g in zip(roots, gradients, strict=True):
        if not root.requires_grad:
            raise GraphError(
                f"{name}: element 0 of tensors does not require grad and does not have a grad_fn"
            )
        if g is None:
            if root.numel() != 1:
                raise GraphError(
                    f"{name}: grad can be implicitly created only for scalar outputs, and this "
                    f"one has shape {tuple(root.shape)}; pass gradient="
                )
        elif tuple(g.shape) != tuple(root.shape):
            raise ShapeError(
                f"{name}: mismatch in shape: grad_output has a shape of {tuple(g.shape)} and "
                f"output has a shape of {tuple(root.shape)}"
            )
    return gradients


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Sum gradients of the tensors into the `.grad` of the leaves they depend on.

    grad_tensors: per tensor its gradient, same shape; may be None for one-element tensors
    inputs: only these tensors get a gradient
    Raises GraphError for a tensor without history, a freed graph, a non-scalar without gradient.
    """
    roots = _tensors("backward", tensors)
    gradients = _gradients("backward", roots, grad_tensors if grad_tensors is not None else grad_variables)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run_backward(roots, gradients, None, keep, create_graph)
        return
    wanted = _tensors("backward", inputs)
    if not wanted:
        raise GraphError("backward: `inputs` argument to `backward` cannot be empty")
    for t, g in zip(wanted, run_backward(roots, gradients, wanted, keep, create_graph), strict=True):
        if g is None:
            continue
        have = t._grad
        t._grad = g if have is None else have + g


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of the outputs with respect to the inputs, as a tuple; `.grad` is left alone.

    allow_unused: None for an input that the outputs do not depend on, instead of an error
    Raises GraphError as `backward`, and for an input that does not require grad.
    """
    roots = _tensors("grad", outputs)
    wanted = _tensors("grad", inputs)
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched=True is not available yet")
    for t in wanted:
        if not t.requires_grad:
            raise GraphError("grad: one of the differentiated Tensors does not require grad")
    gradients = _gradients("grad", roots, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    found = run_backward(roots, gradients, wanted, keep, create_graph, True)
    result = []
    for t, g in zip(wanted, found, strict=True):
        if g is None and materialize_grads:
            g = _hot.slot("zeros_like")(t)
        elif g is None and not allow_unused:
            raise GraphError(
                "grad: one of the differentiated Tensors appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
        result.append(g)
    return tuple(result)


# -- switches -------------------------------------------------------------------------------


def is_grad_enabled() -> bool:
    """Whether ops record gradients in this thread."""
    return bool(_hot.current_trace().mode.key[0])


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread."""
    return bool(_hot.current_trace().mode.inference)


class _Switch:
    """A context manager, and a decorator, that changes the mode of this thread."""

    def __enter__(self) -> Any:
        trace = _hot.current_trace()
        self._before = trace.mode
        trace.mode = self._mode(trace.mode)
        return self

    def _mode(self, mode: Any) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        _hot.current_trace().mode = self._before

    def _again(self) -> Any:
        return type(self)()

    def __call__(self, function: F) -> F:
        import inspect

        if inspect.isclass(function):
            raise ArgumentTypeError(f"{type(self).__name__}: decorating a class is not supported")
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args: Any, **kwargs: Any) -> Any:
                generator = function(*args, **kwargs)
                sent = None
                while True:
                    with self._again():
                        try:
                            value = generator.send(sent)
                        except StopIteration as stop:
                            return stop.value
                    sent = yield value

            return generate  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _without_call(cls: type, function: Any) -> Any:
    return cls()(function)


class no_grad(_Switch):
    """Nothing that is recorded inside has a gradient."""

    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else _without_call(cls, function)

    def _mode(self, mode: Any) -> Any:
        return with_grad(mode, False)


class enable_grad(_Switch):
    """Gradients are recorded inside."""

    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else _without_call(cls, function)

    def _mode(self, mode: Any) -> Any:
        return with_grad(mode, True)


class set_grad_enabled(_Switch):
    """Switch gradient recording at once, or for a block."""

    def __init__(self, mode: bool) -> None:
        self._on = bool(mode)
        trace = _hot.current_trace()
        self._before = trace.mode
        trace.mode = with_grad(trace.mode, self._on)

    def __enter__(self) -> Any:
        _hot.current_trace().mode = with_grad(_hot.current_trace().mode, self._on)
        return self

    def _again(self) -> Any:
        return set_grad_enabled(self._on)

    def __call__(self, function: F) -> F:
        _hot.current_trace().mode = self._before
        return super().__call__(function)


class inference_mode(_Switch):
    """No gradients, and none later either for what is made inside."""

    def __new__(cls, mode: Any = True) -> Any:
        return _without_call(cls, mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self._on = bool(mode)

    def _again(self) -> Any:
        return inference_mode(self._on)

    def _mode(self, mode: Any) -> Any:
        key = mode.key
        return _hot.intern_mode(key[0] and not self._on, self._on, *key[2:])
