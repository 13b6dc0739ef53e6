"""torch.func: derivatives of functions, as functions.

A differentiated function gets fresh variables in place of the arguments, so that transforms can be
nested in each other and in vmap.  Forward-mode products are the gradient of the gradient with
respect to the seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from wend._engine.base import tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import beside, full_beside
from wend._engine.transforms.ancestry import depends_on_others
from wend._engine.transforms.grad import GradMode
from wend._engine.transforms.levels import Level, current_level
from wend._engine.transforms.pullback import gradients, many_gradients

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]

Function = Callable[..., Any]
P = ParamSpec("P")


class Variables:
    """Fresh variables for the tensors of some arguments, and questions about values that depend on
    them."""

    def __init__(self, name: str, arguments: Sequence[Any]) -> None:
        self.name = name
        self.outer_grad: bool = bool(_hot.current_trace().mode.key[0])
        leaves, self.structure = tree.flatten(tuple(arguments))
        self.own: list[Tensor] = []  # the leaves made here; kept alive here
        self.targets: list[Tensor] = []  # tensors to take gradients of
        self.given: list[Tensor] = []  # arguments that the function gets
        for x in leaves:
            if not isinstance(x, Tensor):
                raise ArgumentTypeError(
                    f"{name}: arguments to differentiate must be tensors, not {type(x).__name__}"
                )
            if not x.dtype.is_floating_point and not x.dtype.is_complex:
                raise GraphError(
                    f"{name}: only floating-point and complex tensors have gradients, not {x.dtype}"
                )
            target, primal = self._variable(x)
            self.targets.append(target)
            self.given.append(primal)

    def _variable(self, x: Tensor) -> tuple[Tensor, Tensor]:
        level = current_level()
        if level is not None:
            (inner,), _ = level.strip([level.lift(x)])
            with level.suspended():
                target, primal = self._variable(inner)
            return level.wrap(target), level.wrap(primal)
        with GradMode(True):
            if x.requires_grad and self.outer_grad:
                target = ops.identity(x)
            else:
                target = ops.stop_gradient(x).requires_grad_()
                self.own.append(target)
            return target, ops.identity(target)

    def arguments(self) -> tuple[Any, ...]:
        """The arguments with variables in the place of tensors."""
        return tree.unflatten(self.structure, self.given)  # type: ignore[no-any-return]

    def call(self, function: Function, *args: Any, **kwargs: Any) -> Any:
        """function(...), recording gradients."""
        with GradMode(True):
            return function(*args, **kwargs)

    # -- gradients --------------------------------------------------------------------------

    def depends_on_others(self, tensors: Sequence[Tensor]) -> bool:
        """Whether gradients flow from the tensors to more than the variables made here."""
        if not self.outer_grad:
            return False
        mine = {id(x.leaf) for x in self.own}
        return depends_on_others([_base_value(x) for x in tensors], mine)

    def pull(
        self,
        outs: Sequence[Tensor],
        seeds: Sequence[Tensor],
        create: bool | None = None,
        hooks: bool = True,
    ) -> Any:
        """The gradient of sum(out * seed) with respect to the arguments, in the arguments'
        structure.  hooks: call users' hooks."""
        if create is None:
            create = self.depends_on_others([*outs, *seeds])
        with GradMode(create):
            grads = gradients(outs, self.targets, seeds, create, hooks)
            return self._filled(grads)

    def pull_many(self, outs: Sequence[Tensor], seeds: Sequence[Tensor], size: int) -> list[Tensor]:
        """`pull` for `size` seeds at once, stacked at dim 0 of seeds and results."""
        create = self.depends_on_others(outs)
        with GradMode(create):
            grads = many_gradients(size, outs, self.targets, seeds, create)
            return [
                full_beside(x, (size, *x.shape), 0) if g is None else g
                for g, x in zip(grads, self.targets, strict=True)
            ]

    def _filled(self, grads: Sequence[Tensor | None]) -> Any:
        filled = [
            ops.zeros_like(x) if g is None else g for g, x in zip(grads, self.targets, strict=True)
        ]
        return tree.unflatten(self.structure, filled)

    def released(self, result: Any) -> Any:
        """A result as the caller sees it: without the variables made here in its history."""

        def release(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.requires_grad or self.depends_on_others([x]):
                return x
            return ops.stop_gradient(x)

        return tree.map(release, result)


def _base_value(x: Tensor) -> Any:
    """The value behind all levels."""
    level: Any = current_level()
    while isinstance(level, Level):
        (x,), _ = level.strip([x])
        level = level.outer
    return _hot.value_of(x)


def _tensors(name: str, result: Any) -> tuple[list[Tensor], Any]:
    leaves, structure = tree.flatten(result)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise ArgumentTypeError(
                f"{name}: the function must return tensors, and it returned a {type(x).__name__}"
            )
    return leaves, structure


def _split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentTypeError(f"{name}: with has_aux=True the function returns (output, aux)")
    return result


def _chosen(name: str, args: tuple[Any, ...], argnums: Any) -> tuple[int, ...]:
    """Positions of the arguments to differentiate.  Raises ArgumentError."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    out = []
    for k in numbers:
        if type(k) is not int or not -len(args) <= k < len(args):
            raise ArgumentError(f"{name}: argnums has {k!r}, and there are {len(args)} arguments")
        out.append(k % len(args))
    if not out or len(set(out)) != len(out):
        raise ArgumentError(f"{name}: argnums {argnums!r} must name each argument once")
    return tuple(out)


def _bind(
    name: str, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any
) -> tuple[Variables, Any]:
    """(variables for the chosen arguments, the result of func on them)."""
    chosen = _chosen(name, args, argnums)
    variables = Variables(name, [args[k] for k in chosen])
    full = list(args)
    for k, x in zip(chosen, variables.arguments(), strict=True):
        full[k] = x
    return variables, variables.call(func, *full, **kwargs)


# -- reverse mode ---------------------------------------------------------------------------


def grad_and_value(
    func: Callable[P, Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[P, Any]:
    """A function that returns (gradient, value) of `func`, which returns a 0-d tensor.

    argnums: position, or tuple of positions, of the arguments to differentiate
    has_aux: func returns (value, aux), and the new function (gradient, (value, aux))
    """

    @functools.wraps(func, updated=())
    @short_errors
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        variables, result = _bind("grad", func, args, kwargs, argnums)
        out, aux = _split_aux("grad", result, has_aux)
        if not isinstance(out, Tensor):
            raise ArgumentTypeError(
                f"grad: the function must return a tensor, and it returned a {type(out).__name__}"
            )
        if out.dim() != 0:
            raise GraphError(
                f"grad: the function must return a 0-d tensor, and it returned one of shape "
                f"{tuple(out.shape)}: reduce it, or use torch.func.vjp or jacrev"
            )
        if out.dtype.is_complex:
            raise GraphError(
                "grad: grad can be implicitly created only for real scalar outputs but got "
                f"{out.dtype}: take the real part, or use torch.func.vjp"
            )
        grads = variables.pull([out], [_ones(out)])
        grads = grads if isinstance(argnums, tuple) else grads[0]
        value = variables.released(out)
        return (grads, (value, variables.released(aux))) if has_aux else (grads, value)

    return wrapper


def grad(
    func: Callable[P, Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[P, Any]:
    """A function that returns the gradient of `func`; see grad_and_value.

    With has_aux the function returns (gradient, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    @short_errors
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def _ones(x: Tensor) -> Tensor:
    return full_beside(x, tuple(x.shape), 1)  # type: ignore[no-any-return]


@short_errors
def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), pull): pull(seeds) is a tuple of the gradients of sum(seed * output).

    seeds: in the structure of the output; the tuple has an entry per primal
    With has_aux, func returns (output, aux) and the result is (output, pull, aux).
    """
    variables = Variables("vjp", primals)
    result = variables.call(func, *variables.arguments())
    out, aux = _split_aux("vjp", result, has_aux)
    outs, structure = _tensors("vjp", out)

    @short_errors
    def pull(seeds: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        tensors, seed_structure = _tensors("vjp", seeds)
        if seed_structure != structure:
            raise ArgumentError(
                f"vjp: seeds {seed_structure} do not have the structure {structure} of the output"
            )
        return variables.pull(outs, _checked_seeds(outs, tensors))

    released = variables.released(out)
    return (released, pull, variables.released(aux)) if has_aux else (released, pull)


def _checked_seeds(outs: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Tensor]:
    checked = []
    for x, g in zip(outs, seeds, strict=True):
        if tuple(x.shape) != tuple(g.shape):
            raise GraphError(
                f"vjp: a seed of shape {tuple(g.shape)} for an output of {tuple(x.shape)}"
            )
        checked.append(g if g.dtype is x.dtype else ops.cast(g, x.dtype))
    return checked


def jacrev(
    func: Callable[P, Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[P, Any]:
    """A function that returns the Jacobian of `func`, row by row: y.shape + x.shape.

    Per output of func, per chosen argument.  With has_aux the function returns (Jacobian, aux).
    """

    @functools.wraps(func, updated=())
    @short_errors
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _check_real("jacrev", "inputs", [args[k] for k in _chosen("jacrev", args, argnums)])
        variables, result = _bind("jacrev", func, args, kwargs, argnums)
        out, aux = _split_aux("jacrev", result, has_aux)
        outs, structure = _tensors("jacrev", out)
        _check_real("jacrev", "outputs", outs)
        blocks = []
        for y in outs:
            rows = variables.pull_many([y], [_basis(y)], int(y.numel()))
            shaped = [
                ops.reshape(g, (*y.shape, *x.shape))
                for g, x in zip(rows, variables.targets, strict=True)
            ]
            block = tree.unflatten(variables.structure, shaped)
            blocks.append(block if isinstance(argnums, tuple) else block[0])
        jacobian = tree.unflatten(structure, blocks)
        return (jacobian, variables.released(aux)) if has_aux else jacobian

    return wrapper


def _check_real(name: str, what: str, tensors: Any) -> None:
    """Raises GraphError for complex tensors: units alone do not span their directions."""
    for i, x in enumerate(tree.leaves(tensors)):
        if isinstance(x, Tensor) and x.dtype.is_complex:
            raise GraphError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened "
                f"input idx: {i}; take the Jacobian of a function of torch.view_as_real"
            )


def _basis(x: Tensor) -> Tensor:
    """All tensors of x's shape with one element 1, all else 0, stacked at dim 0."""
    n = int(x.numel())
    return ops.reshape(ops.cast(beside(x, ops.eye(n)), x.dtype), (n, *x.shape))  # type: ignore[no-any-return]


