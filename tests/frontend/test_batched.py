"""wend.batched: calls that take turns, and what of them is computed together."""

import contextvars
import gc
import threading
import weakref
from itertools import pairwise

import numpy as np
import pytest

import wend
from wend._engine.base import config
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.runtime.fibers import fibers
from wend._frontend.batching.choice import FIRST_PAUSE, TRIALS, Weighing, weighing_of

WAYS = [True, False]


def flushes_of(call):
    before = _hot.count("flushes")
    result = call()
    return result, _hot.count("flushes") - before


@pytest.fixture(autouse=True)
def together():
    """Examples take turns, whichever way is quicker."""
    with wend.autobatch(True):
        yield


@pytest.fixture
def halving():
    """x is halved until its sum is small: how often depends on the values."""
    weight = wend.full((3,), 0.5, requires_grad=True)

    def fn(x):
        steps = 0
        while x.sum().item() > 1.0:
            x = x * weight
            steps += 1
        return x.sum(), steps

    return fn, weight


def examples():
    return [wend.full((3,), float(k)) for k in (0, 1, 8, 3, 20)]


@pytest.mark.smoke
def test_results_and_gradients_are_those_of_a_loop(halving):
    fn, weight = halving
    rows = wend.batched(fn)(examples())
    sum(total for total, _ in rows).backward()
    together = weight.grad.numpy().copy()
    weight.grad = None
    alone = [fn(x) for x in examples()]
    sum(total for total, _ in alone).backward()
    assert [steps for _, steps in rows] == [steps for _, steps in alone] == [0, 2, 5, 4, 6]
    assert [t.item() for t, _ in rows] == pytest.approx([t.item() for t, _ in alone])
    np.testing.assert_allclose(together, weight.grad.numpy(), rtol=1e-5)


def test_all_that_wait_share_a_flush(halving):
    fn, _ = halving
    given = examples()
    wend.batched(fn)(given)
    _, together = flushes_of(lambda: wend.batched(fn)(given))
    assert together == 8  # the longest example asks seven times, and leaves something pending
    with wend.autobatch(False):
        _, alone = flushes_of(lambda: wend.batched(fn)(given))
    assert alone == 22


def test_order_of_effects_within_an_example():
    seen = []

    def fn(k):
        x = wend.ones(2) * k
        for turn in range(3):
            seen.append((k, turn))
            x = x + x.sum().item()
        return k

    assert wend.batched(fn)(range(4)) == [0, 1, 2, 3]
    for k in range(4):
        assert [turn for example, turn in seen if example == k] == [0, 1, 2]
    assert seen[:4] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_values_are_shared_between_examples():
    table = {}

    def fn(k):
        if "x" not in table:
            table["x"] = wend.ones(3) * 2
        y = table["x"] * k
        return float(y.sum())

    assert wend.batched(fn)([1, 2, 3]) == [6.0, 12.0, 18.0]


def test_recursion():
    def depth(x, bound):
        if bool((x > bound).all()):
            return 1 + depth(x / 2, bound)
        return 0

    def fn(x):
        return depth(x, 1.0)

    given = [wend.full((2,), v) for v in (0.5, 3.0, 1000.0)]
    assert wend.batched(fn)(given) == [0, 2, 10]


def test_arguments_of_several_columns_and_common_ones():
    def fn(x, y, scale):
        return (x * y).item() * scale

    assert wend.batched(fn)(wend.tensor([1.0, 2.0]), [3.0, 4.0], scale=2) == [6.0, 16.0]
    assert wend.batched(fn)([], [], scale=1) == []
    with pytest.raises(ArgumentError, match=r"batched\(fn\): .* unlike numbers .* \[2, 1"):
        wend.batched(fn)([1, 2], [3], scale=1)
    with pytest.raises(ArgumentError, match="there are no examples"):
        wend.batched(fn)()
    with pytest.raises(ArgumentTypeError, match="a function is needed, not a int"):
        wend.batched(3)


# -- what belongs to one example ------------------------------------------------------------


def test_grad_modes_do_not_leak():
    w = wend.ones(2, requires_grad=True)

    def fn(k):
        if k % 2:
            with wend.no_grad():
                first = (w * k).sum()
                first.item()
                return (w * k).requires_grad, wend.is_grad_enabled()
        (w * k).sum().item()
        return (w * k).requires_grad, wend.is_grad_enabled()

    assert wend.batched(fn)(range(4)) == [(True, True), (False, False)] * 2
    assert wend.is_grad_enabled()


