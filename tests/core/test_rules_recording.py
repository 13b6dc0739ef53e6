"""The rules of recording: each test is a program that breaks without its rule.

Where a rule can be switched off from outside, the test also shows that it breaks then.
"""

from __future__ import annotations

import gc
import random
import threading

import numpy as np
import pytest

import wend as torch
from wend.core import _hot
from wend.frontend import tensor as tensor_module
from wend.runtime import plans


def states() -> int:
    """States made so far."""
    return int(_hot.count("states"))


def new_states(run, times: int = 3) -> int:
    """States that further runs make, after the first few."""
    for _ in range(times):
        run()
    before = states()
    for _ in range(times):
        run()
    return states() - before


# -- equality is derived, never observed ----------------------------------------------------


def test_extents_that_happen_to_be_equal_are_no_structure():
    w = torch.ones(6, 5)

    def run(n: int) -> float:
        x = torch.ones(n, 6)
        return ((x @ w).tanh().sum(dim=1) * 2.0).sum().item()

    for n in (6, 5, 9):
        run(n)
    before = states()
    for n in (5, 6, 7, 8, 30, 6, 256):
        assert run(n) == pytest.approx(n * 5 * 2 * np.tanh(6.0), rel=1e-5)
    assert states() == before


def test_extent_one_is_a_pattern_of_its_own():
    for n in (4, 1, 3, 1, 0, 2):
        x = torch.ones(n, 3) + torch.ones(1, 3)
        assert x.shape == (n, 3)
        assert float(x.sum()) == 6.0 * n


def test_unlike_leaves_that_once_agreed_still_raise():
    def run(n: int, m: int):
        return (torch.ones(n) + torch.ones(m)).sum().item()

    assert run(4, 4) == 8.0
    assert run(4, 4) == 8.0
    with pytest.raises(RuntimeError, match="do not broadcast"):
        run(4, 5)
    assert run(5, 5) == 10.0


# -- scalars and sizes are no keys ----------------------------------------------------------


def test_a_learning_rate_schedule_does_not_grow_the_trie():
    p = torch.zeros(3)
    rates = iter(np.linspace(0.1, 1.0, 200))

    def run() -> None:
        p.sub_(torch.ones(3) * float(next(rates)))
        torch.synchronize()

    assert new_states(run, 10) == 0


def test_category_and_sign_of_zero_are_told_apart():
    x = torch.ones(2)
    for _ in range(3):
        assert (x / 0.0).tolist() == [np.inf, np.inf]
        assert (x / -0.0).tolist() == [-np.inf, -np.inf]
        assert (torch.ones(2, dtype=torch.int64) * True).dtype is torch.int64
        assert (torch.ones(2, dtype=torch.int64) * 1.0).dtype is torch.float32


# -- provenance -----------------------------------------------------------------------------


def test_two_lines_that_share_a_state_are_told_apart():
    table = torch.ones(4, 2)

    def first(i):
        return table[i].sum()

    def second(i):
        return table[i].sum()

    good, bad = torch.tensor([1]), torch.tensor([9])
    for run in (first, second, first, second):
        assert run(good).item() == 2.0
    for run in (first, second):
        with pytest.raises(IndexError) as caught:
            run(bad).item()
        line = run.__code__.co_firstlineno + 1
        assert f"test_rules_recording.py:{line}" in str(caught.value)


# -- bounds ---------------------------------------------------------------------------------


def never_repeating(rng: random.Random, length: int = 30):
    values = [torch.ones(3), torch.ones(3) * 0.5]
    for _ in range(length):
        a, b = rng.choice(values), rng.choice(values)
        values.append(rng.choice((a + b, a * b, a - b, a.tanh(), torch.maximum(a, b))))
    return values[-1].sum().item()


def test_structure_that_never_repeats_leaves_the_trie():
    rng = random.Random(1)
    for _ in range(150):
        never_repeating(rng)
    before = states()
    for _ in range(150):
        never_repeating(rng)
    assert states() - before < 10 * 30, "sealed states must not go on growing children"


def test_a_sealed_trie_lets_repeating_programs_in_again():
    rng = random.Random(2)
    for _ in range(150):
        never_repeating(rng)
    x = torch.ones(3)

    def run() -> None:
        assert (x.exp() - 1.0).sum().item() == pytest.approx(3 * (np.e - 1), rel=1e-5)

    for _ in range(2000):
        run()
    assert new_states(run, 20) == 0


def test_types_and_memos_are_bounded():
    for n in range(1, 20_000, 2):
        torch.ones(n, dtype=torch.float32)
    torch.synchronize()
    assert _hot.count("types") <= 8192


def test_a_long_pending_chain_is_freed_without_recursion():
    x = torch.ones(1)
    for _ in range(200_000):
        x = x * 1.0
    assert x.item() == 1.0
    del x
    gc.collect()


# -- when values are computed ---------------------------------------------------------------


