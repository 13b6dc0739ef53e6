"""Modules that libraries import: operators of their own, trees, hubs, profilers, processes."""

import importlib
import json
import typing

import numpy as np
import pytest

import wend
from wend import hub, library, nn, profiler
from wend.nn.attention import SDPBackend, sdpa_kernel
from wend.nn.attention.flex_attention import (
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)
from wend.utils import _pytree as pytree

try:
    import torch as _TORCH
except ImportError:
    _TORCH = None


def test_an_operator_with_a_gradient():
    @library.custom_op("tests_ask::cube", mutates_args=())
    def cube(x: wend.Tensor, scale: float = 1.0) -> wend.Tensor:
        return wend.from_numpy(x.detach().numpy() ** 3 * scale)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.scale = inputs[1]

    cube.register_autograd(
        lambda ctx, g: (g * 3 * ctx.saved_tensors[0] ** 2 * ctx.scale, None), setup_context=keep
    )
    cube.register_fake(lambda x, scale=1.0: x.new_empty(x.shape))
    x = wend.tensor([1.0, 2.0], requires_grad=True)
    op = library._ops.namespace("tests_ask").cube
    (op(x).sum() + op.default(x, scale=2.0).sum()).backward()
    assert x.grad.tolist() == [9.0, 36.0]
    assert op.default.name() == "tests_ask::cube" and cube._opoverload is op.default


def test_an_operator_without_a_gradient_or_function():
    plain = library.custom_op("tests_ask::plain", lambda x: x * 2, mutates_args=())
    x = wend.ones(2, requires_grad=True)
    assert plain(x.detach()).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="has no gradient"):
        plain(x).sum().backward()
    library.register_fake("tests_ask::nowhere", lambda x: x)
    with pytest.raises(NotImplementedError, match="no function for the CPU"):
        library._ops.namespace("tests_ask").nowhere(x)


def test_an_operator_on_lists_and_one_that_writes():
    @library.custom_op("tests_ask::total", mutates_args=())
    def total(parts: list) -> wend.Tensor:
        return parts[0] + parts[1]

    total.register_autograd(lambda ctx, g: ([g, 2 * g],))
    a, b = wend.ones(1, requires_grad=True), wend.ones(1, requires_grad=True)
    total([a, b]).backward()
    assert (a.grad.item(), b.grad.item()) == (1.0, 2.0)
    fill = library.custom_op("tests_ask::fill", lambda x: x.fill_(3), mutates_args=("x",))
    fill(x := wend.zeros(2))
    assert x.tolist() == [3.0, 3.0]


def test_a_library_by_schemas():
    mine = library.Library("tests_ask_more", "DEF")
    mine.define("twice(Tensor x) -> Tensor")
    mine.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    x = wend.ones(2, requires_grad=True)
    library._ops.namespace("tests_ask_more").twice.default(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(OSError, match="PyTorch's binary"):
        library._ops.load_library("some.so")


def test_operators_of_aten():
    aten = library._ops.aten
    assert aten.add.Tensor(wend.ones(2), 1).tolist() == [2.0, 2.0]
    assert aten.add.Tensor is aten.add.Tensor and aten.add.Tensor != aten.add.Scalar
    assert aten._softmax(wend.zeros(2), 0).tolist() == [0.5, 0.5]
    with pytest.raises(AttributeError, match=r"torch\.ops\.aten\.no_such_op"):
        aten.no_such_op(1)


@pytest.mark.parametrize("nd", [2, 3])
def test_gradient_of_max_pooling_by_indices(nd):
    torch = pytest.importorskip("torch")
    shape = (2, 3, 7, 6, 5)[: 2 + nd]

    def both(library):
        size = int(np.prod(shape))
        x = ((library.arange(size) * 37) % size).double().reshape(shape)
        pool = getattr(library.nn.functional, f"max_pool{nd}d")
        how = ([3] * nd, [2] * nd, [1] * nd, [1] * nd, False)
        y, indices = pool(x, *how, return_indices=True)
        backward = getattr(library.ops.aten, f"max_pool{nd}d_with_indices_backward")
        g = library.arange(y.numel()).double().reshape(y.shape)
        return backward(g, x, *how, indices).tolist()

    assert both(wend) == both(torch)


def test_trees():
    tree = {"a": [1, (2, None)], "b": 3}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3] and pytree.tree_unflatten(leaves, spec) == tree
    assert spec.num_leaves == 4 and spec.type is dict and not spec.is_leaf()
    assert pytree.tree_map(lambda x, y: (x, y), [1, 2], [3, {"k": 4}]) == [(1, 3), (2, {"k": 4})]
    assert pytree.tree_map_only(int, lambda x: -x, [1, "a"]) == [-1, "a"]
    assert pytree.tree_any(lambda x: x == 3, tree) and not pytree.tree_all(bool, tree)
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert paths == ["['a'][0]", "['a'][1][0]", "['a'][1][1]", "['b']"]
    assert dict in pytree.SUPPORTED_NODES and pytree.LeafSpec().is_leaf()
    with pytest.raises(ValueError, match="differs"):
        pytree.tree_map(lambda *x: x, [1, 2], [1])


