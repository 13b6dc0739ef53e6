"""The gradients of many parameters at once."""

from __future__ import annotations

from collections.abc import Iterable

from wend._engine.core.whole import Headroom, Whole, cuts_short
from wend._frontend.toolkit import Tensor

__all__ = ["clear_gradients"]


def clear_gradients(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Forget gradients, or fill them with zeros: all, or none if the call is cut short."""
    gradients = [(p, g) for p in parameters if (g := p.grad) is not None]
    if not set_to_none:
        with Whole():
            for _, g in gradients:
                if not g.is_leaf:
                    g.detach_()
                else:
                    g.requires_grad_(False)
                g.zero_()
        return
    try:
        for p, _ in gradients:
            p.grad = None
    except BaseException as error:
        if cuts_short(error):
            with Headroom():
                for p, g in gradients:
                    p.grad = g
        raise
