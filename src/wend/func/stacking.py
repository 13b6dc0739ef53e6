"""torch.func.stack_module_state: the parameters of many modules alike, for vmap over models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops

__all__ = ["stack_module_state"]


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) by name, each stacked over the models at a new dim 0.

    The stacked parameters are leaves; they require grad if the models' do.
    Raises ArgumentError for no model, and for models of unlike classes, modes or members.
    """
    models = list(models)
    if not models:
        raise ArgumentError("stack_module_state: expected at least one model, got 0")
    first = models[0]
    if any(type(m) is not type(first) for m in models):
        raise ArgumentError("stack_module_state: expected all models to be of the same class")
    if any(m.training != first.training for m in models):
        raise ArgumentError(
            "stack_module_state: expected all models to have the same training mode"
        )
    parameters = _stacked([dict(m.named_parameters()) for m in models])
    buffers = _stacked([dict(m.named_buffers()) for m in models])
    return parameters, buffers


def _stacked(members: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for name, x in members[0].items():
        if any(name not in others for others in members):
            raise ArgumentError(f"stack_module_state: {name!r} is not in all of the models")
        whole = ops.stack([others[name] for others in members]).detach()
        out[name] = whole.requires_grad_(bool(x.requires_grad))
    return out
