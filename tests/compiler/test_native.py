"""Ops that have generated code of their own: every sample of the registry, in every dtype.

`NATIVE` says for which ops no sample may be left to the reference rule in a plan.
"""

import harness
import numpy as np
import pytest

import wend as torch
from tries import new_trie
from wend._engine.base import config, dtypes
from wend._engine.compiler.lower.lowering import Lowering

NATIVE = """
    arange uniform standard_normal random_bits random_integers flip pad cat roll
    amax amin sum prod argmax argmin max_dim min_dim
    index_select gather index scatter_add index_add index_put
    cumsum cumprod cummax cummin logcumsumexp linear_scan max_windows patches unpatches
""".split()
#: Samples that stay with the reference, by op: 0-d operands, several index tensors, sources larger
#: than their index, assignment, and rolls over more dims as one.
LEFT = {
    "argmax": 2, "argmin": 2, "cat": 1, "gather": 3, "index": 4, "index_add": 1, "index_put": 9,
    "index_select": 2, "max_dim": 1, "min_dim": 1, "roll": 3, "scatter_add": 4,
    "cumsum": 1, "cumprod": 1, "cummax": 1, "cummin": 1, "linear_scan": 1, "logcumsumexp": 1,
}  # fmt: skip
DTYPES = [d for d in harness.REAL if d.name not in ("int8", "int16", "uint8")]


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run."""
    with config.override(compile=True, wait=True, verify=False):
        yield


def params():
    return [
        pytest.param(op, dtype, id=f"{op.name}-{dtype.name}")
        for op in harness.PRIMITIVES
        if op.name in NATIVE
        for dtype in DTYPES
        if dtype in harness.supported(op)
    ]


def plain(function, sample):
    """The results of a call as arrays."""
    moved = harness.map_arrays(sample, harness.tensor)
    results = harness.as_tuple(function(*moved.args, **moved.kwargs))
    return [harness.value(r) for r in results]


def planned(op, sample, monkeypatch):
    """(results by machine code, names of the ops that were left to their reference rules)."""
    left = []
    real = Lowering.host

    def spy(lowering, node, *rest):
        left.append(node.prim.name)
        return real(lowering, node, *rest)

    new_trie()
    with monkeypatch.context() as patch:
        patch.setattr(Lowering, "host", spy)
        return plain(op.function, sample), left


@pytest.mark.parametrize(("op", "dtype"), params())
def test_samples_by_machine_code(op, dtype, monkeypatch):
    faults, hosts = [], []
    for sample in harness.samples(op, dtype):
        with config.override(compile=False, wait=False):
            new_trie()
            expected = plain(op.function, sample)
        got, left = planned(op, sample, monkeypatch)
        hosts += [sample] if left else []
        differences = [harness.difference(a, b) for a, b in zip(got, expected, strict=True)]
        faults += [f"{sample}: {fault}" for fault in differences if fault]
    assert not faults, "\n".join(faults)
    if dtype.category == dtypes.FLOAT or not op.facts.supports & {"float"}:
        assert len(hosts) <= LEFT.get(op.name, 0), f"left to the reference: {hosts}"


def test_the_gradient_of_a_loss_that_was_read_is_machine_code(monkeypatch):
    """Its flush knows no more that there is one answer for each row of scores."""
    scores = np.random.default_rng(3).normal(size=(7, 5))
    answers = torch.tensor([1, 0, 4, 4, 2, 3, 0])
    left, found = [], []
    real = Lowering.host

    def spy(lowering, node, *rest):
        left.append(node.prim.name)
        return real(lowering, node, *rest)

    monkeypatch.setattr(Lowering, "host", spy)
    for read in (False, True):
        new_trie()
        x = torch.tensor(scores, requires_grad=True)
        loss = torch.nn.functional.cross_entropy(x, answers)
        if read:
            loss.item()
        loss.backward()
        found.append(x.grad.numpy())
    assert not left
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_uniform_draws_are_the_references_bit_for_bit():
    for size in [(1,), (5, 7), (3, 130), (2, 3, 64), (70, 1)]:
        for dtype in ("float32", "float64", "float16", "bfloat16"):
            draw = harness.wend._engine.core.primitive.ops.uniform
            given = {"dtype": getattr(torch, dtype)}
            with config.override(compile=False, wait=False):
                new_trie()
                expected = harness.value(draw(size, 7, 2**40 + 3, **given))
            new_trie()
            assert np.array_equal(harness.value(draw(size, 7, 2**40 + 3, **given)), expected)


def with_special_values(*shape, seed=0):
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    flat = x.reshape(-1)
    places = slice(3, None, max(1, x.size // 5))
    flat[places] = np.resize([-0.0, np.inf, -np.inf, np.nan], flat[places].shape)
    return x


CALLS = {
    "cumsum rows": lambda x: x.cumsum(1),
    "cumsum columns": lambda x: x.cumsum(0),
    "cummax columns": lambda x: x.cummax(0),
    "cummin rows": lambda x: x.cummin(1),
    "of a transpose": lambda x: x.t().cumsum(0),
    "max": lambda x: x.max(1),
    "max of columns": lambda x: x.max(0),
    "argmin": lambda x: x.argmin(),
    "cat": lambda x: torch.cat([x, x[:, :1], x.flip(1)], 1),
    "stack": lambda x: torch.stack([x, x + 1]),
    "pad": lambda x: torch.nn.functional.pad(x, (2, -1, -1, 3), value=7),
    "roll": lambda x: x.roll((2, -3), (0, 1)),
    "flip": lambda x: (x.flip(0, 1) * 2).t(),
    "rows": lambda x: x[torch.tensor([0, -1, 0])],
    "columns": lambda x: x.index_select(1, torch.tensor([1, 0])),
}


@pytest.mark.parametrize("shape", [(2, 2), (37, 130), (5, 1000), (129, 3)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_sizes_and_special_values(name, shape):
    x = torch.from_numpy(with_special_values(*shape))
    call = CALLS[name]
    with config.override(compile=False, wait=False):
        new_trie()
        expected = [harness.value(r) for r in harness.as_tuple(call(x))]
    new_trie()
    got = [harness.value(r) for r in harness.as_tuple(call(x))]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("indices", [False, True], ids=["values", "with indices"])
def test_greatest_of_windows(dtype, indices):
    """Neighbouring and gathered elements, with and without the ends of rows, up to the last one."""
    pool = torch.nn.functional.max_pool2d
    for width in (2, 5, 15, 16, 17, 31, 32, 33, 34, 67):
        x = torch.from_numpy(with_special_values(3, 2, 7, width, seed=width))
        x = torch.nan_to_num(x, 7, 250, 0).abs() if dtype in ("int32", "uint8") else x
        x = x.to(getattr(torch, dtype))
        for how in (
            (2, 2),
            (2, 1),
            ((3, 2), 2, 1),
            ((2, 1), (1, 3)),
            (1, 2, 0, 1),
            (2, 2, 1, (1, 3)),
        ):
            if width < 5 and len(how) == 4:
                continue
            found = []
            for compile in (False, True):
                with config.override(compile=compile, wait=compile):
                    new_trie()
                    results = pool(x, *how, return_indices=indices)
                    found.append([harness.value(r) for r in harness.as_tuple(results)])
            for a, b in zip(*found, strict=True):
                a, b = a.astype(np.float64), b.astype(np.float64)  # NumPy knows no NaN of bfloat16
                np.testing.assert_array_equal(a, b, err_msg=f"{width} {how}")
