"""Tensors on a device: where results lie, conversions, text, copies, files, and errors."""

import copy
import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import wend
from tries import own_trie
from wend import nn
from wend._engine.runtime.devices.queue import accelerator_at
from wend.errors import DeviceError

pytestmark = pytest.mark.usefixtures("accelerator")
XPU = wend.device("xpu", 0)


def there():
    return wend.arange(6.0).reshape(2, 3).to("xpu")


def test_facts_and_text():
    x = there()
    assert (x.is_xpu, x.is_cuda, x.is_cpu, x.get_device()) == (True, False, False, 0)
    assert x.device == XPU and x.type() == "torch.xpu.FloatTensor"
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='xpu:0')"
    y = wend.ones(1, device="xpu", requires_grad=True) * 2
    assert repr(y) == "tensor([2.], device='xpu:0', grad_fn=<MulBackward0>)"
    assert repr(x.cpu()) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]])"
    assert f"{x.sum():.1f}" == "15.0" and x.tolist() == [[0, 1, 2], [3, 4, 5]]


TO = [
    lambda x: x.to("xpu"), lambda x: x.to(0), lambda x: x.to(XPU), lambda x: x.xpu(),
    lambda x: x.xpu(0), lambda x: x.to(device="xpu", non_blocking=True),
    lambda x: x.to(wend.ones(1, device="xpu")), lambda x: x.type_as(wend.ones(1, device="xpu")),
    lambda x: x.to("xpu", wend.float32), lambda x: x.to("xpu", copy=True),
    lambda x: wend.as_tensor(x, device="xpu"), lambda x: wend.asarray(x, device="xpu"),
    lambda x: wend.empty(3, device="xpu").copy_(x), lambda x: x.to_device("xpu"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TO)))
def test_ways_there_and_back(number):
    x = wend.arange(3.0)
    y = TO[number](x)
    assert y.device == XPU and y.tolist() == [0, 1, 2]
    back = y.cpu()
    assert back.is_cpu and back.numpy().tolist() == [0, 1, 2]
    assert wend.empty(3).copy_(y).is_cpu


def test_a_tensor_that_is_there_stays():
    x = there()
    assert x.to("xpu") is x and x.xpu() is x and x.to("xpu", copy=True) is not x
    y = x.cpu()
    assert y.cpu() is y and y.to("cpu") is y
    assert x.to("xpu", wend.float64).dtype is wend.float64


def test_gradients_go_through():
    x = wend.ones(2, requires_grad=True)
    (x.to("xpu") * 3).sum().backward()
    assert x.grad.is_cpu and x.grad.tolist() == [3, 3]
    y = wend.ones(2, device="xpu", requires_grad=True)
    (y.cpu() * 2).sum().backward()
    assert y.grad.device == XPU and y.grad.tolist() == [2, 2]


MAKERS = [
    "torch.zeros(2, device=d)",
    "torch.ones((2,), device=d)",
    "torch.empty(2, device=d)",
    "torch.full((2,), 3, device=d)",
    "torch.arange(3, device=d)",
    "torch.linspace(0, 1, 3, device=d)",
    "torch.logspace(0, 1, 3, device=d)",
    "torch.eye(2, device=d)",
    "torch.rand(2, device=d)",
    "torch.randn(2, device=d)",
    "torch.randint(3, (2,), device=d)",
    "torch.randperm(3, device=d)",
    "torch.tensor([1, 2], device=d)",
    "torch.as_tensor([1.0], device=d)",
    "torch.as_tensor(numpy_array, device=d)",
    "torch.asarray([1.0], device=d)",
    "torch.tril_indices(2, 2, device=d)",
    "torch.triu_indices(2, 2, device=d)",
    "torch.hann_window(4, device=d)",
    "torch.normal(0.0, 1.0, (2,), device=d)",
    "torch.empty_strided((2, 2), (1, 2), device=d)",
    "torch.scalar_tensor(3, device=d)",
    "torch.fft.fftfreq(4, device=d)",
    "torch.fft.rfftfreq(4, device=d)",
    "torch.signal.windows.kaiser(4, device=d)",
    "torch.zeros_like(x)",
    "torch.ones_like(x)",
    "torch.empty_like(x)",
    "torch.full_like(x, 2)",
    "torch.rand_like(x)",
    "torch.randn_like(x)",
    "torch.randint_like(x, 5)",
    "torch.zeros_like(w, device=d)",
    "torch.tensor(x)",
    "torch.nn.init.orthogonal_(torch.zeros(3, 3, device=d))",
    "torch.nn.Parameter(x)",
    "torch.normal(x, x.abs() + 1)",
]


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("maker", MAKERS)
def test_made_there(maker):
    names = {"d": "xpu", "x": there(), "w": wend.ones(2), "numpy_array": np.ones(2)}
    y = eval(maker, {"torch": wend}, names)
    assert y.device == XPU, maker
    y.tolist()