def test_context_variables_do_not_leak():
    variable = contextvars.ContextVar("variable", default="outside")

    def fn(k):
        before = variable.get()
        variable.set(f"in {k}")
        wend.ones(1).mul(k).item()
        return before, variable.get()

    assert wend.batched(fn)(range(3)) == [("outside", f"in {k}") for k in range(3)]
    assert variable.get() == "outside"


def test_errors_name_the_module_path_of_their_example():
    class Inner(wend.nn.Module):
        def forward(self, x):
            if x.sum().item() > 2:
                return x @ wend.ones(5)
            return x

    class Outer(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            x.sum().item()
            return self.inner(x)

    model = Outer()
    with pytest.raises(RuntimeError) as found:
        wend.batched(model)([wend.ones(2), wend.ones(3), wend.ones(2)])
    text = "\n".join([str(found.value), *found.value.__notes__])
    assert "inner" in text and "in example 1 of wend.batched" in text
    assert found.value.example_index == 1
    with pytest.raises(RuntimeError, match="inner"):  # the stack of modules is as it was
        model(wend.ones(3))


def test_hooks_that_read_values_within_backward():
    def fn(k):
        w = wend.full((2,), float(k), requires_grad=True)
        seen = []
        y = w * w
        y.register_hook(lambda g: seen.append(g.sum().item()))
        (y * k).sum().backward()
        return seen, w.grad.tolist()

    assert wend.batched(fn)([1, 2, 3]) == [
        ([2.0], [2.0, 2.0]),
        ([4.0], [8.0, 8.0]),
        ([6.0], [18.0, 18.0]),
    ]


def test_training_inside_of_an_example():
    def fn(target):
        w = wend.zeros(2, requires_grad=True)
        optimizer = wend.optim.SGD([w], lr=0.25)
        for _ in range(20):
            optimizer.zero_grad()
            loss = ((w - target) ** 2).sum()
            loss.backward()
            optimizer.step()
            if loss.item() < 1e-3:
                break
        return w.tolist()

    for k, found in enumerate(wend.batched(fn)([0.0, 1.0, 2.0])):
        assert found == pytest.approx([k, k], abs=0.05)


# -- random numbers -------------------------------------------------------------------------


def draws(x):
    if wend.rand(()) > 0.5:
        x = wend.nn.functional.dropout(x)
    for _ in range(int(wend.randint(0, 4, ()))):
        x = x + wend.randn(3)
        x.sum().item()
    return x.tolist()


def test_random_numbers_do_not_depend_on_batching():
    found = []
    for on in WAYS:
        wend.manual_seed(7)
        with wend.autobatch(on):
            found.append([wend.batched(draws)(examples()), wend.batched(draws)(examples())])
        found[-1].append(wend.rand(()).item())
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]  # each call has its own


def test_random_numbers_of_an_example_do_not_depend_on_the_others():
    wend.manual_seed(7)
    first = wend.batched(draws)(examples())
    wend.manual_seed(7)
    assert wend.batched(draws)(examples()[:2]) == first[:2]


def test_random_numbers_of_nested_calls():
    def outer(k):
        return wend.batched(draws)(examples()[: k + 1])

    found = []
    for on in WAYS:
        wend.manual_seed(1)
        with wend.autobatch(on):
            found.append(wend.batched(outer)(range(3)))
    assert found[0] == found[1]
    assert found[0][0][0] != found[0][1][0]


# -- nesting --------------------------------------------------------------------------------


def test_nested_calls_wait_for_one_another(halving):
    fn, _ = halving
    given = examples()

    def outer(rows):
        return [steps for _, steps in wend.batched(fn)(rows)]

    wend.batched(outer)([given[:2], given[2:]])
    found, count = flushes_of(lambda: wend.batched(outer)([given[:2], given[2:]]))
    assert found == [[0, 2], [5, 4, 6]]
    assert count == 8


def test_errors_of_nested_calls():
    def inner(k):
        if (wend.ones(()) * k).item() == 5:
            raise KeyError("five")

    def outer(start):
        wend.batched(inner)(range(start, start + 3))

    with pytest.raises(KeyError) as found:
        wend.batched(outer)([0, 3, 6])
    assert found.value.example_index == 1
    assert [note.strip() for note in found.value.__notes__] == [
        "in example 2 of wend.batched",
        "in example 1 of wend.batched",
    ]