def test_a_registered_node():
    class Box(dict):
        pass

    pytree.register_pytree_node(
        Box,
        pytree._dict_flatten,
        lambda values, keys: Box(zip(keys, values, strict=True)),
        flatten_with_keys_fn=pytree._dict_flatten_with_keys,
    )
    box = pytree.tree_map(lambda x: x + 1, Box(a=1))
    assert type(box) is Box and box == {"a": 2}
    with pytest.raises(ValueError, match="registered already"):
        pytree.register_pytree_node(Box, None, None)


def test_the_hub(tmp_path, monkeypatch):
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['json']\ndef net(n, scale=1):\n    'A net.'\n    return n * scale\n"
    )
    assert hub.load(str(tmp_path), "net", 3, scale=2, source="local") == 6
    assert hub.list(str(tmp_path), source="local") == ["net"]
    assert hub.help(str(tmp_path), "net", source="local") == "A net."
    with pytest.raises(RuntimeError, match="no function 'other'"):
        hub.load(str(tmp_path), "other", source="local")
    with pytest.raises(NotImplementedError, match="not fetched"):
        hub.load("owner/name", "net")
    monkeypatch.setattr(hub, "_chosen", None)
    hub.set_dir(tmp_path / "cache")
    wend.save({"w": wend.ones(2)}, tmp_path / "w.pt")
    for _ in range(2):
        found = hub.load_state_dict_from_url((tmp_path / "w.pt").as_uri())
        assert found["w"].tolist() == [1.0, 1.0]
        (tmp_path / "w.pt").unlink(missing_ok=True)


def test_the_profiler_follows_its_schedule(tmp_path):
    parts = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    assert [parts(i).value for i in range(6)] == [0, 1, 2, 3, 0, 0]
    calls = []
    with profiler.profile(schedule=parts, on_trace_ready=calls.append) as p:
        for _ in range(6):
            p.step()
    assert calls == [p]
    steps = [event.trace_name for event in p.events() if event.name == "ProfilerStep*"]
    assert steps == ["ProfilerStep#2", "ProfilerStep#3"]
    profiler.tensorboard_trace_handler(str(tmp_path), "w")(p)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("w.") and json.loads(path.read_text())["traceEvents"]


def test_masks_and_scores_of_attention():
    rng = np.random.default_rng(0)
    q, k, v = (wend.from_numpy(rng.normal(size=(2, 2, 5, 4))) for _ in range(3))
    bias = wend.from_numpy(rng.normal(size=(2, 5, 5)))
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 5, 5, BLOCK_SIZE=2)
    want = nn.functional.scaled_dot_product_attention
    with sdpa_kernel(SDPBackend.MATH):
        y = flex_attention(q, k, v, block_mask=causal)
        np.testing.assert_allclose(y, want(q, k, v, is_causal=True), rtol=1e-6)
        y = flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, i, j])
        np.testing.assert_allclose(y, want(q, k, v, attn_mask=bias), rtol=1e-6)
    assert causal.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    near, late = (lambda b, h, i, j: (i - j).abs() < 2), (lambda b, h, i, j: i >= j)
    both, either = (create_mask(f(near, late), 1, 1, 3, 3) for f in (and_masks, or_masks))
    assert both.sum().item() == 5 and either.sum().item() == 8
    nothing = create_block_mask(lambda b, h, i, j: i < 0, None, None, 5, 5)
    assert not flex_attention(q, k, v, block_mask=nothing).any()


