"""Mixed precision: types of results, blocks, threads, scaled gradients, whole runs."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import wend
from wend.amp import _policies

#: Calls on (framework, matrix, vector of floats, three batches) and the type under autocast.
TYPES = {
    "mm": (lambda T, a, v: T.mm(a, a), "lower"),
    "operator": (lambda T, a, v: a @ v, "lower"),
    "linear": (lambda T, a, v: T.nn.functional.linear(a, a, v), "lower"),
    "layer": (lambda T, a, v: T.nn.Linear(3, 2)(a), "lower"),
    "keywords": (lambda T, a, v: T.addmm(input=a, mat1=a, mat2=a), "lower"),
    "convolution": (lambda T, a, v: T.nn.Conv1d(3, 2, 2)(a[None]), "lower"),
    "attention": (
        lambda T, a, v: T.nn.functional.scaled_dot_product_attention(a[None], a[None], a[None]),
        "lower",
    ),
    "einsum": (lambda T, a, v: T.einsum("ij,jk->ik", a, a), "lower"),
    "outer by einsum": (lambda T, a, v: T.einsum("i,j->ij", v, v), "single"),
    "outer": (lambda T, a, v: T.outer(v, v), "single"),
    "rnn": (lambda T, a, v: T.nn.RNN(3, 2)(a[None])[0], "lower"),
    "loss": (lambda T, a, v: T.nn.functional.mse_loss(a.bfloat16(), a.bfloat16()), "single"),
    "reflected": (
        lambda T, a, v: T.nn.functional.pad(a.bfloat16()[None], (1, 1), mode="reflect"),
        "single",
    ),
    "quantile": (lambda T, a, v: T.quantile(v, 0.5), "single"),
    "product": (lambda T, a, v: a.bfloat16().prod(0), "single"),
    "softmax": (lambda T, a, v: a.bfloat16().softmax(0), "lower"),
    "sum": (lambda T, a, v: a.bfloat16().sum(), "lower"),
    "layer norm": (lambda T, a, v: T.nn.functional.layer_norm(a, (3,)), "single"),
    "joined": (lambda T, a, v: T.cat([a, a.bfloat16()]), "single"),
    "joined alike": (lambda T, a, v: T.cat([a.bfloat16(), a.bfloat16()]), "lower"),
    "double": (lambda T, a, v: T.mm(a.double(), a.double()), "double"),
}


def types(T: Any) -> dict[str, str]:
    names = {T.bfloat16: "lower", T.float32: "single", T.float64: "double"}
    a, v = T.arange(9.0).reshape(3, 3), T.ones(3)
    with T.autocast("cpu"):
        return {name: names[call(T, a, v).dtype] for name, (call, _) in TYPES.items()}


def test_types_of_results():
    assert types(wend) == {name: type_ for name, (_, type_) in TYPES.items()}


def test_types_of_results_are_those_of_torch():
    torch = pytest.importorskip("torch")
    assert types(torch) == types(wend)


@pytest.mark.smoke
def test_blocks_nest_and_end():
    a = wend.ones(2, 2)
    half = wend.autocast("cpu", dtype=wend.float16)
    with wend.autocast("cpu"):
        assert wend.is_autocast_enabled("cpu")
        assert (a @ a).dtype is wend.bfloat16
        with wend.amp.autocast("cpu", enabled=False):
            assert (a @ a).dtype is wend.float32
        with half, half:
            assert (a @ a).dtype is wend.float16
        assert (a @ a).dtype is wend.bfloat16
    assert (a @ a).dtype is wend.float32
    assert half(wend.mm)(a, a).dtype is wend.float16
    assert not wend.is_autocast_enabled("cpu")


def test_outside_ops_do_not_ask():
    a = wend.ones(2, 2)
    with pytest.raises(ZeroDivisionError), wend.autocast("cpu"):
        assert wend.mm.general is not None
        1 / 0  # noqa: B018
    assert wend.mm.general is None
    assert wend.mm(a, a).dtype is wend.float32


def test_other_threads_are_outside():
    a, seen = wend.ones(2, 2), []
    with wend.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((a @ a).dtype))
        thread.start()
        thread.join()
        assert (a @ a).dtype is wend.bfloat16
    assert seen == [wend.float32]


def test_a_weight_is_converted_once_until_it_is_written():
    weight = wend.ones(2, 2, requires_grad=True)
    a = wend.ones(2, 2)
    with wend.autocast("cpu"):
        y = (a @ weight) + (a @ weight)
        ((_, _, first, _),) = _policies.STATE.cache.values()
        y.sum().backward()
        with wend.no_grad():
            weight.mul_(3)
        assert (a @ weight).tolist() == [[6.0, 6.0], [6.0, 6.0]]
        assert next(iter(_policies.STATE.cache.values()))[2] is not first
    assert not _policies.STATE.cache
    assert weight.grad.dtype is wend.float32
    assert weight.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_gradients_and_bodies_keep_their_types():
    x = wend.ones(3, 3, requires_grad=True)
    with wend.autocast("cpu"):
        wend.linalg.matrix_norm(x).backward()  # rules of its own, run inside for the first time
    assert x.grad.dtype is wend.float32


def test_devices_and_types_that_are_absent():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        block = wend.autocast("cuda")
    a = wend.ones(2, 2)
    with block:
        assert (a @ a).dtype is wend.float32
    with pytest.warns(UserWarning, match="not supported"), wend.autocast("cpu", wend.float64):
        assert (a @ a).dtype is wend.float32
    with pytest.raises(ValueError, match="device_type"):
        wend.autocast(wend.device("cpu"))
    with pytest.raises(RuntimeError, match="nonsense"):
        wend.autocast("nonsense")


def test_functions_of_ones_own():
    class Product(wend.autograd.Function):
        @staticmethod
        @wend.amp.custom_fwd(device_type="cpu", cast_inputs=wend.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append((a.dtype, wend.is_autocast_enabled("cpu")))
            return a @ b

        @staticmethod
        @wend.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append((g.dtype, wend.is_autocast_enabled("cpu")))
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    seen: list[Any] = []
    a = wend.ones(2, 2, dtype=wend.bfloat16, requires_grad=True)
    with wend.autocast("cpu"):
        y = Product.apply(a, a)
        assert y.dtype is wend.float32
        y.sum().backward()
    assert seen == [(wend.float32, False), (wend.float32, False)]
    assert a.grad.dtype is wend.bfloat16


# -- scaled gradients -----------------------------------------------------------------------


def scaled(T: Any, poison: int) -> list[Any]:
    """What a scaler says over a run in which gradients of step `poison` overflow."""
    weight = T.ones(2, requires_grad=True)
    optimizer = T.optim.SGD([weight], lr=0.1, momentum=0.9)
    scaler = T.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    seen: list[Any] = []
    for step in range(8):
        optimizer.zero_grad()
        factor = float("inf") if step == poison else 0.5
        scaler.scale((weight * factor).sum()).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            T.nn.utils.clip_grad_norm_([weight], 0.6)
        scaler.step(optimizer)
        scaler.update(32.0 if step == 6 else None)
        seen.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"], weight.tolist()))
    again = T.amp.GradScaler("cpu")
    again.load_state_dict(scaler.state_dict())
    return [seen, again.state_dict()]


def test_a_scaler_skips_infinite_steps():
    seen, _ = scaled(wend, 3)
    assert [scale for scale, _, _ in seen] == [8.0, 16.0, 16.0, 8.0, 8.0, 16.0, 32.0, 32.0]
    assert seen[3][2] == seen[2][2]


def test_a_scaler_does_as_torch_does():
    torch = pytest.importorskip("torch")
    ours, theirs = scaled(wend, 3), scaled(torch, 3)
    assert ours[1] == theirs[1]
    for (scale, count, values), expected in zip(ours[0], theirs[0], strict=True):
        assert (scale, count) == expected[:2]
        np.testing.assert_allclose(values, expected[2], rtol=1e-6)


def test_calls_of_a_scaler_in_the_wrong_order():
    scaler = wend.amp.GradScaler("cpu")
    weight = wend.ones(1, requires_grad=True)
    optimizer = wend.optim.SGD([weight], lr=0.1)
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


def test_a_disabled_scaler_passes_everything_through():
    scaler = wend.amp.GradScaler("cpu", enabled=False)
    weight = wend.ones(1, requires_grad=True)
    assert scaler.scale(weight) is weight
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)
    with pytest.warns(UserWarning, match="not available"):
        assert not wend.cuda.amp.GradScaler().is_enabled()


# -- whole runs -----------------------------------------------------------------------------


def trained(T: Any, start: Any, dtype: str) -> tuple[Any, Any]:
    """First and last parameters of a small model trained in mixed precision."""
    nn = T.nn
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8),
        nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3),
    )  # fmt: skip
    if start is not None:
        model.load_state_dict({name: T.tensor(value) for name, value in start.items()})
    begun = {name: value.detach().numpy().copy() for name, value in model.state_dict().items()}
    optimizer = T.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = T.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
    rng = np.random.default_rng(0)
    for _ in range(8):
        x = T.tensor(rng.normal(size=(6, 1, 6, 6)).astype("f"))
        y = T.tensor(rng.integers(0, 3, 6))
        optimizer.zero_grad()
        with T.autocast("cpu", dtype=getattr(T, dtype)):
            loss = T.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return begun, {name: value.detach().numpy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.03), ("float16", 0.004)])
def test_a_run_in_mixed_precision_is_that_of_torch(dtype, tolerance):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    begun, theirs = trained(torch, None, dtype)
    _, ours = trained(wend, begun, dtype)
    for name, expected in theirs.items():
        np.testing.assert_allclose(ours[name], expected, atol=tolerance, err_msg=name)


def test_the_names_hold_the_very_same_functions_afterwards() -> None:
    """Pickles find functions by name, and compare the found object with their own."""
    places = (wend, wend.Tensor, wend.nn.functional, wend.linalg, wend.fft)
    before = [dict(vars(place)) for place in places]
    x = wend.randn(1, 2, 3, 4)
    with wend.autocast("cpu", dtype=wend.bfloat16):
        inside = wend.nn.functional.scaled_dot_product_attention
        assert inside(x, x, x).dtype is wend.bfloat16
    for place, old in zip(places, before, strict=True):
        changed = [name for name, value in old.items() if vars(place)[name] is not value]
        assert not changed
    assert inside(x, x, x).dtype is wend.float32
