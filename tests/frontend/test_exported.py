"""torch.export: programs print, run, train, and say where sizes or arguments do not fit."""

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend.export import Dim, ExportedProgram, export


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
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


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
        return x.reshape(-1) * float(x.shape[0])

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
