"""PyTorch's names and their call forms on Wend: no name is lost, and the page says the truth."""

import re
from pathlib import Path

import pytest

from wend.tools.compat.differences import ON_PURPOSE, out_of_scope

PAGE = Path(__file__).resolve().parents[2] / "docs" / "names.md"


@pytest.fixture(scope="module")
def found():
    pytest.importorskip("torch")
    from page import survey

    return survey()


def on_page():
    """Full names that the page says to be missing or different, and the number of names there."""
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\*\*([\w.]+)\*\*: (.*)$", text, re.M)
    listed = {f"{space}.{name}" for space, names in rows for name in names.split(", ")}
    count = int(re.search(r"^\| all \| \d+ \| (\d+) \|", text, re.M)[1])
    return listed, count, text


def test_no_name_is_lost(found):
    """A name that binds goes on to bind: whatever does not bind is on the page."""
    listed, count, _ = on_page()
    lost = {
        v.name: v.faults[:1]
        for v in found.verdicts
        if found.state_of(v) in ("missing", "differs")
        and v.name not in listed
        and v.name.rpartition(".")[0] not in listed
    }
    assert lost == {}, "these bound before; or, if new, run `python tests/surface/page.py`"
    assert sum(row["there"] for row in found.counts().values()) >= count


def test_no_module_is_lost(found):
    _, _, text = on_page()
    listed = set(re.findall(r"torch[\w.]+", text.split("## Modules")[1]))
    gone = [p for p in found.absent_modules if not out_of_scope(p) and p not in listed]
    assert gone == []


def test_the_reasons_are_needed(found):
    """A form that binds by now needs no reason why it does not."""
    states = {v.name: v.state for v in found.verdicts}
    assert [name for name in ON_PURPOSE if states.get(name) != "differs"] == []


def test_a_wrong_form_is_seen():
    pytest.importorskip("torch")
    import torch
    from binding import judge
    from call_forms import Form, Parameter

    right = Form(
        "torch.tril", (Parameter("input", "Tensor"), Parameter("diagonal", "int", 0)), "stub"
    )
    wrong = Form(
        "torch.tril", (Parameter("input", "Tensor"), Parameter("diag", "int", 0)), "inspect"
    )
    assert judge("torch.tril", [right], torch.tril, torch).state == "there"
    found = judge("torch.tril", [wrong], torch.tril, torch)
    assert found.state == "differs" and "diag" in found.faults[0]
    assert judge("torch.no_such", [], None, torch).state == "missing"
