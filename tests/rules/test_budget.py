"""Rule: budget flushes fall on the program's own rhythm."""

from __future__ import annotations

import pytest
from disabling import budget, plans_made, slot_replaced

import wend as torch
from tries import own_trie
from wend._engine.core import _hot
from wend._engine.runtime.parts import parts
from wend._frontend.batching import flush_points as rhythm


def at_once(trace, code, lasti) -> bool:
    """The slot `on_beat` without the rule: what is over the budget is flushed there and then."""
    return True


def cuts(run) -> list:
    """The states in which the flushes of a run find its trace."""
    ends = []
    real = _hot.slot("execute")

    def spy(batch, live):
        ends.append(batch.state)
        real(batch, live)

    with slot_replaced("execute", spy), own_trie():
        run()
        torch.synchronize()
    return ends


def paths_cut(run) -> int:
    """How many different paths a run is cut into, the first flush and the last one left out."""
    return len({id(state) for state in cuts(run)[1:-1]})


# -- a loop that reads nothing --------------------------------------------------------------


def loop(ops_in_body: int, turns: int = 200) -> None:
    """A loop whose body is a line of so many ops."""
    body = "x * 0.0" + " + 1.0" * (ops_in_body - 1)
    program = f"for _ in range({turns}): x = {body}"
    exec(compile(program, "loop.py", "exec"), {"x": torch.ones(2)})


@pytest.mark.parametrize("ops_in_body", [7, 29])
def test_a_loop_is_cut_where_it_begins_anew(ops_in_body):
    """Disabled: the slot `on_beat`; a loop of 29 ops is then cut at 29 phases."""
    with budget(soft_nodes=100):
        assert paths_cut(lambda: loop(ops_in_body)) == 1
        with slot_replaced("on_beat", at_once):
            assert paths_cut(lambda: loop(ops_in_body)) == ops_in_body


def test_bytes_count_as_nodes_do():
    """The soft budget of bytes has the same rhythm, and leaves count."""
    with budget(soft_bytes=100 * 8):
        assert paths_cut(lambda: loop(29)) == 1
        with slot_replaced("on_beat", at_once):
            assert paths_cut(lambda: loop(29)) == 29

    def leaves() -> None:
        table = torch.ones(100)
        torch.synchronize()
        for _ in range(200):
            table[:1].add(1.0).sum()

    with budget(soft_bytes=400, hard_bytes=401), own_trie():
        flushes = _hot.count("flushes")
        leaves()
        assert _hot.count("flushes") - flushes >= 50


# -- modules --------------------------------------------------------------------------------


class Body(torch.nn.Module):
    """Six ops, all of them on the same line."""

    def forward(self, x):
        for _ in range(6):
            x = x + 1.0
        return x


def test_modules_are_not_cut_in_the_middle():
    """Disabled: the slot `on_beat`; the flush then comes in the middle of a module's call."""
    module = Body()

    def run() -> None:
        x = torch.ones(2)
        for _ in range(200):
            x = module(x) * 0.0

    with budget(soft_nodes=100):
        assert paths_cut(run) == 1
        with slot_replaced("on_beat", at_once):
            assert paths_cut(run) == 7


def flushes_without_a_beat(**limits: int) -> int:
    """Flushes of a program of 1000 ops in which no line comes twice."""
    with budget(soft_nodes=50, **limits), own_trie():
        x = torch.ones(2)
        torch.synchronize()
        before = _hot.count("flushes")
        y = eval(compile("x" + " + 1.0" * 1000, "line.py", "eval"), {"x": x})
        found = _hot.count("flushes") - before
        assert y.tolist() == [1001.0] * 2
    return found


def test_the_hard_budget_is_the_backstop():
    """Disabled: the hard budget; where nothing comes again, nothing ends the trace."""
    assert 9 <= flushes_without_a_beat(hard_nodes=100) <= 11
    assert flushes_without_a_beat(hard_nodes=1 << 40) == 0


# -- loops in loops -------------------------------------------------------------------------


def nested(outer: int = 200, inner: int = 12) -> None:
    """The same few lines again and again, and others between them."""
    x = torch.ones(2)
    for _ in range(outer):
        y = x * 2.0
        for _ in range(inner):
            y = y + 1.0
            y = y.tanh()
        x = y * 0.0


def test_the_beat_is_that_of_the_outer_loop(monkeypatch):
    """Disabled: the trace ends where its first line comes again, in whatever turn of a loop."""
    with budget(soft_nodes=100):
        assert paths_cut(nested) <= 2
        monkeypatch.setattr(rhythm, "endings", lambda trace, first: frozenset([first]))
        assert paths_cut(nested) >= 5


def test_lines_before_a_loop_do_not_hold_it_up(monkeypatch):
    """Disabled: as above; the first line never comes again, and only the hard budget is left."""
    program = compile("x / 3.0\nfor _ in range(200): y = x * 0.5 + 1.0 - 2.0", "loop.py", "exec")
    x = torch.ones(2)
    torch.synchronize()

    def first_cut() -> int:
        return cuts(lambda: exec(program, {"x": x}))[0].depth

    with budget(soft_nodes=100, hard_nodes=200):
        assert 100 <= first_cut() <= 104
        monkeypatch.setattr(rhythm, "endings", lambda trace, first: frozenset([first]))
        assert first_cut() == 200


def test_plans_stay_few(monkeypatch):
    """Disabled: the slot `on_beat`; a plan for each phase instead of one for the loop."""
    monkeypatch.setattr(parts, "SIDE_BY_SIDE", -1)  # parts have plans of their own
    with budget(soft_nodes=100):
        with own_trie():
            assert plans_made(lambda: loop(29)) <= 3
        with own_trie(), slot_replaced("on_beat", at_once):
            assert plans_made(lambda: loop(29)) >= 29


# -- sizes do not decide where a path ends --------------------------------------------------


def flushes_of(n: int) -> int:
    """Flushes of 100 ops on n numbers, in which no line comes twice."""
    x = torch.ones(n)
    torch.synchronize()
    before = _hot.count("flushes")
    y = eval(compile("x" + " + 1.0" * 100, "line.py", "eval"), {"x": x})
    found = _hot.count("flushes") - before
    assert y.tolist() == [101.0] * n
    return found


def test_larger_values_go_on_where_smaller_ones_went_on():
    """Disabled: nothing has gone on yet, and the larger values are cut by themselves."""
    with budget(soft_bytes=10_000, hard_bytes=10_000):
        with own_trie():
            assert flushes_of(100) > 2
        with own_trie():
            assert flushes_of(10) == 0
            assert flushes_of(100) == flushes_of(50) == 0


def train(sizes: tuple[int, ...], steps: int = 3) -> None:
    """Steps of training on images of some sizes, each size once in a turn."""
    body = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Conv2d(2, 1, 3))
    optimizer = torch.optim.SGD(body.parameters(), lr=0.01)
    for n in sizes * steps:
        loss = body(torch.ones(1, 1, n, n)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()


def test_a_step_past_the_budget_is_not_cut_behind_its_model(monkeypatch):
    """Disabled: a trace that began in a module ends at the next op outside of modules."""
    sizes = (12, 13, 20, 31)
    with budget(soft_bytes=1000):
        assert len({id(state) for state in cuts(lambda: train(sizes))[4:]}) == 1
        monkeypatch.setattr(rhythm, "comes_again", lambda *of_the_op: True)
        assert len({id(state) for state in cuts(lambda: train(sizes))[4:]}) > 2
