"""Who runs the lanes of fibers, and why lanes were not one run: told by `wend.debug.explain()`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config, random_state
from wend._engine.core.step_log import BackwardRow
from wend._engine.runtime import flush_log
from wend._engine.runtime.fibers import _lanes_select, fibers, flush_lanes, lanes
from wend._engine.runtime.fibers.flush_lanes import LONE, MERGED, OWN_PLAN, TOGETHER

native = _lanes_select.select()


@pytest.fixture(autouse=True)
def few_visits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Paths come back at once, and nothing of other tests is known."""
    monkeypatch.setattr(lanes, "PASSED", 0)
    with torch.autobatch(True), own_trie(), config.override(compile=False):
        flush_log.ROWS.clear()
        yield


def ran(fn: Callable[[torch.Tensor], Any], given: list[Any], rounds: int = 1) -> set[Any]:
    """Run a call for each given value as a fiber; return the lanes that the last round has run."""
    for _ in range(rounds):
        flush_log.ROWS.clear()
        calls = [lambda x=x: fn(x) for x in given]
        streams = [random_state.current().substream(5, k) for k in range(len(given))]
        fibers.run_together(calls, streams, apart=True)
    kept = [row for row in flush_log.ROWS if not isinstance(row, BackwardRow) and len(row) > 7]
    return {lane for row in kept for lane in flush_log.Flush(*row).lanes}


def rows(n: int, width: int = 4) -> list[torch.Tensor]:
    rng = np.random.default_rng(8)
    return [torch.tensor(rng.normal(size=(1, width))) for _ in range(n)]


def weight(width: int = 4) -> torch.Tensor:
    return torch.tensor(np.eye(width) * 0.5).requires_grad_()


def test_lanes_of_one_structure_are_one_run() -> None:
    w = weight()
    assert ran(lambda x: (x @ w).sum().item(), rows(5)) == {(TOGETHER, 5, "")}
    text = str(torch.debug.explain())
    assert "path: 5 calls side by side\n  run by: the ways below\n  5 by one run of all\n" in text


def test_a_new_path_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "PASSED", 8)
    w = weight()
    assert ran(lambda x: (x @ w).sum().item(), rows(5)) == {(MERGED, 5, native.SELDOM)}
    text = str(torch.debug.explain())
    assert f"5 by one flush, in groups of equal ops: not as one, because {native.SELDOM}\n" in text


def test_a_path_of_its_own_without_a_backward_pass_has_its_plan() -> None:
    w = weight().detach()

    def fn(x: torch.Tensor) -> float:
        y = x @ w
        return (y if x.shape[1] == 4 and x.shape[0] == 1 else torch.tanh(y)).sum().item()

    given = [*rows(3), torch.cat(rows(2))]
    with config.override(compile=True, wait=True):
        found = ran(fn, given, rounds=4)
    assert found == {(TOGETHER, 3, ""), (LONE, 1, flush_lanes.ALONE)}


@pytest.mark.parametrize(
    ("fn", "given", "why"),
    [
        (lambda x: torch.rand(3).sum().item() + x.sum().item(), rows(3), "no batching rule"),
        (lambda x: (x + 1).sum().item(), rows(3, 1 << 16), "more than 256 KB is not copied"),
        (lambda x: torch.ones(3).sum().item(), rows(3), "read the same operands"),
        (lambda x: (x * 2).sum().item(), rows(3, 0), "is empty"),
    ],
)
def test_lanes_that_cannot_be_one_run_say_why(fn: Any, given: Any, why: str) -> None:
    assert any(why in reason for _, _, reason in ran(fn, given, rounds=2))


def test_hooks_keep_lanes_apart() -> None:
    w = weight()

    def hooked(x: torch.Tensor) -> float:
        y = x @ w
        y.register_hook(lambda g: g)
        return y.sum().item()

    assert ran(hooked, rows(3)) == {(OWN_PLAN, 3, native.HOOKED)}

    def retaining(x: torch.Tensor) -> float:
        y = x @ w
        y.retain_grad()
        return y.sum().item()

    assert {why for _, _, why in ran(retaining, rows(3))} == {flush_lanes.SINGLE_NODES}


def test_a_kernel_that_declines_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "run_lanes", lambda *given: None)
    w = weight()
    found = ran(lambda x: (x @ w).sum().item(), rows(3))
    assert found == {(MERGED, 3, flush_lanes.DECLINED)}


def test_a_failure_is_told(monkeypatch: pytest.MonkeyPatch, planted_failure: Any) -> None:
    def broken(*given: Any) -> None:
        raise ArithmeticError("broken")

    monkeypatch.setattr(native, "run_lanes", broken)
    w = weight()
    with pytest.warns(RuntimeWarning, match="broken"):
        found = ran(lambda x: (x @ w).sum().item(), rows(3))
    assert found == {(MERGED, 3, flush_lanes.FAILED)}
