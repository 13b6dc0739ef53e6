"""Quantised models, beside those that PyTorch makes of the same weights."""

import copy
import io
import pickle
import warnings

import numpy as np
import pytest

import wend
from wend._engine.compiler.llvm_ir import jit
from wend.errors import ArgumentError, ArgumentTypeError, NotImplementedInWend

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def torch():
    module = pytest.importorskip("torch")
    before = module.backends.quantized.engine
    module.backends.quantized.engine = "fbgemm"
    yield module
    module.backends.quantized.engine = before


def pair(torch, make):
    """A model of each package, from equal weights."""
    torch.manual_seed(0)
    theirs = make(torch)
    with torch.no_grad():
        for m in theirs.modules():
            if isinstance(m, torch.nn.BatchNorm2d):
                m.running_mean.normal_()
                m.running_var.uniform_(0.5, 2)
    mine = make(wend)
    mine.load_state_dict({k: wend.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    return [(wend, mine), (torch, theirs)]


def value(x):
    return x.detach().numpy()


# -- dynamic --------------------------------------------------------------------------------


class Words:
    """A mixin of the methods: classes of modules have to be found by pickles."""

    def __init__(self, t):
        super().__init__()
        self.embedding = t.nn.Embedding(50, 16)
        self.lstm = t.nn.LSTM(16, 24, 2, bidirectional=True)
        self.gru = t.nn.GRU(48, 12)
        self.scores = t.nn.Linear(12, 7)

    def forward(self, x):
        return self.scores(self.gru(self.lstm(self.embedding(x))[0])[0])


class WordsHere(Words, wend.nn.Module):
    pass


def words(t):
    if t is wend:
        return WordsHere(t)
    return type("WordsHere", (Words, t.nn.Module), {})(t)


def test_a_recurrent_model(torch):
    x = np.random.default_rng(0).integers(0, 50, (9, 5))
    models, results = pair(torch, words), []
    for t, model in models:
        kinds = {t.nn.LSTM, t.nn.GRU, t.nn.Linear}
        small = t.ao.quantization.quantize_dynamic(model, kinds, dtype=t.qint8)
        results.append((repr(small), list(small.state_dict()), value(small(t.from_numpy(x)))))
    assert results[0][:2] == results[1][:2]
    # A state whose rounding an ulp decides may take another step.
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=0, atol=3e-3)
    want = value(models[0][1](wend.from_numpy(x)))
    assert 0 < np.abs(results[0][2] - want).max() < 0.02


@pytest.mark.parametrize("scale", [1.0, 1e-7, 0.0])
@pytest.mark.parametrize("bias", [False, True])
def test_linear_layers_of_every_range(torch, scale, bias):
    x = (np.random.default_rng(1).normal(size=(3, 4, 10)) * scale).astype(np.float32)
    results = []
    for t, model in pair(torch, lambda t: t.nn.Sequential(t.nn.Linear(10, 19, bias=bias))):
        small = t.ao.quantization.quantize_dynamic(model)
        results.append(value(small(t.from_numpy(x))))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(torch, kind):
    x = np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)
    results = []
    for t, model in pair(torch, lambda t: t.nn.Sequential(getattr(t.nn, kind)(6, 5))):
        small = t.ao.quantization.quantize_dynamic(model, {getattr(t.nn, kind)})
        y = small(t.from_numpy(x))
        results.append((repr(small), value(y[0] if isinstance(y, tuple) else y)))
    assert results[0][0] == results[1][0]
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=0, atol=1e-6)


def test_packed_sequences_and_single_sequences(torch):
    results = []
    for t, model in pair(torch, lambda t: t.nn.Sequential(t.nn.LSTM(6, 5, bidirectional=True))):
        lstm = t.ao.quantization.quantize_dynamic(model, {t.nn.LSTM})[0]
        x = t.from_numpy(np.random.default_rng(2).normal(size=(4, 3, 6)).astype(np.float32))
        packed = t.nn.utils.rnn.pack_padded_sequence(x, [4, 2, 1])
        y, (h, c) = lstm(packed)
        results.append([value(y.data), value(h), value(c)])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)
    lstm = wend.ao.quantization.quantize_dynamic(wend.nn.Sequential(wend.nn.LSTM(6, 5)))[0]
    assert lstm(wend.randn(4, 6))[0].shape == (4, 5)


def test_saving_and_copies():
    model = wend.ao.quantization.quantize_dynamic(words(wend), {wend.nn.LSTM, wend.nn.Linear})
    x = wend.randint(0, 50, (5, 2))
    want = model(x).numpy()
    file = io.BytesIO()
    wend.save(model.state_dict(), file)
    file.seek(0)
    other = wend.ao.quantization.quantize_dynamic(words(wend), {wend.nn.LSTM, wend.nn.Linear})
    other.load_state_dict(wend.load(file))
    for again in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again(x).numpy(), want)


def test_modules_by_name():
    model = wend.nn.Sequential(wend.nn.Linear(3, 3), wend.nn.Linear(3, 3))
    small = wend.ao.quantization.quantize_dynamic(model, {"1"})
    names = [type(m).__module__ for m in small]
    assert names == ["wend.nn.modules.linear", "wend.ao.nn.quantized.dynamic.modules"]
    assert not hasattr(small[0], "qconfig")


