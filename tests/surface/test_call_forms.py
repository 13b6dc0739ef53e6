"""Rare forms of calls, and keywords, compute what PyTorch computes."""

import numpy as np
import pytest

import wend

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
Y = np.float32(2) - X[::-1].copy()
INDEX = np.array([[0, 2, 1, 0]])

FORMS = [
    "x.split(split_size=2, dim=1)",
    "x.split(split_size=[1, 3], dim=1)",
    "t.split(tensor=x, split_size_or_sections=2)",
    "t.unsafe_split(input=x, split_size=2)",
    "t.split_with_sizes(input=x, split_sizes=[1, 2])",
    "t.tensor_split(x, sections=2)",
    "x.tensor_split(indices=[1], dim=1)",
    "x.tensor_split(tensor_indices_or_sections=t.tensor([1, 2]))",
    "t.hsplit(x, sections=2)",
    "t.vsplit(x, indices=[1])",
    "x.view(size=(4, 3))",
    "t.view_copy(x, size=(2, 6))",
    "x.where(condition=x > 3, other=y)",
    "t.where(x > 3, input=x, other=y)",
    "t.equal(input=x, other=y)",
    "t.allclose(input=x, other=x)",
    "t.is_same_size(input=x, other=y)",
    "t.is_nonzero(input=x.sum())",
    "t.zeros(3, 4).copy_(other=x)",
    "t.zeros(2).resize_(size=(3,)).shape",
    "t.zeros(2).resize_as_(the_template=x).shape",
    "x.to(tensor=t.zeros(1, dtype=t.float64))",
    "x.to_dense(dtype=t.float64)",
    "x.scatter(dim=0, index=i, value=2.0, reduce='add')",
    "x.clone().scatter_(0, i, y[:1], reduce='multiply')",
    "x.clone().scatter_(dim=0, index=i, value=3, reduce='multiply')",
    "t.scatter(input=x, dim=0, index=i, value=2, reduce='add')",
    "t.logdet(input=x[:, :3] @ x[:, :3].T + 50 * t.eye(3)) > 13",
    "x.sum_to_size(size=(1, 4))",
    "t.arange(end=5)",
    "t.arange(start=2, end=5)",
    "t.repeat_interleave(repeats=t.tensor([1, 2]))",
    "t.isin(element=3, test_elements=x)",
    "t.isin(elements=x, test_element=3)",
    "t.result_type(tensor=x, other=1.5)",
    "t.result_type(scalar1=True, scalar2=2)",
    "t.result_type(scalar1=1, scalar2=2.0)",
    "t.sub(x, 2, y)",
    "t.subtract(x, 2, 3)",
    "x.subtract(2, 3)",
    "t.histogram(x)[0]",
    "t.nonzero(x, out=t.empty(0, dtype=t.int64))",
    "t.masked_select(x, x > 3, out=t.empty(0))",
    "t.quantile(x, 0.5, out=t.empty(()))",
    "t.cross(x[:, :3], y[:, :3], dim=1, out=t.empty(3, 3))",
    "t.isin(x, y, out=t.empty(0, dtype=t.bool))",
    "t.tril_indices(3, 3, pin_memory=False)",
    "t.nn.functional.one_hot(input=i)",
]


def computed(t, form):
    """The value of a form, of lists and NumPy arrays only."""
    names = {"t": t, "x": t.tensor(X), "y": t.tensor(Y), "i": t.tensor(INDEX)}
    return plain(eval(form, names), t)


def plain(value, t):
    if isinstance(value, (tuple, list)):
        return [plain(v, t) for v in value]
    return value.numpy() if isinstance(value, t.Tensor) else str(value)


@pytest.mark.parametrize("form", FORMS)
def test_values(form):
    torch = pytest.importorskip("torch")
    np.testing.assert_equal(computed(wend, form), computed(torch, form))


def test_a_parameter_given_twice():
    x = wend.tensor(X)
    with pytest.raises(TypeError, match="multiple values"):
        x.split(2, split_size=2)
    with pytest.raises(TypeError, match="multiple values"):
        wend.split_with_sizes(x, split_sizes=[1, 2], split_size_or_sections=[1, 2])


def test_out_of_a_function_over_ops_is_written():
    x, out = wend.tensor(X), wend.empty(0)
    assert wend.masked_select(x, x > 3, out=out) is out
    np.testing.assert_array_equal(out.numpy(), X[X > 3])


