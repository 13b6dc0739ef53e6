"""The device meta: tensors with shape, dtype and strides, and without data, as in PyTorch."""

import copy
import pickle
import threading
import warnings

import pytest

import wend
from wend._engine.base.devices import AWAY
from wend._engine.base.errors import DeviceError, GraphError, NoDataError

META = wend.device("meta")


def frameworks():
    found = [pytest.param(wend, id="wend")]
    try:
        import torch
    except ImportError:
        return found
    return [*found, pytest.param(torch, id="torch")]


def meta(*shape, **more):
    return wend.empty(*shape, device="meta", **more)


# -- making ---------------------------------------------------------------------------------

MAKERS = {
    "empty": lambda t, **k: t.empty(2, 3, **k),
    "zeros": lambda t, **k: t.zeros((2, 3), dtype=t.int32, **k),
    "ones": lambda t, **k: t.ones(4, **k),
    "full": lambda t, **k: t.full((2,), 7, **k),
    "tensor": lambda t, **k: t.tensor([[1, 2], [3, 4]], **k),
    "as_tensor": lambda t, **k: t.as_tensor([1.0], **k),
    "asarray": lambda t, **k: t.asarray([1.0, 2.0], **k),
    "scalar_tensor": lambda t, **k: t.scalar_tensor(1, **k),
    "arange": lambda t, **k: t.arange(2, 9, 2, **k),
    "linspace": lambda t, **k: t.linspace(0, 1, 5, **k),
    "logspace": lambda t, **k: t.logspace(0, 1, 5, **k),
    "eye": lambda t, **k: t.eye(3, 4, **k),
    "rand": lambda t, **k: t.rand(2, 3, **k),
    "randn": lambda t, **k: t.randn(2, dtype=t.float64, **k),
    "randint": lambda t, **k: t.randint(0, 9, (2, 3), **k),
    "randperm": lambda t, **k: t.randperm(5, **k),
    "empty_strided": lambda t, **k: t.empty_strided((2, 3), (1, 2), **k),
    "tril_indices": lambda t, **k: t.tril_indices(3, 3, **k),
    "hann_window": lambda t, **k: t.hann_window(5, **k),
    "Linear": lambda t, **k: t.nn.Linear(2, 3, **k).weight,
    "BatchNorm1d": lambda t, **k: t.nn.BatchNorm1d(3, **k).num_batches_tracked,
    "LSTM": lambda t, **k: t.nn.LSTM(2, 3, **k).weight_ih_l0,
    "MultiheadAttention": lambda t, **k: t.nn.MultiheadAttention(4, 2, **k).in_proj_weight,
}


def described(x):
    facts = (tuple(x.shape), x.stride(), str(x.dtype), x.device.type)
    return *facts, x.is_meta, x.requires_grad, x.is_leaf


@pytest.mark.parametrize("name", MAKERS)
def test_making(name):
    torch = pytest.importorskip("torch")
    make = MAKERS[name]
    want = described(make(torch, device="meta"))
    assert want[4]
    assert described(make(wend, device="meta")) == want
    assert described(make(wend, device=META)) == want
    with wend.device("meta"):
        assert described(make(wend)) == want
        assert described(make(wend, device="cpu"))[3:5] == ("cpu", False)
    assert described(make(wend))[3:5] == ("cpu", False)
    assert not AWAY


def test_what_is_made():
    x = meta(2, 3, requires_grad=True)
    assert (x.is_meta, x.device, tuple(x.shape), x.stride()) == (True, META, (2, 3), (3, 1))
    assert x.requires_grad
    assert x.is_leaf
    assert isinstance(x, wend.Tensor)
    assert x.__class__ is wend.Tensor
    assert (x.numel(), x.nbytes, x.element_size(), x.data_ptr(), x.get_device()) == (
        6,
        24,
        4,
        0,
        -1,
    )
    assert x.untyped_storage().nbytes() == 24
    assert x.untyped_storage().device == META
    assert not x.is_cpu
    assert not wend.zeros(2).is_meta
    y = (x.t() @ x).sum()
    assert described(y)[3:] == ("meta", True, True, False)


