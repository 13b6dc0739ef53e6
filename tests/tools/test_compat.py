"""`wend compat`: names that a program uses are found without running it."""

import json
import sys
from importlib import metadata

import pytest

from wend._tools import cli
from wend._tools.compat import reading
from wend._tools.compat.differences import ON_PURPOSE, OUT_OF_SCOPE, out_of_scope
from wend._tools.compat.report import examine

PROGRAM = """
import torch, torch.nn as nn
import torch.nn.functional as F
from torch.nn import Linear, Spam
from torch import topk as best
import helper

def loss(x: torch.Tensor, y):
    z = torch.zeros(3) + x
    z.frobnicate()          # line 10
    y.frobnicate()          # nothing is known of y
    best(z, 2)
    return F.relu(z).sum().wobble() + F.gellu(z)

if hasattr(torch, "quux"):
    torch.quux()
try:
    from torch import quuux
except ImportError:
    quuux = None
nn.Linear(2, 3, biass=False)
device = torch.cuda.frobs() if torch.cuda.is_available() else None
if torch.cuda.is_available():
    torch.cuda.frobs()
"""
HELPER = "from torch.nn.functional import relu, relo\nraise RuntimeError('never run')\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "helper.py").write_text(HELPER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def places(findings):
    return [(f.file, f.line, f.name.removeprefix("torch.")) for f in findings]


def test_names_are_told_by_file_and_line(program):
    answer = examine("program.py")
    assert places(answer.missing) == [
        ("program.py", 4, "nn.Spam"),
        ("program.py", 10, "Tensor.frobnicate"),
        ("program.py", 13, "Tensor.wobble"),
        ("program.py", 13, "nn.functional.gellu"),
        ("program.py", 21, "nn.Linear"),
        ("program.py", 22, "cuda.frobs"),
        ("helper.py", 1, "nn.functional.relo"),
    ]
    assert places(answer.guarded) == [
        ("program.py", 16, "quux"),
        ("program.py", 18, "quuux"),
        ("program.py", 24, "cuda.frobs"),
    ]
    assert answer.files == 2
    texts = [f.text for f in answer.missing]
    assert "near: torch.nn.functional.gelu" in texts[3] and "'biass'" in texts[4]


