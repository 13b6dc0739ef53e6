"""Archives that PyTorch writes run in Wend: the same numbers, gradients and states."""

import copy
import io
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the archives of these tests are written by PyTorch")

from script_layers import LAYERS  # noqa: E402 (needs torch)
from script_programs import PROGRAMS, Counter, Raises, Vision, Wrapped  # noqa: E402

import wend  # noqa: E402

WAYS = ("script", "trace", "freeze")
RANDOM = {"dropout", "dropout2d", "alpha_dropout", "rrelu", "attention", "encoder_layer"} | {
    "decoder_layer",
    "encoder",
    "transformer",
}


def as_wend(x):
    if isinstance(x, torch.Tensor):
        return wend.tensor(x.detach().numpy().copy())
    if isinstance(x, (list, tuple)):
        return type(x)(as_wend(v) for v in x)
    if isinstance(x, dict):
        return {k: as_wend(v) for k, v in x.items()}
    return x


def same(ours, theirs):
    """Fail unless two results are equal: kinds, dtypes, shapes, values."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, wend.Tensor)
        assert str(ours.dtype) == str(theirs.dtype)
        a, b = ours.detach().numpy(), theirs.detach().numpy()
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    elif isinstance(theirs, (list, tuple)):
        assert isinstance(ours, list if isinstance(theirs, list) else tuple)
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        same(list(ours.values()), list(theirs.values()))
    else:
        assert type(ours) is type(theirs)
        assert ours == pytest.approx(theirs) if isinstance(theirs, float) else ours == theirs


def archived(module, args, way):
    """(the module from its archive in PyTorch, in Wend), in evaluation mode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == "trace":
            made = torch.jit.trace(module, args, check_trace=False)
        else:
            made = torch.jit.script(module)
        if way == "freeze":
            made = torch.jit.freeze(made.eval())
        buffer = io.BytesIO()
        torch.jit.save(made, buffer)
    return torch.jit.load(io.BytesIO(buffer.getvalue())), wend.jit.load(buffer)


