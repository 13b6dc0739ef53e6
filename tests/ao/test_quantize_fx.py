"""Traced models, quantised: beside eager mode's results and those of PyTorch's `quantize_fx`."""

import copy
import io
import pickle

import numpy as np
import pytest

import wend
from wend.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend
from wend.fx import TraceError

pytestmark = pytest.mark.filterwarnings("ignore")
q = wend.ao.quantization
fx = q.quantize_fx


@pytest.fixture(scope="module")
def torch():
    reason = "results are compared with PyTorch's"
    pytest.importorskip("torch.ao.quantization.quantize_fx", reason=reason)
    module = pytest.importorskip("torch", reason=reason)
    before = module.backends.quantized.engine
    module.backends.quantized.engine = "x86"

    yield module
    module.backends.quantized.engine = before


def value(x):
    return x.detach().numpy()


def norms(t, model):
    """Statistics of norms as of a trained model."""
    rng = np.random.default_rng(5)
    for m in model.modules():
        if isinstance(m, t.nn.BatchNorm2d):
            n = m.num_features
            m.running_mean.copy_(t.from_numpy(rng.normal(size=n).astype(np.float32)))
            m.running_var.copy_(t.from_numpy(rng.uniform(0.5, 2, n).astype(np.float32)))


# -- models ---------------------------------------------------------------------------------


def residual(t):
    nn = t.nn

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)
            self.conv2, self.bn2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            y += x
            return self.relu(y)

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
            self.blocks = nn.Sequential(Block(8), Block(8))
            self.pool, self.scores = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

        def forward(self, x):
            x = self.pool(self.blocks(self.stem(x)))
            return self.scores(t.flatten(x, 1))

    return Residual()


def perceptron(t):
    nn, F = t.nn, t.nn.functional

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(8, 32), nn.Linear(32, 16), nn.Linear(16, 4)
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            x = F.relu(self.a(x))
            return self.c(self.drop(F.relu(self.b(x)))).flatten(1)

    return Perceptron()


def joined(t):
    nn, F = t.nn, t.nn.functional

    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 6, 3, padding=1)
            self.scores = nn.Linear(10 * 16, 7)

        def forward(self, x):
            x = t.cat([F.relu(self.a(x)), self.b(x)], dim=1)
            x = F.max_pool2d(x, 2)
            return self.scores(x.reshape(x.size(0), -1))

    return Joined()


MODELS = [residual, perceptron, joined]
SHAPE = (4, 3, 8, 8)


def images(count, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=SHAPE).astype(np.float32) for _ in range(count)]


def weighted(t, make):
    """A model with weights that NumPy drew, equal in each package."""
    model, rng = make(t), np.random.default_rng(3)
    with t.no_grad():
        for p in model.parameters():
            p.copy_(t.from_numpy((rng.normal(size=tuple(p.shape)) * 0.3).astype(np.float32)))
        norms(t, model)
    return model


def quantised(t, make, mapping=None):
    """(the float model, the quantised model)."""
    a = t.ao.quantization
    model = weighted(t, make).eval()
    mapping = a.get_default_qconfig_mapping("x86") if mapping is None else mapping
    prepared = a.quantize_fx.prepare_fx(model, mapping, (t.from_numpy(images(1)[0]),))
    for x in images(3):
        prepared(t.from_numpy(x))
    return model, a.quantize_fx.convert_fx(prepared)


def kinds(model):
    return {name: type(m).__name__ for name, m in model.named_modules() if name}


# -- calibration ----------------------------------------------------------------------------


@pytest.mark.parametrize("make", MODELS)
def test_results_are_near_those_of_floats(make):
    model, small = quantised(wend, make)
    x = wend.from_numpy(images(1, 9)[0])
    want = value(model(x))
    assert 0 < np.abs(value(small(x)) - want).max() < 0.08 * np.abs(want).max()
    assert not any(isinstance(m, q.ObserverBase) for m in small.modules())


@pytest.mark.parametrize("make", MODELS)
def test_results_are_those_of_pytorch(torch, make):
    results, models = [], []
    for t in (wend, torch):
        _, small = quantised(t, make)
        models.append(small)
        results.append(value(small(t.from_numpy(images(1, 9)[0]))))
    mine, theirs = models
    last = mine.scores if hasattr(mine, "scores") else mine.c
    assert np.abs(results[0] - results[1]).max() <= float(last.scale) * 2.001
    others = theirs.state_dict()
    scales = {n: x for n, x in mine.state_dict().items() if "scale" in n or "zero_point" in n}
    for name, a in scales.items():
        np.testing.assert_allclose(float(a), float(others[name]), rtol=1e-5, err_msg=name)
    assert kinds(mine) == {k: v for k, v in kinds(theirs).items() if v != "LinearPackedParams"}