# -- failures -------------------------------------------------------------------------------


def test_an_error_cancels_the_others():
    seen = []

    def fn(k):
        try:
            x = (wend.ones(2) * k).sum().item()
            if k == 1:
                raise ValueError(f"bad {x}")
            (wend.ones(2) * k).sum().item()
            seen.append(f"{k} went on")
        finally:
            if k != 1:
                seen.append((k, (wend.ones(2) + k).sum().item()))  # values can be read meanwhile

    with pytest.raises(ValueError, match=r"bad 2.0") as found:
        wend.batched(fn)(range(3))
    assert found.value.example_index == 1
    assert seen == [(0, 2.0), (2, 6.0)]
    assert wend.ones(2).sum().item() == 2.0


def test_an_error_before_others_begin():
    seen = []

    def fn(k):
        seen.append(k)
        if k == 1:
            raise ValueError

    with pytest.raises(ValueError) as found:
        wend.batched(fn)(range(3))
    assert seen == [0, 1] and found.value.example_index == 1


def test_errors_while_cancelling_are_noted():
    def fn(k):
        try:
            wend.ones(()).mul(k).item()
            if k == 0:
                raise ValueError("first")
            wend.ones(()).mul(k).item()
        finally:
            if k == 1:
                raise OSError("disk")

    with pytest.raises(ValueError, match="first") as found:
        wend.batched(fn)(range(2))
    assert any("example 1 was being cancelled: OSError: disk" in n for n in found.value.__notes__)


def test_an_op_that_fails_in_a_common_flush():
    table = wend.arange(5.0)

    def fn(k):
        index = (wend.ones((), dtype=wend.int64) * k).reshape(1)
        return wend.index_select(table, 0, index).item()

    with pytest.raises(IndexError) as found:
        wend.batched(fn)([1, 9, 2])
    assert found.value.example_index == 1

    def careful(k):
        try:
            return fn(k)
        except IndexError:
            return None

    assert wend.batched(careful)([1, 9, 2]) == [1.0, None, 2.0]


def test_a_failure_that_no_example_reads():
    table = wend.arange(5.0)
    kept = []

    def fn(k):
        index = (wend.ones((), dtype=wend.int64) * k).reshape(1)
        kept.append(wend.index_select(table, 0, index))
        return wend.ones(()).mul(k).item()

    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        wend.batched(fn)([1, 9, 2])


def test_interrupts_end_all():
    seen = []

    def fn(k):
        try:
            wend.ones(()).mul(k).item()
            if k == 1:
                raise KeyboardInterrupt
            wend.ones(()).mul(k).item()
        finally:
            seen.append(k)

    with pytest.raises(KeyboardInterrupt):
        wend.batched(fn)(range(3))
    assert sorted(seen) == [0, 1, 2]


def test_nothing_is_kept():
    """Without the collector of cycles: values that something refers to are computed."""
    kept = []

    def fn(k, fail):
        x = wend.ones(3) * k
        kept.append(weakref.ref(x))
        x.sum().item()
        if fail == k:
            raise ValueError
        y = x * 2
        kept.append(weakref.ref(y))
        return y

    gc.disable()
    try:
        wend.batched(fn)(range(4), fail=-1)
        with pytest.raises(ValueError):
            wend.batched(fn)(range(4), fail=2)
    finally:
        gc.enable()
    assert [ref() for ref in kept[:8]] == [None] * 8


# -- where it runs --------------------------------------------------------------------------


def test_greenlets_serve_later_calls():
    def last_digit(x):
        return int(x.sum().item()) % 10 if x[0] > 1 else None

    def idle():
        return [worker.greenlet for worker in fibers._idle.workers]

    wend.batched(last_digit)(examples())
    before = idle()
    assert len(before) >= 5
    assert wend.batched(last_digit)(examples()) == [None, None, 4, 9, 0]
    assert set(idle()) == set(before)