def compare(module, args, way):
    theirs, ours = archived(module.eval(), args, way)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(ours(*as_wend(args)), theirs(*copy.deepcopy(args)))
        with torch.no_grad(), wend.no_grad():
            same(ours(*as_wend(args)), theirs(*copy.deepcopy(args)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, way):
    torch.manual_seed(0)
    module, *args = LAYERS[name]()
    compare(module, tuple(args), way)


def written_programs():
    """(name, way) of the archives that PyTorch can write."""
    for name, make in PROGRAMS.items():
        traces = make()[2]
        for way in WAYS:
            if (way == "trace" and traces is not False) or (way != "trace" and traces is not None):
                yield name, way


@pytest.mark.parametrize(("name", "way"), written_programs())
def test_programs(name, way):
    torch.manual_seed(0)
    module, args, _ = PROGRAMS[name]()
    compare(module, args, way)


def trained_layers():
    """Names of layers with parameters whose results do not depend on random numbers."""
    for name in sorted(set(LAYERS) - RANDOM):
        if any(p.requires_grad for p in LAYERS[name]()[0].parameters()):
            yield name


@pytest.mark.parametrize("way", ["script", "trace"])
@pytest.mark.parametrize("name", trained_layers())
def test_gradients_of_layers_in_training(name, way):
    torch.manual_seed(0)
    module, *args = LAYERS[name]()
    theirs, ours = archived(module.train(), tuple(args), way)
    ours.train()
    theirs.train()
    for program, values in ((theirs, tuple(args)), (ours, as_wend(tuple(args)))):
        result = program(*values)
        first = result[0] if isinstance(result, tuple) else result
        (first * first).sum().backward()
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for (_, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        same(a.grad, b.grad)
    same(dict(ours.state_dict()), dict(theirs.state_dict()))


def test_a_loaded_program_is_trained():
    torch.manual_seed(0)
    theirs, ours = archived(Vision().train(), (torch.randn(2, 3, 8, 8),), "script")
    x, y = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
    losses = []
    for library, program in ((torch, theirs), (wend, ours)):
        optimizer = library.optim.SGD(program.parameters(), lr=0.05, momentum=0.9)
        inputs, target = (x, y) if library is torch else as_wend((x, y))
        for _ in range(6):
            optimizer.zero_grad()
            loss = library.nn.functional.nll_loss(program(inputs), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    np.testing.assert_allclose(losses[6:], losses[:6], rtol=2e-4)
    same(dict(ours.state_dict()), dict(theirs.state_dict()))
    ours.load_state_dict(as_wend(dict(torch.jit.script(Vision()).state_dict())))


def test_sizes_of_a_trace_are_free_and_cost_no_flush():
    theirs, ours = archived(PROGRAMS["positions"]()[0], (torch.randn(2, 5, 8),), "trace")
    for shape in ((1, 3, 8), (4, 7, 8)):
        x = torch.randn(shape)
        same(ours(as_wend(x)), theirs(x))


def test_attributes_methods_and_parts():
    theirs, ours = archived(Counter(), (torch.randn(2, 3),), "script")
    x = torch.randn(2, 3)
    for program, value in ((theirs, x), (ours, as_wend(x))):
        program(value)
        program(value)
    assert ours.count == theirs.count == 2
    same(ours.last, theirs.last)
    same(ours.latest(), theirs.latest())
    assert ours.reset(1.5) == theirs.reset(1.5) == 2
    assert ours.count == 0
    same(ours.total, theirs.total)
    ours.count = 5
    assert ours.count == 5
    assert ours.original_name == "Counter"
    twin = copy.deepcopy(ours)
    twin(as_wend(x))
    assert (twin.count, ours.count) == (6, 5)
    assert isinstance(ours, wend.jit.ScriptModule)
    wrapped = archived(Wrapped(torch.nn.Sequential(torch.nn.Linear(3, 2))), (x,), "script")[1]
    assert wrapped.inner[0].weight.shape == (2, 3)
    assert wrapped.to(wend.float64)(as_wend(x.double())).dtype is wend.float64
    with pytest.raises(AttributeError, match="nothing"):
        ours.nothing  # noqa: B018


def test_errors_of_the_program_and_of_calls():
    ours = archived(Raises(), (), "script")[1]
    with pytest.raises(wend.jit.Error, match="ValueError: n is 3") as caught:
        ours(wend.ones(2), 3)
    assert "Raises.forward" in caught.value.__notes__[0]
    with pytest.raises(wend.jit.Error, match="AssertionError: negative"):
        ours(wend.ones(2), -1)
    with pytest.raises(TypeError, match=r"x must be Tensor, not list"):
        ours([1.0], 1)
    with pytest.raises(TypeError, match="'n' is missing"):
        ours(wend.ones(2))
    with pytest.raises(TypeError, match="unexpected 'z'"):
        ours(wend.ones(2), z=1)
    with pytest.raises(TypeError, match="takes 3 arguments"):
        ours(wend.ones(2), 1, 2)


def test_a_loaded_program_has_a_graph_and_is_saved_again(tmp_path):
    theirs, ours = archived(Vision().eval(), (torch.randn(2, 3, 8, 8),), "script")
    x = torch.randn(3, 3, 8, 8)
    same(ours(as_wend(x)), theirs(x))
    assert "conv2d" in str(ours.graph)
    assert "class Vision" in ours.code
    exported = wend.export.export(ours, (as_wend(x),)).module()
    same(exported(as_wend(x[:1])), theirs(x[:1]))
    with wend.no_grad():
        ours.head.bias.add_(1.0)
        theirs.head.bias.data.add_(1.0)
    ours.save(tmp_path / "again.pt")
    again = wend.jit.load(tmp_path / "again.pt")
    same(again(as_wend(x)), theirs(x))
    counter = archived(Counter(), (x,), "script")[1]
    counter(wend.ones(2, 3))
    counter.save(tmp_path / "counter.pt")
    loaded = wend.jit.load(tmp_path / "counter.pt")
    assert (loaded.count, loaded.reset(2.0), loaded.total.tolist()) == (1, 1, [2.0] * 3)


def test_an_op_that_wend_lacks_is_named_with_the_line():
    class Lacking(torch.nn.Module):
        def forward(self, x):
            if bool(x.sum() > 0):
                return torch.ops.aten._test_check_tensor(x)
            return x

    theirs, ours = archived(Lacking(), (torch.ones(2),), "script")
    same(ours(-wend.ones(2)), theirs(-torch.ones(2)))
    with pytest.raises(NotImplementedError, match=r"aten::_test_check_tensor.*line \d+"):
        ours(wend.ones(2))


def test_quantised_archives_are_refused():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear})
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(small), buffer)
    with pytest.raises(RuntimeError, match=r"LinearPackedParamsBase.*quantised"):
        wend.jit.load(buffer)


def test_extra_files_and_devices():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), buffer, {"note": "hello"})
    extra = {"note": "", "other": "kept"}
    module = wend.jit.load(buffer, map_location="cpu", _extra_files=extra)
    assert extra == {"note": b"hello", "other": "kept"}
    assert module.weight.device.type == "cpu"
