"""The switches of gradient recording: no_grad, enable_grad, inference_mode, anomaly mode."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from wend._engine.base.errors import ArgumentTypeError, GraphError
from wend._engine.core import _hot, _modules, _types
from wend._engine.core._types import Mode, Program
from wend._engine.core.primitive import Primitive
from wend._engine.core.symtrace import template
from wend._engine.transforms import stops
from wend._engine.transforms.differentiate import saved_inputs
from wend._engine.transforms.grad import with_grad

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether ops record gradients in this thread."""
    return bool(_hot.current_trace().mode.key[0])


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread."""
    return bool(_hot.current_trace().mode.inference)


class _Switch(_modules.ModeBlock):
    """A context manager, and a decorator, that changes the mode of this thread."""

    def _mode(self, mode: object) -> Mode:
        raise NotImplementedError

    def _again(self) -> _Switch:
        return type(self)()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            raise ArgumentTypeError(f"{type(self).__name__}: decorating a class is not supported")
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args: object, **kwargs: object) -> Any:
                generator = function(*args, **kwargs)
                sent = None
                while True:
                    with self._again():
                        try:
                            value = generator.send(sent)
                        except StopIteration as stop:  # the end of the user's generator
                            return stop.value
                    sent = yield value

            return generate  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: object, **kwargs: object) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _without_call(cls: type, function: Callable[..., Any]) -> object:
    return cls()(function)


class no_grad(_Switch):
    """Nothing that is recorded inside has a gradient."""

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if function is None else _without_call(cls, function)

    def _mode(self, mode: Any) -> Mode:
        return with_grad(mode, False)


class enable_grad(_Switch):
    """Gradients are recorded inside."""

    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    @overload
    def __new__(cls, orig_func: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else _without_call(cls, orig_func)

    def _mode(self, mode: Any) -> Mode:
        return with_grad(mode, True)


class set_grad_enabled(_Switch):
    """Switch gradient recording at once, or for a block."""

    def __init__(self, mode: bool) -> None:
        self._on = bool(mode)
        trace = _hot.current_trace()
        self._before = trace.mode
        trace.mode = with_grad(trace.mode, self._on)

    def __enter__(self) -> Self:
        _hot.current_trace().mode = with_grad(_hot.current_trace().mode, self._on)
        return self  # the mode to come back to is that of before `__init__`

    def _again(self) -> _Switch:
        return set_grad_enabled(self._on)

    def clone(self) -> set_grad_enabled:
        """Another of the same setting, which takes force at once."""
        return set_grad_enabled(self._on)

    def __call__(self, function: F) -> F:
        _hot.current_trace().mode = self._before
        return super().__call__(function)


class inference_mode(_Switch):
    """No gradients, and none later either for tensors made inside."""

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]
    def __new__(cls, mode: object = True) -> Any:
        return _without_call(cls, mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        self._on = bool(mode)

    def _again(self) -> _Switch:
        return inference_mode(self._on)

    def clone(self) -> inference_mode:
        """Another of the same setting."""
        return inference_mode(self._on)

    def _mode(self, mode: Any) -> Mode:
        key = mode.key
        return _types.intern_mode(not self._on, self._on, *key[2:])


def is_inference(self: object) -> bool:
    """Whether this tensor was made in inference mode."""
    return bool(_hot.value_of(self).inference)


def check_saved(prim: Primitive, program: Program, values: list[Any]) -> None:
    """Raise GraphError if the gradient of an op would need an inference tensor (slot)."""
    operands = [v for v in values if v is not None]
    graph = program.graph
    if graph is not None:
        saved = saved_inputs(graph, [v.requires_grad for v in operands])
    elif prim.facts.calls_user:
        saved = set()
    else:
        needs = tuple([v.requires_grad for v in operands])
        needs += (False,) * (len(program.sample_types) - len(needs))
        saved = set(template(program, needs, (True,) * len(program.outs)).saved)
    for i, v in enumerate(operands):
        if v.inference and i in saved:
            raise GraphError(
                f"{prim.name}: Inference tensors cannot be saved for backward. To work around "
                "you can make a clone to get a normal tensor and use it in autograd."
            )


# -- anomaly mode ---------------------------------------------------------------------------


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return bool(_hot.current_trace().mode.key[5])


def is_anomaly_check_nan_enabled() -> bool:
    """The same: looking for NaN is all that anomaly mode does here."""
    return is_anomaly_enabled()


def _with_anomaly(mode: Any, on: bool) -> Mode:
    if on and not stops.describe:
        from wend._engine.runtime.verify.bad_values import lines_of

        stops.describe.append(lines_of)
    return _types.intern_mode(*(*mode.key[:5], on, *mode.key[6:]))


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode in this thread."""
    trace = _hot.current_trace()
    trace.mode = _with_anomaly(trace.mode, bool(mode) and bool(check_nan))


class set_detect_anomaly(_Switch):
    """Switch anomaly mode at once, or for a block: see `detect_anomaly`."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._on = bool(mode) and bool(check_nan)
        trace = _hot.current_trace()
        self._before = trace.mode
        trace.mode = _with_anomaly(trace.mode, self._on)

    def __enter__(self) -> Self:
        return self

    def _again(self) -> _Switch:
        return set_detect_anomaly(self._on)


class detect_anomaly(_Switch):
    """Backward passes inside look at the gradients of each op.

    The first NaN raises GraphError that names the op and the line that recorded it.
    check_nan: False switches the check off.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._on = bool(check_nan)

    def _again(self) -> _Switch:
        return detect_anomaly(self._on)

    def _mode(self, mode: object) -> Mode:
        return _with_anomaly(mode, self._on)


class set_multithreading_enabled(_Switch):
    """Accepted: a backward pass is recorded in the calling thread."""

    def __init__(self, mode: bool) -> None:
        self._on = mode

    def clone(self) -> set_multithreading_enabled:
        """A new switch of this kind."""
        return set_multithreading_enabled(self._on)

    _again = clone

    def _mode(self, mode: object) -> Any:
        return mode


class enforce_grad_layout_policy(_Switch):
    """Accepted: gradients lie in memory as their plan computes them, whatever the switch says.

    enable: whether PyTorch would copy a gradient into the layout of the parameter
    """

    def __init__(self, enable: bool = True) -> None:
        self._on = enable

    def clone(self) -> enforce_grad_layout_policy:
        """A new switch of this kind."""
        return enforce_grad_layout_policy(self._on)

    _again = clone

    def _mode(self, mode: object) -> Any:
        return mode


_hot.set_slot("check_saved", check_saved)
