"""Libraries that know nothing of Wend: `wend run -m pytest tests/libraries`, by `.ci/libraries`.

Elsewhere, and where a library is not installed, the tests are skipped.
"""

import importlib
import importlib.util
import json
import os
from importlib import metadata
from pathlib import Path

import pytest


def served():
    """Whether `import torch` is Wend in this process."""
    try:
        return "+wend" in metadata.version("torch")
    except metadata.PackageNotFoundError:
        return False


def pytest_collection_modifyitems(items):
    if served():
        return
    skip = pytest.mark.skip(reason="run by `wend run -m pytest tests/libraries`")
    for item in items:
        if "libraries" in item.path.parts:
            item.add_marker(skip)


#: {library: {test: outcome}}; a test of many parameters has the worst of the outcomes.
_RAN = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    for mark in item.iter_markers("library"):
        row = _RAN.setdefault(mark.args[0], {})
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if row.get(item.originalname, "passed") == "passed":
            row[item.originalname] = outcome
    return report


def pytest_sessionfinish():
    path = os.environ.get("WEND_LIBRARIES_RESULT")
    if path and served():
        rows = {k: {"version": metadata.version(k), "tests": v} for k, v in sorted(_RAN.items())}
        Path(path).write_text(json.dumps(rows, indent=1), encoding="utf-8")


@pytest.fixture
def library():
    """A function that imports a library, and skips the test only where that is not installed."""

    def found(name):
        if importlib.util.find_spec(name.split(".")[0]) is None:
            pytest.skip(f"{name} is not installed")
        return importlib.import_module(name)

    return found


@pytest.fixture
def torch():
    import torch

    torch.manual_seed(0)
    return torch


@pytest.fixture
def falls(torch):
    """A function that trains by a loss for three steps, and asserts that the loss falls."""

    def train(parameters, loss_of, optimizer=torch.optim.Adam, steps=3, lr=1e-2):
        optimizer = optimizer(list(parameters), lr=lr)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0], losses
        return losses

    return train
