"""torch.onnx.export of whole functions and modules: onnxruntime computes what the program does."""

import io

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._engine.base import tree

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
F = nn.functional


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def kinds(graph):
    """The node types of a graph and of graphs inside."""
    found = set()
    for node in graph.node:
        found.add(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= kinds(attribute.g)
    return found


def checked(function, *inputs, **options):
    """Export with the first input as the example; compare at all inputs."""
    program = torch.onnx.export(function, (inputs[0],), **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    runs = session(program.model_proto)
    for x in inputs:
        found = runs.run(None, {runs.get_inputs()[0].name: x.numpy()})
        expected = [
            np.asarray(y.detach() if isinstance(y, torch.Tensor) else y)
            for y in tree.leaves(function(x))
        ]
        assert len(found) >= len(expected)
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return program.model_proto


randn = torch.randn


def branches(x):
    y = x * 2
    y = y + 1 if y.sum() > 0 else y - 1
    if (y * y).mean() > 1:
        y = torch.tanh(y)
    return y.view(y.size(0) * y.size(1))


def halve(x):
    while x.abs().max() > 1:
        x = x * 0.5
    return x


def grow(x):
    h = x
    while h.sum() < 10:
        h = torch.cat([h, x.abs() + 1])
    return h


def collected(x):
    rows = []
    while x.sum() < 10:
        x = x.abs() * 2 + 1  # grows, whatever has been drawn
        rows.append(x)
    return torch.stack([*rows, x])


def early_return(x):
    for row in x:
        if row.sum() > 2:
            return row * 2
    return x.sum(0)


def numbers(x):
    n = (x > 0).sum().item()
    mean = x.mean().item()
    y = x.flatten()[:n].sum() * n
    return y + mean if mean > 0.1 else y * mean, n


def masks(x):
    return x[x > 0].sum(), torch.nonzero(x > 0.3)


def total(x):
    found = 0
    for i, row in enumerate(x):
        found = found + row * i
    return found


def nested(x):
    y = torch.zeros(x.size(1))
    for i in range(x.size(0)):
        for j in range(i + 1):
            y = y + x[j]
    return y


def stops(x):
    h = x.new_zeros(x.size(1))
    for row in x:
        h = h * 0.5 + row
        if h.sum() > 3:
            break
    return h


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (branches, {"If"}),
        (halve, {"Loop"}),
        (grow, {"Loop"}),
        (early_return, {"Loop", "If"}),
        (collected, {"Loop", "If"}),
        (numbers, {"If"}),
        (masks, {"NonZero"}),
        (total, {"Loop"}),
        (nested, {"Loop"}),
        (stops, {"Loop", "If"}),
    ],
)
def test_control_flow_becomes_nodes(function, wanted):
    x = randn(4, 3)
    model = checked(function, x, randn(1, 3) + 1, randn(6, 3) * 3 - 1)
    assert wanted <= kinds(model.graph)


class Recurrent(nn.Module):
    """An LSTM cell over a length that is known at run time."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x):
        h = c = x.new_zeros(x.size(1), 6)
        out = []
        for t in range(x.size(0)):
            h, c = self.cell(x[t], (h, c))
            out.append(h)
        return torch.stack(out, 1)


class Tagger(nn.Module):
    """A layer that walks over the words in both directions."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.walk = nn.LSTM(6, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        return self.head(self.walk(self.words(x))[0])


