"""Names around torch.export, as PyTorch has them: signatures, examples, dims, dataclasses."""

import dataclasses

import pytest

import wend
from wend._engine.base.errors import ArgumentError


def model(t):
    class Model(t.nn.Module):
        """Parameters, buffers of both kinds, a constant; writes to a buffer."""

        def __init__(self):
            super().__init__()
            self.fc = t.nn.Linear(3, 2)
            self.register_buffer("scale", t.ones(1), persistent=False)
            self.register_buffer("calls", t.zeros(1))
            self.shift = t.ones(2)

        def forward(self, x, other=None, *, factor=2, more=None):
            self.calls.add_(1)
            y = self.fc(x) * self.scale * factor
            return {"y": y + self.shift, "pair": (x + 1, 3), "z": more["q"] * 2}

    return Model()


def exported(t):
    kwargs = {"factor": 2, "more": {"q": t.ones(2)}}
    shapes = {"x": {0: t.export.Dim("rows", max=10)}, "factor": None, "more": {"q": None}}
    return t.export.export(model(t), (t.ones(4, 3),), kwargs, dynamic_shapes=shapes)


def test_signature():
    signature = exported(wend).graph_signature
    assert signature.parameters == ("fc.weight", "fc.bias")
    assert set(signature.buffers) == {"calls", "scale"}
    assert signature.non_persistent_buffers == ("scale",)
    assert signature.user_inputs == ("x", 2, "more_q")
    assert signature.user_outputs == ("add_1", "add_2", 3, "mul_2")
    assert dict(signature.buffers_to_mutate) == {"add": "calls"}
    assert dict(signature.inputs_to_parameters)["p_fc_weight"] == "fc.weight"
    assert signature.backward_signature is None
    text = str(signature)
    assert "b_scale: BUFFER target='scale' persistent=False" in text
    assert "add: BUFFER_MUTATION target='calls'" in text
    signature.replace_all_uses("x", "rows")
    assert signature.user_inputs[0] == "rows"


def test_signature_as_in_pytorch():
    torch = pytest.importorskip("torch")
    mine = exported(wend).graph_signature
    theirs = exported(torch).run_decompositions().graph_signature
    for name in ("parameters", "buffers", "user_inputs", "non_persistent_buffers"):
        assert set(getattr(mine, name)) == set(getattr(theirs, name))
    for name in ("inputs_to_parameters", "inputs_to_buffers"):
        assert dict(getattr(mine, name)) == dict(getattr(theirs, name))
    assert list(mine.buffers_to_mutate.values()) == list(theirs.buffers_to_mutate.values())
    assert [s.kind.name for s in mine.output_specs] == [s.kind.name for s in theirs.output_specs]


def test_writes_and_results_of_branches():
    def f(x, y):
        y.mul_(2)
        return x + 1 if x.sum() > 0 else x * 2

    signature = wend.export.export(f, (wend.ones(3), wend.ones(3))).graph_signature
    assert signature.user_outputs == ("output",)
    assert list(signature.user_inputs_to_mutate.values()) == ["y"]


def test_numbers_among_results():
    program = wend.export.export(lambda x: (x.shape[0] + 1, x.shape[0] / 2), (wend.ones(5, 2),))
    kinds = [type(s.arg).__name__ for s in program.graph_signature.output_specs]
    assert kinds == ["SymIntArgument", "SymFloatArgument"]


def test_examples_bounds_and_checks(tmp_path):
    program = exported(wend)
    (x,), kwargs = program.example_inputs
    assert program.module()(x, **kwargs)["y"].shape == (4, 2)
    assert program.range_constraints == {"rows": (0, 10)}
    assert list(program.tensor_constants) == list(program.constants)
    program.validate()
    assert program.run_decompositions(wend.export.default_decompositions()) is program
    with pytest.raises(ArgumentError, match="not taken apart"):
        program.run_decompositions({"linear": print})
    wend.export.save(program, tmp_path / "p.pt2")
    loaded = wend.export.load(tmp_path / "p.pt2")
    assert loaded.example_inputs is None
    assert loaded.graph_signature.user_inputs == ("args_0", 2, "args_2")