def test_greenlets_of_a_batch_that_failed_serve_later_calls(halving):
    fn = halving[0]

    def fails(x):
        if x.sum().item() == 9:
            raise KeyError("three")
        return x.sum().item()

    expected = [steps for _, steps in wend.batched(fn)(examples())]
    for _ in range(3):
        with pytest.raises(KeyError):
            wend.batched(fails)(examples())
        assert all(worker.greenlet for worker in fibers._idle.workers)  # none has ended
        assert [steps for _, steps in wend.batched(fn)(examples())] == expected


def test_traces_serve_later_calls_unless_something_is_pending():
    def fails(k):
        x = wend.ones(3) * k
        x.sum().item()
        left.append(x + 1)  # pending when the first of the calls ends all
        if k == 1:
            raise KeyError
        x.sum().item()

    def traces():
        return {worker.trace for worker in fibers._idle.workers}

    fibers._idle.workers.clear()
    read = wend.batched(lambda k: (wend.ones(3) * k).sum().item())
    assert read(range(4)) == read(range(4)) == [0, 3, 6, 9]  # from the second on, apart
    before = traces()
    assert read(range(4)) == [0, 3, 6, 9] and traces() == before
    left = []
    with pytest.raises(KeyError):
        wend.batched(fails)(range(4))
    with pytest.raises(KeyError):
        wend.batched(fails)(range(4))
    assert read(range(4)) == [0, 3, 6, 9]
    assert [y.tolist() for y in left] == [[k + 1.0] * 3 for k in (0, 1)] * 2


def test_idle_greenlets_keep_no_module():
    class Outer(wend.nn.Module):
        def forward(self, xs):
            return wend.batched(lambda x: x.sum().item())(xs)

    model = Outer()
    for _ in range(3):
        model([wend.ones(2)] * 3)
    known = weakref.ref(model)
    del model
    assert known() is None


def test_not_many_greenlets_are_kept(monkeypatch):
    monkeypatch.setattr(fibers, "MOST_IDLE", 3)
    fibers._idle.workers.clear()
    wend.batched(lambda x: x.sum().item())([wend.ones(2)] * 8)
    assert len(fibers._idle.workers) == 3


def test_threads_have_their_own(halving):
    fn, _ = halving
    found = {}

    def work(name):
        found[name] = [steps for _, steps in wend.batched(fn)(examples())]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [[0, 2, 5, 4, 6]] * 3


def test_a_value_that_another_thread_reads():
    handed = []

    def fn(k):
        x = wend.ones(()) * k
        thread = threading.Thread(target=lambda: handed.append(x.item()))
        thread.start()
        thread.join()
        return x.item()

    assert wend.batched(fn)([1, 2]) == [1.0, 2.0]
    assert handed == [1.0, 2.0]


def test_op_by_op(halving):
    fn, _ = halving
    with wend.eager():
        assert [steps for _, steps in wend.batched(fn)(examples())] == [0, 2, 5, 4, 6]


def test_many_examples_exceed_a_budget(monkeypatch):
    trace = _hot.current_trace()
    monkeypatch.setattr(trace, "hard_nodes", 50)

    def fn(k):
        x = wend.ones(2) * k
        for _ in range(5):
            x = x + 1
        y = x.sum().item()
        return y + x.prod().item()

    assert wend.batched(fn)(range(30)) == [2 * (k + 5) + (k + 5.0) ** 2 for k in range(30)]
    assert trace.soft_nodes > 50


# -- which way is quicker -------------------------------------------------------------------


def weighed(costs, batches):
    """The ways that are chosen where a batch of 2 ops costs costs[way]."""
    now = [0.0]
    weighing = Weighing(lambda: now[0])
    ways = []
    for _ in range(batches):
        ways.append(weighing.choose())
        now[0] += costs[ways[-1]]
        weighing.worked(2)
    return ways


