"""Parameters and state of an optimizer in place of the optimizer's own, within a block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wend.base.errors import ArgumentError
from wend.frontend.toolkit import Tensor, no_grad
from wend.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """A block in which the optimizer has other parameters, another state and other settings.

    swapin_parameters: the parameters by name, in the order of the optimizer's own
    swapin_optim_state: as `optimizer.state_dict()`; steps inside change its tensors in place, and
    nothing else of the dict
    Behind the block the optimizer is as before. Raises ArgumentError if the groups do not fit.
    """
    groups = swapin_optim_state["param_groups"]
    own = optimizer.param_groups
    _check(own, groups, swapin_parameters)
    fresh = iter(swapin_parameters.values())
    before, settings = optimizer.state, [dict(group) for group in own]
    state: defaultdict[Any, Any] = defaultdict(dict)
    given: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for group, other in zip(own, groups, strict=True):
            parameters = [next(fresh) for _ in other["params"]]
            group.update({key: value for key, value in other.items() if key != "params"})
            group["params"] = parameters
            for parameter, place in zip(parameters, other["params"], strict=True):
                saved = swapin_optim_state["state"].get(place, {})
                state[parameter] = {
                    key: float(value) if key in optimizer._counters else value
                    for key, value in saved.items()
                }
                given.append((saved, state[parameter]))
        optimizer.state = state
        yield
    finally:
        for group, kept in zip(own, settings, strict=True):
            group.clear()
            group.update(kept)
        optimizer.state = before
        _hand_back(given)


def _check(own: list[Any], groups: list[Any], parameters: dict[str, Tensor]) -> None:
    """Raises ArgumentError unless groups and numbers of parameters agree."""
    name = "swap_in_optimizer_params_and_state"
    if len(own) != len(groups):
        raise ArgumentError(
            f"{name}: the state has {len(groups)} groups, and the optimizer {len(own)}"
        )
    for i, (group, other) in enumerate(zip(own, groups, strict=True)):
        if len(group["params"]) != len(other["params"]):
            raise ArgumentError(
                f"{name}: group {i} of the state has {len(other['params'])} parameters, and the "
                f"optimizer's {len(group['params'])}"
            )
    needed = sum(len(group["params"]) for group in own)
    if len(parameters) != needed:
        raise ArgumentError(
            f"{name}: {len(parameters)} parameters are given, and the optimizer has {needed}"
        )


def _hand_back(given: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Write the values of states, as steps left them, into the tensors that the user gave."""
    with no_grad():
        for saved, used in given:
            for key, value in saved.items():
                found = used.get(key)
                if isinstance(value, Tensor) and found is not None and found is not value:
                    value.copy_(found) if isinstance(found, Tensor) else value.fill_(found)
