"""wend.autograd: backward and grad, and attributes of tensors about the graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from wend._engine.base.devices import MetaPackage
from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    GradientRefused,
    GraphError,
    ShapeError,
)
from wend._engine.base.tracebacks import short_errors
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.core.provenance import current_site
from wend._engine.ops.placing import full_beside
from wend._engine.transforms.grad import run_backward
from wend._engine.transforms.hooks import made_of_parts
from wend._engine.transforms.hooks import retain_grad as _retain_grad
from wend._engine.transforms.hooks import retains_grad as _retains_grad
from wend._engine.transforms.levels import current_level
from wend._engine.transforms.pullback import gradients as pull
from wend._engine.transforms.pullback import many_gradients
from wend._frontend.autograd.grad_modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from wend._frontend.autograd.nodes import (
    GradientEdge,
    grad_fn,
    output_nr,
    register_hook,
    register_post_accumulate_grad_hook,
    tensor_hooks,
    value_of_edge,
)
from wend._frontend.autograd.watching import watched
from wend._frontend.autograd.zero_edges import with_zero_edges

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


def _tensors(name: str, arguments: Any) -> list[Tensor]:
    _refuse_explored(name)
    if isinstance(arguments, (Tensor, GradientEdge)):
        arguments = [arguments]
    tensors = []
    for t in arguments:
        if isinstance(t, GradientEdge):
            t = value_of_edge(t)
        if not isinstance(t, Tensor):
            raise GradientRefused(f"{name}: expected Tensors, got {type(t).__name__}")
        tensors.append(t)
    return tensors


def _gradients(
    name: str, roots: list[Tensor], grad_outputs: Tensor | Sequence[Tensor | None] | None
) -> list[Any]:
    """A gradient (or None for ones) per root, checked."""
    if grad_outputs is None:
        gradients: list[Any] = [None] * len(roots)
    else:
        gradients = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    if len(gradients) != len(roots):
        raise GraphError(f"{name}: got {len(roots)} tensors and {len(gradients)} gradients")
    return [_gradient(name, k, root, g) for k, (root, g) in enumerate(zip(roots, gradients))]


def _refuse_explored(name: str) -> None:
    """Raise ExploreError inside of a function that is being explored."""
    run = _hot.current_trace().symbolic
    if hasattr(run, "no_gradients"):
        run.no_gradients(name)


def _gradient(name: str, k: int, root: Tensor, g: object) -> Tensor | None:
    if not root.requires_grad:
        raise GraphError(
            f"{name}: element {k} of tensors does not require grad and does not have a grad_fn"
        )
    if g is None:
        if root.numel() != 1:
            raise GraphError(
                f"{name}: grad can be implicitly created only for scalar outputs, and this one "
                f"has shape {tuple(root.shape)}; pass gradient="
            )
        if root.dtype.is_complex:
            raise GraphError(
                f"{name}: grad can be implicitly created only for real scalar outputs but got "
                f"{root.dtype}; take .real or .abs(), or pass gradient="
            )
        return None
    if not isinstance(g, Tensor):
        raise ArgumentTypeError(
            f"{name}: gradients can be either Tensors or None, but got {type(g).__name__}"
        )
    if tuple(g.shape) != tuple(root.shape):
        raise ShapeError(
            f"{name}: mismatch in shape: grad_output[{k}] has a shape of {tuple(g.shape)} and "
            f"output[{k}] has a shape of {tuple(root.shape)}"
        )
    return g if g.dtype is root.dtype else ops.cast(g, root.dtype)


@short_errors
def backward(
    tensors: object,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: object = None,
    inputs: object = None,
) -> None:
    """Sum gradients of the tensors into the `.grad` of the leaves that the tensors depend on.

    grad_tensors: a gradient of the same shape per tensor; may be None for one-element tensors
    inputs: only these tensors get a gradient
    Raises GraphError for a tensor without history, a freed graph, a non-scalar without gradient.
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", stacklevel=2)
        if grad_tensors is not None:
            raise GraphError("backward: give grad_tensors or grad_variables, not both")
        grad_tensors = grad_variables
    roots = _tensors("backward", tensors)
    gradients = _gradients("backward", roots, grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    watched(_backward, roots, gradients, inputs, bool(keep), create_graph, kept=bool(keep))


def _backward(
    roots: list[Tensor], gradients: list[Any], inputs: object, keep: bool, create_graph: bool
) -> None:
    if any(t.is_meta for t in roots):
        leaves = None if inputs is None else _tensors("backward", inputs)
        MetaPackage.load().run_backward(roots, leaves, keep, False)
        return
    if inputs is None:
        run_backward(roots, gradients, None, keep, create_graph)
        return
    wanted = _tensors("backward", inputs)
    if not wanted:
        raise GraphError("backward: `inputs` argument to `backward()` cannot be empty.")
    _require_grad("backward", wanted)
    for t in wanted:
        retain_grad(t)
    run_backward(roots, gradients, wanted, keep, create_graph)


def _require_grad(name: str, wanted: list[Tensor]) -> None:
    for t in wanted:
        if not t.requires_grad:
            raise GraphError(f"{name}: One of the differentiated Tensors does not require grad")


@short_errors
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Gradients of the outputs with respect to the inputs, as a tuple; `.grad` is left alone.

    allow_unused: None for an input that the outputs do not depend on, instead of an error
    is_grads_batched: grad_outputs have an extra dim in front, and so have the results
    materialize_grads: zeros instead of None
    Raises GraphError as `backward`, and for an input that does not require grad.
    """
    if materialize_grads and allow_unused is False:
        raise ArgumentError(
            "grad: expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False is ignored: gradients of the inputs only are computed",
            stacklevel=2,
        )
    roots = _tensors("grad", outputs)
    targets: list[Any] = _tensors("grad", inputs)  # of sparse tensors, the values count
    wanted = [t.source if made_of_parts(t) else t for t in targets]
    if not wanted:
        raise GraphError("grad: `inputs` is empty: there is nothing to differentiate by")
    _require_grad("grad", wanted)
    keep = create_graph if retain_graph is None else retain_graph
    if any(t.is_meta for t in roots):
        out_grads = [] if is_grads_batched else _gradients("grad", roots, grad_outputs)
        grads = MetaPackage.load().run_backward(roots, wanted, bool(keep), True)
        rows = _rows(grad_outputs) if is_grads_batched else ()
        grads = [g if g is None else ops.expand(g, (*rows, *g.shape)) for g in grads]
    elif is_grads_batched:
        grads = _batched(roots, wanted, grad_outputs, create_graph)
    elif current_level() is not None:
        out_grads = _gradients("grad", roots, grad_outputs)
        seeds = [ops.ones_like(x) if g is None else g for x, g in zip(roots, out_grads)]
        grads = pull(roots, wanted, seeds, create_graph)
    else:
        out_grads = _gradients("grad", roots, grad_outputs)
        grads = run_backward(roots, out_grads, wanted, keep, create_graph, True)
        if create_graph:
            grads = with_zero_edges(roots, wanted, grads)
    result = []
    for t, g in zip(targets, grads):
        if g is not None and made_of_parts(t):
            g = t.gradient_of(g)
        if g is None and materialize_grads:
            g = full_beside(t, tuple(t.shape), 0.0)
        elif g is None and not allow_unused:
            raise GraphError(
                "grad: One of the differentiated Tensors appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
        result.append(g)
    return tuple(result)


def _rows(grad_outputs: Any) -> tuple[int, ...]:
    """How many gradients are given for each output, as a shape."""
    return tuple((grad_outputs if isinstance(grad_outputs, Tensor) else grad_outputs[0]).shape[:1])


def _batched(
    roots: list[Tensor], wanted: list[Tensor], grad_outputs: Any, create: bool
) -> list[Any]:
    """Gradients for each of several grad_outputs, stacked along a new first dim."""
    rows = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    if len(rows) != len(roots) or any(g is None for g in rows):
        raise GraphError("grad: is_grads_batched=True needs one batch of gradients per output")
    size = int(rows[0].shape[0])
    for k, (root, g) in enumerate(zip(roots, rows)):
        _gradient("grad", k, root, g[0] if size else None)
    seeds = [g if g.dtype is x.dtype else ops.cast(g, x.dtype) for g, x in zip(rows, roots)]
    return many_gradients(size, roots, wanted, seeds, create)


# -- attributes of tensors -------------------------------------------------------------------


def retain_grad(self: Tensor) -> None:
    """Let backward passes set `.grad` of this tensor, although the tensor is no leaf."""
    if not self.requires_grad:
        raise GraphError("can't retain_grad on Tensor that has requires_grad=False")
    if self.leaf is None:
        _retain_grad(self)


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` has been called on this tensor, and the tensor is no leaf."""
    return self.leaf is None and _retains_grad(self)


def nonleaf_grad(self: Tensor) -> None:
    """`.grad` of a tensor that never gets a gradient (slot)."""
    if _retains_grad(self) or not _hot.value_of(self).requires_grad:
        return
    site = current_site()
    code = site.code
    warnings.warn_explicit(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. It is not "
        "set by backward(), unless you call .retain_grad() on the tensor before. If you meant "
        "the leaf, access the leaf's .grad instead.",
        UserWarning,
        code.co_filename if code is not None else "<unknown>",
        max(site.line, 1),
    )


_hot.set_slot("nonleaf_grad", nonleaf_grad)
_METHODS = {
    "retain_grad": retain_grad,
    "retains_grad": property(retains_grad),
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "grad_fn": property(grad_fn),
    "output_nr": property(output_nr),
    "_backward_hooks": property(tensor_hooks),
}
for _name, _member in _METHODS.items():
    setattr(Tensor, _name, _member)
