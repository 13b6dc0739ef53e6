"""PyTorch's names and their call forms on Wend: no name is lost, and the page says the truth."""

import inspect
import re
from pathlib import Path

import pytest

from wend._tools.compat.differences import ON_PURPOSE, out_of_scope

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


#: Defaults of other objects: (name, parameter) -> reason.
OTHER_DEFAULTS = {
    ("checkpoint.CheckpointException", "failures"): "may be left out",
    ("checkpoint.FileSystemWriter", "serialization_format"): "None: files of safetensors",
    ("checkpoint.async_save", "async_checkpointer_type"): "None: a thread",
}
SPACES = r"torch\.(distributed|nn\.parallel)\."


@pytest.mark.filterwarnings("ignore:`torch.distributed.reduce_op`")
def test_parameters_of_processes_have_pytorchs_order_and_defaults():
    """Parameters of PyTorch's come first and in order, keywords are there, defaults are equal."""
    pytest.importorskip("torch")
    import pytorch_tables as tables
    from binding import wend_object

    rows = {n: v for n, v in tables.all_names().items() if re.match(SPACES, n)}
    compared, unlike, defaults = 0, {}, set()
    for name, theirs in rows.items():
        pair = [parameters(theirs), parameters(wend_object(name))]
        if None in pair:
            continue
        compared += 1
        (first, keywords, default), (own_first, own_keywords, own_default) = pair
        if own_first[: len(first)] != first or not keywords <= own_keywords:
            unlike[name] = pair
        short = re.sub(SPACES, "", name)
        for key, value in default.items():
            if own_default.get(key, "").replace("wend", "torch") != value:
                defaults.add((short, key))
    assert compared > 150 and unlike == {}
    assert defaults == set(OTHER_DEFAULTS)


def parameters(value):
    """(by position, by keyword, texts of defaults) of a function; None where nobody can say."""
    try:
        found = inspect.signature(getattr(value, "__func__", value)).parameters.values()
    except (TypeError, ValueError):
        return None
    first = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keywords = {p.name for p in found if p.kind == p.KEYWORD_ONLY}
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return first, keywords, {p.name: repr(p.default) for p in found if p.kind not in loose}


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