def test_a_convergence_loop_with_a_running_log_stays_on_its_path():
    """A sync returns to the root: else every turn of the loop would be a new path."""
    log = torch.zeros(())

    def run() -> None:
        nonlocal log
        x = torch.tensor(100.0)
        while x.item() > 1.0:
            x = x / 2.0
            log = log + x

    assert new_states(run) == 0


def test_unwanted_values_are_never_computed(monkeypatch):
    x = torch.ones(3)
    torch.synchronize()
    executed = []
    real = _hot.slot("execute")

    def spy(batch, live):
        plan = plans.find_plan(batch, live)
        executed.extend(step.node.prim.name for step in plan.steps)
        real(batch, live)

    _hot.set_slot("execute", spy)
    try:
        dropped = torch.tanh(x)
        kept = x + 1.0
        del dropped
        torch.synchronize()
    finally:
        _hot.set_slot("execute", real)
    assert executed == ["add"]
    assert kept.tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("ops_in_body", [7, 37])
def test_budget_flushes_fall_on_the_rhythm_of_the_program(ops_in_body, monkeypatch):
    def loop(turns: int):
        x = torch.ones(2)
        for _ in range(turns):
            y = x
            for _ in range(ops_in_body):
                y = y + 1.0
            x = y * 0.0
        return x

    def ends() -> set[int]:
        trace = _hot.current_trace()
        soft, trace.soft_nodes = trace.soft_nodes, 100
        lengths: set[int] = set()
        real = _hot.slot("execute")

        def spy(batch, live):
            lengths.add(len(batch.states))
            real(batch, live)

        _hot.set_slot("execute", spy)
        try:
            loop(200)
            torch.synchronize()
        finally:
            _hot.set_slot("execute", real)
            trace.soft_nodes = soft
        return lengths

    assert len(ends()) <= 4
    _hot.set_slot("on_beat", lambda trace, code, lasti: True)
    try:
        assert len(ends()) >= 1
    finally:
        _hot.set_slot("on_beat", tensor_module.on_beat)


def test_values_kept_at_random_do_not_make_plans_explode():
    rng = random.Random(3)
    x = torch.ones(4)

    def run() -> None:
        outs = [x * float(k) for k in range(12)]
        kept = [o for o in outs if rng.random() < 0.5]
        torch.synchronize()
        for o in kept:
            assert o.shape == (4,)

    for _ in range(5):
        run()
    before = plans.COUNTS["plans"]
    for _ in range(300):
        run()
    assert plans.COUNTS["plans"] - before < 20


# -- a flush is a transaction ---------------------------------------------------------------


def test_except_index_error_continue_leaves_parameters_whole():
    table = torch.arange(5, dtype=torch.float32)
    weight = torch.ones(3)
    steps = torch.zeros(())
    for index in (1, 7, 2):
        try:
            with torch.no_grad():
                steps += 1
                picked = table[torch.tensor([index])]
                weight.add_(picked.sum())
                steps += 1
            assert weight.shape == (3,)
            weight.sum().item()
        except IndexError:
            continue
    assert weight.tolist() == [4.0, 4.0, 4.0]
    assert steps.item() == 5.0


def test_values_that_depend_on_a_failed_op_raise_the_same_error():
    table = torch.ones(3)
    bad = table[torch.tensor([5])]
    dependent = bad * 2.0
    independent = table * 3.0
    with pytest.raises(IndexError):
        bad.tolist()
    with pytest.raises(IndexError, match="out of bounds"):
        dependent.tolist()
    assert independent.tolist() == [3.0, 3.0, 3.0]


# -- threads --------------------------------------------------------------------------------


def test_another_thread_reads_a_pending_value():
    x = torch.ones(3) * 2.0
    found = []

    def read() -> None:
        y = x + 1.0
        found.append(y.tolist())

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found == [[3.0, 3.0, 3.0]]
    assert x.tolist() == [2.0, 2.0, 2.0]


def test_threads_record_side_by_side():
    shared = torch.ones(8)
    results: dict[int, float] = {}

    def work(k: int) -> None:
        total = torch.zeros(8)
        for i in range(200):
            total = total + shared * float(k)
            if i % 17 == k:
                total.sum().item()
        results[k] = total.sum().item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: 8.0 * 200 * k for k in range(6)}


# -- users' Python always runs --------------------------------------------------------------


def test_users_python_runs_in_every_call():
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.seen: list[int] = []

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape[0])
            return x * 2.0 if x.shape[0] % 2 else x + 1.0

    module = Counting()
    for n in (1, 2, 3, 2, 1):
        out = module(torch.ones(n))
        assert out.tolist() == [2.0] * n
    assert module.calls == 5
    assert module.seen == [1, 2, 3, 2, 1]


# -- randomness -----------------------------------------------------------------------------


def test_random_numbers_do_not_depend_on_dead_code_or_flushes():
    def draw(read: bool, dead: bool):
        torch.manual_seed(5)
        a = torch.rand(3)
        if read:
            a.tolist()
        if dead:
            a * 2.0
        return torch.rand(3).tolist()

    assert draw(False, False) == draw(True, True) == draw(False, True)
