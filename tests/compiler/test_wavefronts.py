"""Which stages of kernels share a round: none that has to wait for another of them."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wend as torch
import wend.nn.functional as F
from wend import nn
from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.parallel.tasks import Stage, StagedTasks
from wend._engine.compiler.parallel.wavefronts import accesses, rounds
from wend._engine.runtime.compiled import argument_layout


def kernel(reads, writes):
    made = Kernel("kernel", "", "")
    made.reads, made.writes = sorted(reads), sorted(writes)
    return made


def schedule(*calls):
    """A kernel's stages: of how many calls."""
    return StagedTasks([Stage("kernel", [[] for _ in range(n)]) for n in calls], [])


few = st.sets(st.integers(0, 7), max_size=3)
programs = st.lists(
    st.tuples(few, few, st.lists(st.integers(1, 3), min_size=1, max_size=3)),
    min_size=1,
    max_size=12,
)


@given(programs)
def test_what_depends_on_one_another_is_in_rounds_of_its_own(program):
    steps = [kernel(reads, writes) for reads, writes, _ in program]
    schedules = {k: schedule(*calls) for k, (_, _, calls) in enumerate(program)}
    made, spans = rounds(0, len(steps), schedules, accesses(steps, {}, {}, []))
    at = {stage: n for n, one in enumerate(made) for stage in one}
    assert sorted(at) == [(k, s) for k in schedules for s in range(len(schedules[k].stages))]
    assert sum(map(len, made)) == len(at)
    for k, step in enumerate(steps):
        mine = [at[k, s] for s in range(len(schedules[k].stages))]
        assert mine == sorted(set(mine))
        assert spans[k] == (mine[0], mine[-1])
        for j, other in enumerate(steps[:k]):
            used = {*other.reads, *other.writes}
            if used & {*step.writes} or {*other.writes} & {*step.reads}:
                assert spans[j][1] < spans[k][0]


@given(programs)
def test_calls_that_are_each_alone_stay_so(program):
    steps = [kernel(reads, writes) for reads, writes, _ in program]
    schedules = {k: schedule(*calls) for k, (_, _, calls) in enumerate(program)}
    for one in rounds(0, len(steps), schedules, accesses(steps, {}, {}, []))[0]:
        calls = [len(schedules[k].stages[s].blocks) for k, s in one]
        assert len(one) == 1 or max(calls) > 1
        assert calls == sorted(calls, key=lambda n: n < 2)


def test_what_lies_in_anothers_memory_waits_for_all_that_read_that():
    """Value 2 overwrites 1, which the step before reads; 4 overwrites a leaf, 0."""
    steps = [kernel({0}, {1}), kernel({1, 0}, {3}), kernel({1}, {2}), kernel({5}, {4})]
    schedules = dict.fromkeys(range(4), schedule(2))
    apart = rounds(0, 4, schedules, accesses(steps, {}, {}, []))[0]
    assert apart == [[(0, 0), (3, 0)], [(1, 0), (2, 0)]]
    behind = rounds(0, 4, schedules, accesses(steps, {2: 1}, {4: 0}, []))[0]
    assert behind == [[(0, 0)], [(1, 0)], [(2, 0), (3, 0)]]
    one_by_one = rounds(0, 4, schedules, accesses(steps, {}, {}, [range(4)]))[0]
    assert one_by_one == [[(k, 0)] for k in range(4)]


def test_only_what_is_combined_from_copies_waits_for_that():
    """A nest of values 1 and 2, of which 2 is summed up in copies; packing waits for nothing."""
    nest = kernel({0}, {1, 2})
    nest.nest = SimpleNamespace(late_folds=lambda: [SimpleNamespace(out=2)])
    product = kernel({1, 5}, {3})
    product.words, product.slots = ("left", "right"), [Slot("pointer", i, ()) for i in (1, 5)]
    steps = [nest, product, kernel({2}, {4})]
    names = [("clear", "kernel", "combine"), ("pack", "product"), ("kernel",)]
    schedules = {
        k: StagedTasks(
            [Stage(name, [[]] * (1 if name in ("clear", "combine") else 2)) for name in row], []
        )
        for k, row in enumerate(names)
    }
    made, spans = rounds(0, 3, schedules, accesses(steps, {}, {}, []))
    assert made == [[(1, 0), (0, 0)], [(0, 1)], [(1, 1), (0, 2)], [(2, 0)]]
    assert spans == [(0, 2), (0, 2), (3, 3)]
    steps.insert(0, kernel({0}, {6}))
    schedules = {0: schedule(2)} | {k + 1: found for k, found in schedules.items()}
    made = rounds(0, 4, schedules, accesses(steps, {1: 0}, {}, []))[0]  # 1 lies over what it reads
    assert made == [[(0, 0)], [(2, 0), (1, 0)], [(1, 1)], [(2, 1), (1, 2)], [(3, 0)]]


@pytest.fixture
def made_rounds(monkeypatch, own_trie):
    """The rounds of all skeletons from now on; plans are compiled before they first run."""
    found = []
    number = argument_layout.ArgumentLayout._number_rounds

    def note(self):
        number(self)
        found.append(self)

    monkeypatch.setattr(argument_layout.ArgumentLayout, "_number_rounds", note)
    before = torch.get_num_threads()
    with config.override(compile=True, wait=True):
        yield found
    torch.set_num_threads(before)


def trained(threads):
    """What a small net learns in a few steps, in so many threads."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(300, 256), nn.LayerNorm(256), nn.ReLU(), nn.Linear(256, 300))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.tensor(np.random.default_rng(0).normal(size=(500, 300)).astype(np.float32))
    for _ in range(4):
        loss = F.mse_loss(net(x), x) + net[0].weight.square().sum() * 1e-4
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.synchronize()
    return [p.detach().numpy().copy() for p in net.parameters()]


def test_a_net_learns_the_same_in_rounds_that_kernels_share(made_rounds):
    two = trained(2)
    sizes = [len({k for k, _ in one}) for s in made_rounds for r in s.rounds.values() for one in r]
    assert max(sizes) > 2  # the updates of parameters, at least
    torch.set_num_threads(1)
    for a, b in zip(trained(1), two, strict=True):
        np.testing.assert_array_equal(a, b)
