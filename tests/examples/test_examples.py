"""Each example: its numbers with Wend are PyTorch's; what it promises, it does."""

import itertools
import math

import pytest

SMALL = {
    "words": ("--modules", 30, "--limit", 24, "--test-limit", 10, "--epochs", 1),
    "trees": ("--modules", 30, "--limit", 24, "--test-limit", 12, "--epochs", 1, "--seeds", 1),
    "parser": ("--modules", 30, "--limit", 50, "--test-limit", 20, "--epochs", 1, "--longest", 9),
    "grow": ("--limit", 200, "--epochs", 1, "--stages", 3),
    "distributed": ("--task", "trees", "--modules", 20, "--limit", 100, "--epochs", 1),
    "digits": ("--limit", 300, "--epochs", 2, "--seeds", 1, "--plain"),
}


def assert_close(mine, theirs, tolerance, where=""):
    """Compare nested metrics; numbers relatively."""
    assert type(mine) is type(theirs), where
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys(), where
        for key in mine:
            assert_close(mine[key], theirs[key], tolerance, f"{where}.{key}")
    elif isinstance(mine, list):
        assert len(mine) == len(theirs), where
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            assert_close(a, b, tolerance, f"{where}[{i}]")
    elif isinstance(mine, float):
        near = math.isclose(mine, theirs, rel_tol=tolerance, abs_tol=tolerance)
        assert near, f"{where}: {mine} with Wend, {theirs} with PyTorch"
    else:
        assert mine == theirs, where


# --- the same numbers as PyTorch -----------------------------------------------


def test_branch_is_equal(run_both):
    assert_close(*run_both("branch"), 1e-6)


def test_sizes_are_equal(run_both):
    mine, theirs = run_both("sizes", "--steps", 6)
    assert_close(mine["losses"], theirs["losses"], 1e-4)
    assert_close(mine["inference"], theirs["inference"], 1e-3)
    for size, text in theirs["linear"].items():
        assert (mine["linear"][size] == "ok") == (text == "ok")


def test_batches_are_equal(run_both):
    mine, theirs = run_both("batches", "--limit", 5)
    assert_close(mine["equal"], theirs["equal"], 1e-5)


@pytest.mark.parametrize("name", ["words", "trees"])
def test_recursion_and_recurrence_are_equal(run_both, name):
    mine, theirs = run_both(name, *SMALL[name])
    assert_close(mine, theirs, 2e-3)


def test_parsing_is_equal(run_both):
    """Scores that differ by rounding may be compared otherwise; then the losses part."""
    mine, theirs = run_both("parser", *SMALL["parser"])
    assert_close(mine, theirs, 2e-3)


def test_growing_is_equal(run_both):
    mine, theirs = run_both("grow", *SMALL["grow"])
    assert_close(mine["losses"], theirs["losses"], 1e-2)
    assert mine["turns"] == theirs["turns"]
    assert sum(abs(a - b) for a, b in zip(mine["depths"], theirs["depths"], strict=True)) <= 2


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_digits_are_equal(run_both, model):
    mine, theirs = run_both("digits", *SMALL["digits"], "--model", model)
    assert_close(mine[model]["losses"], theirs[model]["losses"], 1e-3)
    assert abs(mine[model]["accuracy"] - theirs[model]["accuracy"]) <= 0.04


def test_training_of_replicas_is_equal(run_both):
    """Orders of `DistributedSampler` differ between Wend and PyTorch: digits are left out."""
    mine, theirs = run_both("distributed", *SMALL["distributed"])
    assert len(mine["trees"]["losses"]) == 2
    assert_close(mine, theirs, 1e-5)


def test_debugging_is_equal(run_both):
    mine, theirs = run_both("debug")
    assert_close(mine["printed"], theirs["printed"], 1e-5)
    assert mine["hooks"] == theirs["hooks"]
    assert mine["error"]["line"] == theirs["error"]["line"]
    assert_close(mine["nan"]["gradient"], theirs["nan"]["gradient"], 1e-6)


# --- what each shows, with Wend alone ------------------------------------------


def test_branch(run_example):
    metrics, printed = run_example("wend", "branch")
    assert metrics["positive"] == {"output": [2.0, 4.0, -1.0], "gradient": [2.0, 2.0, 2.0]}
    assert metrics["negative"] == {"output": [-3.0, -1.75, -5.0], "gradient": [1.0, 1.0, 1.0]}
    assert "gradient before backward: None" in printed
    assert "gradient after backward:  tensor([2., 2., 2.])" in printed


