"""Functions, layers, files and random numbers on the device meta, compared with PyTorch's."""

import copy
import warnings

import pytest

import wend


def M(t, *shape, **more):
    return t.empty(*shape, device="meta", **more)


def L(t, *shape):
    return t.empty(*shape, device="meta", dtype=t.int64)


def leaf(t, *shape):
    return t.nn.Parameter(M(t, *shape))


CALLS = {
    "conv2d": lambda t: t.nn.functional.conv2d(M(t, 2, 3, 8, 8), M(t, 4, 3, 3, 3)),
    "interpolate": lambda t: t.nn.functional.interpolate(
        M(t, 2, 3, 8, 8), scale_factor=2, mode="bilinear"
    ),
    "adaptive_avg_pool2d": lambda t: t.nn.functional.adaptive_avg_pool2d(M(t, 2, 3, 8, 8), (1, 1)),
    "grid_sample": lambda t: t.nn.functional.grid_sample(
        M(t, 2, 3, 8, 8), M(t, 2, 4, 4, 2), align_corners=False
    ),
    "affine_grid": lambda t: t.nn.functional.affine_grid(
        M(t, 2, 2, 3), (2, 3, 4, 4), align_corners=False
    ),
    "embedding": lambda t: t.nn.functional.embedding(L(t, 2, 5), M(t, 10, 4)),
    "embedding_bag": lambda t: t.nn.functional.embedding_bag(L(t, 2, 5), M(t, 10, 4)),
    "dropout": lambda t: t.nn.functional.dropout(M(t, 4)),
    "attention": lambda t: t.nn.functional.scaled_dot_product_attention(
        M(t, 2, 4, 5, 8), M(t, 2, 4, 6, 8), M(t, 2, 4, 6, 8)
    ),
    "cross_entropy": lambda t: t.nn.functional.cross_entropy(M(t, 4, 5), L(t, 4)),
    "batch_norm": lambda t: t.nn.functional.batch_norm(
        M(t, 2, 3, 4), M(t, 3), M(t, 3), training=True
    ),
    "instance_norm": lambda t: t.nn.functional.instance_norm(M(t, 2, 3, 4)),
    "pad": lambda t: t.nn.functional.pad(M(t, 1, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "unfold": lambda t: t.nn.functional.unfold(M(t, 2, 3, 8, 8), 3),
    "one_hot": lambda t: t.nn.functional.one_hot(L(t, 3), 5),
    "gumbel_softmax": lambda t: t.nn.functional.gumbel_softmax(M(t, 3, 4), hard=True),
    "MultiheadAttention": lambda t: t.nn.MultiheadAttention(8, 2, device="meta")(
        M(t, 3, 2, 8), M(t, 3, 2, 8), M(t, 3, 2, 8)
    )[0],
    "Transformer": lambda t: t.nn.Transformer(8, 2, 1, 1, 16, device="meta")(
        M(t, 3, 2, 8), M(t, 3, 2, 8)
    ),
    "LazyLinear": lambda t: t.nn.LazyLinear(3, device="meta")(M(t, 2, 5)),
    "weight_norm": lambda t: t.nn.utils.parametrizations.weight_norm(
        t.nn.Linear(3, 2, device="meta")
    )(M(t, 1, 3)),
    "functional_call": lambda t: t.func.functional_call(
        t.nn.Linear(3, 2), {"weight": M(t, 2, 3), "bias": M(t, 2)}, (M(t, 4, 3),)
    ),
    "pad_sequence": lambda t: t.nn.utils.rnn.pad_sequence([M(t, 3), M(t, 2)]),
    "parameters_to_vector": lambda t: t.nn.utils.parameters_to_vector([leaf(t, 3), leaf(t, 2)]),
    "log_prob": lambda t: t.distributions.Normal(M(t, 3), M(t, 3), validate_args=False).log_prob(
        M(t, 3)
    ),
    "svd": lambda t: t.linalg.svd(M(t, 3, 4))[1],
    "solve": lambda t: t.linalg.solve(M(t, 3, 3), M(t, 3, 2)).sum(0),
    "stft": lambda t: t.stft(M(t, 400), 64, return_complex=True, window=M(t, 64)).abs().sum(0),
    "multinomial": lambda t: t.multinomial(M(t, 2, 5), 3),
    "bernoulli": lambda t: t.bernoulli(M(t, 2, 5)),
    "normal": lambda t: t.normal(M(t, 2), M(t, 2)),
    "exponential_": lambda t: M(t, 3).exponential_(),
    "meshgrid": lambda t: t.meshgrid(M(t, 2), M(t, 3), indexing="ij")[1],
    "scatter_": lambda t: M(t, 3, 4).scatter_(1, L(t, 3, 2), M(t, 3, 2)),
    "index_add_": lambda t: M(t, 3, 4).index_add_(0, L(t, 2), M(t, 2, 4)),
    "view": lambda t: M(t, 4).view(t.int32),
    "real": lambda t: M(t, 3, dtype=t.complex64).real,
    "expand": lambda t: M(t, 1, 3).expand(4, 3),
    "index": lambda t: M(t, 3, 4)[None, :, 1:3],
    "steps": lambda t: M(t, 10)[2:8:3],
    "as_strided": lambda t: M(t, 10).as_strided((2, 2), (3, 1)),
    "Tensor.unfold": lambda t: M(t, 10).unfold(0, 3, 2),
    "channels_last": lambda t: M(t, 2, 3, 4, 4).to(memory_format=t.channels_last),
    "resize_": lambda t: M(t, 3).resize_(2, 4),
    "set_": lambda t: M(t, 3).set_(M(t, 4)),
    "t_": lambda t: M(t, 2, 3).t_(),
    "squeeze_": lambda t: M(t, 1, 3).squeeze_(),
    "out": lambda t: t.add(M(t, 3), M(t, 3), out=M(t, 3)),
    "to other": lambda t: t.ones(2).to(M(t, 3, dtype=t.float16)),
    "type_as": lambda t: t.ones(2).type_as(M(t, 3)),
    "cast": lambda t: M(t, 3).to(t.bfloat16),
    "checkpoint": lambda t: t.utils.checkpoint.checkpoint(
        lambda x: x * 2, M(t, 3), use_reentrant=False
    ),
    "AveragedModel": lambda t: (
        t.optim.swa_utils.AveragedModel(t.nn.Linear(2, 1, device="meta")).module.weight
    ),
}


def described(x):
    assert x.is_meta
    return tuple(x.shape), x.stride(), x.storage_offset(), str(x.dtype), x.requires_grad


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    torch = pytest.importorskip("torch")
    __import__("torch.utils.checkpoint")
    __import__("wend.utils.checkpoint")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert described(CALLS[name](wend)) == described(CALLS[name](torch))


FAULTS = {
    "view": lambda t: M(t, 2, 3).t().view(6),
    "broadcast": lambda t: M(t, 2, 3) + M(t, 2),
    "in place": lambda t: M(t, 3).add_(M(t, 4, 3)),
    "in place cast": lambda t: L(t, 3).add_(M(t, 3)),
    "int leaf": lambda t: L(t, 3).requires_grad_(),
    "gradient": lambda t: setattr(t.nn.Parameter(t.ones(3)), "grad", M(t, 3)),
    "gradient of meta": lambda t: setattr(leaf(t, 3), "grad", t.ones(3)),
    "matmul": lambda t: M(t, 2, 3) @ M(t, 2, 3),
    "index": lambda t: M(t, 3)[5],
    "cat": lambda t: t.cat([M(t, 2, 3), M(t, 2, 4)]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        FAULTS[name](torch)
    with pytest.raises(theirs.type):
        FAULTS[name](wend)


# -- files ----------------------------------------------------------------------------------


def state(t):
    model = t.nn.Linear(2, 3, device="meta")
    return {**model.state_dict(), "turned": M(t, 2, 3, dtype=t.float64).t(), "whole": model.weight}


def same(mine, theirs):
    assert list(mine) == list(theirs)
    for key, x in mine.items():
        assert described(x) == described(theirs[key])


@pytest.mark.parametrize("weights_only", [True, False])
def test_files(tmp_path, weights_only):
    wend.save(state(wend), tmp_path / "state.pt")
    made = wend.load(tmp_path / "state.pt", weights_only=weights_only)
    same(made, state(wend))
    assert isinstance(made["whole"], wend.nn.Parameter)


def test_files_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(state(torch), tmp_path / "theirs.pt")
    wend.save(state(wend), tmp_path / "mine.pt")
    same(wend.load(tmp_path / "theirs.pt"), state(torch))
    same(torch.load(tmp_path / "mine.pt"), state(wend))


@pytest.mark.parametrize("place", ["meta", wend.device("meta")])
@pytest.mark.parametrize("form", [True, False])
def test_loading_without_data(tmp_path, place, form):
    x = wend.arange(6.0).reshape(2, 3)
    kept = {"x": x, "t": x.t(), "p": wend.nn.Parameter(x[1])}
    wend.save(kept, tmp_path / "x.pt", _use_new_zipfile_serialization=form)
    made = wend.load(tmp_path / "x.pt", map_location=place)
    assert all(t.is_meta for t in made.values())
    assert [t.stride() for t in made.values()] == [t.stride() for t in kept.values()]
    assert made["p"].requires_grad


def test_safetensors_without_data(tmp_path):
    from wend.serialization import safetensors

    safetensors.save_file({"x": wend.ones(2, 3)}, tmp_path / "x.safetensors")
    assert described(safetensors.load_file(tmp_path / "x.safetensors", "meta")["x"])[0] == (2, 3)
    with safetensors.SafeFile(tmp_path / "x.safetensors", "meta", backend="mmap") as file:
        assert file.get_tensor("x").is_meta


def test_files_that_lie(tmp_path):
    import pickle

    from wend.serialization import _meanings as meanings

    for size, stride in (((2, 3), (1,)), ((-1,), (1,)), ((2**40, 2**40), (1, 1)), (3, 1)):
        with pytest.raises(pickle.UnpicklingError):
            meanings.rebuild_meta(wend.float32, size, stride, False)
    with pytest.raises(pickle.UnpicklingError):
        meanings.rebuild_meta("float32", (2,), (1,), False)


# -- layers ---------------------------------------------------------------------------------


def test_lazy_layers_and_copies():
    layer = wend.nn.LazyLinear(3, device="meta")
    assert type(layer(M(wend, 2, 5))) is type(M(wend, 2))
    assert isinstance(layer.weight, wend.nn.Parameter)
    assert not isinstance(layer.weight, wend.nn.UninitializedParameter)
    assert copy.deepcopy(layer).weight.is_meta
    assert layer.to_empty(device="cpu")(wend.ones(2, 5)).shape == (2, 3)


def test_compiled_functions():
    assert described(wend.compile(lambda x: x * 2)(M(wend, 3)))[0] == (3,)


def test_types_by_constructor():
    assert not isinstance(M(wend, 3), wend.FloatTensor)
    assert isinstance(wend.ones(3), wend.FloatTensor)


@pytest.mark.parametrize(
    "name", ["Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "Rprop"]
)
def test_further_optimizers(name):
    layer = wend.nn.Linear(3, 2, device="meta")
    optimizer = getattr(wend.optim, name)(layer.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        layer(M(wend, 4, 3)).sum().backward()
        optimizer.step()
    assert described(layer.weight) == ((2, 3), (3, 1), 0, "torch.float32", True)