@pytest.mark.parametrize("quicker", WAYS)
def test_the_quicker_way_is_taken(quicker):
    ways = weighed({quicker: 1.0, not quicker: 3.0}, TRIALS + FIRST_PAUSE)
    assert ways[:TRIALS] == [True, False] * (TRIALS // 2)
    assert set(ways[TRIALS:]) == {quicker}


def test_the_slower_way_is_tried_again_ever_more_rarely():
    ways = weighed({True: 3.0, False: 1.0}, 2000)
    again = [k for k, way in enumerate(ways) if way and k >= TRIALS]
    pauses = [b - a for a, b in pairwise(again)]
    first = FIRST_PAUSE * 3 // 2
    assert again[0] == TRIALS + first
    assert pauses == [first * 2 ** (k + 1) for k in range(len(pauses))]


@pytest.mark.parametrize("slower", WAYS)
@pytest.mark.parametrize("distance", [2.5, 6, 15])
def test_trials_of_the_slower_way_cost_little_however_slow_it_is(slower, distance):
    ways = weighed({slower: distance, not slower: 1.0}, 4000)
    spent = 0.0
    for k, way in enumerate(ways[TRIALS:], 1):
        spent += (distance - 1) * (way is slower)
        assert spent <= 0.05 * k
    assert spent > 0


def test_a_way_that_becomes_quicker_is_found():
    now, weighing, ways = [0.0], Weighing(lambda: now[0]), []
    for k in range(400):
        ways.append(weighing.choose())
        now[0] += (5.0 if k < 20 else 0.5) if ways[-1] else 1.0
        weighing.worked(1)
    first = TRIALS + FIRST_PAUSE * 5 // 2
    assert not any(ways[TRIALS:first]) and all(ways[first : first + 100])


def test_a_way_that_is_not_much_slower_is_tried_again_soon():
    """A way may need some more batches until its machine code is there."""
    now, weighing, ways = [0.0], Weighing(lambda: now[0]), []
    for _ in range(60):
        ways.append(weighing.choose())
        now[0] += (1.5 if sum(ways) < TRIALS // 2 + 3 else 0.5) if ways[-1] else 1.0
        weighing.worked(1)
    assert [k for k, way in enumerate(ways[:40]) if way and k >= TRIALS][:3] == [20, 21, 22]
    assert all(ways[23 : 23 + 15])


def test_a_way_that_has_fallen_behind_is_not_tried_soon():
    now, weighing, ways = [0.0], Weighing(lambda: now[0]), []
    for k in range(TRIALS + FIRST_PAUSE):
        ways.append(weighing.choose())
        # Close while both are tried; then, its machine code being there, one is far quicker.
        now[0] += 1.5 if not ways[-1] else 1.0 if k < TRIALS else 0.1
        weighing.worked(1)
    assert all(ways[TRIALS:])


@pytest.mark.parametrize("quicker", WAYS)
def test_batches_of_unlike_size_are_weighed_by_their_ops(quicker):
    """As each way is tried, the quicker one gets the larger batches."""
    now, weighing, ways = [0.0], Weighing(lambda: now[0]), []
    for _ in range(TRIALS + 20):
        ways.append(weighing.choose())
        ops = 1000 if ways[-1] is quicker else 10
        now[0] += ops * (1.0 if ways[-1] is quicker else 3.0)
        weighing.worked(ops)
    assert set(ways[TRIALS:]) == {quicker}


def test_a_batch_that_raised_is_not_weighed():
    now, weighing, ways = [0.0], Weighing(lambda: now[0]), []
    for k in range(TRIALS + 20):
        ways.append(weighing.choose())
        if k % 5 == 4:
            now[0] += 0.001  # and its work is not known
            continue
        now[0] += 10 if ways[-1] else 30
        weighing.worked(10)
    assert all(ways[TRIALS:])


def test_ops_of_calls_are_counted_alike_both_ways():
    def fn(x):
        for _ in range(3):
            x = x * 2
            if x.sum().item() < 0:
                break
        return x

    trace, counts = _hot.current_trace(), []
    for together in (True, True, False):  # the second time, with a trace each
        with wend.autobatch(together):
            before = trace.ops_before + trace.ops
            wend.batched(fn)(examples())
            counts.append(trace.ops_before + trace.ops - before)
    assert len(set(counts)) == 1 and counts[0] >= 6 * len(examples())


def test_functions_are_weighed_by_their_code(halving):
    fn, _ = halving
    model = wend.nn.Linear(3, 1)
    assert weighing_of(fn) is not weighing_of(draws)
    assert weighing_of(model) is weighing_of(wend.nn.Linear(2, 2))
    with config.override(weigh=True):
        before = weighing_of(fn).batches
        found = [wend.batched(fn)(examples()) for _ in range(4)]
    assert weighing_of(fn).batches == before + 4
    steps = [[n for _, n in rows] for rows in found]
    assert steps == [[0, 2, 5, 4, 6]] * 4
