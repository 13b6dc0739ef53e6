"""Who runs a backward pass: one list of ways, each with its reason to decline."""

import pytest

import wend as torch
from tries import own_trie
from wend._engine.core.step_log import ROWS, BackwardRow
from wend._engine.transforms.backward_ways import BACKWARD, PENDING, SEGMENT


def ways_of(run, times=1):
    """[(part, way)] that ran the passes of `run`, in order, and {(part, way): reason} of others."""
    with own_trie(), torch.autobatch(False):
        for _ in range(times):
            ROWS.clear()
            run()
    rows = [row for row in ROWS if isinstance(row, BackwardRow)]
    asked = [key for row in rows for key in row.asked]
    ran = [(part, way) for part, way, reason in asked if not reason]
    return ran, {(part, way): reason for part, way, reason in asked if reason}


@pytest.fixture
def weight():
    return torch.ones(3, requires_grad=True)


def two_flushes(weight, use=lambda loss: loss.backward()):
    h = weight * 2.0
    h.tolist()
    use((h * h).sum())


def test_names_are_told_apart():
    assert len({(way.part, way.name) for way in BACKWARD}) == len(BACKWARD)
    assert [way.part for way in BACKWARD] == sorted(way.part for way in BACKWARD)
    assert all(way.purpose for way in BACKWARD)


def test_a_new_path_is_one_new_step(weight):
    ran, declined = ways_of(lambda: (weight * 2.0).sum().backward())
    assert ran == [(PENDING, "new step")]
    assert "before" in declined[PENDING, "known step"]


def test_a_known_path_asks_nobody(weight):
    def run():
        (weight * 2.0).sum().backward()
        assert weight.grad.tolist() == [2.0] * 3
        weight.grad = None

    assert ways_of(run, times=3) == ([], {})


def test_an_earlier_segment_is_one_step(weight):
    ran, declined = ways_of(lambda: two_flushes(weight))
    assert ran == [(PENDING, "new step"), (SEGMENT, "new step")]
    assert "no such backward pass before" in declined[SEGMENT, "known steps"]
    assert declined[SEGMENT, "groups of the flush"] == "the flush did not run in groups"


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda loss, w: torch.autograd.grad(loss, [w]), "only chosen inputs get gradients"),
        (lambda loss, w: loss.backward(create_graph=True), "create_graph=True"),
    ],
)
def test_the_reason_against_the_known_step(weight, use, reason):
    ran, declined = ways_of(lambda: use((weight * 2.0).sum(), weight), times=3)
    assert ran == [(PENDING, "new step")]
    assert declined[PENDING, "known step"] == reason


def test_hooks_on_an_earlier_segment_are_walked_node_by_node(weight):
    def run():
        h = weight * 2.0
        h.register_hook(lambda g: g * 3.0)
        h.tolist()
        (h * h).sum().backward()

    ran, declined = ways_of(run)
    assert ran[-1] == (SEGMENT, "op by op")
    assert declined[SEGMENT, "new step"] == "an op of the flush has hooks"


def test_explain_prints_the_ways(weight):
    with own_trie():
        two_flushes(weight)
        weight.grad.tolist()
        text = str(torch.debug.explain())
    assert "pending ops: run by: new step" in text
    assert "earlier flushes: declined: groups of the flush: the flush did not run in groups" in text
    assert "1 kernel," in text or "kernel" not in text


def test_many_segments_are_counted_in_one_line(weight):
    def run():
        h = weight
        for _ in range(4):
            h = h * 2.0
            h.tolist()
        h.register_hook(lambda g: g)
        torch.autograd.grad(h.sum(), [weight])

    with own_trie():
        ROWS.clear()
        run()
    rows = [row for row in ROWS if isinstance(row, BackwardRow)]
    assert max(rows[-1].asked.values()) > 1
