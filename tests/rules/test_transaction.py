"""Rule: a flush is a transaction. What an op that fails would have changed stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from disabling import on_machine_code, on_the_reference, slot_replaced

import wend as torch
from tries import own_trie
from wend._engine.core import _hot
from wend._engine.core._select import is_compiled
from wend._engine.runtime.numpy_executor import plan as reference
from wend._engine.runtime.numpy_executor import runners

BAD = 9  # an index that the table below does not have


def leave_rebound(batch, env, failed, position) -> None:
    """`undo` without the rule: handles keep the values that could not be computed."""


def computed(*index: int) -> torch.Tensor:
    """An index that is pending, so that its range shows in the flush only."""
    return torch.tensor(index) + 0


# -- `except IndexError: continue` ----------------------------------------------------------


def train(indices, make_optimizer) -> list[list[float]]:
    """Train an embedding and a layer; batches with a bad index are caught and passed over."""
    torch.manual_seed(0)
    table, layer = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 2)
    parameters = [*table.parameters(), *layer.parameters()]
    optimizer = make_optimizer(parameters)
    for index in indices:
        optimizer.zero_grad()
        try:
            layer(table(computed(index, 1))).square().sum().backward()
            optimizer.step()
        except IndexError:
            continue
    return [p.flatten().tolist() for p in parameters]


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("tier", [on_the_reference, on_machine_code])
def test_except_index_error_continue_leaves_the_parameters_whole(tier, name, monkeypatch):
    """Disabled: `undo`, by which handles return to their last good value.

    With the rule a bad batch is as if it had not been, moments and step counters included.
    Without it the parameters are lost at the first bad index.
    """
    make = OPTIMIZERS[name]
    with tier():
        expected = train([1, 2, 3, 2], make)
        found = train([1, BAD, 2, BAD, BAD, 3, 2], make)
    if tier is on_the_reference:
        assert found == expected
    for mine, theirs in zip(found, expected, strict=True):  # paths after a failure are others
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)
    monkeypatch.setattr(reference, "undo", leave_rebound)
    with on_the_reference(), pytest.raises(IndexError):
        train([1, BAD, 2, BAD, BAD, 3, 2], make)


def in_place_around_a_failure() -> tuple[list[float], float]:
    """What stands before the op that fails is done, what stands behind it is not."""
    table = torch.arange(5, dtype=torch.float32)
    weight, steps = torch.ones(3), torch.zeros(())
    for index in (1, 7, 2):
        try:
            with torch.no_grad():
                steps += 1
                weight.add_(table[computed(index)].sum())
                steps += 1
            weight.sum().item()
        except IndexError:
            continue
    return weight.tolist(), steps.item()


def test_handles_return_to_the_last_good_value(monkeypatch):
    """Disabled: `undo`."""
    assert in_place_around_a_failure() == ([4.0, 4.0, 4.0], 5.0)
    monkeypatch.setattr(reference, "undo", leave_rebound)
    with on_the_reference(), pytest.raises(IndexError):
        in_place_around_a_failure()


def shared_around_a_failure() -> list[list[float]]:
    """A write behind the op that fails, through one of the handles on the same data."""
    weight = torch.nn.Parameter(torch.ones(3))
    saved, row = weight.detach(), weight.data[1:]
    torch.synchronize()
    bad = torch.ones(3)[computed(BAD)]
    saved.mul_(2.0)
    row.add_(5.0)
    with pytest.raises(IndexError):
        bad.tolist()
    seen = [h.tolist() for h in (weight, saved, row)]
    weight.data.add_(1.0)
    return seen + [h.tolist() for h in (weight, saved, row)]


def test_all_handles_on_the_same_data_return(monkeypatch):
    """Disabled: `undo`; the handles then show what was written, as if nothing had failed."""
    before, after = [[1.0] * 3, [1.0] * 3, [1.0] * 2], [[2.0] * 3, [2.0] * 3, [2.0] * 2]
    assert shared_around_a_failure() == before + after
    monkeypatch.setattr(reference, "undo", leave_rebound)
    with on_the_reference():
        assert shared_around_a_failure() != before + after


# -- values that depend on the failure ------------------------------------------------------


def errors_of_dependents() -> list[Exception | None]:
    """What reading a failed value, one that depends on it, and another one raises."""
    table = torch.ones(3)
    values = [table[computed(5)]]
    values += [values[0] * 2.0, table * 3.0]
    raised: list[Exception | None] = []
    for value in values:
        try:
            assert value.tolist() == [3.0, 3.0, 3.0]
            raised.append(None)
        except Exception as error:
            raised.append(error)
    return raised


def test_values_that_depend_on_a_failed_op_raise_the_same_error():
    """Disabled: a value does not keep the error; who reads it later gets another one."""
    bad, dependent, independent = errors_of_dependents()
    assert isinstance(bad, IndexError)
    assert dependent is bad
    assert independent is None

    def forgotten(value):
        raise RuntimeError("a value was lost")

    with slot_replaced("unavailable", forgotten):
        bad, dependent, _ = errors_of_dependents()
    assert isinstance(bad, IndexError)
    assert not isinstance(dependent, IndexError), "`except IndexError` does not catch it"


# -- donated writes -------------------------------------------------------------------------


def counted_once() -> list[float]:
    """An accumulating write in place, in a flush in which another op fails later."""
    counts = torch.zeros(3)
    torch.synchronize()
    counts.index_add_(0, torch.tensor([0, 1, 1]), torch.ones(3))
    bad = torch.ones(3)[computed(5)]
    with pytest.raises(IndexError):
        bad.tolist()
    return counts.tolist()


def test_no_write_is_done_twice_because_another_op_fails(monkeypatch):
    """Disabled: writes go into any buffer, also into one that is needed if the flush fails.

    What is computed again around the failure then finds its input already changed.
    """
    assert counted_once() == [1.0, 2.0, 0.0]
    monkeypatch.setattr(runners, "may_write", lambda env, prim, arrays, args: True)
    with on_the_reference():
        assert counted_once() == [2.0, 4.0, 0.0]


# -- interrupts -----------------------------------------------------------------------------


def weight_after_an_interrupt(monkeypatch) -> list[float]:
    """Ctrl+C comes in the middle of the flush that computes an update of the weight."""
    weight = torch.ones(3)
    torch.synchronize()
    real = reference.ReferencePlan.compute
    calls = []

    def interrupted(self, env, types, args):
        real(self, env, types, args)
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, on_the_reference():
        patch.setattr(reference.ReferencePlan, "compute", interrupted)
        weight.add_(torch.ones(3)).mul_(2.0)
        with pytest.raises(KeyboardInterrupt):
            torch.synchronize()
    return weight.tolist()


def test_interrupts_are_honoured_between_flushes(monkeypatch):
    """Disabled: what was pending is not put back; the weight is lost.

    Of the compiled core that is no function that can be replaced.
    """
    assert weight_after_an_interrupt(monkeypatch) == [4.0] * 3
    if is_compiled(_hot):
        return
    monkeypatch.setattr(_hot.COLD, "put_back", lambda trace, batch, live: None)
    with own_trie(), pytest.raises(RuntimeError, match="a value was lost"):
        weight_after_an_interrupt(monkeypatch)
