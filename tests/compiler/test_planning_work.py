"""Planning takes work in proportion to the ops of a path. The work is counted, not timed."""

import sys

import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.base.errors import CompileDeclined
from wend._engine.compiler.stages import finished
from wend._engine.runtime.compiled import plan
from wend.nn.utils import rnn


def calls_of_planning(step, monkeypatch):
    """(calls of Python functions while the longest path of a training step is planned, its nodes).

    No machine code is made.
    """
    found = []
    begin = plan.planning_of

    def counted(*args, **options):
        calls = 0

        def count(frame, event, arg):
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            code = finished(begin(*args, **options))
        finally:
            sys.setprofile(None)
        found.append((code.path.n_nodes, calls))
        raise CompileDeclined("the plan was counted")

    monkeypatch.setattr(plan, "planning_of", counted)
    with own_trie(), config.override(compile=True, wait=True), torch.autobatch(False):
        step()
    monkeypatch.undo()
    nodes, calls = max(found)
    return calls, nodes


def padded(kind, both, steps, **more):
    """A training step of a recurrent layer over sequences of equal length."""
    layer = getattr(torch.nn, kind)(3, 4, bidirectional=both, **more)

    def step():
        layer(torch.ones(steps, 2, 3))[0].square().mean().backward()
        layer.weight_hh_l0.grad.tolist()

    return step


def packed(kind, both, steps, **more):
    """A training step of a recurrent layer over packed sequences of all lengths."""
    layer = getattr(torch.nn, kind)(3, 4, bidirectional=both, **more)

    def step():
        x = rnn.pack_sequence([torch.ones(n, 3) for n in range(steps, 0, -2)])
        layer(x)[0].data.square().mean().backward()
        layer.weight_hh_l0.grad.tolist()

    return step


@pytest.mark.parametrize("made", [padded, packed])
@pytest.mark.parametrize(("kind", "both"), [("LSTM", True), ("GRU", True), ("RNN", False)])
def test_planning_a_recurrent_layer_takes_as_much_work_for_all_lengths(
    monkeypatch, made, kind, both
):
    """The steps are a single op, in each direction and packed."""
    few, few_nodes = calls_of_planning(made(kind, both, 8), monkeypatch)
    many, many_nodes = calls_of_planning(made(kind, both, 16), monkeypatch)
    sequences = 4 if made is packed else 0  # that are more, each a tensor
    assert many_nodes == few_nodes + sequences > sequences
    assert many < 1.15 * few


@pytest.mark.parametrize("made", [padded, packed])
def test_planning_steps_takes_work_in_proportion(monkeypatch, made):
    """Twice the steps of a projected layer, each an op, take about twice the work."""
    few, few_nodes = calls_of_planning(made("LSTM", True, 8, proj_size=2), monkeypatch)
    many, many_nodes = calls_of_planning(made("LSTM", True, 16, proj_size=2), monkeypatch)
    assert many_nodes > 1.5 * few_nodes > 0
    assert many / many_nodes < 1.3 * few / few_nodes
