"""Rule: a sync computes everything pending that is still wanted, and returns to the root."""

from __future__ import annotations

from disabling import plans_made, slot_replaced, states_made

import wend as torch
from tries import own_trie
from wend._engine.core import _hot
from wend._engine.runtime import flush
from wend._engine.runtime.parts import parts
from wend.optim import optimizer

# -- back to the root -----------------------------------------------------------------------


def item(x) -> float:
    return float(x.item())


def peek(x) -> float:
    """`item` without the rule: one value is computed, the rest stays pending, the path goes on."""
    trace, value = _hot.current_trace(), x.value
    if value.buffer is None:
        batch = _hot.FlushJob(
            trace.states,
            trace.values,
            trace.args,
            trace.state,
            trace.sites,
            trace.serial,
            [],
            trace.extra,
        )
        flush.execute(batch, [value.index])
    return float(value.buffer)


def converge(read, turns: int):
    """Halve a number until it is small, with a log of the way that nobody reads yet."""
    log, x = torch.zeros(()), torch.tensor(2.0**turns)
    while read(x) > 1.0:
        x = x / 2.0
        log = log + x
    return log


def loops(read) -> None:
    """A program whose loop ends sooner or later, depending on its data."""
    for turns in (12, 5, 20, 9, 24):
        assert converge(read, turns).item() == 2.0**turns - 1


def test_a_convergence_loop_with_a_running_log_stays_on_its_path(monkeypatch):
    """Disabled: a read computes what it asks for, and leaves the log pending.

    Each turn of the loop is then a longer path than any before, with a plan of its own.
    """
    monkeypatch.setattr(parts, "SIDE_BY_SIDE", -1)  # the turns of the loop are parts
    with own_trie():
        converge(item, 5)
        assert states_made(lambda: loops(item)) <= 2
        assert plans_made(lambda: loops(item)) == 0
    with own_trie():
        converge(peek, 5)
        assert states_made(lambda: loops(peek)) >= 2 * 20
    with own_trie():
        converge(peek, 5)
        assert plans_made(lambda: loops(peek)) >= 20


def test_a_sync_computes_what_others_still_want():
    """One read of one value leaves nothing pending."""
    x = torch.ones(3)
    a, b = x * 2.0, x * 3.0
    flushes = _hot.count("flushes")
    assert a.tolist() == [2.0] * 3
    assert b.tolist() == [3.0] * 3
    assert _hot.count("flushes") == flushes + 1
    trace = _hot.current_trace()
    assert trace.n == 0
    assert trace.state is trace.root


# -- unwanted values ------------------------------------------------------------------------


def executed(everything: bool) -> list[str]:
    """Names of the ops that a flush computes, where one of two results is dropped."""
    names: list[str] = []
    real = _hot.slot("execute")

    def spy(batch, live):
        if everything:
            live = [v.index for v in batch.values if v.buffer is None]
        plan = flush.find_plan(batch, live)
        names.extend(step.node.prim.name for step in plan.steps)
        real(batch, live)

    x = torch.ones(3)
    torch.synchronize()
    with slot_replaced("execute", spy):
        dropped = torch.tanh(x)
        kept = x + 1.0
        del dropped
        torch.synchronize()
    assert kept.tolist() == [2.0, 2.0, 2.0]
    return names


def test_unwanted_values_are_never_computed():
    """Disabled: all that is pending is taken for wanted."""
    assert executed(everything=False) == ["add"]
    assert sorted(executed(everything=True)) == ["add", "tanh"]


# -- other things that return to the root ---------------------------------------------------


def states_of_training(turns: int) -> int:
    """States that a training loop adds which reads no loss."""
    layer = torch.nn.Linear(3, 2)
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)

    def turn() -> None:
        sgd.zero_grad()
        layer(torch.ones(4, 3)).square().mean().backward()
        sgd.step()

    with own_trie():
        for _ in range(3):
            turn()
        found = states_made(lambda: [turn() for _ in range(turns)])
    return found


def test_an_optimizers_step_is_a_sync_point(monkeypatch):
    """Disabled: the sync in `step`; the path then grows from turn to turn."""
    assert states_of_training(10) == 0
    monkeypatch.setattr(optimizer, "synchronize", lambda: None)
    assert states_of_training(10) > 10 * 5