def test_nothing_is_allocated():
    x = wend.zeros(1 << 20, 1 << 15, device="meta")
    layer = wend.nn.Linear(1 << 16, 1 << 16, device="meta")
    y = layer(wend.rand(1 << 10, 1 << 16, device="meta"))
    assert wend.eye(1 << 18, device="meta").shape == (1 << 18, 1 << 18)
    assert x.nbytes == 1 << 37
    assert y.shape == (1 << 10, 1 << 16)
    wend.synchronize()


@pytest.mark.parametrize("t", frameworks())
def test_like(t):
    x, c = t.empty(2, 3, device="meta", dtype=t.float64), t.ones(2, dtype=t.int32)
    for made in (
        t.zeros_like(x),
        t.rand_like(x),
        x.new_zeros(2, 3),
        t.empty_like(c, device="meta"),
    ):
        assert made.is_meta
    for made in (t.zeros_like(x, device="cpu"), x.new_ones((2,), device="cpu")):
        assert made.device.type == "cpu"
        assert made.dtype is t.float64
    assert t.zeros_like(x, device="cpu").tolist() == [[0.0] * 3] * 2
    with t.device("meta"):
        made = (
            t.zeros_like(c),
            c.new_ones(3),
            t.rand_like(c.double()),
            t.randint_like(c, 4),
            c + 1,
        )
        assert all(m.device.type == "cpu" for m in made)
        assert t.from_numpy(c.numpy()).device.type == "cpu"


# -- the default device ---------------------------------------------------------------------


def test_default_device():
    assert wend.get_default_device() == wend.device("cpu")
    with META:
        assert wend.get_default_device() == META
        with wend.device("cpu"):
            assert wend.zeros(2).device.type == "cpu"
        found = []
        thread = threading.Thread(target=lambda: found.append(wend.zeros(2).device.type))
        thread.start()
        thread.join()
        assert found == ["cpu"]
        assert wend.zeros(2).is_meta
    wend.set_default_device("meta")
    try:
        assert wend.zeros(2).is_meta
        with wend.device("cpu"):
            assert not wend.zeros(2).is_meta
    finally:
        wend.set_default_device(None)
    assert not wend.zeros(2).is_meta
    assert META(lambda: wend.ones(3))().is_meta
    with pytest.raises(DeviceError), wend.device("cuda"):
        raise AssertionError
    with pytest.raises(DeviceError):
        wend.set_default_device("cuda")
    assert not AWAY


# -- reading and mixing ---------------------------------------------------------------------

READS = {
    "item": lambda t, x: x[0].item(),
    "tolist": lambda t, x: x.tolist(),
    "numpy": lambda t, x: x.numpy(),
    "numpy force": lambda t, x: x.numpy(force=True),
    "bool": lambda t, x: bool(x[0]),
    "int": lambda t, x: int(x[0]),
    "float": lambda t, x: float(x[0]),
    "in": lambda t, x: 1.0 in x,
    "cpu": lambda t, x: x.cpu(),
    "to": lambda t, x: x.to("cpu"),
    "to tensor": lambda t, x: x.to(t.ones(2)),
    "as_tensor": lambda t, x: t.as_tensor(x, device="cpu"),
    "nonzero": lambda t, x: x.nonzero(),
    "mask": lambda t, x: x[x > 0],
    "unique": lambda t, x: x.unique(),
    "equal": lambda t, x: t.equal(x, x),
    "allclose": lambda t, x: t.allclose(x, x),
    "is_nonzero": lambda t, x: t.is_nonzero(x[0]),
    "masked_select": lambda t, x: x.masked_select(x > 0),
    "copy_": lambda t, x: t.ones(3).copy_(x),
    "setitem": lambda t, x: t.ones(3).__setitem__(0, x[0]),
    "dlpack": lambda t, x: x.__dlpack__(),
    "module": lambda t, x: t.nn.Linear(2, 3, device="meta").to("cpu"),
    "share": lambda t, x: x.share_memory_(),
    "add": lambda t, x: x + t.ones(3),
    "add turned": lambda t, x: t.ones(3) + x,
    "cat": lambda t, x: t.cat([x, t.ones(3)]),
    "where": lambda t, x: t.where(x > 0, x, t.ones(3)),
    "linear": lambda t, x: t.nn.Linear(3, 2, device="meta")(t.ones(4, 3)),
    "out": lambda t, x: t.add(x, x, out=t.empty(3)),
    "data": lambda t, x: setattr(t.nn.Parameter(x), "data", t.ones(3)),
    "data of cpu": lambda t, x: setattr(t.nn.Parameter(t.ones(3)), "data", x),
    "leaf": lambda t, x: t.nn.Parameter(x).add_(1),
}


