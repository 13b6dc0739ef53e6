"""Ordinary Python that becomes a graph: on each branch right, or refused with the line."""

import itertools
import sys

import numpy as np
import pytest
import python_programs as programs

import wend as torch
from wend._engine.base import tree
from wend._engine.transforms.exploring.recording import ExploreError
from wend._engine.transforms.exploring.running import SizesDiffer, run
from wend._engine.transforms.exploring.unseen import Unseen
from wend._frontend.static.explored import explored as explore

SIGNS = list(itertools.product((1.0, -1.0), repeat=3))
EXTENTS = (2, 3, 4, 5, 7)
MOST_ANSWERS = 2_000
pytestmark = pytest.mark.filterwarnings("ignore:.*has not ended after.*")


def inputs():
    """Two rows with all signs of the first three numbers."""
    size = np.array([1.0, 1.5, 1.25, 1.0], np.float32)
    for first, second in itertools.product(SIGNS, SIGNS):
        yield np.array([[*first, 0.5], [*second, 1.0]], np.float32) * size


def is_wrong(program, function):
    """Whether a graph differs from the function for any signs."""
    captured = {c.id: c.tensor for c in program.captured}
    for x in inputs():
        (result,) = tree.leaves(run(program, [torch.tensor(x)], captured, most=MOST_ANSWERS))
        if not np.allclose(result.numpy(), function(torch.tensor(x)).numpy(), rtol=1e-5):
            return True
    return False


@pytest.mark.parametrize("function", programs.VALUES, ids=lambda f: f.__name__)
def test_a_graph_goes_each_way_that_python_goes(function):
    assert not is_wrong(explore(function, (torch.ones(2, 4),)), function)


@pytest.mark.parametrize("function", programs.SIZES, ids=lambda f: f.__name__)
def test_sizes_may_be_keys_and_items(function):
    program = explore(function, (torch.ones(3, 4),))
    captured = {c.id: c.tensor for c in program.captured}
    for sizes in itertools.product(EXTENTS, repeat=2):
        x = torch.ones(*sizes)
        try:
            wanted = function(x).numpy()
        except (KeyError, ValueError) as error:
            with pytest.raises(type(error)):
                run(program, [x], captured)
            continue
        (result,) = tree.leaves(run(program, [x], captured))
        np.testing.assert_array_equal(result.numpy(), wanted)


def test_a_size_that_stays_a_key_is_a_constant():
    program = explore(programs.sizes_as_keys, (torch.ones(3, 4),))
    with pytest.raises(SizesDiffer, match=r"python_programs.*as for an index or a key"):
        run(program, [torch.ones(2, 4)], {})


def test_progress_that_nothing_tells_is_refused():
    with pytest.raises(ExploreError, match=r"does not see|does not compute"):
        explore(programs.pairs_of_a_generator, (torch.ones(2, 4),))


@pytest.mark.parametrize(
    "function",
    [programs.sum_of_map, programs.sorted_by_key, programs.joined, programs.sorted_tensors],
)
def test_runs_that_go_on_find_state_that_is_not_seen(function, monkeypatch):
    """Disabled: a graph is wrong for signs that the example does not have."""
    monkeypatch.setattr(Unseen, "answers", lambda *args: ())
    with pytest.raises(ExploreError):
        explore(function, (torch.ones(2, 4),))


def in_a_session(function):
    session = torch.session(function, torch.ones(2, 4))
    return lambda x: session(torch.tensor(x)).numpy()


def exported(function):
    module = torch.export.export(function, (torch.ones(2, 4),)).module()
    return lambda x: module(torch.tensor(x)).numpy()


def scripted(function):
    module = torch.jit.script(function)
    return lambda x: module(torch.tensor(x)).numpy()


@pytest.mark.parametrize("door", [in_a_session, exported, scripted], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "function", [programs.sum_of_map, programs.any_and_all, programs.max_by_key]
)
def test_all_doors_lead_to_the_same(function, door):
    again = door(function)
    for x in itertools.islice(inputs(), 0, None, 5):
        np.testing.assert_allclose(again(x), function(torch.tensor(x)).numpy(), rtol=1e-5)


def test_lines_are_counted_beside_a_debugger():
    events = []

    def debugger(frame, event, arg):
        if frame.f_code is programs.loops_by_bool.__code__:
            events.append(event)
        return debugger

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        explore(programs.loops_by_bool, (torch.ones(2, 4),))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)
    assert {"call", "line", "return"} <= set(events)