# -- forward mode, by differentiating the gradient with respect to the seed -----------------


class _Tangents:
    """The outputs of a function, and derivatives along directions of the arguments.

    Users' hooks are not called: they are for gradients.
    """

    def __init__(self, name: str, variables: Variables, outs: Sequence[Tensor]) -> None:
        self.variables = variables
        self.outs = outs
        zeros = [full_beside(y, tuple(y.shape), 0) for y in outs]
        self.seeds = Variables(name, zeros)
        self.rows = tree.leaves(variables.pull(outs, self.seeds.given, True, hooks=False))

    def along(self, directions: Sequence[Tensor]) -> list[Tensor]:
        """The derivative of each output along a direction per argument."""
        create = self.variables.depends_on_others([*self.outs, *directions])
        with GradMode(create):
            derivatives = gradients(self.rows, self.seeds.targets, directions, create, hooks=False)
            return list(self.seeds._filled(derivatives))

    def along_many(self, directions: Sequence[Tensor], size: int) -> list[Tensor]:
        """`along` for `size` directions, stacked at dim 0."""
        create = self.variables.depends_on_others(self.outs)
        with GradMode(create):
            derivatives = many_gradients(
                size, self.rows, self.seeds.targets, directions, create, hooks=False
            )
            return [
                full_beside(y, (size, *y.shape), 0) if g is None else g
                for g, y in zip(derivatives, self.outs, strict=True)
            ]