@pytest.mark.parametrize("name", READS)
def test_what_is_refused(name):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        READS[name](torch, torch.empty(3, device="meta"))
    with pytest.raises(theirs.type):
        READS[name](wend, meta(3))


def test_messages():
    x = meta(3)
    with pytest.raises(NoDataError, match="Cannot copy out of meta tensor; no data!"):
        x.tolist()
    with pytest.raises(NoDataError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        x[0].item()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    with pytest.raises(DeviceError, match=r"add: expected all tensors .* meta and cpu"):
        x + wend.ones(3)
    with pytest.raises(NoDataError, match=r"use torch.nn.Module.to_empty"):
        wend.nn.Linear(2, 2, device="meta").to("cpu")
    with pytest.raises(GraphError, match="incompatible tensor type"):
        wend.nn.Parameter(wend.ones(3)).data = x
    y = meta(3, requires_grad=True) * 2
    for refused in (y.retain_grad, lambda: y.register_hook(print)):
        with pytest.raises(NotImplementedError, match="on the device meta only leaves"):
            refused()
    target = wend.ones(3)
    for write in (target.add_, target.copy_, target.__iadd__):
        with pytest.raises((NoDataError, DeviceError)):
            write(x)
    with pytest.raises(NoDataError):
        target.index_put_((wend.tensor([0]),), x[:1])
    assert target.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("t", frameworks())
def test_what_may_be_mixed(t):
    x, c = t.empty(3, device="meta"), t.tensor([1.0, 2.0, 3.0])
    assert (x + t.tensor(1.0)).is_meta
    assert (t.tensor(1.0) * x).is_meta
    assert (x + t.tensor(1.0, dtype=t.float64)).dtype is t.float32
    assert x.copy_(c) is x
    assert x.fill_(t.tensor(2.0)).is_meta
    x[:] = c
    x[0] = 1.0
    assert x.is_meta
    assert x[t.tensor([0, 1])].shape == (2,)
    assert x[t.tensor([True, False, True])].shape == (2,)
    assert x.repeat_interleave(t.tensor([1, 2, 3])).shape == (6,)
    assert c.tolist() == [1.0, 2.0, 3.0]


# -- text, copies, files --------------------------------------------------------------------

TEXTS = [
    lambda t: t.empty(3, device="meta"),
    lambda t: t.empty(2, 3, device="meta", dtype=t.float64, requires_grad=True),
    lambda t: t.empty((), device="meta", dtype=t.int64),
    lambda t: t.nn.Parameter(t.empty(3, device="meta")),
    lambda t: t.nn.Parameter(t.empty(3, device="meta")) * 2,
    lambda t: t.empty(2, device="meta")[0],
    lambda t: t.nn.Linear(2, 3, device="meta"),
    lambda t: t.empty(2, device="meta").type(),
    lambda t: t.empty(2, device="meta").untyped_storage(),
    lambda t: list(t.empty(2, device="meta")),
    lambda t: f"{t.empty((), device='meta')}",
]


@pytest.mark.parametrize("make", TEXTS)
def test_text(make):
    torch = pytest.importorskip("torch")
    assert repr(make(wend)) == repr(make(torch))
    assert "Cannot copy" not in str(make(wend))


def test_copies():
    for x in (meta(2, 3).t(), wend.nn.Parameter(meta(4, dtype=wend.float16))):
        for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), copy.copy(x)):
            assert type(made) is type(x)
            assert described(made) == described(x)
    layer = wend.nn.Linear(2, 3, device="meta")
    layer.weight.note = "kept"
    made = copy.deepcopy(layer)
    assert made.weight is not layer.weight
    assert made.weight.note == "kept"
    with pytest.raises(GraphError, match="graph leaves"):
        copy.deepcopy(layer.weight * 2)