def test_sizes(run_example):
    metrics, _ = run_example("wend", "sizes", "--steps", 12)
    assert metrics["losses"][-1] < metrics["losses"][0]
    assert metrics["inference"]["150x120"][:4] == [1, 16, 18, 15]
    assert metrics["inference"]["184x100"][:4] == [1, 16, 23, 12]
    assert metrics["linear"]["150x120"] == metrics["linear"]["151x127"] == "ok"
    error = metrics["linear"]["184x100"]
    assert "head" in error, "the layer is named"
    assert "4416" in error and "4320" in error, "and the shapes"


def test_batches(run_example):
    metrics, _ = run_example("wend", "batches", "--limit", 9)
    assert metrics["equal"]["shape"] == [9, 1, 3, 255, 255]
    assert metrics["equal"]["labels"] == list(range(9))
    assert "(1, 3, 150, 150): samples 0, 1 (dataset[0], dataset[1])" in metrics["error"]
    assert "(1, 3, 300, 200): sample 2 (dataset[2])" in metrics["error"]
    assert "BucketBatchSampler" in metrics["error"]
    shapes = metrics["buckets"]
    assert {tuple(shape[1:]) for shape in shapes} == {(1, 3, 150, 150), (1, 3, 300, 200)}
    assert sum(shape[0] for shape in shapes) == 9


def test_debug(run_example):
    metrics, printed = run_example("wend", "debug")
    assert "in the middle of forward: tensor([" in printed
    assert "[3, 8]" in metrics["debugger"] and "return self.leave(h)" in metrics["debugger"]
    assert len(metrics["hooks"]) == 4
    assert metrics["error"]["line"] == "h = torch.tanh(self.enter(x))"
    assert "(3, 5)" in metrics["error"]["text"]
    assert metrics["nan"]["named"]


def test_parser_learns(run_example):
    """Half as many mistakes as joining from left to right makes."""
    metrics, _ = run_example(
        "wend", "parser", "--modules", 150, "--limit", 250, "--test-limit", 150, "--epochs", 2
    )
    assert 1 - metrics["exact"] < (1 - metrics["left to right"]) / 2
    assert metrics["spans"] > 0.8


# An epoch has 8 batches: the runs are stopped inside one, at its end, and inside the next.
@pytest.mark.parametrize(("model", "stops"), [("mlp", (5, 8)), ("cnn", (11,))])
def test_digits_resume_bit_for_bit(run_example, tmp_path, model, stops):
    options = ("--limit", 300, "--epochs", 2, "--seeds", 1, "--model", model, "--every", 3)
    whole, _ = run_example("wend", "digits", *options)
    checkpoint = ("--checkpoint", tmp_path / "digits.pt")
    for steps in stops:
        run_example("wend", "digits", *options, *checkpoint, "--stop-after", steps)
        resumed, _ = run_example("wend", "digits", *options, *checkpoint, "--resume")
        assert resumed[model]["fingerprints"] == whole[model]["fingerprints"]
        assert resumed[model]["losses"] == whole[model]["losses"]


@pytest.mark.slow
def test_words_beat_the_majority_tag(run_example):
    metrics, _ = run_example("wend", "words")
    assert metrics["balanced_accuracy"] >= metrics["majority"] + 0.05


@pytest.mark.slow
def test_trees_beat_the_majority_class(run_example):
    metrics, _ = run_example("wend", "trees")
    assert len(metrics["runs"]) == 3
    assert metrics["accuracy"] >= metrics["majority"] + 0.10


@pytest.mark.slow
def test_growing_helps_each_time(run_example):
    metrics, _ = run_example("wend", "grow")
    losses = metrics["losses"]
    assert all(after < before for before, after in itertools.pairwise(losses))
    assert sum(count > 0 for count in metrics["depths"]) >= 3
    assert len(metrics["turns"]) >= 3


@pytest.mark.slow
def test_digits_reach_97_percent(run_example):
    metrics, _ = run_example("wend", "digits")
    assert metrics["mlp"]["accuracy"] >= 0.97
    assert metrics["cnn"]["accuracy"] >= 0.97
