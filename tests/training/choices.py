"""The choices of the matrix, as tables, and the cases that are made of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from training import layered, mixed, sequential, unusual
from training.covering import covering

TASKS = layered.TASKS | sequential.TASKS | mixed.TASKS | unusual.TASKS

#: Each optimiser with plain settings, and with many of its own. LBFGS needs a closure.
OPTIMISERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SGD": ({"lr": 0.1}, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "Adam": ({"lr": 0.02}, {"lr": 0.03, "betas": (0.8, 0.95), "amsgrad": True, "eps": 1e-4}),
    "AdamW": ({"lr": 0.02}, {"lr": 0.03, "weight_decay": 0.2, "amsgrad": True, "foreach": True}),
    "RMSprop": ({"lr": 0.01}, {"lr": 0.01, "momentum": 0.5, "centered": True, "eps": 1e-3}),
    "Adagrad": ({"lr": 0.05}, {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    "Adadelta": ({"lr": 1.0}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.05, "eps": 1e-4}),
    "Adamax": ({"lr": 0.02}, {"lr": 0.03, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    "NAdam": ({"lr": 0.02}, {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "RAdam": ({"lr": 0.02}, {"lr": 0.03, "betas": (0.9, 0.8), "weight_decay": 0.05}),
    "ASGD": ({"lr": 0.05}, {"lr": 0.05, "t0": 3, "lambd": 0.1, "weight_decay": 0.05}),
    "Rprop": ({"lr": 0.01}, {"lr": 0.02, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.1)}),
    "LBFGS": (
        {"lr": 0.01, "max_iter": 2, "history_size": 1},
        {"lr": 0.02, "max_iter": 3, "history_size": 1, "max_eval": 3, "tolerance_change": 1e-7},
    ),
    "Adafactor": ({"lr": 0.05}, {"lr": 0.02, "eps": (1e-4, 1e-2), "d": 2.0, "beta2_decay": -0.5}),
}

Schedule = Callable[[Any, Any], Any]


def _one_cycle(schedules: Any, optimiser: Any) -> Any:
    """Momentum is cycled as well where the optimiser has one."""
    has = {"momentum", "betas"} & optimiser.param_groups[0].keys()
    momentum = bool(has) and type(optimiser).__name__ in ("SGD", "Adam", "AdamW", "NAdam")
    if optimiser.param_groups[0].get("momentum") == 0:
        momentum = False
    most = [2 * group["lr"] for group in optimiser.param_groups]
    return schedules.OneCycleLR(optimiser, most, total_steps=30, cycle_momentum=momentum)


SCHEDULES: dict[str, Schedule] = {
    "StepLR": lambda s, o: s.StepLR(o, 4, 0.5),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda step: min(1.0, (step + 1) / 8)),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 10),
    "OneCycleLR": _one_cycle,
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.3, 1.0, 4), s.ExponentialLR(o, 0.9)], [4]
    ),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=1),
}

#: The values of each choice, the plainest first.
CHOICES: dict[str, tuple[str, ...]] = {
    "task": tuple(TASKS),
    "optimiser": tuple(OPTIMISERS),
    "settings": ("plain", "full", "groups"),
    "sizes": ("equal", "changing", "never_equal"),
    "dtype": ("float64", "float32"),
    "clip": ("none", "norm", "value"),
    "accumulate": ("1", "2"),
    "schedule": ("none", *SCHEDULES),
    "zeroing": ("to_none", "to_zero"),
    "closure": ("no", "yes"),
    "half_way": ("nothing", "reloaded", "deepcopied"),
    "losses": ("read", "kept"),
    "data": ("tensor", "from_numpy", "one_buffer"),
    "backward": ("once", "twice", "assigned"),
    "watched": ("no", "evaluated", "norms", "arrays"),
}


@dataclass(frozen=True)
class Case:
    """One choice of everything.

    settings: of the optimiser; 'groups' has plain ones, with others for every second parameter
    half_way: what happens after half of the steps      losses: read in each step, or at the end
    data: where tensors come from; 'one_buffer' is NumPy memory that all batches are written into
    backward: 'twice' goes through a graph that is kept; 'assigned' is `autograd.grad`
    watched: the loss in evaluation, norms of gradients and parameters, or NumPy arrays that share
             the parameters' memory all the time
    """

    task: str = "mlp"
    optimiser: str = "SGD"
    settings: str = "plain"
    sizes: str = "equal"
    dtype: str = "float64"
    clip: str = "none"
    accumulate: str = "1"
    schedule: str = "none"
    zeroing: str = "to_none"
    closure: str = "no"
    half_way: str = "nothing"
    losses: str = "read"
    data: str = "tensor"
    backward: str = "once"
    watched: str = "no"

    def __post_init__(self) -> None:
        for name, values in CHOICES.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name}={getattr(self, name)}: not one of {', '.join(values)}")

    def __str__(self) -> str:
        """What is not the plainest, as `run.py` reads it."""
        return " ".join(
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name in ("task", "optimiser") or getattr(self, f.name) != f.default
        )


def parsed(text: str) -> Case:
    """The case that prints as the text."""
    return Case(**dict(word.split("=", 1) for word in text.split()))


@functools.cache
def covered(strength: int = 2) -> tuple[Case, ...]:
    """Cases in which all values of any so many choices meet."""
    return tuple(Case(**row) for row in covering(CHOICES, strength))


def every() -> Iterator[Case]:
    """Each task with each optimiser and kind of sizes: plainly, and with each other choice."""
    whole = ("task", "optimiser", "sizes")
    others = [{}] + [
        {name: value}
        for name, values in CHOICES.items()
        if name not in whole
        for value in values[1:]
    ]
    for values in itertools.product(*(CHOICES[name] for name in whole)):
        for other in others:
            yield Case(**dict(zip(whole, values, strict=True)), **other)