# -- modules --------------------------------------------------------------------------------


def small(t, **more):
    return t.nn.Sequential(
        t.nn.Embedding(7, 4, **more), t.nn.LayerNorm(4, **more), t.nn.Linear(4, 3, **more)
    )


@pytest.mark.parametrize("t", frameworks())
def test_to_empty(t):
    layer = t.nn.BatchNorm1d(3, device="meta")
    before = layer.weight
    assert layer.to_empty(device="cpu") is layer
    assert layer.weight.device.type == layer.running_mean.device.type == "cpu"
    assert layer.weight is not before
    assert type(layer.weight) is t.nn.Parameter
    assert layer.weight.requires_grad
    assert layer.weight.shape == (3,)
    frozen = t.nn.Linear(2, 2, device="meta").requires_grad_(False).to_empty(device="cpu")
    assert not frozen.weight.requires_grad
    assert t.nn.Linear(2, 2).to("meta").weight.is_meta
    assert t.nn.Linear(2, 2, device="meta").to(t.float64).weight.dtype is t.float64


@pytest.mark.parametrize("t", frameworks())
def test_load_state_dict(t):
    with t.device("meta"):
        model = small(t)
    real = small(t)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.load_state_dict(real.state_dict())
    assert "which is a no-op" in str(told[0].message)
    assert len(told) == 5
    assert all(p.is_meta for p in model.parameters())
    assert str(model.load_state_dict(real.state_dict(), assign=True)) == (
        "<All keys matched successfully>"
    )
    ids = t.tensor([[1, 2, 3]])
    assert t.equal(model(ids), real(ids))
    assert all(p.requires_grad and not p.is_meta for p in model.parameters())
    model(ids).sum().backward()
    assert model[2].weight.grad.shape == (3, 4)
    with pytest.raises(RuntimeError, match=r"size mismatch for 2.weight"):
        small(t, device="meta").load_state_dict(
            {**real.state_dict(), "2.weight": t.zeros(2)}, assign=True
        )


@pytest.mark.parametrize("t", frameworks())
def test_skip_init(t):
    layer = t.nn.utils.skip_init(t.nn.Linear, 5, 1)
    assert layer.weight.device.type == "cpu"
    assert layer.weight.requires_grad
    assert t.nn.utils.skip_init(t.nn.Linear, 5, 1, device="meta").weight.is_meta
    with pytest.raises(RuntimeError, match="device"):
        t.nn.utils.skip_init(t.nn.ReLU)


@pytest.mark.parametrize("t", frameworks())
def test_initializers(t):
    w = t.nn.Parameter(t.empty(6, 6, device="meta"))
    names = "uniform_ normal_ ones_ zeros_ eye_ xavier_uniform_ kaiming_normal_ orthogonal_"
    for name in [*names.split(), "trunc_normal_"]:
        assert getattr(t.nn.init, name)(w) is w
        assert described(w)[3:] == ("meta", True, True, True)
    t.nn.init.constant_(w, 2.0)
    t.nn.init.sparse_(w, 0.5)
    t.nn.init.dirac_(t.nn.Parameter(t.empty(3, 3, 3, device="meta")))


def test_random_numbers_are_not_drawn():
    wend.manual_seed(3)
    expected = wend.rand(3)
    wend.manual_seed(3)
    with wend.device("meta"):
        small(wend)
        wend.nn.LSTM(2, 3)
        wend.randn(5)
        wend.nn.functional.dropout(wend.ones(3), 0.5)
    assert wend.equal(wend.rand(3), expected)


# -- gradients ------------------------------------------------------------------------------