# -- static ---------------------------------------------------------------------------------


def mobile(t):
    nn, q = t.nn, t.ao.quantization

    def block(inputs, outputs, size, stride, groups=1):
        conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU())

    class Mobile(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.layers = nn.Sequential(
                block(3, 16, 3, 2), block(16, 16, 3, 1, 16), block(16, 24, 1, 1)
            )
            self.branch = block(24, 24, 3, 1, 2)
            self.skip = t.ao.nn.quantized.FloatFunctional()
            self.pool, self.scores = nn.AdaptiveAvgPool2d(1), nn.Linear(24, 10)

        def forward(self, x):
            x = self.layers(self.quant(x))
            x = self.pool(self.skip.add_relu(x, self.branch(x)))
            return self.dequant(self.scores(x.flatten(1)))

    return Mobile()


BLOCKS = [
    [f"{block}.{k}" for k in range(3)] for block in ("layers.0", "layers.1", "layers.2", "branch")
]


def converted(t, model, qconfig):
    q = t.ao.quantization
    model = q.fuse_modules(copy.deepcopy(model).eval(), BLOCKS)
    model.qconfig = getattr(q, qconfig) if hasattr(q, qconfig) else q.get_default_qconfig(qconfig)
    model, rng = q.prepare(model), np.random.default_rng(1)
    for _ in range(3):
        model(t.from_numpy(rng.normal(size=(4, 3, 20, 20)).astype(np.float32)))
    return q.convert(model)


@pytest.mark.parametrize(
    "qconfig", ["x86", "qnnpack", "default_qconfig", "default_per_channel_qconfig"]
)
def test_a_convolution_net(torch, qconfig):
    x = np.random.default_rng(9).normal(size=(4, 3, 20, 20)).astype(np.float32)
    models = pair(torch, mobile)
    mine, theirs = (converted(t, model, qconfig) for t, model in models)
    kinds = [[(n, type(m).__name__) for n, m in model.named_modules()] for model in (mine, theirs)]
    assert [k for k in kinds[0] if k in kinds[1]] == kinds[0]
    others = theirs.state_dict()
    for name, a in mine.state_dict().items():
        if name.endswith(("scale", "zero_point")):
            b = others[name]
            np.testing.assert_allclose(float(a), float(b), rtol=1e-6, err_msg=name)
    results = [value(mine(wend.from_numpy(x))), value(theirs(torch.from_numpy(x)))]
    floats = value(models[0][1].eval()(wend.from_numpy(x)))
    errors = [np.abs(y - floats).max() for y in results]
    assert errors[0] < 0.1
    if np.abs(results[0] - results[1]).max() > float(mine.scores.scale) * 1.001:
        # Without an instruction for products of bytes, PyTorch adds pairs of products in 16 bits,
        # which overflow where weights have all 8 bits.
        assert qconfig == "qnnpack" and not any("vnni" in name for name in jit.host().names)
        assert errors[0] < errors[1] / 2


def test_layers_equal_sums_in_numpy():
    rng = np.random.default_rng(3)
    layer = wend.nn.Sequential(
        wend.ao.quantization.QuantStub(), wend.nn.Linear(11, 5), wend.ao.quantization.DeQuantStub()
    )
    layer.qconfig = wend.ao.quantization.get_default_qconfig("x86")
    layer = wend.ao.quantization.prepare(layer.eval())
    x = rng.normal(size=(6, 11)).astype(np.float32)
    layer(wend.from_numpy(x))
    layer = wend.ao.quantization.convert(layer)
    scale, zero = float(layer[0].scale), int(layer[0].zero_point)
    q = (
        np.clip(np.rint(x * np.float32(1 / np.float32(scale))) + zero, 0, 255).astype(np.int64)
        - zero
    )
    weight = layer[1].weight()
    scales = weight.q_per_channel_scales().numpy()
    sums = q @ weight.int_repr().numpy().astype(np.int64).T * (scale * scales) + value(
        layer[1].bias()
    )
    out = layer[1].scale, layer[1].zero_point
    want = (np.clip(np.rint(sums / out[0]) + out[1], 0, 255) - out[1]) * np.float32(out[0])
    np.testing.assert_allclose(layer(wend.from_numpy(x)).numpy(), want, atol=out[0] * 1.001)


def test_convolutions_over_one_dim(torch):
    def make(t):
        q = t.ao.quantization
        return t.nn.Sequential(q.QuantStub(), t.nn.Conv1d(3, 8, 3, 2, 1), q.DeQuantStub())

    x, results = np.random.default_rng(0).normal(size=(2, 3, 15)).astype(np.float32), []
    for t, model in pair(torch, make):
        model.eval().qconfig = t.ao.quantization.get_default_qconfig("fbgemm")
        model = t.ao.quantization.prepare(model)
        model(t.from_numpy(x))
        model = t.ao.quantization.convert(model)
        results.append((repr(model), value(model(t.from_numpy(x))), model[1].scale))
    assert np.abs(results[0][1] - results[1][1]).max() <= results[0][2] * 1.001


@pytest.mark.parametrize(
    "name", ["HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver"]
)
@pytest.mark.parametrize("symmetric", [False, True])
def test_observers(torch, name, symmetric):
    results = []
    for t in (wend, torch):
        scheme = t.per_tensor_symmetric if symmetric else t.per_tensor_affine
        observer = getattr(t.ao.quantization, name)(qscheme=scheme, reduce_range=not symmetric)
        rng = np.random.default_rng(4)
        for k in range(3):
            observer(t.from_numpy((rng.normal(size=(40, 30)) * (k + 1)).astype(np.float32)))
        results.append([np.asarray(x) for x in observer.calculate_qparams()])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine.ravel(), theirs.ravel(), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["PerChannelMinMaxObserver", "MovingAveragePerChannelMinMaxObserver"]
)
def test_observers_of_channels(torch, name):
    results = []
    for t in (wend, torch):
        observer = getattr(t.ao.quantization, name)(dtype=t.qint8, qscheme=t.per_channel_symmetric)
        rng = np.random.default_rng(4)
        for _ in range(2):
            observer(t.from_numpy(rng.normal(size=(4, 3, 5)).astype(np.float32)))
        results.append([np.asarray(x) for x in observer.calculate_qparams()])
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


