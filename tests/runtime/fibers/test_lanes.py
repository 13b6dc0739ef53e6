"""Turns of fibers that took the same path run as one, forward and backward."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config, random_state
from wend._engine.core import _hot
from wend._engine.runtime.batching import deferred_backward, signatures
from wend._engine.runtime.fibers import _lanes_select, fibers, flush_lanes, lane_backward, lanes

native = _lanes_select.select()

Params = dict[str, "torch.Tensor"]


@pytest.fixture(params=["reference", "machine code"])
def counts(request, monkeypatch):
    """Counts what ran as one, and fails where single nodes were needed instead."""
    counts = {"forward": 0, "backward": 0, "nodes": 0}

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args):
            counts[name] += 1
            return method(*args)

        return call

    # Its type is that of the others: the table may have forgotten the one it had at import.
    monkeypatch.setitem(globals(), "NOTHING", torch.zeros(1, 4, dtype=torch.float64))
    monkeypatch.setattr(lanes, "PASSED", 0)
    monkeypatch.setattr(native, "run_lanes", counted("forward", native.run_lanes))
    monkeypatch.setattr(
        lane_backward.LaneBatchBackward,
        "push",
        counted("backward", lane_backward.LaneBatchBackward.push),
    )
    monkeypatch.setattr(
        lane_backward.LaneBatchBackward,
        "resolve",
        counted("nodes", lane_backward.LaneBatchBackward.resolve),
    )
    with torch.autobatch(True), own_trie():
        settings = {"compile": request.param == "machine code", "wait": True}
        before = config.settings.set(**settings)
        yield counts
        config.settings.set(**before)


def parameters() -> Params:
    rng = np.random.default_rng(3)
    shapes = {"a": (4, 4), "b": (4,), "head": (3, 4), "table": (9, 4)}
    made = {n: torch.tensor(rng.normal(size=shape) * 0.6) for n, shape in shapes.items()}
    return {n: p.requires_grad_() for n, p in made.items()}


def examples(n: int = 7) -> list[torch.Tensor]:
    rng = np.random.default_rng(8)
    return [torch.tensor(rng.normal(size=(1, 4))) for _ in range(n)]


def results(fn: Any, given: list[Any], apart: bool, rounds: int = 2) -> list[Any]:
    """Losses and gradients of the last of some rounds."""
    for _ in range(rounds):
        p = parameters()
        calls = [lambda x=x, p=p: fn(p, x) for x in given]
        streams = [random_state.current().substream(5, k) for k in range(len(given))]
        if apart:
            losses, _ = fibers.run_together(calls, streams, apart=True)
        else:
            losses = fibers.run_alone(calls, streams)
        torch.stack(losses).sum().backward()
        found = [loss.item() for loss in losses]
        found += [None if t.grad is None else t.grad.numpy() for t in p.values()]
    return found


def assert_same(fn: Any, given: list[Any]) -> None:
    for a, b in zip(results(fn, given, True), results(fn, given, False), strict=True):
        if a is None or b is None:
            assert a is b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def steps(p: Params, x: torch.Tensor) -> torch.Tensor:
    """As many steps as the values tell."""
    for _ in range(6):
        x = x + torch.tanh(x @ p["a"] + p["b"])
        scores = x @ p["head"].T
        if scores.softmax(1).max() > 0.8:
            break
    return torch.nn.functional.cross_entropy(scores, torch.tensor([1]))


def test_steps_of_unlike_number(counts):
    assert_same(steps, examples())
    assert counts["forward"] > 0 and counts["backward"] > 0 and counts["nodes"] == 0


@pytest.mark.parametrize("most", [2, 64])
def test_the_last_call_goes_on_as_it_did_with_others(counts, monkeypatch, most):
    """But not for long: alone it is quicker."""
    monkeypatch.setattr(fibers, "MOST_ALONE", most)

    def fn(p: Params, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3 if x[0, 0] < 0 else 9):
            x = torch.tanh(x @ p["a"] + p["b"])
            float(x.max())
        return (x @ p["head"].T).sum()

    rows = [[-1.0, 0.1, 0.2, k / 4] for k in range(3)]
    given = [torch.tensor([row], dtype=torch.float64) for row in ([1.0, 0.1, 0.2, 0.3], *rows)]
    results(fn, given, True)
    before = counts["forward"]
    results(fn, given, True, rounds=1)
    turns = counts["forward"] - before
    assert turns >= 10 if most == 64 else turns < 10
    assert_same(fn, given)


def test_calls_that_end_in_unlike_turns_end_as_one(counts):
    given = examples() * 2  # so that nobody is left alone
    turns = []

    def counted(p: Params, x: torch.Tensor) -> torch.Tensor:
        mine = len(turns)
        turns.append(0)
        for _ in range(6):
            x = x + torch.tanh(x @ p["a"] + p["b"])
            scores = x @ p["head"].T
            turns[mine] += 1
            if scores.softmax(1).max() > 0.8:
                break
        return torch.nn.functional.cross_entropy(scores, torch.tensor([1]))

    results(counted, given, True, rounds=1)
    assert len(set(turns)) > 2
    assert counts["forward"] == max(turns) + 1 and counts["nodes"] == 0
    assert_same(counted, given)


def rows_of_a_leaf(p: Params, words: torch.Tensor) -> torch.Tensor:
    """Rows of what an earlier turn has computed, picked one by one."""
    inputs = torch.nn.functional.embedding(words, p["table"]).unsqueeze(1)
    state = torch.zeros(1, 4, dtype=torch.float64)
    kept = []
    for k in range(len(words)):
        front = inputs[k]
        state = torch.tanh((state + front) @ p["a"])
        kept.append(front)
        if state.sum() > 0.5:
            state = state * 0.5
    return state.square().sum() + torch.cat(kept).sum()


def test_rows_of_values_that_are_picked(counts):
    rng = np.random.default_rng(1)
    assert_same(rows_of_a_leaf, [torch.tensor(rng.integers(0, 9, n)) for n in (3, 5, 5, 4, 3)])
    assert counts["forward"] > 0 and counts["backward"] > 0 and counts["nodes"] == 0


def looked_up(options: dict[str, Any], more: str) -> Callable[..., torch.Tensor]:
    """A program that takes rows of a table.  more: what else is done with them"""

    def rows(p: Params, words: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.embedding(words, p["table"], **options)
        if more == "twice":
            y = y * torch.nn.functional.embedding(words, p["table"] * 2, **options)
        if more == "bias":
            y = y + p["b"]
        if more == "shared":
            y = y + torch.nn.functional.embedding(torch.tensor([3, 1, 3, 4]), p["table"]).mean(0)
        if more == "reshaped":
            y = y.unsqueeze(-1).flatten().reshape(-1, 2) * torch.tensor([1.0, -2.0])
            y = y.reshape(-1, 4)
        scores = torch.tanh(y).reshape(-1, 4).sum(0, keepdim=True) @ p["head"].T
        if scores.sum() > 0:
            scores = scores * 2
        return scores.square().sum()

    return rows


@pytest.mark.parametrize("more", ["", "twice", "bias", "shared", "reshaped"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_rows_of_a_table_for_indices_of_unlike_number(counts, options, more):
    rng = np.random.default_rng(2)
    shapes = [(3,), (5,), (5,), (1,), (2, 3), (3, 2), (3,), (0,)]
    given = [torch.tensor(rng.integers(0, 9, shape)) for shape in shapes]
    assert_same(looked_up(options, more), given)


def test_gradients_of_a_table_are_one_sum_for_indices_of_unlike_number(counts, monkeypatch):
    sums = []
    run = deferred_backward.run_tail
    monkeypatch.setattr(
        deferred_backward, "run_tail", lambda t, *given: sums.append(t) or run(t, *given)
    )
    rng = np.random.default_rng(1)
    given = [torch.tensor(rng.integers(0, 9, n)) for n in (3, 5, 5, 4, 6, 2)]
    results(looked_up({}, ""), given, True, rounds=1)
    assert counts["backward"] > 2
    assert sum(any(type_.dims == (9, 4) for type_ in t.tail_types) for t in sums) == 1


def joined(p: Params, x: torch.Tensor) -> torch.Tensor:
    """Tensors of earlier turns, one behind the other: some twice, or without a gradient."""
    kept, losses = [x, p["a"]], []
    for k in range(5):
        x = torch.tanh(x @ p["a"] + p["b"])
        kept.append(x)
        losses.append(x.square().sum())
        if losses[-1] > 1.2 - 0.2 * k:
            break
    whole = torch.cat([*kept, kept[-1]]) @ p["head"].T
    if whole.sum() > 0:
        whole = whole * 2
    return torch.stack(losses).mean() + torch.stack([x, x, x.detach()]).sum() + whole.sum()


def test_tensors_of_earlier_turns_that_are_joined(counts):
    assert_same(joined, examples())
    assert counts["forward"] > 0 and counts["backward"] > 0 and counts["nodes"] == 0


def test_a_lane_that_has_nobody_to_go_with(counts, monkeypatch):
    run, sizes = native.run_lanes, []

    def noted(lane_batch, parts, n, dense):
        sizes.append(n)
        return run(lane_batch, parts, n, dense)

    monkeypatch.setattr(native, "run_lanes", noted)
    assert_same(steps, examples())
    assert 1 in sizes and max(sizes) > 1 and counts["nodes"] == 0


def halves(p: Params, x: torch.Tensor) -> torch.Tensor:
    """A dtype whose gradients are not added by native code; all numbers are exact in it."""
    y = (p["b"] * 0 + 1).half() * (4 * x).half().round()
    z = y * 3 if y.sum() > 0 else y * 5
    if z.sum() > 2:
        z = z + y
    return z.sum().double()


def test_gradients_of_low_precision(counts):
    assert_same(halves, examples())
    assert counts["backward"] > 0


def unused(p: Params, x: torch.Tensor) -> torch.Tensor:
    """What nobody uses has no gradient, and makes none that is not finite."""
    x = x @ p["a"]
    length = (x * 0).square().sum().sqrt()  # its derivative is infinite
    seen = x @ p["head"].T
    if x.sum() > 0:
        x = x * 2
    del length, seen
    return x.square().sum()


def scored(p: Params, x: torch.Tensor) -> torch.Tensor:
    """A turn that nothing but parameters goes into: all of its backward pass is put off."""
    answers, losses = torch.tensor([[1], [2]]), []
    for k in range(2):
        rows = torch.nn.functional.embedding(torch.tensor([k, 3]), p["table"]).unsqueeze(1)
        scores = (x * rows[k]) @ p["head"].T
        losses.append(torch.nn.functional.cross_entropy(scores, answers[k]))
        if scores.argmax() > 0:
            break
    return torch.stack(losses).sum()


def test_what_is_put_off_is_machine_code_where_ops_asked_for_equal_extents(counts):
    signatures.BOOK.templates.clear()
    assert_same(scored, examples())
    assert counts["backward"] > 0
    templates = [each for kept in signatures.BOOK.templates.values() for each in kept]
    tails = [t.tail.plan for each in templates for t in (each, *each.variants.values()) if t.tail]
    assert tails
    assert all(getattr(plan, "fault", None) is None for plan in tails)


def test_what_is_not_used_has_no_gradient(counts):
    assert_same(unused, examples())
    assert counts["backward"] > 0
    assert results(unused, examples(), True)[-2] is None


def parted(p: Params, x: torch.Tensor) -> torch.Tensor:
    """Whether a square root takes part depends on the values read in between."""
    x = x @ p["a"]
    length = (x.square().sum() * (x.sum() > 0)).sqrt()
    if x.sum() > 0:
        return length + x.sum()
    return x.sum()


def test_lanes_that_go_on_in_other_ways(counts):
    assert_same(parted, examples())
    assert counts["backward"] > 0


def forgotten(p: Params, x: torch.Tensor) -> torch.Tensor:
    """One of two results goes on in some lanes only; what is not smooth does in all of them."""
    x = torch.tanh(x @ p["a"])
    extra, length = x * p["b"], (x.square().sum() + 1).sqrt()
    if x.sum() > 0:
        length = length + extra.sum()
    return length


def test_lanes_of_which_some_forget_a_result_are_run_as_one(counts, monkeypatch):
    parts, seen = lane_backward.LaneBatchBackward.ways, []

    def noted(self):
        found = parts(self)
        seen.append((len(found), [sum(m) for m in self.marks.values()], self.n))
        return found

    monkeypatch.setattr(lane_backward.LaneBatchBackward, "ways", noted)
    assert_same(forgotten, examples())
    assert all(count <= 1 for count, _, _ in seen)
    assert any(0 < min(marks) < max(marks) == n for _, marks, n in seen if marks)


def test_a_lane_alone_without_a_gradient_runs_by_its_plan(counts, monkeypatch):
    attempt, alone = flush_lanes.attempt, []

    def noted(batch, live):
        alone.append(len(batch.values))
        return attempt(batch, live)

    monkeypatch.setattr(flush_lanes, "attempt", noted)
    p, given = parameters(), examples()
    streams = [random_state.current().substream(5, k) for k in range(len(given))]
    calls = [lambda x=x: steps(p, x) for x in given]
    with torch.no_grad():
        for _ in range(2):
            alone.clear()
            found, _ = fibers.run_together(calls, streams, apart=True)
        expected = fibers.run_alone(calls, streams)
    np.testing.assert_allclose([y.item() for y in found], [y.item() for y in expected])
    compiled = config.settings.compile
    assert counts["forward"] > 0 and bool(alone) == compiled


def test_a_kernel_that_cannot_run_leaves_it_to_the_plan(counts, monkeypatch):
    class Busy:
        def run(self, operands):
            return None

        def run_back(self, lanes, seeds):
            return None

    monkeypatch.setattr(lane_backward, "kernel_if_ready", lambda *given: Busy())
    assert_same(steps, examples())
    assert counts["backward"] > 0


def test_code_for_gradients_of_parameters_is_kept_for_some_numbers_of_rows(counts, monkeypatch):
    find, run, known, runs = deferred_backward.tail_kernel, deferred_backward.run_tail, [], []

    def tail_kernel(template, *given):
        found = find(template, *given)
        known.append((found, len(template.tails)))
        return found

    monkeypatch.setattr(deferred_backward, "tail_kernel", tail_kernel)
    monkeypatch.setattr(
        deferred_backward, "run_tail", lambda *given: runs.append(None) or run(*given)
    )
    monkeypatch.setattr(deferred_backward, "MOST_TAILS", 2)
    signatures.BOOK.templates.clear()
    results(steps, examples(), True, rounds=6)  # until the code is there
    for n in (7, 3, 5, 7, 7):
        assert_same(steps, examples(n))
    assert max(n for _, n in known) <= 2
    assert any(found is not None for found, _ in known) == config.settings.compile
    kernels = [found for found, _ in known if found is not None]
    assert not kernels or len(set(map(id, kernels))) == len(kernels)
    assert not kernels or len(known) < len(runs)


def test_length_and_number_of_a_tensor():
    x = torch.arange(6).reshape(3, 2)
    assert len(x) == 3 and len(x[:2].T) == 2 and len(torch.nn.Parameter(torch.ones(4))) == 4
    assert torch.vmap(lambda row: row * len(row))(x).tolist() == (x * 2).tolist()
    with pytest.raises(TypeError, match="0-d"):
        len(x[0, 0])
    assert [int(torch.tensor(v)) for v in (7, -2.5, True)] == [7, -2, 1]
    assert int(x[1:2, 1]) == 3 and type(int(torch.tensor(2.0))) is int
    with pytest.raises(TypeError):
        int(torch.tensor(1 + 2j))
    with pytest.raises(ValueError):
        int(torch.tensor(float("nan")))
    with pytest.raises(RuntimeError):
        int(x)


def test_lanes_whose_kernel_cannot_run_are_run_by_others(counts, monkeypatch):
    class Busy(native.LaneKernel):
        def run_in_block(self, operands, rows, gathered):
            return None, None

    busy = Busy(None, (), (), None, (), (), None, None)
    monkeypatch.setattr(lanes, "kernel_if_ready", lambda *given: busy)
    assert_same(steps, examples())
    assert counts["forward"] > 0


def numbers(p: Params, x: torch.Tensor) -> torch.Tensor:
    """A number that differs from example to example is an argument of an op."""
    scale = float((x @ p["a"]).sum())
    y = x * round(scale)
    if y.sum() > 0:
        y = y @ p["a"]
    return y.square().sum() + p["b"].sum()


def test_numbers_that_differ(counts):
    assert_same(numbers, examples())


def test_an_error_names_its_example(counts):
    def fails(p, x):
        y = x @ p["a"]
        if y.sum() > 100:
            return y
        index = torch.tensor([int(y.sum() > 0) * 20])
        z = torch.nn.functional.embedding(index, p["table"])
        return z.sum() if z.sum() > -1000 else y

    p = parameters()
    calls = [lambda x=x: fails(p, x) for x in examples()]
    own = [random_state.current().substream(5, k) for k in range(len(calls))]
    with pytest.raises(IndexError):
        fibers.run_together(calls, own, apart=True)


def test_an_op_that_fails_leaves_the_other_calls_their_values(counts):
    table, ends = torch.arange(4.0), []

    def picks(k):
        try:
            row = torch.gather(table, 0, k)
            return float(row.sum())
        except IndexError as error:
            ends.append(str(error))
            return None

    given = [torch.tensor([k]) for k in (1, 2, 9, 3)]
    own = [random_state.current().substream(5, k) for k in range(4)]
    for _ in range(2):
        found, _ = fibers.run_together([lambda k=k: picks(k + 0) for k in given], own, apart=True)
        assert found == [1.0, 2.0, None, 3.0]
    assert len(ends) == 2 and "test_lanes.py" in ends[0]


def test_a_run_that_fails_without_need_is_told(counts, monkeypatch, planted_failure):
    def broken(*args):
        raise ArithmeticError("broken")

    monkeypatch.setattr(native, "run_lanes", broken)
    with pytest.warns(RuntimeWarning, match="broken.*a defect"):
        assert_same(numbers, examples())


def test_a_pass_goes_through_lanes_and_what_lies_between_them(counts):
    given = examples()

    def loss_of(together: bool) -> tuple[Params, torch.Tensor]:
        p, xs = parameters(), given
        for _ in range(3):
            calls = [lambda x=x, p=p: walked(p, x) for x in xs]
            own = [random_state.current().substream(5, k) for k in range(len(xs))]
            xs = (
                fibers.run_together(calls, own, apart=True)[0] if together else [c() for c in calls]
            )
            mean = torch.stack(xs).mean(0) @ p["a"]
            mean.sum().item()  # a flush of its own, which is passed node by node
            xs = [torch.tanh(x + mean) for x in xs]
            [float(x.sum()) for x in xs]
        return p, torch.stack(xs).square().sum()

    def walked(p: Params, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x @ p["a"])
        return y * p["b"] if y.sum() > 0 else y

    for retain in (False, True):
        found = []
        for together in (True, False):
            p, loss = loss_of(together)
            loss.backward(retain_graph=retain)
            if retain:
                loss.backward()
            else:
                with pytest.raises(RuntimeError, match="second time"):
                    loss.backward()
            found.append([p[name].grad.numpy() for name in ("a", "b")])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert counts["backward"] > 0 and counts["nodes"] == 0


def test_what_lanes_have_read_is_kept_without_data_once_it_has_been_passed(counts):
    p, given = parameters(), examples()
    own = [random_state.current().substream(5, k) for k in range(len(given))]
    losses, _ = fibers.run_together([lambda x=x: steps(p, x) for x in given], own, apart=True)
    segment = _hot.value_of(losses[0]).segment
    before = segment.inputs.items()
    torch.stack(losses).sum().backward()
    after = segment.inputs.items()
    assert [number for number, _ in after] == [number for number, _ in before]
    for number, value in after:
        old = segment.inputs[number]
        assert value is old and value.buffer is None and number in segment.inputs
    olds = [v for _, v in before]
    for old, new in zip(olds, [v for _, v in after], strict=True):
        assert (old.leaf, old.segment, old.seg_index) == (new.leaf, new.segment, new.seg_index)


def test_passes_through_some_lanes(counts):
    p, q = parameters(), parameters()
    given = examples()
    calls = [lambda x=x: steps(p, x) for x in given]
    own = [random_state.current().substream(5, k) for k in range(len(given))]
    losses, _ = fibers.run_together(calls, own, apart=True)
    for loss in losses:
        loss.backward()
    for x in given:
        steps(q, x).backward()
    for name in ("a", "b", "head"):
        np.testing.assert_allclose(p[name].grad, q[name].grad, rtol=1e-9, atol=1e-12)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        losses[0].backward()


def test_a_graph_goes_without_the_collector_though_a_pass_used_a_part_of_it_only(counts):
    def kept() -> int:
        return sum(type(x) is lane_backward.LaneBatchBackward for x in gc.get_objects())

    gc.collect()
    before = kept()
    gc.disable()
    try:
        results(unused, examples(), True)
        assert counts["backward"] > 0
        assert kept() == before
    finally:
        gc.enable()


def test_gradients_begin_with_what_a_view_of_an_earlier_turn_shows(counts):
    def fn(p: Params, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(torch.cat([x, 2 * x]) @ p["a"] + p["b"])
        y.detach().sum().item()
        z = y[1]
        z.detach().max().item()
        return z

    def run(apart: bool) -> list[Any]:
        p, given = parameters(), examples()
        calls = [lambda x=x: fn(p, x) for x in given]
        own = [random_state.current().substream(5, k) for k in range(len(given))]
        together = fibers.run_together(calls, own, apart=True)[0] if apart else []
        rows = together or fibers.run_alone(calls, own)
        torch.stack(rows).square().sum().backward()
        return [p[name].grad.numpy() for name in ("a", "b")]

    for a, b in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert counts["backward"] > 0 and counts["nodes"] == 0


def test_what_lanes_have_read_goes_with_the_pass_through_them(counts):
    """Though results that lead there are still held."""
    p, given = parameters(), examples()

    def fn(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3 if x[0, 0] < 0 else 5):
            x = torch.tanh(x @ p["a"] + p["b"])
            x.detach().max().item()
        return x.sum()

    calls = [lambda x=x: fn(x) for x in given]
    own = [random_state.current().substream(5, k) for k in range(len(given))]
    gc.collect()
    before = sum(type(x) is lane_backward.LaneBatchBackward for x in gc.get_objects())
    losses, _ = fibers.run_together(calls, own, apart=True)
    torch.stack(losses).sum().backward()
    assert counts["backward"] > 0 and counts["nodes"] == 0
    assert sum(type(x) is lane_backward.LaneBatchBackward for x in gc.get_objects()) == before
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        losses[0].backward()


def test_a_value_of_another_call_is_computed_when_it_is_needed(counts):
    p, shared = parameters(), []

    def lends(x):
        shared.append(x @ p["a"])
        if shared[0].sum() > 100:  # the second call uses what the first one has pending
            return shared[0].sum()
        return (shared[0] * x).sum()

    own = [random_state.current().substream(5, k) for k in range(2)]
    found, _ = fibers.run_together([lambda x=x: lends(x) for x in examples(2)], own, apart=True)
    first = examples(1)[0] @ p["a"]
    for x, y in zip(examples(2), found, strict=True):
        np.testing.assert_allclose(y.item(), (first * x).sum().item(), rtol=1e-12)


NOTHING = torch.zeros(1, 4, dtype=torch.float64)


def fronts(p: Params, words: torch.Tensor) -> torch.Tensor:
    """Operands are rows of a sentence, or states, or a constant in the place of either."""
    inputs = torch.nn.functional.embedding(words, p["table"]).unsqueeze(1)
    state, kept = NOTHING, []
    for k in range(9):
        front = inputs[k] if k < len(words) else NOTHING
        state = torch.tanh((state + 2 * front) @ p["a"] + front * p["b"])
        kept.append(front)
        if state.sum() > 0.2:
            state = NOTHING
    return state.square().sum() + torch.cat(kept).sum()


def sentences() -> list[torch.Tensor]:
    rng = np.random.default_rng(4)
    return [torch.tensor(rng.integers(0, 9, n)) for n in (3, 5, 5, 4, 3, 8, 2, 5)]


@pytest.fixture
def kinds(monkeypatch):
    """How many paths each run had lanes of."""
    run, found = native.run_lanes, []

    def noted(lane_batch, parts, n, dense):
        found.append(len(parts))
        return run(lane_batch, parts, n, dense)

    monkeypatch.setattr(native, "run_lanes", noted)
    return found


def test_paths_that_differ_in_where_operands_come_from_run_as_one(counts, kinds):
    assert_same(fronts, sentences())
    assert max(kinds) > 1
    assert counts["backward"] > 0 and counts["nodes"] == 0


def test_what_is_large_is_not_repeated_for_lanes_that_share_it(counts, kinds, monkeypatch):
    found = []

    def noted(*given):
        found.append(repeats(*given))
        return found[-1]

    repeats = lanes.repeats_much
    monkeypatch.setattr(lanes, "MOST_REPEATED", 0)
    monkeypatch.setattr(lanes, "repeats_much", noted)
    assert_same(fronts, sentences())
    assert True in found and counts["backward"] > 0 and counts["nodes"] == 0


def test_single_nodes_of_paths_that_ran_as_one(counts, kinds):
    found = []
    for apart in (True, False):
        for _ in range(2):
            p, seen, given = parameters(), [], sentences()
            calls = [lambda x=x, p=p: fronts(p, x) for x in given]
            own = [random_state.current().substream(5, k) for k in range(len(given))]
            run = fibers.run_together if apart else fibers.run_alone
            losses = run(calls, own, True)[0] if apart else run(calls, own)
            p["a"].register_hook(lambda g, seen=seen: seen.append(g.sum().item()))
            total = torch.stack(losses).sum()
            (slope,) = torch.autograd.grad(total, p["b"], create_graph=True)
            (slope.square().sum() + total).backward()
        found.append([*[t.grad.numpy() for t in p.values() if t.grad is not None], sum(seen)])
    assert max(kinds) > 1 and counts["nodes"] > 0
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_hook_of_one_example_among_others_on_its_path(counts):
    """The lane with the hook is not the first of its path, and must not run as one of it."""
    found = []
    for apart in (True, False):
        for _ in range(2):
            p, seen = parameters(), []

            def turns(k: int, x: torch.Tensor, p: Params = p, seen: list[Any] = seen) -> Any:
                y = torch.tanh(x @ p["a"])
                if k == 2:
                    y.register_hook(lambda g: seen.append(g.sum().item()))
                z = y * p["b"]
                if z.sum() > 1e9:
                    return z.sum()
                return (z * y).sum()

            calls = [lambda k=k, x=x, run=turns: run(k, x) for k, x in enumerate(examples())]
            own = [random_state.current().substream(5, k) for k in range(len(calls))]
            run = fibers.run_together if apart else fibers.run_alone
            losses = run(calls, own, True)[0] if apart else run(calls, own)
            torch.stack(losses).sum().backward()
            assert len(seen) == 1
        found.append([p["a"].grad.numpy(), p["b"].grad.numpy(), seen[0]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_passes_through_some_lanes_of_unlike_paths(counts, kinds):
    p, q, given = parameters(), parameters(), sentences()
    calls = [lambda x=x: fronts(p, x) for x in given]
    own = [random_state.current().substream(5, k) for k in range(len(given))]
    losses, _ = fibers.run_together(calls, own, apart=True)
    for loss in reversed(losses):
        loss.backward()
    for x in given:
        fronts(q, x).backward()
    for name in ("a", "b", "table"):
        np.testing.assert_allclose(p[name].grad, q[name].grad, rtol=1e-9, atol=1e-12)
    assert max(kinds) > 1
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        losses[0].backward()


def test_paths_that_share_a_program_are_exactly_alike(counts, kinds):
    """Paths of equal ops, of which one differs in an operand, a gradient, or what is wanted."""

    def unlike(p, k):
        x = examples(8)[int(k)]
        x = x @ p["a"] if x.sum() < 1e9 else x
        kind = int(k) % 4 if x.sum() < 1e9 else 0
        y = torch.tanh(x * p["b"])
        if kind == 0:
            z = y * x
        elif kind == 1:
            z = x * y
        elif kind == 2:
            z = y * y
        else:
            with torch.no_grad():
                z = y * x
        return z.sum() if z.sum() > 0 else (y + z).sum()

    assert_same(unlike, [torch.tensor(k) for k in range(8)])
    assert max(kinds) == 1


def test_shared_programs_go_with_their_paths(counts):
    before = len(lanes.SHARED_PROGRAMS)
    with own_trie():
        results(fronts, sentences(), True)
        assert len(lanes.SHARED_PROGRAMS) > before
    gc.collect()
    assert len(lanes.SHARED_PROGRAMS) <= before


@pytest.mark.parametrize("fn", [steps, unused, parted])
def test_what_regions_leave_alone_is_run_all_the_same(counts, fn, monkeypatch):
    """Where most structure has been new, regions pause."""
    monkeypatch.setattr(lanes, "PASSED", 1000)
    monkeypatch.setattr(signatures.BOOK, "pause", 1000)
    assert_same(fn, examples())