@short_errors
def jvp(
    func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """(func(*primals), derivative along the tangents), both in func's output structure.

    primals, tangents: tuples of arguments alike in structure and shapes
    strict: raise GraphError for an output that does not depend on the primals
    With has_aux, func returns (output, aux) and the result is (output, derivative, aux).
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise ArgumentTypeError("jvp: primals and tangents must be tuples")
    variables = Variables("jvp", primals)
    directions, structure = _tensors("jvp", tangents)
    if structure != variables.structure:
        raise ArgumentError(
            f"jvp: tangents {structure} do not have the structure {variables.structure} of primals"
        )
    directions = _checked_seeds(variables.targets, directions)
    result = variables.call(func, *variables.arguments())
    out, aux = _split_aux("jvp", result, has_aux)
    outs, out_structure = _tensors("jvp", out)
    if strict and not all(y.requires_grad for y in outs):
        raise GraphError("jvp: an output does not depend on the primals, and strict=True was given")
    derivative = tree.unflatten(out_structure, _Tangents("jvp", variables, outs).along(directions))
    released = variables.released(out)
    return (released, derivative, variables.released(aux)) if has_aux else (released, derivative)


@short_errors
def linearize(func: Function, *primals: Any) -> Any:
    """(func(*primals), push): push(*tangents) is the derivative along tangents, func run once."""
    variables = Variables("linearize", primals)
    outs, structure = _tensors("linearize", variables.call(func, *variables.arguments()))
    lines = _Tangents("linearize", variables, outs)

    @short_errors
    def push(*tangents: Any) -> Any:
        directions, tangent_structure = _tensors("linearize", tangents)
        if tangent_structure != variables.structure:
            raise ArgumentError("linearize: tangents do not have the structure of the primals")
        directions = _checked_seeds(variables.targets, directions)
        return tree.unflatten(structure, lines.along(directions))

    return variables.released(tree.unflatten(structure, outs)), push


def jacfwd(
    func: Callable[P, Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[P, Any]:
    """A function that returns the Jacobian of `func`, column by column: y.shape + x.shape.

    As jacrev; cheaper where the arguments have fewer elements than the results.
    """

    @functools.wraps(func, updated=())
    @short_errors
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _check_real("jacfwd", "inputs", [args[k] for k in _chosen("jacfwd", args, argnums)])
        variables, result = _bind("jacfwd", func, args, kwargs, argnums)
        out, aux = _split_aux("jacfwd", result, has_aux)
        outs, structure = _tensors("jacfwd", out)
        _check_real("jacfwd", "outputs", outs)
        lines = _Tangents("jacfwd", variables, outs)
        columns = [_columns(lines, k) for k in range(len(variables.targets))]
        blocks = []
        for at in range(len(outs)):
            block = tree.unflatten(variables.structure, [column[at] for column in columns])
            blocks.append(block if isinstance(argnums, tuple) else block[0])
        jacobian = tree.unflatten(structure, blocks)
        return (jacobian, variables.released(aux)) if has_aux else jacobian

    return wrapper


def _columns(lines: _Tangents, k: int) -> list[Tensor]:
    """Per output the Jacobian with respect to argument number k."""
    targets = lines.variables.targets
    size = int(targets[k].numel())
    directions = [
        _basis(x) if j == k else full_beside(x, (size, *x.shape), 0) for j, x in enumerate(targets)
    ]
    derivatives = lines.along_many(directions, size)
    return [
        ops.reshape(ops.movedim(g, 0, -1), (*y.shape, *targets[k].shape))
        for g, y in zip(derivatives, lines.outs, strict=True)
    ]


def hessian(func: Callable[P, Any], argnums: int | tuple[int, ...] = 0) -> Callable[P, Any]:
    """A function that returns the matrix of second derivatives of `func`."""
    return jacfwd(jacrev(func, argnums), argnums)