class Exits(nn.Module):
    """Layers with a head each, left early by value."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.heads = nn.ModuleList(nn.Linear(8, 3) for _ in range(4))

    def forward(self, x):
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = torch.tanh(layer(x))
            p = head(x).softmax(-1)
            if p.max() > 0.5:
                return p
        return p


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )  # fmt: skip


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (Recurrent, [(5, 3, 4), (1, 1, 4), (9, 2, 4)]),
        (Exits, [(4, 8), (1, 8), (7, 8)]),
        (convolutions, [(2, 3, 16, 16), (1, 3, 20, 9), (3, 3, 7, 8)]),
        (encoder, [(2, 5, 16), (1, 7, 16), (3, 1, 16)]),
    ],
)
def test_modules(make, shapes):
    model = make()
    model.train()
    model.eval()
    proto = checked(model, *[randn(*shape) for shape in shapes])
    names = {t.name for t in proto.graph.initializer}
    if make is Recurrent:
        assert names == {f"cell.weight_ih_{part}" for part in "WRB"}
        assert "LSTM" in kinds(proto.graph)
    else:
        assert {n for n, _ in model.named_parameters()} & names


def test_a_recurrent_layer_holds_for_all_lengths():
    words = [torch.randint(0, 20, size) for size in ((3, 6), (1, 1), (2, 9))]
    model = checked(Tagger().eval(), *words)
    assert "LSTM" in kinds(model.graph)


def test_a_module_is_exported_as_it_evaluates_and_keeps_its_mode():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    proto = torch.onnx.export(model, (randn(2, 4),)).model_proto
    assert "Dropout" not in kinds(proto.graph)
    assert model.training
    assert model[1].training


def test_nodes_are_named_by_the_modules_path():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2), nn.Tanh()))
    nodes = torch.onnx.export(model, (randn(2, 4),)).model_proto.graph.node
    scopes = {node.op_type: node.name.rpartition("/")[0] for node in nodes}
    assert scopes["Tanh"] == "/1/1"
    assert {"/0", "/1/0"} <= {node.name.rpartition("/")[0] for node in nodes}


def test_names_sizes_opsets_and_files(tmp_path):
    model = nn.Linear(4, 3)
    path = tmp_path / "linear.onnx"
    program = torch.onnx.export(
        model,
        (randn(2, 4),),
        path,
        input_names=["rows"],
        output_names=["scores"],
        dynamic_axes={"rows": {0: "batch"}, "scores": {0: "batch"}},
        opset_version=18,
        external_data=True,
        report=True,
    )
    assert {p.name for p in tmp_path.iterdir()} >= {"linear.md", "linear.onnx"}
    (given,) = program.model_proto.graph.input
    assert given.name == "rows"
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == ["batch", 4]
    assert program.model_proto.graph.output[0].name == "scores"
    assert program.model_proto.opset_import[0].version == 18
    runs = onnxruntime.InferenceSession(str(path))
    x = randn(5, 4)
    np.testing.assert_allclose(
        runs.run(None, {"rows": x.numpy()})[0], model(x).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="18 to 24"):
        torch.onnx.export(model, (randn(2, 4),), opset_version=9)


def test_a_model_is_written_to_a_buffer():
    model, x = nn.Linear(4, 3), randn(2, 4)
    buffer, second = io.BytesIO(), io.BytesIO()
    program = torch.onnx.export(model, (x,), buffer, input_names=["rows"], dynamo=False)
    program.save(second)
    assert buffer.getvalue() == second.getvalue()
    runs = onnxruntime.InferenceSession(buffer.getvalue())
    found = runs.run(None, {"rows": x.numpy()})[0]
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for option in ({"external_data": True}, {"report": True}):
        with pytest.raises(ValueError, match=f"{next(iter(option))} writes a second file"):
            torch.onnx.export(model, (x,), io.BytesIO(), **option)


def test_errors_of_branches_are_reported():
    def careful(x):
        if x.min() < 0:
            raise ValueError("negative numbers")
        return x.sqrt()

    program = torch.onnx.export(careful, (torch.rand(3),))
    assert "negative numbers" in program.report


def test_a_model_comes_back():
    model = Recurrent()
    x = randn(4, 2, 4)
    program = torch.onnx.export(model, (x,))
    again = torch.onnx.load(program.model_proto.SerializeToString())
    np.testing.assert_allclose(
        again(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6
    )


def test_a_number_is_compared_with_a_quotient_of_sizes():
    def below(x):
        n = (x > 0).sum().item()
        return x * 2 if n < x.size(0) / 2 else x - 1

    half = torch.tensor([1.0, -1.0, -1.0])  # 1 is below 1.5, and not below 1
    checked(below, torch.ones(3), half, torch.tensor([1.0, 1.0, -1.0]), torch.ones(5))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + torch.relu(self.layer(x)))


class Blocks(nn.Module):
    """Equal blocks, a recurrent layer, and a head behind a branch."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Residual(8) for _ in range(3)])
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        y, _ = self.rnn(x)
        return self.head(y[:, -1]) if y.mean() > 0 else y[:, 0, :3]


def calls_of(model):
    return [node.op_type for node in model.graph.node if node.domain]


def test_modules_become_functions_that_equal_modules_share():
    model, x = Blocks().eval(), torch.randn(2, 5, 8)
    made = torch.onnx.export(model, (x,), export_modules_as_functions=True)
    proto = made.model_proto
    assert calls_of(proto) == ["Residual", "Residual", "Residual", "GRU"]
    assert [f.name for f in proto.functions] == ["Linear", "LayerNorm", "Residual", "GRU"]
    assert [f.domain for f in proto.functions][2] == __name__
    (block,) = [f for f in proto.functions if f.name == "Residual"]
    assert [n.op_type for n in block.node] == ["Linear", "Relu", "Add", "LayerNorm"]
    assert {"/blocks/0", "/blocks/1", "/rnn"} <= {n.name for n in proto.graph.node}
    again = torch.onnx.load(proto.SerializeToString())
    for shape in ((2, 5, 8), (1, 5, 8), (3, 2, 8)):
        x = torch.randn(*shape)
        np.testing.assert_allclose(
            again(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5
        )


def test_chosen_classes_become_functions():
    made = torch.onnx.export(
        Blocks().eval(), (torch.randn(2, 5, 8),), export_modules_as_functions={nn.LayerNorm}
    )
    assert calls_of(made.model_proto) == ["LayerNorm"] * 3
    assert len(made.model_proto.functions) == 1
    plain = torch.onnx.export(Blocks().eval(), (torch.randn(2, 5, 8),))
    assert not plain.model_proto.functions