@pytest.mark.parametrize(
    "make",
    ["new_zeros(2)", "new_ones((2,))", "new_empty(2)", "new_full((2,), 1.0)", "new_tensor([1])"],
)
def test_made_like_a_tensor_there(make):
    assert eval(f"x.{make}", {"x": there()}).device == XPU
    assert eval(f"x.{make[:-1]}, device='cpu')", {"x": there()}).is_cpu


def test_the_default_device():
    with wend.device("xpu"):
        assert wend.ones(1).device == XPU and nn.Linear(2, 2).weight.device == XPU
        assert repr(wend.ones(1)) == "tensor([1.])" and wend.from_numpy(np.ones(1)).is_cpu
        assert wend.ones(1, device="cpu").is_cpu
    wend.set_default_device("xpu")
    try:
        assert wend.get_default_device() == XPU and wend.zeros(1).device == XPU
        assert repr(wend.zeros(1, device="cpu")) == "tensor([0.], device='cpu')"
    finally:
        wend.set_default_device(None)
    assert wend.ones(1).is_cpu


# -- the outside ----------------------------------------------------------------------------------


def test_numpy_has_to_be_asked_for_a_copy():
    x = there()
    text = (
        r"can't convert xpu:0 device type tensor to numpy. Use Tensor.cpu\(\) to copy the tensor "
        "to host memory first."
    )
    for call in (x.numpy, lambda: np.asarray(x), lambda: np.add(x, 1)):
        with pytest.raises(TypeError, match=text):
            call()
    assert x.numpy(force=True).tolist() == x.tolist()
    assert x.__dlpack_device__() == (14, 0)
    with pytest.raises(BufferError, match="the data lies on xpu:0"):
        x.__dlpack__()


def test_pinned_memory_is_a_mark():
    assert not wend.ones(2).is_pinned()
    for x in (wend.ones(2).pin_memory(), wend.ones(2, pin_memory=True)):
        assert x.is_pinned() and x[:1].is_pinned() and x.pin_memory() is x
    for call in (there().pin_memory, lambda: wend.ones(2, device="xpu", pin_memory=True)):
        with pytest.raises(DeviceError, match="only dense CPU tensors can be pinned"):
            call()
    data = wend.utils.data.TensorDataset(wend.ones(4, 2), wend.arange(4))
    for batch in wend.utils.data.DataLoader(data, 2, pin_memory=True):
        assert all(part.is_pinned() for part in batch)


def test_copies_and_pickles():
    x = there()
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.device == XPU and y.tolist() == x.tolist()
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("xpu")
    for duplicate in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert {v.device for v in duplicate.state_dict().values()} == {XPU}


# -- modules --------------------------------------------------------------------------------------


def test_modules_move_in_place():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = wend.optim.Adam(net.parameters())
    before = [id(p) for p in net.parameters()]
    for move, place in ((lambda: net.to("xpu"), XPU), (net.cpu, wend.device("cpu"))):
        assert move() is net and [id(p) for p in net.parameters()] == before
        assert {v.device for v in net.state_dict().values()} == {place}
    net.xpu(0)
    net(wend.ones(3, 2, device="xpu")).sum().backward()
    optimizer.step()
    states = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, wend.Tensor)]
    assert states and {v.device for v in states} == {XPU}
    assert all(p.grad.device == XPU for p in net.parameters())
    net.cpu()
    assert all(p.grad.is_cpu for p in net.parameters())


def test_states_are_loaded_where_the_parameters_lie():
    net, other = nn.Linear(2, 2), nn.Linear(2, 2).to("xpu")
    other.load_state_dict(net.state_dict())
    assert other.weight.device == XPU and other.weight.tolist() == net.weight.tolist()
    first = wend.optim.Adam(net.parameters())
    net(wend.ones(1, 2)).sum().backward()
    first.step()
    second = wend.optim.Adam(other.parameters())
    second.load_state_dict(first.state_dict())
    assert second.state[other.weight]["exp_avg"].device == XPU
    other(wend.ones(1, 2, device="xpu")).sum().backward()
    second.step()