def test_checks():
    wend._check(True)
    for check, kind in (
        (wend._check, RuntimeError),
        (wend._check_index, IndexError),
        (wend._check_value, ValueError),
        (wend._check_type, TypeError),
        (wend._check_not_implemented, NotImplementedError),
    ):
        with pytest.raises(kind, match="why"):
            check(False, lambda: "why")
    with pytest.raises(RuntimeError):
        wend._check_tensor_all(wend.tensor([True, False]))


def test_a_tensor_is_asserted():
    """As PyTorch: a tensor with a single element that is zero is an error; see `_assert_async`."""
    given = [[False], [True], [2.0], [0.0], [True, True], []]
    for values in given:
        found = _outcome(wend, values)
        if _TORCH is not None:
            assert found == _outcome(_TORCH, values)
        assert (found is None) == (values in ([True], [2.0]))
    with pytest.raises(RuntimeError, match="scale is not positive"):
        wend._assert_async(wend.tensor(-1.0) > 0, "scale is not positive")
    with pytest.raises(TypeError, match="must be Tensor, not bool"):
        wend._assert_async(True)


def _outcome(package, values):
    """None, or RuntimeError."""
    try:
        return package._assert_async(package.tensor(values))
    except RuntimeError:
        return RuntimeError


def test_names_of_typing_in_annotations():
    annotations = importlib.import_module("wend.jit.annotations")

    assert annotations.List[int] == typing.List[int]  # noqa: UP006
    assert annotations.Optional[int] == typing.Optional[int]  # noqa: UP045
    assert annotations.Dict[str, annotations.Any] == typing.Dict[str, typing.Any]  # noqa: UP006


def test_types_that_can_be_named_only():
    assert wend.float8_e4m3fn.itemsize == 1 and wend.finfo(wend.float8_e4m3fn).max == 448
    assert wend.iinfo(wend.uint16).max == 65535 and {wend.uint16: 1}[wend.uint16] == 1
    with pytest.raises(TypeError, match="dtype"):
        wend.ones(2, dtype=wend.float4_e2m1fn_x2)


def _fails_in_second(i):
    if i == 1:
        raise ValueError("from process 1")


@pytest.mark.slow
def test_processes():
    from wend import multiprocessing

    multiprocessing.spawn(print, (), nprocs=1)
    with pytest.raises(multiprocessing.ProcessRaisedException, match="from process 1"):
        multiprocessing.start_processes(_fails_in_second, nprocs=2, start_method="fork")


def test_safetensors_of_modules(tmp_path):
    from wend.serialization import safetensors

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    safetensors.save_model(model, path := tmp_path / "m.safetensors")
    assert "1.weight" not in safetensors.load_file(path)
    other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    other[1].weight = other[0].weight
    assert safetensors.load_model(other, path) == (set(), [])
    assert other[1].weight.tolist() == model[0].weight.tolist()
    with pytest.raises(RuntimeError, match=r"misses \['0.weight', '1.weight'\]"):
        safetensors.save_file({"0.bias": model[0].bias, "1.bias": model[1].bias}, path)
        safetensors.load_model(other, path)


def test_a_wrapper_of_an_optimizer():
    class Wrapper(wend.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            self.inner.step(closure)

    x = wend.ones(2, requires_grad=True)
    x.sum().backward()
    Wrapper(wend.optim.SGD([x], lr=1.0)).step()
    assert x.tolist() == [0.0, 0.0]


def test_a_module_that_hands_on_attributes():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 1)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    assert Wrapper().weight.shape == (1, 2)
