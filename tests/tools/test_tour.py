"""The tour: its program prints the truth, and each of its mechanisms does what it says."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "docs" / "tour"
PROGRAM = TOUR / "tiny_wend.py"

#: Runs the program where neither Wend nor PyTorch can be imported.
ALONE = """
import runpy, sys
sys.modules.update(dict.fromkeys(["wend", "torch"]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def tiny():
    """The program as a fresh module: an empty trie, no counts."""
    spec = importlib.util.spec_from_file_location("tiny_wend", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_wend"] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["tiny_wend"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The program's output as {number of the section: [(name, text)]}."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(PROGRAM)],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    sections = {}
    for line in done.stdout.splitlines():
        if title := re.match(r"(\d)\. ", line):
            facts = sections.setdefault(title[1], [])
        elif fact := re.match(r"    (.+?) = (.*)", line):
            facts.append((fact[1], fact[2]))
    return sections


def facts_of(printed, section):
    return [(name, ast.literal_eval(text)) for name, text in printed[section]]


X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])


def test_printed_pending_value(printed):
    assert facts_of(printed, "1") == [("before", None), ("after", (X * Y + X).tolist())]


def test_printed_steps(printed):
    # Two leaves and two ops: new at first, then one comparison each.
    first, second = [("steps new", 4), ("steps compared", 0)], [("steps compared", 4)]
    assert facts_of(printed, "2") == [*first, first[0], *second]


def test_printed_plans(printed):
    sizes, turns = facts_of(printed, "3")[:2], facts_of(printed, "3")[2:]
    assert sizes == [("plans made", 1), ("plans found", 2)]
    # Loops of 2, 3 and 4 turns, each made once, and what the branch adds.
    assert turns == [("plans made", 4), ("plans found", 5)]


def test_printed_gradients(printed):
    expected = [("first", (3 * X**2).tolist()), ("second", (6 * X).tolist())]
    assert facts_of(printed, "4") == expected


def test_printed_forests(printed, tiny):
    facts = facts_of(printed, "5")
    planned, grouped = dict(facts[:4]), dict(facts[4:])
    assert planned["plans made"] == 1
    assert grouped["plans made"] == tiny.SEAL_AFTER
    assert grouped["calls"] < planned["calls"] / 2
    w = np.random.default_rng(0).normal(size=(4, 4)) / 2
    for facts in (planned, grouped):
        assert facts["loss"] == pytest.approx(forest_in_numpy(facts["forest"], w))


def test_printed_chain(printed):
    facts = [fact for fact in printed["6"] if not fact[0].startswith("t")]
    values = np.tanh(X * Y + X) * Y
    assert [name for name, _ in facts] == ["values", "calls"] * 2
    assert [text for name, text in facts if name == "calls"] == ["4", "1"]
    for name, text in facts:
        if name == "values":
            np.testing.assert_allclose(ast.literal_eval(text), values)
    kernel = [text for name, text in printed["6"] if name.startswith("t")]
    assert [re.match(r"np\.\w+", text)[0] for text in kernel] == [
        "np.multiply",
        "np.add",
        "np.tanh",
        "np.multiply",
    ]


def tree_in_numpy(draw, leaves, w):
    if leaves == 1:
        return draw.normal(size=(1, 4))
    left = int(draw.integers(1, leaves))
    return np.tanh((tree_in_numpy(draw, left, w) + tree_in_numpy(draw, leaves - left, w)) @ w)


def forest_in_numpy(seed, w):
    draw = np.random.default_rng(seed)
    return sum(tree_in_numpy(draw, 6, w).sum() for _ in range(16))


def network(tiny, w, v, scale):
    """A number that depends on matrices and on a number, with each op of the table in it."""
    hidden = (tiny.tensor(np.linspace(-1, 1, 6).reshape(2, 3)) @ w * scale + 0.5).tanh()
    return ((hidden @ v).t() * 2.0 - (hidden @ v).t() * scale).sum()


def arrays_of_network():
    draw = np.random.default_rng(1)
    return [draw.normal(size=(3, 4)), draw.normal(size=(4, 2)), np.array(0.7)]


