"""Schedules of random graphs: what the scheduled loops compute on placed buffers, step by step.

`python tests/compiler/loop_graphs.py --graphs 5000` tries more. A fault of a schedule is seen here
by its numbers; the checks of `compiler.verifier` are not asked.
"""

import numpy as np
import pytest
from loop_graphs import check

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler import place, verifier
from wend._engine.compiler.ir.symbolic_extents import ZERO
from wend._engine.compiler.schedule import buffer_reuse
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.runtime.flush_log import last_plans

#: Graphs of a case; each of them is run on four machines.
GRAPHS = 15


@pytest.mark.parametrize("part", range(8))
def test_scheduled_loops_compute_what_the_nodes_compute(part):
    runs = sum(check(seed) for seed in range(part * GRAPHS, (part + 1) * GRAPHS))
    assert runs > 2 * GRAPHS


def test_large_graphs_are_cut_into_many_nests():
    assert sum(check(seed, count=60) for seed in range(3)) > 3


def read_too_early(monkeypatch):
    """A temporary is written over by a step that reads it, though a later step reads it too."""
    real = buffer_reuse.operand_for

    def shared(steps, lifetimes):
        ending = {}
        for k, step in enumerate(steps):
            for i in getattr(step, "reads", ()):
                if i in lifetimes:
                    ending[k, i] = True
        homes, lives = {}, dict(lifetimes)
        for k, step in enumerate(steps):
            if getattr(step, "nest", None) is None:
                continue
            free = {i for i in step.reads if (k, i) in ending}
            for out in step.writes:
                if out in lifetimes:
                    taken = real(step.nest, out, step.nest.function.shape(out), free)
                    if taken is not None:
                        free.discard(taken)
                        home = homes[out] = homes.get(taken, taken)
                        size, first, last = lives[home]
                        lives[home] = size, first, max(last, lives.pop(out)[2])
        return homes, lives

    monkeypatch.setattr("wend._engine.compiler.place.shared_places", shared)


def folded_again(monkeypatch):
    """An op may add an axis to a nest that has a fold, which then combines elements once more."""
    monkeypatch.setattr(Fusion, "_all_axes_kept", lambda self, region, axes: True)


def never_late(monkeypatch):
    """A result is written over a leaf that a later step reads."""
    real = place.last_reads_of

    def last_reads(emitted):
        first = {}
        for k, step in enumerate(emitted.steps):
            for i in getattr(step, "reads", ()):
                first.setdefault(i, k)
        return real(emitted) | first

    monkeypatch.setattr(place, "last_reads_of", last_reads)


def no_offset(monkeypatch):
    """Views begin where their bases begin."""
    monkeypatch.setattr("wend._engine.compiler.ir.layout.add", lambda a, b: ZERO)


@pytest.mark.parametrize("plant", [read_too_early, folded_again, never_late, no_offset])
def test_faults_of_a_schedule_are_seen(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(600):
            check(seed)


@pytest.mark.parametrize("plant", [read_too_early, folded_again, never_late])
def test_the_verifier_sees_them_too(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"^after (fuse|memory): "):
        for seed in range(600):
            check(seed, watch=verifier.check, run=False)


def test_the_verifier_passes_sound_schedules():
    for seed in range(40):
        check(seed, watch=verifier.check, run=False)


def test_a_value_that_results_of_unlike_sizes_read_is_no_loop_of_all_of_them():
    """Found in use: twelve masks of layers, each of a size of its own, were 240 million turns."""
    extents = [3, 4, 5, 6]
    x = torch.arange(7.0)

    def masks():
        zero = x.eq(0)
        return [zero.expand(n, 7).clone() for n in extents]

    with own_trie(), config.override(compile=True, wait=True):
        for _ in range(4):
            found = masks()
            torch.synchronize()
        plan = last_plans()[-1]
    regions = [step.nest.region for step in plan.compiled.code.steps]
    for mask, n in zip(found, extents, strict=True):
        np.testing.assert_array_equal(mask.numpy(), np.tile(np.arange(7) == 0, (n, 1)))
    assert len(regions) > 1
    assert all(len(r.axes) <= 2 for r in regions)


def test_parts_of_a_nest_whose_largest_op_is_dropped_are_nests_of_their_own():
    """The sums are computed again where they are read, so no loop over both dims is left.

    Two nests that had the same number were written as the same kernel.
    """
    rng = np.random.default_rng(0)
    sizes = [(3, 4), (5, 2), (1, 6)]

    def sums(x, y):
        shared = torch.exp(y)
        a = (torch.tanh(x).unsqueeze(1) + shared) * 2
        b = torch.exp(x).unsqueeze(1) + shared
        return a[:, None, :, None] + b[None, :, None, :]

    with own_trie(), config.override(compile=True, wait=True, deterministic=False):
        for turn in range(6):
            x, y = (rng.normal(size=n) for n in sizes[turn % 3])
            found = sums(torch.tensor(x), torch.tensor(y)).numpy()
            a = 2 * (np.tanh(x)[:, None] + np.exp(y))
            b = np.exp(x)[:, None] + np.exp(y)
            expected = a[:, None, :, None] + b[None, :, None, :]
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        plan = last_plans()[-1]
    regions = plan.compiled.code.regions
    assert len({region.number for region in regions}) == len(regions)
    assert max(len(region.axes) for region in regions[:-1]) == 1
