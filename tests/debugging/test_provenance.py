"""Lines that watched ops show are those of tracebacks of the same ops: see `provenance.py`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.debugging import provenance
from tests.debugging.provenance import compare

import wend
from wend import nn
from wend._engine.core import _hot, _select
from wend._engine.core.provenance import Site

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
pytestmark = pytest.mark.usefixtures("own_trie")


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 4)

    def noise(self, x):
        return wend.randn_like(x)

    def forward(self, x):
        x = nn.functional.pad(self.enter(x), (1, 1))
        return (
            x[:, 1:-1]
            + self.noise(x)[:, 1:-1]
            + nn.functional.scaled_dot_product_attention(x, x, x)[
                :, 1:-1
            ]
        )  # fmt: skip


def program():
    wend.manual_seed(0)
    model = nn.Sequential(Gate(), nn.ReLU(), Gate())
    optimizer = wend.optim.Adam(model.parameters())
    for k in range(4):
        x = wend.ones(3, 4)
        x[0] = k
        loss = sum(part.sum() for part in model(x).chunk(2, 1))
        optimizer.zero_grad()
        if loss.item() < 1e9:
            loss.backward()
        optimizer.step()


def test_lines_are_those_of_tracebacks():
    found = compare(program)
    assert (found.wrong, found.unasked, found.uneven) == ([], set(), 0)
    assert len(found.lines) >= 10 and found.ops > 100


def test_lines_in_a_users_forward_are_right_without_a_watch():
    """Found in use: ops of the package's Python functions had the line of the module's call."""
    model = nn.Sequential(Gate(), nn.ReLU())
    _hot.synchronize()
    model(wend.ones(3, 4))
    trace = _hot.current_trace()
    places = {}
    for k, state in enumerate(trace.states):
        code, lasti = (trace.sites or {}).get(k, (state.code, state.lasti))
        if code is not None:  # leaves have none
            places.setdefault(state.prim.name, []).append((code.co_name, Site(code, lasti).line))
    first = Gate.forward.__code__.co_firstlineno
    here = test_lines_in_a_users_forward_are_right_without_a_watch.__name__
    assert places["pad"] == [("forward", first + 1)]
    assert places["slice"] == [("forward", first + k) for k in (3, 4, 5)]
    assert [name for name, _ in places["relu"]] == [here]
    assert {name for rows in places.values() for name, _ in rows} == {"forward", "noise", here}


def test_a_wrong_line_would_be_seen(monkeypatch):
    right = provenance.Tracebacks.at
    monkeypatch.setattr(provenance.Tracebacks, "at", lambda *a: (right(*a)[0], right(*a)[1] + 1))
    assert compare(program).wrong


@pytest.mark.parametrize(
    ("name", "options", "lines"),
    [("debug", (), 14), ("digits", ("--limit", "120", "--epochs", "1", "--seeds", "1"), 16)],
)
def test_lines_of_examples(name, options, lines, tmp_path):
    if name == "debug" and not _select.is_compiled(_hot):
        pytest.skip("hooks ask no mode in the uncompiled core, whose `backward` is Python")
    counts = tmp_path / "counts.json"
    command = [sys.executable, str(HERE / "provenance.py"), "--json", str(counts)]
    if name == "digits":
        pytest.importorskip("sklearn", reason="its images are scikit-learn's")
        command += ["--steps", "6"]
    subprocess.run(
        [*command, str(EXAMPLES / f"{name}.py"), *options],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    found = json.loads(counts.read_text())
    assert found["wrong"] == [] and found["uneven"] == 0
    assert len(found["lines"]) >= lines