def summed(t):
    class Sum(t.nn.Module):
        """Tensors that lie deep in the arguments."""

        def forward(self, x, others):
            return x.sum() + others["a"].sum() + others["b"][0].sum()

    return Sum()


def arguments(t):
    return t.ones(3, 2), {"a": t.ones(4), "b": [t.ones(5)]}


def by_tensor(t):
    x, others = args = arguments(t)
    shapes = t.export.ShapesCollection()
    shapes[x] = {0: t.export.Dim("rows")}
    shapes[others["a"]][0] = t.export.Dim.DYNAMIC
    assert len(shapes) == 2
    program = t.export.export(summed(t), args, dynamic_shapes=shapes)
    return program.module()(t.ones(7, 2), {"a": t.ones(9), "b": [t.ones(5)]}).item()


def by_examples(t):
    more = t.export.AdditionalInputs()
    more.add((t.ones(6, 2), {"a": t.ones(4), "b": [t.ones(5)]}))
    program = t.export.export(summed(t), arguments(t), dynamic_shapes=more)
    return program.module()(t.ones(7, 2), {"a": t.ones(4), "b": [t.ones(5)]}).item()


def by_dataclass(t):
    @dataclasses.dataclass
    class Given:
        f: t.Tensor
        k: int

    @dataclasses.dataclass
    class Made:
        r: t.Tensor

    class Add(t.nn.Module):
        def forward(self, given):
            return Made(given.f + given.k)

    t.export.register_dataclass(Given)
    t.export.register_dataclass(Made)
    program = t.export.export(Add(), (Given(t.ones(2, 2), 1),))
    assert program.graph_signature.user_inputs[0] == "given_f"
    return program.module()(Given(t.ones(2, 2), 1)).r.sum().item()


def by_draft(t):
    return t.export.draft_export(summed(t), arguments(t)).module()(*arguments(t)).item()


def by_dims(t):
    rows, columns = t.export.dims("rows", "columns", min=2, max=8)
    assert (rows.__name__, rows.min, columns.max) == ("rows", 2, 8)
    program = t.export.export(
        t.nn.ReLU(), (t.ones(3, 4),), dynamic_shapes={"input": (rows, columns)}
    )
    return program.module()(t.ones(5, 6)).sum().item()


RESULTS = {by_tensor: 28.0, by_examples: 23.0, by_dataclass: 8.0, by_draft: 15.0, by_dims: 30.0}


@pytest.mark.parametrize("way", RESULTS, ids=lambda way: way.__name__)
@pytest.mark.filterwarnings("ignore")
def test_ways_to_export(way):
    assert way(wend) == RESULTS[way]
    torch = pytest.importorskip("torch")
    assert way(torch) == RESULTS[way]


def test_faults_of_examples():
    x, others = args = arguments(wend)
    shapes = wend.export.ShapesCollection()
    shapes[wend.ones(3)] = {0: wend.export.Dim.AUTO}
    with pytest.raises(ValueError, match="not among the arguments"):
        shapes.dynamic_shapes(summed(wend), args)
    with pytest.raises(AssertionError, match="a key is a tensor"):
        shapes["x"] = {}
    shapes[x] = {0: wend.export.Dim.AUTO}
    with pytest.raises(AssertionError, match="got"):
        shapes[x] = {1: wend.export.Dim.AUTO}
    more = wend.export.AdditionalInputs()
    with pytest.raises(AssertionError, match="args is a tuple"):
        more.add([x])
    with pytest.raises(AssertionError, match="kwargs is a dict"):
        more.add((x,), [])
    more.add((wend.ones(3, 2, 1), others))
    with pytest.raises(ValueError, match="kind or rank"):
        more.dynamic_shapes(summed(wend), args)
    numbers = wend.export.AdditionalInputs()
    numbers.add((x, 3))
    with pytest.raises(ValueError, match="constants of the graph"):
        numbers.dynamic_shapes(lambda x, n: x * n, (x, 2))


def test_specs_of_buffers_say_whether_they_are_kept():
    from wend.export import graph_signature as g

    with pytest.raises(AssertionError, match="persistent"):
        g.InputSpec(g.InputKind.BUFFER, g.TensorArgument("b"), "b")
