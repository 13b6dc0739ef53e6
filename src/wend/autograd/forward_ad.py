"""torch.autograd.forward_ad: tensors that carry a direction, and derivatives along it.

A dual tensor is a variable. The tangent of a result is taken when asked for: it is
the gradient of the gradient with respect to the seed, as in `torch.func.jvp`.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from wend._engine.base.errors import ArgumentTypeError, GraphError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend._engine.transforms.ancestry import depends_on_others
from wend._engine.transforms.grad import GradMode
from wend._engine.transforms.pullback import gradients
from wend.func.derivatives import Variables

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])

#: Per level the pairs (variable, tangent) made in it; PyTorch has a single level at a time.
_LEVELS: list[list[tuple[Any, Tensor]]] = []


def enter_dual_level() -> int:
    """Enter a level, in which dual tensors can be made; its number.

    Raises GraphError inside of a level: nesting is not there.
    """
    if _LEVELS:
        raise GraphError("Nested forward mode AD is not supported at the moment")
    _LEVELS.append([])
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level: its tangents are forgotten.  Raises GraphError for another level."""
    if not _LEVELS or level not in (None, len(_LEVELS) - 1):
        raise GraphError(
            "Trying to exit a forward AD level that was not the last one that was created."
        )
    _LEVELS.pop()


class dual_level:
    """A block that is a level."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor of the same values that carries a tangent.

    tangent: of the tensor's shape and dtype

    Raises GraphError outside of a level, and for a tangent that does not fit.
    """
    if not _LEVELS:
        raise GraphError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    if not isinstance(tensor, Tensor) or not isinstance(tangent, Tensor):
        raise ArgumentTypeError("make_dual: the primal and the tangent must be tensors")
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        raise ValueError(
            f"Expected primal to be floating point or complex, but got: {tensor.dtype}"
        )
    if not tangent.dtype.is_floating_point and not tangent.dtype.is_complex:
        raise ValueError(
            f"Expected tangent to be floating point or complex, but got: {tangent.dtype}"
        )
    if tuple(tensor.shape) != tuple(tangent.shape) or tensor.dtype is not tangent.dtype:
        raise GraphError(
            "make_dual: the tangent must have the size and dtype of the tensor: "
            f"{tuple(tensor.shape)}, {tensor.dtype}, not {tuple(tangent.shape)}, {tangent.dtype}"
        )
    variables = Variables("make_dual", (tensor,))
    _LEVELS[-1].append((variables, tangent))
    return variables.given[0]


def unpack_dual(tensor: Any, *, level: int | None = None) -> Any:
    """(primal, tangent): tangent is None if the tensor does not depend on a dual tensor."""
    if not _LEVELS or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    duals = _LEVELS[-1]
    targets = [variables.targets[0] for variables, _ in duals]
    zeros = full_beside(tensor, tuple(tensor.shape), 0)
    seed = Variables("unpack_dual", (zeros,))
    with GradMode(True):
        rows = gradients([tensor], targets, seed.given, True, hooks=False)
        pairs = [(row, tangent) for row, (_, tangent) in zip(rows, duals, strict=True)]
        used = [(row, tangent) for row, tangent in pairs if row is not None]
    if not used:
        return UnpackedDualTensor(tensor, None)
    mine = {id(x.leaf) for variables, _ in duals for x in variables.own}
    values = [_hot.value_of(x) for x in (tensor, *(tangent for _, tangent in used))]
    create = duals[0][0].outer_grad and depends_on_others(values, mine)
    with GradMode(create):
        used_rows, tangents = [row for row, _ in used], [tangent for _, tangent in used]
        (derivative,) = gradients(used_rows, seed.targets, tangents, create, hooks=False)
    primal = tensor if create else ops.stop_gradient(tensor)
    return UnpackedDualTensor(primal, zeros if derivative is None else derivative)