def test_wrappers_for_several_devices_take_one():
    layer = nn.Linear(2, 2).to("xpu")
    for wrapped in (nn.DataParallel(layer), nn.DataParallel(layer, device_ids=[0])):
        assert wrapped(wend.ones(1, 2)).device == XPU and wrapped.device_ids == [0]
    with pytest.raises(DeviceError, match="'xpu:99' is not available"):
        nn.DataParallel(layer, device_ids=[99])


def test_the_scaler_skips_a_step_with_infinities():
    net = nn.Linear(2, 1).to("xpu")
    optimizer, scaler = wend.optim.SGD(net.parameters(), 0.1), wend.amp.GradScaler("xpu")
    before = net.weight.tolist()
    for factor, same in ((float("inf"), True), (1.0, False)):
        optimizer.zero_grad()
        scaler.scale(net(wend.full((1, 2), factor, device="xpu")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (net.weight.tolist() == before) is same
    assert scaler.get_scale() == 32768.0


# -- files ----------------------------------------------------------------------------------------

TARGETS = [
    (None, XPU), ("cpu", wend.device("cpu")), ("xpu", XPU), (XPU, XPU),
    ({"xpu:0": "cpu"}, wend.device("cpu")), (lambda storage, location: storage, wend.device("cpu")),
    (lambda storage, location: storage.xpu(0), XPU), (lambda storage, location: None, XPU),
]  # fmt: skip


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("number", range(len(TARGETS)))
def test_files_of_a_device(number, zipped):
    target, place = TARGETS[number]
    x, file = there(), io.BytesIO()
    wend.save({"x": x, "row": x[1]}, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    loaded = wend.load(file, map_location=target)
    assert loaded["x"].device == loaded["row"].device == place
    assert loaded["x"].tolist() == x.tolist() and loaded["row"].tolist() == [3, 4, 5]
    loaded["row"].zero_()
    assert loaded["x"][1].tolist() == [0, 0, 0]


def test_files_of_the_cpu_and_files_for_pytorch():
    file = io.BytesIO()
    wend.save(OrderedDict(a=wend.ones(2)), file)
    file.seek(0)
    assert wend.load(file, map_location="xpu")["a"].device == XPU
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    wend.save(there(), file)
    file.seek(0)
    assert torch.load(file, map_location="cpu").tolist() == there().tolist()
    with pytest.raises(RuntimeError, match="XPU"):
        file.seek(0)
        torch.load(file)


def test_files_of_a_device_that_is_not_there():
    file = io.BytesIO()
    wend.save(wend.ones(1), file)
    file.seek(0)
    with pytest.raises(DeviceError, match="'cuda', and only 'cpu' and 'xpu' are available"):
        wend.load(file, map_location="cuda")


# -- several devices ------------------------------------------------------------------------------

MIXED = [
    lambda x, y: x + y, lambda x, y: y + x, lambda x, y: x @ y.T, lambda x, y: x.add_(y),
    lambda x, y: wend.cat([x, y]), lambda x, y: wend.where(x > 0, x, y),
    lambda x, y: nn.functional.linear(x, y), lambda x, y: wend.add(x, x, out=y),
    lambda x, y: y[wend.tensor([0], device="xpu")], lambda x, y: wend.stack([y, x]),
    lambda x, y: nn.functional.mse_loss(x, y), lambda x, y: y + x.sum(),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MIXED)))
def test_devices_do_not_mix(number):
    with pytest.raises(DeviceError, match=r"same device.*xpu:0 and cpu") as caught:
        MIXED[number](there(), wend.ones(2, 3)).tolist()
    assert caught.traceback[-1].path.name == "test_places.py"


def test_numbers_on_the_cpu_mix():
    x = there()
    for y in (x * wend.tensor(2.0), wend.tensor(2.0) * x, x.clone().mul_(wend.tensor(2.0))):
        assert y.device == XPU and y.tolist() == [[0, 2, 4], [6, 8, 10]]


KEYS = [
    lambda: wend.tensor([1]), lambda: wend.tensor([[0, 1], [1, 0]]), lambda: [1, 0],
    lambda: wend.tensor([True, False]), lambda: np.array([1]), lambda: (slice(None), [0, 2]),
    lambda: (wend.tensor([0, 1]), wend.tensor([1, 2])), lambda: (0, wend.tensor([2, 0])),
    lambda: wend.tensor(1), lambda: (Ellipsis, 1), lambda: None, lambda: wend.ones(2, 3) > 0,
    lambda: wend.tensor([1], device="xpu"), lambda: slice(1, None),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(KEYS)))