@pytest.mark.parametrize("t", frameworks())
def test_gradients(t):
    layer = t.nn.Linear(3, 2, device="meta")
    other = t.nn.Parameter(t.empty(2, device="meta"))
    x = t.empty(4, 3, device="meta", requires_grad=True)
    y = layer(x)
    loss = y.relu().sum()
    loss.backward(retain_graph=True)
    assert layer.weight.grad.shape == (2, 3)
    assert layer.weight.grad.is_meta
    assert x.grad.shape == x.shape
    assert other.grad is None
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    (gw, gy) = t.autograd.grad(
        (y.detach().requires_grad_() * other).sum(), [other, x], allow_unused=True
    )
    assert (gw.shape, gy) == ((2,), None)
    with t.no_grad():
        assert not layer(x).requires_grad
    with pytest.raises(RuntimeError, match="scalar outputs"):
        layer(x).backward()
    assert not (x.detach() * 2).requires_grad
    assert layer(x).grad_fn is not None
    seen = []
    layer.bias.register_hook(lambda g: seen.append(tuple(g.shape)))
    layer.bias.register_post_accumulate_grad_hook(lambda p: seen.append(tuple(p.grad.shape)))
    layer(x).sum().backward()
    assert seen == [(2,), (2,)]
    assert not x.argmax(1).requires_grad


@pytest.mark.parametrize("t", frameworks())
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers(t, name):
    layer = t.nn.Linear(3, 2, device="meta")
    optimizer = getattr(t.optim, name)(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(t.empty(4, 3, device="meta")).sum().backward()
        optimizer.step()
    assert described(layer.weight) == ((2, 3), (3, 1), "torch.float32", "meta", True, True, True)


# -- what programs ask ----------------------------------------------------------------------


@pytest.mark.parametrize("t", frameworks())
def test_models(t):
    with t.device("meta"):
        models = [
            (t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), t.empty(2, 5, 8)),
            (t.nn.LSTM(8, 4, batch_first=True), t.empty(2, 5, 8)),
            (t.nn.GRUCell(8, 4), t.empty(2, 8)),
            (t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.MaxPool2d(2)), t.empty(2, 3, 9, 9)),
            (t.nn.ConvTranspose1d(3, 4, 3, stride=2), t.empty(2, 3, 9)),
            (t.nn.BatchNorm2d(3), t.empty(2, 3, 4, 4)),
            (t.nn.Upsample(scale_factor=2), t.empty(2, 3, 4, 4)),
            (t.nn.MultiheadAttention(8, 2), t.empty(5, 2, 8)),
        ]
        for model, x in models:
            arguments = (x, x, x) if isinstance(model, t.nn.MultiheadAttention) else (x,)
            made = model(*arguments)
            made = made[0] if isinstance(made, tuple) else made
            assert made.is_meta
            assert made.requires_grad or not list(model.parameters())
            if t is not wend:
                continue
            real = model.to_empty(device="cpu")
            arguments = tuple(wend.zeros_like(a, device="cpu") for a in arguments)
            expected = real(*arguments)
            expected = expected[0] if isinstance(expected, tuple) else expected
            assert made.shape == expected.shape
            assert made.dtype is expected.dtype


def test_classes():
    p = wend.nn.Parameter(meta(3))
    assert isinstance(p, wend.nn.Parameter)
    assert not isinstance(meta(3), wend.nn.Parameter)
    assert p.__class__ is wend.nn.Parameter
    assert type(p).__name__ == "Parameter"
    made = type(p)(wend.ones(3), requires_grad=False)  # as accelerate makes a parameter
    assert type(made) is wend.nn.Parameter
    assert not made.requires_grad
    assert isinstance(made, type(p))
    assert not wend.overrides.has_torch_function((p,))
    buffer = wend.nn.Buffer(meta(2))
    assert isinstance(buffer, wend.nn.Buffer)
    assert buffer.is_meta

    class Own(wend.Tensor):
        pass

    own = meta(3).as_subclass(Own)
    assert isinstance(own, Own)
    assert own.is_meta


def test_programs_without_meta_go_on():
    x = wend.ones(3, requires_grad=True)
    kept = [meta(3)]
    with wend.device("meta"):
        (x * 2).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0, 2.0]
        x.data[0] = 5.0
        y = x.detach().clone()
        y.fill_(3.0)
        y[1] = 4
        assert y.tolist() == [3.0, 4.0, 3.0]
        wend.nn.functional.cross_entropy(wend.ones(2, 3, device="cpu"), y[:2].long() - 3).item()
    assert len(kept) == 1
