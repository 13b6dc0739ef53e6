"""Rule: sizes share paths as far as type rules allow, and a visit counts for the structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from disabling import slot_replaced

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend import nn
from wend._engine.base import config
from wend._engine.core import _hot
from wend._engine.runtime import tiers
from wend._engine.runtime.flush_log import last_plans

BUCKETS = (12, 13, 16, 17, 20, 31)
LENGTHS = (7, 8, 2, 1, 3, 16)
ROWS = (8, 5, 2, 1, 32)


def numbers(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return torch.from_numpy(rng.normal(size=shape).astype(np.float32))


def image(n: int) -> Any:
    return numbers(2, 3, n, n + 1)


def sequence(n: int) -> Any:
    return numbers(2, n, 8)


def rows(n: int) -> Any:
    return numbers(n, 8)


class Net(nn.Module):
    """Two convolutions, of which the first has a stride, a norm, and a pooling."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, 2, padding=1), nn.BatchNorm2d(4)
        self.second, self.output = nn.Conv2d(4, 5, 3, padding=1), nn.Linear(5, 2)
        self.pool = pool

    def forward(self, x: Any) -> Any:
        y = self.pool(F.relu(self.norm(self.first(x))))
        return self.output(F.relu(self.second(y)).mean(dim=(2, 3)))


class Attention(nn.Module):
    """Attention and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


def trained(model: Any, make: Callable[[int], Any]) -> Callable[[int], None]:
    """A step of training."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(n: int) -> None:
        loss = model(make(n)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def inferred(model: Any, make: Callable[[int], Any]) -> Callable[[int], None]:
    """A pass without gradients."""

    def step(n: int) -> None:
        with torch.no_grad():
            model(make(n)).sum().item()

    return step


def derived(function: Callable[..., Any], *makers: Callable[[int], Any]) -> Callable[[int], None]:
    """A function and its gradient."""

    def step(n: int) -> None:
        operands = [make(n).requires_grad_() for make in makers]
        function(*operands).square().sum().backward()
        sum(x.grad.sum() for x in operands).item()

    return step


def pools() -> dict[str, nn.Module]:
    return {
        "max": nn.MaxPool2d(2),
        "max, ceil": nn.MaxPool2d(2, ceil_mode=True),
        "max, padded": nn.MaxPool2d(3, 2, 1),
        "average": nn.AvgPool2d(2),
        "average, ceil": nn.AvgPool2d(2, ceil_mode=True),
        "average, padded": nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        "adaptive": nn.AdaptiveAvgPool2d(3),
    }


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


#: By name: what makes a step, and the sizes of one path.
ONE_PATH: dict[str, tuple[Callable[[], Callable[[int], None]], tuple[int, ...]]] = {
    **{
        f"{what.__name__} {name}": (
            lambda what=what, name=name: what(Net(pools()[name]), image),
            BUCKETS,
        )
        for what in (trained, inferred)
        for name in pools()
    },
    "rows": (lambda: trained(perceptron(), rows), ROWS),
    "attention": (lambda: trained(Attention(), sequence), LENGTHS),
    "one by one": (lambda: inferred(Attention(), sequence), LENGTHS),
    "cumsum": (lambda: derived(lambda x: x.flip(1).cumsum(1), sequence), LENGTHS),
    "cat": (lambda: derived(lambda x: torch.cat([torch.ones(2, 1, 8), x], 1), sequence), LENGTHS),
    "shift": (lambda: derived(lambda x: x[:, 1:] - x[:, :-1], sequence), LENGTHS),
    "every second": (lambda: derived(lambda x: x[:, ::2], sequence), LENGTHS),
    "heads": (
        lambda: derived(lambda x: x.reshape(*x.shape[:2], 2, 4).chunk(2, -1)[1], sequence),
        LENGTHS,
    ),
    "interpolate": (
        lambda: derived(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), image),
        BUCKETS,
    ),
    "pad to even": (
        lambda: derived(lambda x: F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2)), image),
        BUCKETS,
    ),
    "vector over rows": (lambda: derived(torch.mul, rows, lambda n: numbers(8)), ROWS),
    "column": (lambda: derived(torch.mul, rows, lambda n: numbers(n, 1)), ROWS),
    "sum to 1": (lambda: derived(lambda x: x.sum(1, keepdim=True), sequence), LENGTHS),
    "convolution of a sequence": (
        lambda: derived(
            lambda x: F.conv1d(x.transpose(1, 2), torch.ones(4, 8, 3), padding=1, stride=2),
            sequence,
        ),
        LENGTHS,
    ),
}


def paths(step: Callable[[int], None], sizes: tuple[int, ...]) -> int:
    """How many ways the sizes take through the trie, each flush of a step counted."""
    step(sizes[0])  # gradients are set from here on
    ways, kept = set(), []
    ends: list[Any] = []
    real = _hot.slot("execute")

    def spy(batch: Any, live: Any) -> None:
        ends.append(batch.state)
        real(batch, live)

    with config.override(compile=False), slot_replaced("execute", spy), own_trie():
        for n in sizes:
            ends.clear()
            step(n)
            kept.extend(ends)  # an id belongs to a state as long as that lives
            ways.add(tuple(id(state) for state in ends))
    return len(ways)


@pytest.mark.parametrize("name", ONE_PATH)
def test_sizes_share_a_path(name):
    made, sizes = ONE_PATH[name]
    assert paths(made(), sizes) == 1


def test_a_repeated_1_is_a_path_of_its_own():
    """The rule of a difference asks whether a mean is repeated; for a size of 1 it is not."""
    assert paths(derived(lambda x: x - x.mean(1, keepdim=True), sequence), LENGTHS) == 2


# -- a visit counts for the structure -------------------------------------------------------


def visits_until_planned(n: int, before: tuple[int, ...]) -> int:
    """Visits of a size until its path is being planned, after visits of other sizes."""
    step = inferred(lambda x: x - x.mean(1, keepdim=True) * 1.5, sequence)
    with config.override(compile=True, wait=False), own_trie():
        tiers.STRUCTURES.clear()
        for other in before:
            step(other)
        for visit in range(1, 5):
            step(n)
            plan = last_plans()[-1]
            if plan.compilation is not None or plan.compiled is not None:
                return visit
    return 5


def test_a_visit_counts_for_the_structure(monkeypatch):
    """Disabled: a path's own visits alone count, and a batch of 1 waits for its third one."""
    assert visits_until_planned(1, before=()) == 3
    assert visits_until_planned(1, before=(7, 8)) == 1
    assert visits_until_planned(1, before=(7, 8, 2, 3)) == 1
    monkeypatch.setattr(tiers, "count_visit", lambda structure: 0)
    assert visits_until_planned(1, before=(7, 8)) == 3
