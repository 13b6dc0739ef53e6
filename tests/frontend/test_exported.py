"""torch.export: programs print, run, train, and say where sizes or arguments do not fit."""

import io
import json

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._engine.base.errors import FormatError
from wend.export import Dim, ExportedProgram, export
from wend.serialization import safetensors


class Gate(nn.Module):
    """A branch on a value, with a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x, *, bias=0.5):
        y = self.linear(x) * self.scale
        return y + bias if y.mean() > 0 else y - bias


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_program_has_the_names_of_the_model_and_trains():
    model = Gate()
    program = export(model, (torch.randn(2, 4),))
    assert isinstance(program, ExportedProgram)
    assert [n for n, _ in program.named_parameters()] == ["linear.weight", "linear.bias"]
    assert list(program.state_dict) == ["linear.weight", "linear.bias", "scale"]
    module = program.module()
    assert {n for n, _ in module.named_parameters()} == {"linear.weight", "linear.bias"}
    x = torch.randn(5, 4)
    same(module(x), model(x))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = model.linear.weight.detach().clone()
    module(x).sum().backward()
    optimizer.step()
    assert not torch.equal(before, model.linear.weight)
    same(module(x), model(x))


def test_a_program_prints_branches_and_lines():
    text = str(export(Gate(), (torch.randn(2, 4),)))
    assert "graph Gate(%0: float32[d0.0, d0.1])" in text
    assert "parameter linear.weight" in text
    assert "buffer scale" in text
    assert "    if %" in text
    assert "# test_exported.py:" in text


def test_dims_have_names_bounds_and_equality():
    def dot(a, b):
        return (a * b).sum(-1)

    batch = Dim("batch", min=1, max=8)
    shapes = {"a": {0: batch}, "b": {0: batch}}
    module = export(dot, (torch.randn(1, 3), torch.randn(1, 3)), dynamic_shapes=shapes).module()
    same(module(torch.ones(4, 3), torch.ones(4, 3)), torch.full((4,), 3.0))
    with pytest.raises(ValueError, match="constant size 3"):
        module(torch.ones(4, 5), torch.ones(4, 5))
    with pytest.raises(ValueError, match="out of the bounds"):
        module(torch.ones(9, 3), torch.ones(9, 3))
    with pytest.raises(ValueError, match="dim batch is 2 in an argument and 1"):
        module(torch.ones(2, 3), torch.ones(1, 3))
    with pytest.raises(ValueError, match="no argument is called 'c'"):
        export(dot, (torch.ones(2, 3), torch.ones(2, 3)), dynamic_shapes={"c": {0: batch}})


def test_a_dim_that_the_function_fixes_is_told_with_the_line():
    def fixed(x):
        return x.reshape(-1) * len([1] * x.shape[0])

    with pytest.raises(ValueError, match=r"fixes its size to 4 at .*test_exported\.py"):
        export(fixed, (torch.ones(4, 2),), dynamic_shapes=({0: Dim.AUTO},))


def test_arguments_that_do_not_fit_are_refused():
    module = export(Gate(), (torch.randn(2, 4),), {"bias": 2.0}).module()
    x = torch.randn(3, 4)
    assert module(x, bias=2.0).shape == (3, 3)
    with pytest.raises(ValueError, match=r"was exported with 2\.0"):
        module(x, bias=1.0)
    with pytest.raises(ValueError, match="structure"):
        module(x)
    with pytest.raises(ValueError, match=r"float32 tensor of 2 dims, and got .*int64"):
        module(torch.ones(3, 4, dtype=torch.int64), bias=2.0)
    with pytest.raises(TypeError, match=r"\.module\(\)"):
        export(Gate(), (x,))(x)


def test_nested_arguments_and_results():
    def both(pair, options):
        a, b = pair
        return {"sum": a + b, "rest": [a * options["by"], options["by"]]}

    args = ((torch.ones(2), torch.ones(2)), {"by": 3})
    module = export(both, args).module()
    found = module((torch.ones(5), torch.zeros(5)), {"by": 3})
    assert found["rest"][1] == 3
    same(found["sum"], torch.ones(5))
    same(found["rest"][0], torch.full((5,), 3.0))


class Loops(nn.Module):
    """A loop over a length, a draw, numbers, an error, a buffer that is written to."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, names):
        self.calls.add_(1)
        h = torch.zeros(1, 4)
        out = []
        for row in x:
            h = self.cell(row[None], h)
            out.append(h)
        found = torch.cat(out)
        if found.abs().max() > 5:
            raise ValueError("too large")
        return {"h": found, "noise": torch.rand(x.size(0)), "n": x.shape[0], "names": names}


@pytest.mark.parametrize("to", ["path", "file"])
def test_a_saved_program_comes_back(tmp_path, to):
    model = Loops()
    x, longer = torch.randn(4, 3), torch.randn(7, 3)
    program = export(model, (x, ("a", 1.5)))
    path = tmp_path / "loops.safetensors"
    if to == "path":
        torch.export.save(program, path)
        again = torch.export.load(path)
    else:
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        again = torch.export.load(file)
    assert list(again.state_dict) == list(program.state_dict)
    torch.manual_seed(1)
    expected = model(longer, ("a", 1.5))
    torch.manual_seed(1)
    module = again.module()
    found = module(longer, ("a", 1.5))
    same(found["h"], expected["h"])
    same(found["noise"], expected["noise"])
    assert (found["n"], found["names"]) == (7, ("a", 1.5))
    assert int(module.calls) == 1
    assert "test_exported.py" in str(again)
    found["h"].sum().backward()
    assert module.cell.weight_ih.grad is not None


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.update(version=2),
        lambda d: d["points"].append({}),
        lambda d: d["points"][0]["answers"][0][1].__setitem__(1, 99),
        lambda d: d["points"][0]["answers"][0][0][-1].__setitem__(1, "no_such_op"),
        lambda d: d["points"][0]["answers"][0][0][-1].__setitem__(4, [12345]),
        lambda d: d["captured"].append([1, "missing", "parameter"]),
        lambda d: d.pop("info"),
    ],
)
def test_damaged_programs_are_refused(tmp_path, damage):
    path = tmp_path / "gate.safetensors"
    torch.export.save(export(Gate(), (torch.randn(2, 4),)), path)
    tensors = safetensors.load_file(path)
    document = json.loads(safetensors.read_metadata(path)["wend.program"])
    damage(document)
    safetensors.save_file(tensors, path, {"wend.program": json.dumps(document)})
    with pytest.raises(FormatError, match=r"export\.load"):
        torch.export.load(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save({"w": torch.ones(2)}, path)
    with pytest.raises(RuntimeError, match="no program"):
        torch.export.load(path)
    safetensors.save_file({"w": torch.ones(2)}, path)
    with pytest.raises(RuntimeError, match="no program"):
        torch.export.load(path)


def test_objects_among_the_arguments_cannot_be_saved(tmp_path):
    def first(x, thing):
        return x * 2

    program = export(first, (torch.ones(2), object))
    with pytest.raises(RuntimeError, match="cannot be written"):
        torch.export.save(program, tmp_path / "x")
