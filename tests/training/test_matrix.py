"""Ordinary training gives PyTorch's numbers: cases in which all pairs of choices meet.

`run.py` runs more of them. How kernels are run is the process's choice: CI runs these tests with
the core compiled and uncompiled, and with all plans compiled at once.
"""

import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402
from training import compare  # noqa: E402
from training.choices import Case, covered  # noqa: E402
from training.loop import Learner, train  # noqa: E402


@pytest.mark.parametrize("case", covered(), ids=str)
def test_training_equals_torchs(case):
    found = compare.check(case)
    if found:
        pytest.fail(compare.report(case, found), pytrace=False)


# Where batches change, a line search amplifies rounding more than can be told from a fault.
@pytest.mark.parametrize("task", ["mlp", "tied", "lstm_cell", "vae", "experts"])
def test_line_searches_equal_torchs_on_one_batch(task, monkeypatch):
    monkeypatch.setattr(
        "training.loop.OPTIMISERS",
        {"LBFGS": ({"lr": 0.5, "max_iter": 2, "line_search_fn": "strong_wolfe"}, {})},
    )
    batch = Learner.batch
    monkeypatch.setattr(Learner, "batch", lambda self, step, part: batch(self, 0, part))
    case = Case(task=task, optimiser="LBFGS")
    found = compare.differences(train(wend, case), train(torch, case), 1e-7)
    assert not found, "\n".join(map(str, found))