def slope(function, arrays, which, place, step=1e-6):
    """The central difference of a function of arrays, in one element."""
    ends = []
    for sign in (1, -1):
        moved = [a.copy() for a in arrays]
        moved[which][place] += sign * step
        ends.append(function(moved))
    return (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("flushed", [False, True])
def test_gradients_are_finite_differences(tiny, flushed):
    arrays = arrays_of_network()
    inputs = [tiny.tensor(a, requires_grad=True) for a in arrays]
    loss = network(tiny, *inputs)
    if flushed:
        loss.numpy()

    def value(moved):
        return float(network(tiny, *map(tiny.tensor, moved)).numpy())

    for which, g in enumerate(tiny.grad(loss, inputs)):
        assert g.numpy().shape == arrays[which].shape
        for place in np.ndindex(arrays[which].shape):
            assert g.numpy()[place] == pytest.approx(slope(value, arrays, which, place), abs=1e-6)


@pytest.mark.parametrize("flushed", [False, True])
def test_second_derivatives_are_finite_differences(tiny, flushed):
    arrays = arrays_of_network()

    def gradient_sum(moved, needs_flush=False):
        inputs = [tiny.tensor(a, requires_grad=True) for a in moved]
        g = tiny.grad(network(tiny, *inputs), inputs)[0]
        if needs_flush:
            g.numpy()
        return (g * g).sum(), inputs

    total, inputs = gradient_sum(arrays, flushed)
    for which, second in enumerate(tiny.grad(total, inputs)):
        for place in np.ndindex(arrays[which].shape):
            expected = slope(lambda a: float(gradient_sum(a)[0].numpy()), arrays, which, place)
            assert second.numpy()[place] == pytest.approx(expected, abs=1e-5)


def test_gradient_through_several_segments(tiny):
    x = tiny.tensor([0.3, -0.8], requires_grad=True)
    y = x * x
    z = y.tanh()
    y.numpy()  # y and z are held from here on, with one history
    loss = (y * z + x).sum()
    (g,) = tiny.grad(loss, [x])
    a = np.array([0.3, -0.8])
    t = np.tanh(a * a)
    np.testing.assert_allclose(g.numpy(), 2 * a * t + a * a * (1 - t * t) * 2 * a + 1)


def test_no_gradient_is_zero(tiny):
    x, other = (tiny.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    assert tiny.grad(x.sum(), [other])[0].numpy().tolist() == [0.0, 0.0]


def test_a_path_taken_again_makes_no_plan(tiny):
    def step(size, turns):
        x = tiny.tensor(np.ones(size), requires_grad=True)
        y = x
        for _ in range(turns):
            y = (y * 2.0).tanh()
        return tiny.grad(y.sum(), [x])[0].numpy()

    for turns in (1, 2):
        step(3, turns)
    made, new = tiny.COUNTS["plans made"], tiny.COUNTS["steps new"]
    assert made == 2
    for size, turns in [(3, 1), (3, 2), (5, 2), (40, 1), (1, 1)]:
        assert step(size, turns).shape == (size,)
    assert tiny.COUNTS["plans made"] == made
    assert tiny.COUNTS["steps new"] == new
    assert tiny.COUNTS["plans found"] == 5


def test_unwanted_values_are_not_computed(tiny):
    x = tiny.tensor([1.0, 2.0])
    x.tanh()
    y = x * 3.0
    assert y.numpy().tolist() == [3.0, 6.0]
    assert tiny.COUNTS["calls"] == 1


def test_shapes_are_refused_at_the_users_line(tiny):
    x = tiny.tensor([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"matmul: shapes \[\(1, 2\), \(1, 2\)\] do not fit"):
        x @ x
    with pytest.raises(ValueError, match=r"add: shapes"):
        x + tiny.tensor([1.0])
    with pytest.raises(ValueError, match=r"grad: the result has shape \(1, 2\)"):
        tiny.grad(x, [x])


def forest_and_gradient(tiny, seed, w):
    """A forest's sum, its gradient, and the calls that they took."""
    tiny.COUNTS["calls"] = 0
    loss = tiny.forest(seed, w)
    (g,) = tiny.grad(loss, [w])
    return float(loss.numpy()), g.numpy(), tiny.COUNTS["calls"]


def test_batched_trees_equal_the_unbatched(tiny, monkeypatch):
    array = np.random.default_rng(5).normal(size=(4, 4))
    w = tiny.tensor(array, requires_grad=True)
    apart, gradient, calls = forest_and_gradient(tiny, 3, w)
    assert tiny.COUNTS["plans made"] == 1
    monkeypatch.setattr(tiny, "admit", lambda state: False)
    tiny.begin("off the trie")
    together, same_gradient, fewer_calls = forest_and_gradient(tiny, 3, w)
    assert tiny.COUNTS["plans made"] == 0
    assert together == pytest.approx(apart, abs=1e-12) == forest_in_numpy(3, array)
    np.testing.assert_allclose(same_gradient, gradient, atol=1e-12)
    assert fewer_calls < calls / 2


def test_paths_that_never_repeat_seal_the_trie(tiny):
    w = tiny.tensor(np.eye(4))
    for seed in range(tiny.SEAL_AFTER + 6):
        tiny.forest(seed, w).numpy()
    assert tiny.COUNTS["plans made"] == tiny.SEAL_AFTER
    steps = tiny.COUNTS["steps new"]
    (w * 2.0).numpy()
    assert tiny.COUNTS["plans made"] == tiny.SEAL_AFTER
    # Known paths keep the plan that they have.
    tiny.forest(0, w).numpy()
    assert tiny.COUNTS["plans found"] == 1
    assert tiny.COUNTS["steps new"] - steps <= 2


def test_fused_chain_is_shared_by_plans(tiny):
    def chain(x):
        return (x * x + x).tanh()

    x = tiny.tensor([0.1, 0.2])
    results = [chain(x).numpy() for _ in range(3)]
    for _ in range(2):  # the same chain behind another op is another path
        results.append(chain((x * 1.0).sum()).numpy())
    assert len(tiny.KERNELS) == len(set(tiny.KERNELS))
    assert sum("tanh" in text for text in tiny.KERNELS) == 1
    for result in results[:3]:
        np.testing.assert_allclose(result, np.tanh(np.array([0.1, 0.2]) ** 2 + [0.1, 0.2]))
    assert results[3] == pytest.approx(results[4])


@pytest.mark.parametrize("name", ["tiny_wend.py", "README.md"])
def test_named_files_exist(name):
    text = (TOUR / name).read_text(encoding="utf-8")
    named = re.findall(r"\b((?:core|_frontend|ops|runtime|transforms|compiler)/[\w/]+\.py)", text)
    assert len(set(named)) > 10
    package = ROOT / "src" / "wend"
    places = (package / "_engine", package)
    assert [file for file in named if not any((p / file).exists() for p in places)] == []


def test_sections_come_in_order():
    numbers = re.findall(r"^# (\d)\. ", PROGRAM.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(int(b) == int(a) + 1 for a, b in pairwise(numbers))
    assert len(numbers) == 6
    assert len((TOUR / "README.md").read_text(encoding="utf-8").split()) <= 400
