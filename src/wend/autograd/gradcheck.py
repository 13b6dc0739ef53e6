"""gradcheck: gradients compared with finite differences, to first and second order.

A complex tensor counts as its real and imaginary parts, in turn: a function of n complex numbers
has 2 n directions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base import dtypes
from wend._engine.base.errors import ArgumentError, GraphError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import grad
from wend._frontend.autograd.grad_modes import enable_grad, no_grad
from wend._frontend.creation import tensor
from wend.func.derivatives import jvp

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck: the gradients are not those of the function."""


def _outputs(result: Any) -> tuple[Tensor, ...]:
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return tuple(t for t in results if isinstance(t, Tensor) and t.dtype.category >= 2)


def _differentiable(inputs: Sequence[Any]) -> list[Tensor]:
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _flat(x: Tensor) -> list[float]:
    """All numbers of a tensor; of complex numbers the real and imaginary parts, in turn."""
    x = x.detach()
    numbers: list[float] = (ops.view_as_real(x) if x.is_complex() else x).reshape(-1).tolist()
    return numbers


def _count(x: Tensor) -> int:
    """How many numbers `_flat` gives."""
    return int(x.numel()) * (1 + x.is_complex())


def _of_flat(numbers: Tensor, x: Tensor) -> Tensor:
    """A tensor of the shape and dtype of `x` of such numbers."""
    shape = tuple(x.shape)
    if x.is_complex():
        pairs = ops.reshape(numbers, (*shape, 2))
        return ops.cast(ops.view_as_complex(pairs), x.dtype)  # type: ignore[no-any-return]
    return ops.cast(ops.reshape(numbers, shape), x.dtype)  # type: ignore[no-any-return]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
    is_masked: bool | None = None,
) -> bool:
    """Whether |analytical - numerical| <= atol + rtol * |numerical| for all elements.

    inputs: tensors (and other arguments of func); those that require grad are checked, and should
    be float64 or complex128     eps: step of the central differences
    fast_mode: compare along one random direction     check_undefined_grad: also with missing
    gradients of results     nondet_tol: how much two backward passes may differ
    Raises GradcheckError (or returns False if raise_exception is False).
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    checker = _Checker(func, arguments, eps, atol, rtol, nondet_tol)
    try:
        checker.check_inputs()
        if check_forward_ad:
            checker.check_forward()
        if check_backward_ad:
            checker.check_gradients(fast_mode)
            checker.check_types(check_grad_dtypes)
            checker.check_determinism()
            if check_undefined_grad:
                checker.check_undefined()
        return True
    except GradcheckError:
        if raise_exception:
            raise
        return False


class _Checker:
    """A function, the inputs, and the tolerances."""

    def __init__(
        self,
        func: Any,
        inputs: tuple[Any, ...],
        eps: float,
        atol: float,
        rtol: float,
        nondet: float,
    ) -> None:
        self.func = func
        self.inputs = inputs
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.nondet = nondet

    def check_inputs(self) -> None:
        """Raise ArgumentError if nothing is to be differentiated; warn of low precision."""
        self.variables = _differentiable(self.inputs)
        if not self.variables:
            raise ArgumentError(
                "gradcheck expects at least one input tensor to require gradient, but none of "
                "them have requires_grad=True."
            )
        for i, x in enumerate(self.variables):
            if x.dtype not in (dtypes.float64, dtypes.complex128):
                warnings.warn(
                    f"gradcheck: input #{i} requires gradient and is not a double precision "
                    "tensor. This check will likely fail.",
                    stacklevel=4,
                )
        with enable_grad():
            outs = _outputs(self.func(*self.inputs))
        # Results with a history are compared, as in PyTorch.  If all are constants, the function
        # must not change along any direction.
        tracked = [k for k, out in enumerate(outs) if out.requires_grad]
        self.places = tracked or list(range(len(outs)))
        self.outs = [outs[k] for k in self.places]

    # -- numbers ----------------------------------------------------------------------------

    def moved(self, x: Tensor, changed: Tensor) -> tuple[Tensor, ...]:
        """The results with an input replaced."""
        args = [
            changed if a is x else (a.detach() if isinstance(a, Tensor) else a) for a in self.inputs
        ]
        with no_grad():
            outs = _outputs(self.func(*args))
            return tuple(outs[k].detach().clone() for k in self.places)

    def slopes(self, x: Tensor, direction: Tensor) -> list[Tensor]:
        """Central differences of all results along a direction of x."""
        base = x.detach()
        up = self.moved(x, base + direction * self.eps)
        down = self.moved(x, base - direction * self.eps)
        return [(u - d) / (2 * self.eps) for u, d in zip(up, down)]

    def numerical(self, x: Tensor) -> list[list[list[float]]]:
        """Per result: rows by numbers of x, columns by numbers of the result."""
        table: list[list[list[float]]] = [[] for _ in self.outs]
        n = _count(x)
        for k in range(n):
            unit = _of_flat(_unit(n, k), x)
            for rows, slope in zip(table, self.slopes(x, unit)):
                rows.append(_flat(slope))
        return table

    def analytical(self, out: Tensor) -> list[list[list[float]]]:
        """Per input: rows by numbers of the input, columns by numbers of `out`."""
        n = _count(out)
        columns: list[list[list[float]]] = [[] for _ in self.variables]
        for k in range(n):
            seed = _of_flat(_unit(n, k), out)
            for column, g in zip(columns, self.pull(out, seed)):
                column.append(_flat(g))
        return [
            [[column[k][j] for k in range(n)] for j in range(_count(x))]
            for column, x in zip(columns, self.variables)
        ]

    def pull(self, out: Tensor, seed: Tensor) -> list[Tensor]:
        """Gradients of the inputs for a seed; zeros where there are none."""
        if not out.requires_grad:
            return [ops.zeros_like(x) for x in self.variables]
        grads = grad(out, self.variables, seed, retain_graph=True, allow_unused=True)
        full_grads = [ops.zeros_like(x) if g is None else g for x, g in zip(self.variables, grads)]
        for x, g in zip(self.variables, full_grads):
            if g.is_complex() != x.is_complex():
                raise GradcheckError(f"the gradient is {g.dtype}, and the input {x.dtype}")
        return full_grads

    # -- checks -----------------------------------------------------------------------------

    def check_gradients(self, fast: bool) -> None:
        """Compare all elements, or along a direction."""
        if not self.outs:
            return
        if fast:
            self._check_direction()
            return
        analytical = [self.analytical(out) for out in self.outs]
        for i, x in enumerate(self.variables):
            numerical = self.numerical(x)
            for j in range(len(self.outs)):
                self._compare(i, j, analytical[j][i], numerical[j])

    def _compare(self, i: int, j: int, analytical: Any, numerical: Any) -> None:
        for analytical_row, numerical_row in zip(analytical, numerical):
            for k, (a, n) in enumerate(zip(analytical_row, numerical_row)):
                if not self._close(a, n):
                    part = ("real", "imaginary")[k % 2]
                    which = f"While considering the {part} part of complex outputs only, "
                    raise GradcheckError(
                        f"{which if self.outs[j].is_complex() else ''}"
                        f"Jacobian mismatch for output {j} with respect to input {i},\n"
                        f"numerical: {numerical}\nanalytical: {analytical}\n"
                    )

    def _close(self, a: Any, n: Any) -> bool:
        return a == n or abs(a - n) <= self.atol + self.rtol * abs(n) or (a != a and n != n)

    def _check_direction(self) -> None:
        for i, x in enumerate(self.variables):
            direction = _spread(x)
            slopes = self.slopes(x, direction)
            for j, (out, slope) in enumerate(zip(self.outs, slopes)):
                weights = _spread(out, 1)
                numerical = _dot(weights, slope)
                analytical = _dot(direction, self.pull(out, weights)[i])
                scale = max(1.0, float(_count(x)) ** 0.5)
                allowed = scale * self.atol + self.rtol * abs(numerical)
                if not abs(analytical - numerical) <= allowed:
                    raise GradcheckError(
                        f"Jacobian mismatch for output {j} with respect to input {i},\n"
                        f"numerical: {numerical}\nanalytical: {analytical}\n"
                        "(along a random direction: fast_mode=True)"
                    )

    def check_forward(self) -> None:
        """Compare derivatives along a direction, taken in forward mode, for each input."""
        for i, x in enumerate(self.variables):
            direction = _spread(x)
            args = [a.detach() if isinstance(a, Tensor) else a for a in self.inputs]
            place = next(k for k, a in enumerate(self.inputs) if a is x)

            def alone(value: Tensor, args: Any = args, place: int = place) -> tuple[Tensor, ...]:
                outs = _outputs(self.func(*args[:place], value, *args[place + 1 :]))
                return tuple(outs[k] for k in self.places)

            derivatives = jvp(alone, (x.detach(),), (direction,))[1]
            for j, (a, n) in enumerate(zip(derivatives, self.slopes(x, direction))):
                if not all(map(self._close, _flat(a), _flat(n))):
                    raise GradcheckError(
                        f"Jacobian computed with forward mode mismatch for output {j} with respect "
                        f"to input {i},\nnumerical: {n}\nanalytical: {a}\n(along a direction)"
                    )

    def check_types(self, with_dtypes: bool) -> None:
        """Gradients have the shape of the inputs (and the dtype)."""
        for out in self.outs:
            if not out.requires_grad:
                continue
            seed = ops.ones_like(out.detach())
            for x, g in zip(self.variables, self.pull(out, seed)):
                if tuple(g.shape) != tuple(x.shape):
                    raise GradcheckError("grad is of another shape than the input")
                if with_dtypes and g.dtype is not x.dtype:
                    raise GradcheckError(
                        f"grad is {g.dtype}, the input {x.dtype}: check_grad_dtypes"
                    )

    def check_determinism(self) -> None:
        """Two backward passes give the same."""
        for j, out in enumerate(self.outs):
            seed = _spread(out)
            for i, (a, b) in enumerate(zip(self.pull(out, seed), self.pull(out, seed))):
                worst = max([abs(p - q) for p, q in zip(_flat(a), _flat(b)) if p == p], default=0.0)
                if worst > self.nondet:
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and "
                        f"grad_output multiple times gives different values (output {j}, input "
                        f"{i}, by {worst}), although analytical gradient matches numerical "
                        f"gradient. The tolerance for nondeterminism was {self.nondet}."
                    )

    def check_undefined(self) -> None:
        """Missing gradients of results must be taken for zeros."""
        with enable_grad():
            outs = [o for o in _outputs(self.func(*self.inputs)) if o.requires_grad]
        for keep in range(len(outs)) if len(outs) > 1 else ():
            try:
                grad(
                    outs[keep],
                    self.variables,
                    _spread(outs[keep]),
                    allow_unused=True,
                    retain_graph=True,
                )
            except (GraphError, TypeError, AttributeError) as error:
                raise GradcheckError(
                    "Expected backward function to handle undefined output grads. Please look at "
                    "'Notes about undefined output gradients' in autograd.Function: materialize "
                    f"them ({error})"
                ) from error


def _unit(n: int, k: int) -> Tensor:
    row = ops.full((n,), 0.0, dtype=dtypes.float64)
    one = ops.full((1,), 1.0, dtype=dtypes.float64)
    unit: Tensor = ops.slice_scatter(row, one, 0, k, k + 1, 1)
    return unit


def _spread(x: Tensor, other: int = 0) -> Tensor:
    """Fixed values in (-1, 1) of x's shape, without a pattern that an error could share.

    other: another row of values.  A product w J v with w = v would not tell J from its transpose.
    """
    numbers = [
        ((k * 7919 + 104729 + other * 3571) % 10007) / 5003.5 - 1.0 for k in range(_count(x))
    ]
    return _of_flat(tensor(numbers, dtype=dtypes.float64), x)


def _dot(a: Tensor, b: Tensor) -> float:
    return sum(p * q for p, q in zip(_flat(a), _flat(b)))


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradient of func, with respect to the inputs and to grad_outputs."""
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    with enable_grad():
        outs = [o for o in _outputs(func(*arguments)) if o.requires_grad]
    if grad_outputs is None:
        seeds = tuple(_spread(o).requires_grad_() for o in outs)
    else:
        seeds = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
    n = len(seeds)

    def gradient(*args: Any) -> Any:
        xs, gs = args[:-n] if n else args, args[len(args) - n :]
        with enable_grad():
            xs = tuple(
                x
                if not isinstance(x, Tensor) or x.requires_grad or not old.requires_grad
                else x.detach().requires_grad_()
                for x, old in zip(xs, arguments)
            )
            results = [o for o in _outputs(func(*xs)) if o.requires_grad]
            wanted = _differentiable(xs)
            grads = grad(results, wanted, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradient,
        arguments + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> Any:
    """Per input: the matrix (elements of the input, elements of the first result).

    For a complex input: derivatives by the real parts plus i times those by the imaginary parts.
    Raises ArgumentError for complex results.
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    checker = _Checker(fn, arguments, eps, 0.0, 0.0, 0.0)
    checker.check_inputs()
    _check_real("get_numerical_jacobian", checker.outs[0])
    return tuple(_matrix(checker.numerical(x)[0], x) for x in checker.variables)


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> Any:
    """(per input the matrix, reentrant, right sizes, right dtypes)."""
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    checker = _Checker(None, arguments, 0.0, 0.0, 0.0, nondet_tol)
    checker.variables = _differentiable(arguments)
    _check_real("get_analytical_jacobian", output)
    rows = checker.analytical(output)
    jacobians = tuple(_matrix(r, x) for r, x in zip(rows, checker.variables))
    return jacobians, True, True, True


def _check_real(name: str, out: Tensor) -> None:
    if out.is_complex():
        raise ArgumentError(
            f"{name}: Expected output to be non-complex, and it is {out.dtype}; take the "
            "derivatives of its real and of its imaginary part"
        )


def _matrix(rows: list[list[float]], x: Tensor) -> Tensor:
    """Rows of a Jacobian as a tensor of the dtype of `x`; pairs of rows are complex rows."""
    parts: Tensor = tensor(rows, dtype=dtypes.float64)
    if not x.is_complex():
        return ops.cast(parts, x.dtype)  # type: ignore[no-any-return]
    matrix = ops.complex(parts[::2], parts[1::2])
    return ops.cast(matrix, x.dtype)  # type: ignore[no-any-return]