def test_results_are_those_of_eager_mode():
    class Marked(wend.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.a, self.b, self.c = inner.a, inner.b, inner.c
            self.r1, self.r2 = wend.nn.ReLU(), wend.nn.ReLU()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()

        def forward(self, x):
            x = self.r1(self.a(self.quant(x)))
            return self.dequant(self.c(self.r2(self.b(x)))).flatten(1)

    mapping = q.QConfigMapping().set_global(q.default_qconfig)
    model, small = quantised(wend, perceptron, mapping)
    marked = q.fuse_modules(Marked(copy.deepcopy(model)).eval(), [["a", "r1"], ["b", "r2"]])
    marked.qconfig = q.default_qconfig
    marked = q.prepare(marked)
    for x in images(3):
        marked(wend.from_numpy(x))
    marked = q.convert(marked)
    x = wend.from_numpy(images(1, 9)[0])
    np.testing.assert_array_equal(value(small(x)), value(marked(x)))


def test_marks_in_a_model_are_passed_over():
    class Marked(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.skip = wend.ao.nn.quantized.FloatFunctional()
            self.a = wend.nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            x = self.quant(x)
            return self.dequant(self.skip.add_relu(x, self.a(x)))

    mapping = q.QConfigMapping().set_global(q.default_qconfig)
    model, small = quantised(wend, lambda t: Marked(), mapping)
    model.qconfig = q.default_qconfig
    marked = q.prepare(model)
    for x in images(3):
        marked(wend.from_numpy(x))
    x = wend.from_numpy(images(1, 9)[0])
    np.testing.assert_array_equal(value(small(x)), value(q.convert(marked)(x)))


def test_the_float_model_stays():
    model = weighted(wend, residual).eval()
    x = wend.from_numpy(images(1)[0])
    before, names = value(model(x)), kinds(model)
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping(), x)
    np.testing.assert_allclose(value(prepared(x)), before, rtol=1e-4, atol=1e-4)
    fx.convert_fx(prepared)
    prepared(x)  # is not converted in place
    assert kinds(model) == names
    np.testing.assert_array_equal(value(model(x)), before)


def test_parts_that_stay_floats():
    mapping = q.get_default_qconfig_mapping().set_module_name("blocks.1", None)
    model, small = quantised(wend, residual, mapping)
    types = {
        name: type(small.get_submodule(name)).__module__ for name in ("blocks.0.conv1", "scores")
    }
    assert set(types.values()) == {"wend.ao.nn.intrinsic.quantized", "wend.ao.nn.quantized.modules"}
    assert type(small.blocks.get_submodule("1.conv2")) is wend.nn.Conv2d
    x = wend.from_numpy(images(1, 9)[0])
    want = value(model(x))
    assert np.abs(value(small(x)) - want).max() < 0.08 * np.abs(want).max()
    mapping = q.QConfigMapping().set_object_type(wend.nn.Linear, q.default_qconfig)
    _, small = quantised(wend, joined, mapping)
    assert type(small.a) is wend.ao.nn.intrinsic.ConvReLU2d
    assert isinstance(small.scores, wend.ao.nn.quantized.Linear)
    mapping = q.get_default_qconfig_mapping().set_object_type(wend.cat, None)
    _, small = quantised(wend, joined, mapping)
    assert "dequantize" in small.code.split("torch.cat")[0]


def test_a_module_that_is_called_twice():
    class Twice(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = wend.nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(wend.relu(self.layer(x))) * x

    def make(t):
        return Twice()

    model, small = quantised(wend, make)
    x = wend.from_numpy(images(1, 9)[0])
    want = value(model(x))
    assert np.abs(value(small(x)) - want).max() < 0.08 * np.abs(want).max()
    assert kinds(small) == {"layer": "Linear"}


def test_floats_between_and_several_results():
    class Model(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = wend.nn.Linear(8, 8), wend.nn.Linear(8, 8)
            self.table = wend.nn.Embedding(10, 8)

        def forward(self, x, index, scale=2.0):
            y = wend.softmax(self.a(x), -1) + self.table(index)
            return {"y": self.b(y), "a": [y, x.shape[0]], "z": y * scale}

    x, index = wend.from_numpy(images(1)[0]), wend.arange(8)
    model = weighted(wend, lambda t: Model()).eval()
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping(), (x, index))
    prepared(x, index)
    mine, want = fx.convert_fx(prepared)(x, index), model(x, index)
    assert mine["a"][1] == 4
    for a, b in ((mine["y"], want["y"]), (mine["a"][0], want["a"][0]), (mine["z"], want["z"])):
        assert (a - b).abs().max() < 0.08 * b.abs().max()


def test_calls_that_only_pass_values_on_stay_floats():
    class Model(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.pool = wend.nn.Linear(4, 4), wend.nn.MaxPool2d(2)

        def forward(self, x):
            y = x.abs()
            y = wend.cat([wend.relu(y), y], 1)
            return y.flatten(1), self.a(input=self.pool(x))

    model, small = quantised(wend, lambda t: Model())
    x = wend.from_numpy(images(1, 9)[0])
    mine, want = small(x), model(x)
    assert wend.equal(mine[0], want[0])
    assert 0 < (mine[1] - want[1]).abs().max() < 0.08 * want[1].abs().max()
    assert small.code.index("quantize_per_tensor") < small.code.index("self.pool(")


def test_a_dict_of_qconfigs():
    table = {"": q.default_qconfig, "object_type": [(wend.nn.Conv2d, None)], "module_name": []}
    _, small = quantised(wend, joined, table)
    assert type(small.b) is wend.nn.Conv2d
    assert isinstance(small.scores, wend.ao.nn.quantized.Linear)


# -- training -------------------------------------------------------------------------------


def trained(t, make, steps=4):
    a = t.ao.quantization
    model = weighted(t, make).train()
    mapping = a.get_default_qat_qconfig_mapping("x86")
    prepared = a.quantize_fx.prepare_qat_fx(model, mapping, (t.from_numpy(images(1)[0]),))
    optimizer, losses = t.optim.SGD(prepared.parameters(), 1e-3), []
    for x in images(steps):
        loss = prepared(t.from_numpy(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return prepared, losses


@pytest.mark.parametrize("make", [residual, joined])
def test_training_for_quantisation(torch, make):
    results = []
    for t in (wend, torch):
        prepared, losses = trained(t, make)
        small = t.ao.quantization.quantize_fx.convert_fx(prepared.eval())
        results.append((losses, value(small(t.from_numpy(images(1, 9)[0]))), small.scores.scale))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=2e-2)
    assert np.abs(results[0][1] - results[1][1]).max() <= results[0][2] * 3


def test_training_lowers_the_loss():
    prepared, losses = trained(wend, residual, 8)
    assert losses[-1] < losses[0]
    x = wend.from_numpy(images(1, 9)[0])
    want = value(prepared.eval()(x))
    small = fx.convert_fx(prepared)
    assert np.abs(value(small(x)) - want).max() < 0.08 * np.abs(want).max()


def test_functions_of_dropout_follow_the_mode():
    class Model(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = wend.nn.Linear(8, 8)

        def forward(self, x):
            return self.a(wend.nn.functional.dropout(x, 0.5, self.training))

    prepared, _ = trained(wend, lambda t: Model())
    x = wend.from_numpy(images(1)[0])
    assert not wend.equal(prepared(x), prepared(x))
    prepared.eval()
    prepared.apply(q.disable_observer)
    assert wend.equal(prepared(x), prepared(x))
    want = value(prepared(x))
    assert np.abs(value(fx.convert_fx(prepared)(x)) - want).max() < 0.08 * np.abs(want).max()


# -- dynamic --------------------------------------------------------------------------------


def test_dynamic_layers():
    class Words(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.a = wend.nn.LSTM(8, 16), wend.nn.Linear(16, 8)
            self.conv = wend.nn.Conv1d(8, 4, 3)

        def forward(self, x):
            return self.conv(self.a(self.lstm(x)[0]).relu().permute(1, 2, 0))

    model, x = weighted(wend, lambda t: Words()).eval(), wend.from_numpy(images(1)[0][0])
    mapping = q.QConfigMapping().set_global(q.default_dynamic_qconfig)
    prepared = fx.prepare_fx(model, mapping, (x,))
    np.testing.assert_allclose(value(prepared(x)), value(model(x)), rtol=1e-5, atol=1e-6)
    small = fx.convert_fx(prepared)
    dynamic = wend.ao.nn.quantized.dynamic
    assert isinstance(small.lstm, dynamic.LSTM) and isinstance(small.a, dynamic.Linear)
    assert type(small.conv) is wend.nn.Conv1d
    assert (small(x) - model(x)).abs().max() < 0.05
    wanted = q.quantize_dynamic(copy.deepcopy(model))
    np.testing.assert_allclose(value(small(x)), value(wanted(x)), rtol=1e-5, atol=1e-6)
    # A qconfig of a calibration leaves recurrent layers in floats.
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping(), (x,))
    prepared(x)
    assert type(fx.convert_fx(prepared).lstm) is wend.nn.LSTM


# -- copies, states, fusion -----------------------------------------------------------------


def test_states_and_copies():
    _, small = quantised(wend, residual)
    x = wend.from_numpy(images(1, 9)[0])
    want = value(small(x))
    file = io.BytesIO()
    wend.save(small.state_dict(), file)
    file.seek(0)
    prepared = fx.prepare_fx(residual(wend).eval(), q.get_default_qconfig_mapping("x86"), (x,))
    other = fx.convert_fx(prepared)
    other.load_state_dict(wend.load(file))
    for again in (other, copy.deepcopy(small), pickle.loads(pickle.dumps(small))):
        np.testing.assert_array_equal(value(again(x)), want)


def test_copies_of_prepared_models():
    model = weighted(wend, joined).eval()
    x = wend.from_numpy(images(1)[0])
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping(), (x,))
    prepared(x)
    want = value(fx.convert_fx(prepared)(x))
    fresh = fx.prepare_fx(model, q.get_default_qconfig_mapping(), (x,))
    fresh.load_state_dict(prepared.state_dict())
    for again in (copy.deepcopy(prepared), fresh):
        np.testing.assert_array_equal(value(fx.convert_fx(again)(x)), want)


def test_fusion():
    model = weighted(wend, residual).eval()
    fused = fx.fuse_fx(model)
    x = wend.from_numpy(images(1)[0])
    np.testing.assert_allclose(value(fused(x)), value(model(x)), rtol=1e-4, atol=1e-4)
    assert kinds(fused)["stem.0"] == kinds(fused)["blocks.0.conv1"] == "ConvReLU2d"
    assert "BatchNorm2d" not in kinds(fused).values()


@pytest.mark.parametrize(
    "relu", [wend.relu, wend.Tensor.relu, lambda x: x.relu(), lambda x: wend.nn.functional.relu_(x)]
)
def test_every_relu_is_fused(relu):
    class Model(wend.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = wend.nn.Linear(8, 8), wend.nn.Linear(8, 8)

        def forward(self, x):
            y = self.a(x)
            return relu(self.b(x)) + y + y.sigmoid()

    x = wend.from_numpy(images(1)[0])
    assert kinds(fx.fuse_fx(Model().eval())) == {
        "a": "Linear", "b": "LinearReLU", "b.0": "Linear", "b.1": "ReLU",
    }  # fmt: skip
    model = weighted(wend, lambda t: Model()).eval()
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping(), (x,))
    prepared(x)
    want = value(model(x))
    assert np.abs(value(fx.convert_fx(prepared)(x)) - want).max() < 0.08 * np.abs(want).max()


# -- names and errors -----------------------------------------------------------------------


def test_names():
    import wend.quantization.quantize_fx as former

    assert former is fx
    assert former.prepare_fx is q.quantize_fx.prepare_fx


def test_errors():
    model, mapping = (
        wend.nn.Sequential(wend.nn.Linear(2, 2)).eval(),
        q.get_default_qconfig_mapping(),
    )
    x = wend.ones(1, 2)
    with pytest.raises(ArgumentError, match=r"prepare_fx .* evaluation mode; call model\.eval"):
        fx.prepare_fx(copy.deepcopy(model).train(), mapping, x)
    with pytest.raises(ArgumentError, match=r"prepare_qat_fx .* training mode; call model\.train"):
        fx.prepare_qat_fx(model, mapping, x)
    with pytest.raises(ArgumentError, match="fuse_fx only works"):
        fx.fuse_fx(copy.deepcopy(model).train())
    with pytest.raises(NotImplementedInWend, match="prepare_fx: backend_config; leave"):
        fx.prepare_fx(model, mapping, x, backend_config=object())
    with pytest.raises(NotImplementedInWend, match="convert_fx: keep_original_weights"):
        fx.convert_fx(fx.prepare_fx(model, mapping, x), keep_original_weights=True)
    with pytest.raises(ArgumentTypeError, match="convert_fx: the model is a Sequential"):
        fx.convert_fx(model)
    with pytest.raises(ArgumentTypeError, match="qconfig_mapping is QConfig"):
        fx.prepare_fx(model, q.default_qconfig, x)
    with pytest.raises(NotImplementedInWend, match="the key 'module_name_regex'"):
        fx.prepare_fx(model, {"module_name_regex": []}, x)
    signed = q.QConfig(q.MinMaxObserver.with_args(dtype=wend.qint8), q.default_weight_observer)
    with pytest.raises(NotImplementedInWend, match=r"observes for torch\.qint8"):
        fx.prepare_fx(model, q.QConfigMapping().set_global(signed), x)
    dynamic = q.QConfigMapping().set_global(q.default_dynamic_qat_qconfig)
    with pytest.raises(NotImplementedInWend, match="prepare_qat_fx: a dynamic qconfig"):
        fx.prepare_qat_fx(copy.deepcopy(model).train(), dynamic, x)

    class Asks(wend.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match="control flow"):
        fx.prepare_fx(Asks().eval(), mapping, x)
