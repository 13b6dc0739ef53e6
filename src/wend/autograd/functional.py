"""wend.autograd.functional: products with Jacobians and Hessians, and these matrices themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.autograd.backward import grad
from wend._frontend.autograd.grad_modes import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


def _as_tuple(argument: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """(whether the argument was a tuple, the tensors)."""
    is_tuple = isinstance(argument, tuple)
    tensors = tuple(argument) if is_tuple else (argument,)
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            where = f" {i}" if is_tuple else ""
            raise ArgumentTypeError(
                f"{name}: the {what}{where} must be a Tensor or a tuple of Tensors, "
                f"but has type {type(t).__name__}"
            )
    return is_tuple, tensors


def _variables(inputs: Tensors, create_graph: bool) -> Tensors:
    """Fresh variables for the inputs; connected to the inputs if a graph is wanted."""
    if create_graph:
        return tuple(x.view_as(x) if x.requires_grad else _leaf(x) for x in inputs)
    return tuple(_leaf(x) for x in inputs)


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


def _inputs(name: str, inputs: Any, create_graph: bool) -> tuple[bool, Tensors]:
    """(inputs were a tuple, fresh inputs)."""
    is_tuple, tensors = _as_tuple(inputs, "inputs given to it", name)
    return is_tuple, _variables(tensors, create_graph)


def _outputs(name: str, func: Callable[..., Any], variables: Tensors) -> tuple[bool, Tensors]:
    """(outputs were a tuple, outputs)."""
    return _as_tuple(func(*variables), "outputs of the function", name)


def _gradients(
    outs: Sequence[Tensor], inputs: Tensors, seeds: Sequence[Tensor | None], create_graph: bool
) -> tuple[Tensor | None, ...]:
    live = [(o, g) for o, g in zip(outs, seeds) if o is not None and o.requires_grad]
    if not live:
        return (None,) * len(inputs)
    return grad(
        [o for o, _ in live],
        inputs,
        [g for _, g in live],
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )


def _strict_outputs(name: str, outs: Tensors) -> None:
    for i, out in enumerate(outs):
        if not out.requires_grad:
            raise GraphError(
                f"{name}: output {i} of the user-provided function does not require gradients: "
                "it must depend on the inputs in a differentiable way when strict=True"
            )


def _filled(
    name: str, grads: Sequence[Tensor | None], inputs: Tensors, strict: bool, create_graph: bool
) -> Tensors:
    """Zeros in the place of None; errors if strict."""
    out = []
    for i, (g, x) in enumerate(zip(grads, inputs)):
        if g is None:
            if strict:
                raise GraphError(
                    f"{name}: the output of the user-provided function is independent of input "
                    f"{i}. This is not allowed in strict mode."
                )
            g = ops.zeros_like(x)
        elif strict and create_graph and not g.requires_grad:
            raise GraphError(
                f"{name}: the derivative with respect to input {i} is independent of the inputs. "
                "This is not allowed in strict mode when create_graph=True."
            )
        out.append(g)
    return tuple(out)


def _seeds(name: str, v: Any, like: Tensors, needed: bool) -> Tensors:
    """The given vector, a tensor per tensor of `like`, checked; ones for a scalar alone."""
    if v is None:
        if (len(like) != 1 or like[0].numel() != 1) and needed:
            raise GraphError(
                f"{name}: the vector v can only be None if there is a single element to "
                "multiply it with"
            )
        return tuple(ops.ones_like(x) for x in like)
    _, seeds = _as_tuple(v, "vector v", name)
    if len(seeds) != len(like):
        raise GraphError(f"{name}: v has {len(seeds)} tensors, {len(like)} are needed")
    for i, (a, b) in enumerate(zip(seeds, like)):
        if tuple(a.shape) != tuple(b.shape):
            raise GraphError(
                f"{name}: v has the wrong shape in entry {i}: {tuple(a.shape)} in the place of "
                f"{tuple(b.shape)}"
            )
    return seeds


def _finish(is_tuple: bool, tensors: Tensors, create_graph: bool) -> Any:
    results = tensors if create_graph else tuple(t.detach() for t in tensors)
    return results if is_tuple else results[0]


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), v-transposed times the Jacobian): v is shaped as the outputs."""
    with enable_grad():
        is_tuple, xs = _inputs("vjp", inputs, create_graph)
        outs_tuple, outs = _outputs("vjp", func, xs)
        if strict:
            _strict_outputs("vjp", outs)
        seeds = _seeds("vjp", v, outs, True)
        grads = _gradients(outs, xs, seeds, create_graph)
        product = _filled("vjp", grads, xs, strict, create_graph)
    return _finish(outs_tuple, outs, create_graph), _finish(is_tuple, product, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), the Jacobian times v): v is shaped as the inputs.

    The product is the gradient of the gradient with respect to the seed (the double-backward
    trick).
    """
    with enable_grad():
        _, xs = _inputs("jvp", inputs, create_graph)
        vs = _seeds("jvp", v, xs, True)
        outs_tuple, outs = _outputs("jvp", func, xs)
        if strict:
            _strict_outputs("jvp", outs)
        dummies = tuple(ops.zeros_like(o).requires_grad_() for o in outs)
        firsts = _filled("jvp", _gradients(outs, xs, dummies, True), xs, strict, False)
        seconds = _gradients(firsts, dummies, vs, create_graph)
        products = _filled("jvp", seconds, outs, strict, create_graph)
    return _finish(outs_tuple, outs, create_graph), _finish(outs_tuple, products, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Jacobian of func: out shape + in shape; nested tuples (per output, per input) for several.

    vectorize and strategy change the way of computation, not the result: accepted and not needed.
    Raises GraphError or NotImplementedError for settings that do not go together.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ArgumentError(
            f"jacobian: expected strategy 'forward-mode' or 'reverse-mode', got {strategy!r}"
        )
    _check_ways("jacobian", create_graph, strict, vectorize, strategy)
    with enable_grad():
        is_tuple, xs = _inputs("jacobian", inputs, create_graph)
        outs_tuple, outs = _outputs("jacobian", func, xs)
        if strict:
            _strict_outputs("jacobian", outs)
        rows = tuple(_jacobian_of(o, xs, create_graph, strict) for o in outs)
    result = tuple(row if is_tuple else row[0] for row in rows)
    return result if outs_tuple else result[0]


def _check_ways(
    name: str, create_graph: bool, strict: bool, vectorize: bool, strategy: str
) -> None:
    """Raise GraphError or NotImplementedError for settings that PyTorch does not join."""
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                f"{name}: `create_graph=True` and the strategy 'forward-mode' are not supported "
                "together: set the strategy to 'reverse-mode'"
            )
        if strict:
            raise GraphError(
                f"{name}: `strict=True` and the strategy 'forward-mode' are not supported "
                "together: set the strategy to 'reverse-mode'"
            )
        if not vectorize:
            raise NotImplementedError(
                f"{name}: the strategy 'forward-mode' is to be used with vectorize=True"
            )
    if strict and vectorize:
        raise GraphError(
            f"{name}: `strict=True` and `vectorize=True` are not supported together: set "
            "`strict=False` or `vectorize=False`"
        )


def _jacobian_of(out: Tensor, xs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    flat = out.reshape(-1)
    n = int(flat.shape[0])
    columns: list[list[Tensor]] = [[] for _ in xs]
    for k in range(n):
        grads = _gradients([flat[k]], xs, [None], create_graph)
        filled = _filled("jacobian", grads, xs, strict, create_graph)
        for column, g in zip(columns, filled):
            column.append(g)
    blocks = []
    for column, x in zip(columns, xs):
        shape = (*out.shape, *x.shape)
        stacked = ops.stack(column, 0) if column else x.new_zeros((0, *x.shape))
        blocks.append(stacked.reshape(shape) if create_graph else stacked.reshape(shape).detach())
    return tuple(blocks)


def _scalar(name: str, outs_tuple: bool, outs: Tensors) -> None:
    if outs_tuple or not isinstance(outs[0], Tensor):
        raise GraphError(f"{name}: the function should return a single Tensor")
    if outs[0].numel() != 1:
        raise GraphError(
            f"{name}: the Tensor returned by the function should contain a single element, "
            f"and has shape {tuple(outs[0].shape)}"
        )


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Hessian of a scalar function: in shape + in shape; nested tuples for several inputs."""
    is_tuple, tensors = _as_tuple(inputs, "inputs given to it", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise ArgumentError(
            "hessian: expected outer_jacobian_strategy 'forward-mode' or 'reverse-mode', "
            f"got {outer_jacobian_strategy!r}"
        )
    _check_ways("hessian", create_graph, strict, vectorize, outer_jacobian_strategy)

    def first(*xs: Tensor) -> Tensors:
        out = func(*xs)
        outs_tuple, outs = _as_tuple(out, "outputs of the function", "hessian")
        _scalar("hessian", outs_tuple, outs)
        if strict:
            _strict_outputs("hessian", outs)
        grads = _gradients([outs[0].reshape(())], xs, [None], True)
        return _filled("hessian", grads, xs, strict, False)

    blocks = jacobian(first, tensors, create_graph=create_graph, strict=strict)
    return blocks if is_tuple else blocks[0][0]


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), v-transposed times the Hessian) of a scalar function."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), the Hessian times v) of a scalar function; the same as `vhp`, by symmetry."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def _hessian_product(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[Any, Any]:
    with enable_grad():
        is_tuple, xs = _inputs(name, inputs, create_graph)
        vs = _seeds(name, v, xs, True)
        outs_tuple, outs = _outputs(name, func, xs)
        _scalar(name, outs_tuple, outs)
        if strict:
            _strict_outputs(name, outs)
        firsts = _gradients([outs[0].reshape(())], xs, [None], True)
        filled = _filled(name, firsts, xs, strict, False)
        seconds = _gradients(filled, xs, vs, create_graph)
        products = _filled(name, seconds, xs, strict, create_graph)
    return _finish(False, outs, create_graph), _finish(is_tuple, products, create_graph)