def test_the_command(program, capsys):
    assert cli.main(["compat", "program.py"]) == 1
    out = capsys.readouterr().out
    assert "program.py:4: torch.nn.Spam: not part of Wend" in out
    assert out.splitlines()[-1].startswith("2 files, ")
    assert cli.main(["compat", "--json", "program.py"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["files"] == 2 and found["missing"][0]["line"] == 4
    (program / "fine.py").write_text("import torch\nprint(torch.ones(2).relu_().T.mean())\n")
    assert cli.main(["compat", "fine.py"]) == 0


DIFFERS = """
import torch
from torch.onnx import export

def f(a: torch.Tensor, b, *more):
    torch.mm(a, b)
    torch.mm(a, b, out_dtype=torch.float32)
    torch.cdist(a, b, 2.0)
    torch.cdist(a, b, 2.0, "donot_use_mm_for_euclid_dist")
    a.expand(2, 3, implicit=True)
    torch.cdist(*more)
    print(torch.export.Dim.AUTO, torch.export.Dim.AUTO(min=2))
    export(f, (a,), "f.onnx")
"""


def test_calls_that_differ_on_purpose_are_told_with_the_reason(tmp_path, capsys, monkeypatch):
    (tmp_path / "differs.py").write_text(DIFFERS)
    monkeypatch.chdir(tmp_path)
    assert places(examine("differs.py").differs) == [
        ("differs.py", 7, "mm"),
        ("differs.py", 9, "cdist"),
        ("differs.py", 10, "Tensor.expand"),
        ("differs.py", 12, "export.Dim.AUTO"),
        ("differs.py", 13, "onnx.export"),
    ]
    assert cli.main(["compat", "differs.py"]) == 0
    out = capsys.readouterr().out
    reason = ON_PURPOSE["torch.mm"].reason
    assert f"differs.py:7: torch.mm differs: {reason}\n" in out and ", 5 that differ" in out
    assert cli.main(["compat", "--json", "differs.py"]) == 0
    first = json.loads(capsys.readouterr().out)["differs"][0]
    assert (first["line"], first["name"], first["reason"]) == (7, "torch.mm", reason)


def test_names_out_of_scope_are_told_with_the_reason(tmp_path, capsys):
    path = tmp_path / "scope.py"
    path.write_text("import torch\ntorch.quantized_lstm_cell(1, 2)\n")
    (found,) = examine(str(path)).missing
    (rule,) = [rule for rule in OUT_OF_SCOPE if rule[0] == out_of_scope(found.name)]
    assert found.reason == f"{rule[0]}: {rule[2]}"
    assert cli.main(["compat", str(path)]) == 1
    assert f"({found.reason})" in capsys.readouterr().out


def test_each_difference_is_met_by_calls():
    for name, difference in ON_PURPOSE.items():
        n = difference.positional
        assert difference.concerns(n or 0, difference.keywords), name
        told_of_all = not difference.keywords and n is None
        assert difference.concerns(0, ()) == told_of_all, name


def test_folders_packages_and_modules(program, capsys, monkeypatch):
    package = program / "shelf" / "deep"
    package.mkdir(parents=True)
    (program / "shelf" / "__init__.py").write_text("1 / 0\n")
    (package / "__init__.py").write_text("from .leaf import x\n")
    (package / "leaf.py").write_text("import torch\ntorch.leaf()\n")
    (program / "shelf" / "apart.py").write_text("import torch\ntorch.apart()\n")
    monkeypatch.setattr(sys, "path", [str(program), *sys.path])
    assert [f.name for f in examine("shelf").missing] == ["torch.apart", "torch.leaf"]
    assert next(f.name for f in examine(str(program / "shelf")).missing) == "torch.apart"
    assert [f.name for f in examine("shelf.deep").missing] == ["torch.leaf"]
    assert "shelf" not in sys.modules
    for wrong in ("shelf.none", "no_such_package", "no/such/file.py"):
        assert cli.main(["compat", wrong]) == 2
        assert "there is no" in (text := capsys.readouterr().err) or "has no module" in text


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ([], "a program is needed"),
        (["--fast"], "there is no option '--fast'"),
        (["a.py", "b.py"], "one program at a time"),
    ],
)
def test_wrong_calls(capsys, arguments, fault):
    assert cli.main(["compat", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"wend compat: {fault}")


def test_a_file_that_is_no_python(tmp_path, capsys):
    path = tmp_path / "bad.py"
    path.write_text("def f(:\n")
    assert cli.main(["compat", str(path)]) == 2
    assert "cannot be read: SyntaxError" in capsys.readouterr().out


def used(text):
    import ast

    return {use.name for use in reading.uses(ast.parse(text))}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import wend as torch\ntorch.ones", {"torch.ones"}),
        ("from wend import nn\nnn.Linear", {"torch.nn", "torch.nn.Linear"}),
        ("import torch\nT = torch.nn\nT.Linear", {"torch", "torch.nn", "torch.nn.Linear"}),
        ("import torch\ntorch = 3\ntorch.x", {"torch"}),
        ("def f(torch): torch.x", set()),
        ("import torch as t\n[t.ones(2).foo for t in t.z]", {"torch", "torch.z"}),
        ("from torch import ones\nfor r in ones(2): r.foo", {"torch.ones", "torch.Tensor.foo"}),
        ("from torch import ones\nx = ones(2).numpy()\nx.y", {"torch.ones", "torch.Tensor.numpy"}),
        ("import torch\ngetattr(torch, 'abc')", {"torch", "torch.abc"}),
        ("import numpy\nnumpy.torch", set()),
    ],
)  # fmt: skip
def test_names_get_their_meaning_from_the_program(text, names):
    assert used(text) == names


def test_branches_that_disagree_leave_no_meaning():
    text = "import torch\nif a:\n    x = torch.ones(2)\nelse:\n    x = []\nx.foo"
    assert "torch.Tensor.foo" not in used(text)


def test_the_distribution_torch_is_answered_for(shop):
    shop(
        """
import importlib.metadata as metadata, importlib.util
assert metadata.version("torch") == "2.13.0+wend"
assert importlib.util.find_spec("torch") is not None
assert metadata.metadata("torch")["Name"] == "torch"
assert metadata.packages_distributions()["torch"][0] == "torch"
import torch
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.spam") is None
try:
    metadata.version("no-such-distribution")
except metadata.PackageNotFoundError:
    pass
"""
    )
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("no-such-distribution")