# -- training -------------------------------------------------------------------------------


@pytest.mark.parametrize("qconfig", ["default_qat_qconfig", "fbgemm"])
def test_training_for_quantisation(torch, qconfig):
    def make(t):
        q = t.ao.quantization
        return t.nn.Sequential(
            q.QuantStub(), t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.ReLU(),
            t.nn.Flatten(), t.nn.Linear(144, 5), q.DeQuantStub(),
        )  # fmt: skip

    results = []
    for t, model in pair(torch, make):
        q, model = t.ao.quantization, model.train()
        own = getattr(q, qconfig, None)
        model.qconfig = own or q.get_default_qat_qconfig(qconfig)
        model = q.prepare_qat(q.fuse_modules_qat(model, ["1", "2", "3"]))
        rng, optimizer, losses = np.random.default_rng(1), t.optim.SGD(model.parameters(), 0.01), []
        for _ in range(3):
            y = model(t.from_numpy(rng.normal(size=(4, 3, 8, 8)).astype(np.float32)))
            loss = (y * y).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        model = q.convert(model.eval())
        x = t.from_numpy(rng.normal(size=(4, 3, 8, 8)).astype(np.float32))
        results.append((losses, value(model(x)), model[5].scale))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=2e-2)
    assert np.abs(results[0][1] - results[1][1]).max() <= results[0][2] * 3


def test_switches_of_fake_quantisation():
    q = wend.ao.quantization
    model = wend.nn.Sequential(q.FakeQuantize(quant_min=0, quant_max=255, dtype=wend.quint8))
    x = wend.linspace(-1, 1, 33)
    assert not wend.equal(model(x), x)
    model.apply(q.disable_fake_quant)
    assert wend.equal(model(x), x)
    model.apply(q.disable_observer)
    model(x * 5)
    assert float(model[0].activation_post_process.max_val) == 1
    model.apply(q.enable_fake_quant)
    assert float(model(x * 5).max()) < 1.01


# -- names and errors -----------------------------------------------------------------------


def test_names():
    import wend.nn.quantized.dynamic as dynamic
    import wend.quantization.observer as observer

    assert wend.quantization is wend.ao.quantization
    assert dynamic.Linear is wend.ao.nn.quantized.dynamic.Linear
    assert observer.MinMaxObserver is wend.ao.quantization.MinMaxObserver
    assert wend.backends.quantized.engine in wend.backends.quantized.supported_engines
    with pytest.raises(ArgumentError, match="'magic' is none of"):
        wend.backends.quantized.engine = "magic"


def test_errors():
    q, nn = wend.ao.quantization, wend.nn
    with pytest.raises(NotImplementedInWend, match=r"dtype torch\.float16; there is torch\.qint8"):
        q.quantize_dynamic(nn.Linear(2, 2), dtype=wend.float16)
    with pytest.raises(ArgumentError, match=r"training mode; call model\.train"):
        q.prepare_qat(nn.Linear(2, 2).eval())
    with pytest.raises(NotImplementedInWend, match=r"cannot fuse modules: \(ReLU, Linear\)"):
        q.fuse_modules(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), ["0", "1"])
    with pytest.raises(ArgumentError, match="with_args"):
        q.QConfig(q.MinMaxObserver(), q.MinMaxObserver)
    with pytest.raises(ArgumentError, match="backend 'magic' is unknown"):
        q.get_default_qconfig("magic")
    with pytest.raises(ArgumentTypeError, match="put a QuantStub in front"):
        wend.ao.nn.quantized.Linear(2, 2)(wend.ones(2))
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="must run observer"):
        warnings.simplefilter("error")
        q.MinMaxObserver().calculate_qparams()
    with pytest.raises(NotImplementedInWend, match="proj_size"):
        q.quantize_dynamic(nn.Sequential(nn.LSTM(3, 4, proj_size=2)), {nn.LSTM})
