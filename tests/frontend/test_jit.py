"""torch.jit: scripted programs run as ever, keep branches, and are saved and loaded."""

import copy
import io
import zipfile

import numpy as np
import pytest

import wend as torch
from wend import nn


class Gate(nn.Module):
    """A branch on a value."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        self.width = 3

    def forward(self, x):
        y = self.drop(self.linear(x))
        return y * 2 if y.mean() > 0 else y - 1

    @torch.jit.export
    def helper(self, x):
        return x + self.width


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


@torch.jit.script
def clipped(x, low: float = 0.0):
    """Doc."""
    if x.min() < low:
        return x.clamp(min=low)
    return x


def test_a_scripted_function_is_called_as_before():
    x = torch.tensor([-1.0, 2.0])
    same(clipped(x), torch.tensor([0.0, 2.0]))
    same(clipped(x, low=-5.0), x)
    assert clipped.__name__ == "clipped"
    assert clipped.__doc__ == "Doc."
    assert isinstance(clipped, torch.jit.ScriptFunction)
    assert torch.jit.script(clipped) is clipped
    assert "clamp" in clipped.code
    assert "if %" in str(clipped.graph)


def test_a_scripted_module_shares_everything_with_the_module():
    model = Gate().eval()
    scripted = torch.jit.script(model)
    x = torch.randn(5, 4)
    same(scripted(x), model(x))
    assert isinstance(scripted, torch.jit.ScriptModule)
    assert isinstance(scripted, Gate)
    assert not isinstance(model, torch.jit.ScriptModule)
    assert scripted.linear.weight is model.linear.weight
    assert list(scripted.state_dict()) == list(model.state_dict())
    assert scripted.width == 3
    same(scripted.helper(x), x + 3)
    assert scripted.original_name == "Gate"
    scripted(x).sum().backward()
    assert model.linear.weight.grad is not None
    assert torch.jit.script(scripted) is scripted
    assert torch.jit.script(Gate) is Gate
    twin = copy.deepcopy(scripted)
    same(twin(x), scripted(x))


def test_a_trace_keeps_the_branches():
    model = Gate().eval()
    traced = torch.jit.trace(model, torch.ones(2, 4))
    for x in (torch.randn(5, 4) + 3, torch.randn(1, 4) - 3):
        same(traced(x), model(x))
    assert len(traced.exported().program.points) == 2
    function = torch.jit.trace(lambda a, b: a + b, (torch.ones(2), torch.ones(2)))
    same(function(torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(ValueError, match="example_inputs is missing"):
        torch.jit.trace(model)


@pytest.mark.parametrize("how", ["script", "trace", "example_inputs"])
def test_saved_modules_come_back(tmp_path, how):
    model = Gate().eval()
    if how == "script":
        scripted = torch.jit.script(model)
        with pytest.raises(RuntimeError, match="call the scripted module once"):
            scripted.exported()
        scripted(torch.randn(2, 4))
    elif how == "trace":
        scripted = torch.jit.trace(model, (torch.randn(2, 4),))
    else:
        scripted = torch.jit.script(model, example_inputs=[(torch.randn(2, 4),)])
    path = tmp_path / "gate.pt"
    torch.jit.save(scripted, path, _extra_files={"labels.txt": "a b c"})
    extra = {"labels.txt": ""}
    again = torch.jit.load(path, map_location="cpu", _extra_files=extra)
    assert extra == {"labels.txt": b"a b c"}
    for x in (torch.randn(5, 4) + 3, torch.randn(1, 4) - 3):
        same(again(x), model(x))
    assert {n for n, _ in again.named_parameters()} == {n for n, _ in model.named_parameters()}
    assert isinstance(again, torch.jit.ScriptModule)
    buffer = io.BytesIO()
    torch.jit.save(again, buffer)
    same(torch.jit.load(buffer)(torch.ones(2, 4)), model(torch.ones(2, 4)))


def test_files_of_other_kinds_are_recognised(tmp_path):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/constants.pkl", b"")
    with pytest.raises(RuntimeError, match="the file is no TorchScript archive"):
        torch.jit.load(path)
    torch.save({"a": 1}, path)
    with pytest.raises(RuntimeError, match=r"a checkpoint: use torch\.load"):
        torch.jit.load(path)
    with pytest.raises(ValueError, match=r"what torch\.jit\.script"):
        torch.jit.save(Gate(), path)


def test_frozen_modules_have_no_parameters():
    scripted = torch.jit.script(Gate())
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(scripted)
    with pytest.raises(RuntimeError, match="ScriptModule"):
        torch.jit.freeze(Gate())
    scripted.eval()
    frozen = torch.jit.freeze(scripted, preserved_attrs=["width"])
    x = torch.randn(3, 4)
    same(frozen(x), scripted(x))
    assert list(frozen.parameters()) == []
    assert frozen.width == 3
    assert not frozen(x).requires_grad
    with torch.no_grad():
        scripted.linear.weight.zero_()
    assert not torch.equal(frozen(x), scripted(x))
    assert torch.jit.optimize_for_inference(frozen) is frozen


def test_names_that_change_nothing():
    def double(x):
        return x * 2

    assert torch.jit.ignore(double) is double
    assert torch.jit.unused(drop=True)(double) is double
    assert torch.jit.annotate(list[int], 3) == 3
    assert torch.jit.isinstance([1], list[int])
    assert not torch.jit.is_scripting()
    assert not torch.jit.is_tracing()
    assert torch.jit.wait(torch.jit.fork(double, 4)) == 8
    assert torch.jit.script_if_tracing(double)(2) == 4
    with torch.jit.fuser("fuser1"), torch.jit.optimized_execution(True):
        assert torch.jit.set_fusion_strategy([("STATIC", 2)]) == []


def test_names_of_pytorchs_list():
    real = pytest.importorskip("torch")
    assert set(real.jit.__all__) <= set(torch.jit.__all__)
    assert not torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(True)
    with torch.jit.strict_fusion():
        assert torch.jit.wait(torch.jit.fork(torch.sin, torch.zeros(1))).item() == 0


def test_functions_from_a_text():
    unit = torch.jit.CompilationUnit(
        """
        def half(x: Tensor, n: Optional[int] = None) -> Tensor:
            return x / 2 if bool(x.sum() > 0) else torch.relu(x)
        """
    )
    x = torch.ones(2)
    assert unit.half(x).tolist() == [0.5, 0.5]
    assert torch.jit.export_opnames(unit.half) == ["div", "gt", "relu", "sum"]
    assert unit.find_function("twice") is None
    assert [f.__name__ for f in unit.get_functions()] == ["half"]
    with pytest.raises(AttributeError):
        unit.twice  # noqa: B018
    with pytest.raises(ValueError, match="export_opnames"):
        torch.jit.export_opnames(3)