AS_SCHEMAS = [
    "t.adaptive_avg_pool1d(x[None], 2)",
    "t.adaptive_max_pool1d(x[None], 2)",
    "t.avg_pool1d(x[None], 2, ceil_mode=True)",
    "t.batch_norm(x, None, None, t.zeros(4), t.ones(4), True, 0.1, 1e-5, False)",
    "t.instance_norm(x[None], None, None, None, None, True, 0.1, 1e-5, False)",
    "t.binary_cross_entropy_with_logits(x, x / 11, None, None, 2)",
    "t.conv_tbc(t.ones(5, 2, 3), t.ones(2, 3, 4), t.ones(4), pad=1)",
    "t.cosine_embedding_loss(x, y, t.tensor([1.0, -1.0, 1.0]), 0.5, reduction=0)",
    "t.hinge_embedding_loss(x, t.sign(y - 1), reduction=2)",
    "t.kl_div(x.log_softmax(1), y.softmax(1), 2)",
    "t.margin_ranking_loss(x, y, t.sign(y), 0.5, 2)",
    "t.poisson_nll_loss(x, y.abs(), True, False, 1e-8, 1)",
    "t.triplet_margin_loss(x, y, x + 1, 1.0, 2.0, 1e-6, False, 1)",
    "t.norm_except_dim(x, 2, 1)",
    "t.celu_(y.clone())",
    "t.selu_(y.clone())",
    "t.threshold_(x.clone(), 3, 20)",
    "t.rrelu(y, 0.2, 0.2, True)",
    "t.feature_dropout(x, 0.0, True)",
    "t.dropout_(x.clone(), 0.0, True)",
    "t.alpha_dropout(x, 0.5, False)",
]


@pytest.mark.parametrize("form", AS_SCHEMAS)
def test_operators_forms(form):
    torch = pytest.importorskip("torch")
    for mine, theirs in zip(flat(computed(wend, form)), flat(computed(torch, form)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def flat(value):
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, list) else [value]


SMALL = [
    "t.torch is t",
    "t.mps.is_available(), t.xpu.is_available(), t.mtia.is_available(), t.xpu.device_count()",
    "t.cuda.get_rng_state_all(), t.cuda.is_initialized(), t.cuda.memory_allocated(None)",
    "t.cuda.stream(None).__enter__(), t.cuda.device(-1).__enter__()",
    "t.backends.cudnn.enabled, t.backends.cudnn.benchmark, t.backends.cudnn.version()",
    "t.backends.cuda.flash_sdp_enabled(), t.backends.cuda.is_built()",
    "t.get_deterministic_debug_mode(), t.is_warn_always_enabled()",
    "t.is_deterministic_algorithms_warn_only_enabled()",
    "t.FloatStorage([1, 2]).tolist(), t.LongStorage(2).size()",
    "isinstance(x.storage(), t.FloatStorage), isinstance(x.storage(), t.LongStorage)",
    "x.t().dim_order(), x.dim_order(), x.is_set_to(x), x.is_set_to(x[1:]), x.is_set_to(x + 0)",
    "x.clone().map2_(y, y, lambda a, b, c: a + b * c)",
    "type(x.max(1)) is t.return_types.max, type(x.sort()) is t.return_types.sort",
    "issubclass(t.OutOfMemoryError, RuntimeError), isinstance(3, t.SymInt)",
    "t._utils._flatten_dense_tensors([x, y])",
    "t._utils._unflatten_dense_tensors(t.arange(7.0), [t.ones(2, 2), t.ones(3)])",
    "t.version.cuda, t.version.hip, t.version.rocm, t.version.debug",
    "t.functional.norm is not None, t.storage.UntypedStorage is t.UntypedStorage",
]


@pytest.mark.parametrize("form", SMALL)
def test_small_names(form):
    torch = pytest.importorskip("torch")
    np.testing.assert_equal(computed(wend, f"({form})"), computed(torch, f"({form})"))


def test_a_file_as_memory(tmp_path):
    path = str(tmp_path / "numbers")
    wend.from_file(path, shared=True, size=3, dtype=wend.float64)[1] = 2.5
    assert wend.from_file(path, size=3, dtype=wend.float64).tolist() == [0, 2.5, 0]
    with pytest.raises(ValueError, match="24 bytes, and 9 elements"):
        wend.from_file(path, size=9, dtype=wend.float64)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(dims):
    import wend.nn.grad as mine

    torch = pytest.importorskip("torch")
    import torch.nn.grad as theirs

    rng = np.random.default_rng(0)
    x, w, g = (rng.normal(size=(2, 2, *[n] * dims)).astype("float32") for n in (5, 2, 2))
    for name, args in {
        "input": ((2, 2, *[5] * dims), w),
        "weight": (x, (2, 2, *[2] * dims)),
    }.items():
        results = [
            getattr(grad, f"conv{dims}d_{name}")(
                *(t.tensor(a) if isinstance(a, np.ndarray) else a for a in args),
                t.tensor(g), stride=2, padding=0,
            ).numpy()
            for grad, t in ((mine, wend), (theirs, torch))
        ]  # fmt: skip
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_lists_of_nodes_cannot_be_changed():
    import pickle

    from wend.fx.immutable_collections import immutable_dict, immutable_list

    fixed = immutable_list([1, 2])
    with pytest.raises(NotImplementedError, match="cannot be changed"):
        fixed.append(3)
    with pytest.raises(NotImplementedError, match="cannot be changed"):
        immutable_dict(a=1)["b"] = 2
    assert pickle.loads(pickle.dumps(fixed)) == [1, 2] and hash(fixed) == hash((1, 2))


def test_an_exception_of_another_process():
    from wend._utils import ExceptionWrapper

    try:
        {}["a"]
    except KeyError:
        caught = ExceptionWrapper(where="in a worker")
    with pytest.raises(KeyError, match="Caught KeyError in a worker"):
        caught.reraise()