def test_keys_may_lie_on_the_cpu(number):
    x, key = there(), KEYS[number]()
    on_cpu = key.cpu() if isinstance(key, wend.Tensor) else key
    assert x[key].device == XPU and x[key].tolist() == x.cpu()[on_cpu].tolist()
    y, host = x.clone(), x.cpu()
    y[key] = 7.0
    host[on_cpu] = 7.0
    assert y.device == XPU and y.tolist() == host.tolist()


def test_writes_take_values_of_the_cpu():
    y = there()
    y[0] = wend.tensor([7.0, 8.0, 9.0])
    y[:, 1] = wend.ones(2)
    y.fill_diagonal_(5)
    assert y.device == XPU and y.tolist() == [[5, 1, 9], [3, 5, 5]]
    y.fill_(wend.tensor(2.0))
    y.zero_()
    y.resize_(4, 2)
    assert y.device == XPU and y.tolist() == [[0, 0]] * 4


SAME = [
    lambda x: x.sort()[1], lambda x: x.unique(), wend.nonzero, lambda x: x.cumsum(0),
    lambda x: wend.bincount(x.flatten().long()), lambda x: wend.vander(x[0]),
    lambda x: wend.combinations(x[0]), lambda x: wend.histogram(x, 3)[0],
    lambda x: wend.isin(x, x[0]), lambda x: x.repeat_interleave(2), lambda x: x.flip(0),
    lambda x: wend.linalg.svd(x)[1], lambda x: wend.fft.fft(x).abs(), lambda x: wend.tril(x),
    lambda x: wend.stft(x.flatten(), 4, window=wend.ones(4, device=x.device), return_complex=True)
    .abs(),
    lambda x: wend.vmap(lambda row: row.sort()[0] + wend.ones_like(row))(x),
    lambda x: wend.vmap(lambda i: x[i])(wend.tensor([1, 0], device=x.device)),
    lambda x: wend.func.jacrev(lambda v: v * v)(x[0]), wend.func.grad(lambda x: (x**2).sum()),
    lambda x: wend.autograd.functional.hessian(lambda v: (v**3).sum(), x[0]),
    lambda x: nn.functional.one_hot(x.long()), lambda x: nn.functional.interpolate(x[None], 5),
    lambda x: nn.functional.pad(x, (1, 1)), lambda x: wend.take_along_dim(x, x.long() % 2, 0),
    lambda x: wend.linalg.vander(x), lambda x: wend.trapezoid(x, dim=0), lambda x: x.median(0)[1],
    lambda x: nn.utils.parameters_to_vector([x]), lambda x: wend.multinomial(x + 1, 2),
    lambda x: wend.distributions.Normal(x, x + 1).sample(),
    lambda x: wend.distributions.Categorical(logits=x).sample(),
    lambda x: wend.distributions.Gamma(x + 1, x + 1).log_prob(x + 1),
    lambda x: wend.distributions.Uniform(x, x + 1).sample(),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SAME)))
def test_results_lie_where_the_operands_lie(number):
    wend.manual_seed(1)
    expected = SAME[number](there().cpu())
    wend.manual_seed(1)
    y = SAME[number](there())
    assert y.device == XPU
    np.testing.assert_allclose(y.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [
    lambda: wend.ones(5, device="xpu") + 1,
    lambda: (wend.ones(3, 4, device="xpu") + 1).t(),
    lambda: wend.ones(2, 3, 4, 4, device="xpu").contiguous(memory_format=wend.channels_last) + 1,
])  # fmt: skip
def test_an_address_is_one_of_the_device(make):
    """Memory whose address is known stays in the device's pool, where kernels read it in place."""
    with own_trie():
        check_address(make())


def check_address(x):
    pool = accelerator_at(XPU).pool
    address = x.data_ptr()
    assert pool.holds(address) and x[1:].data_ptr() - address == 4 * x.stride(0)
    copied = accelerator_at(XPU).copied_in
    assert (x * 2).sum().item() == 2 * x.numel() * 2
    x.mul_(3)
    assert x.data_ptr() == address and x.sum().item() == 6 * x.numel()
    assert accelerator_at(XPU).copied_in == copied
