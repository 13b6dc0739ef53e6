"""`flex_attention`: functions of scores and masks inside the kernel; masks by blocks."""

import math

import numpy as np
import pytest

import tries
import wend as torch
from wend._engine.base import config
from wend._engine.transforms.pairs import capture
from wend.nn.attention import flex_attention as flex
from wend.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    create_mask,
    flex_attention,
)

try:
    import torch as reference
    from torch.nn.attention import flex_attention as reference_flex
except ImportError:
    reference = None
needs_torch = pytest.mark.skipif(reference is None, reason="PyTorch is not installed")

BATCH, HEADS = 2, 3
RNG = np.random.default_rng(0)
DOCUMENT = np.sort(RNG.integers(0, 5, size=700))
SLOPES = (2.0 ** -np.arange(1, HEADS + 1)).astype(np.float32)
BY_DISTANCE = RNG.normal(size=(HEADS, 1400)).astype(np.float32)
BY_PAIR = RNG.normal(size=(HEADS, 700, 700)).astype(np.float32)
SHOWN = RNG.normal(size=(700, 700)) > 0
CAP = np.float32(2.5)


def functions(torch, tensor):
    """(score, mask) by name: each gets tensors of numbers, as in both packages."""
    document, slopes, distance, by_pair, shown, cap = map(
        tensor, (DOCUMENT, SLOPES, BY_DISTANCE, BY_PAIR, SHOWN, np.asarray(CAP))
    )

    def causal(b, h, q, kv):
        return q >= kv

    def window(b, h, q, kv):
        return (q >= kv) & (q - kv <= 40)

    def documents(b, h, q, kv):
        return document[q] == document[kv]

    def prefix(b, h, q, kv):
        return (kv < 17) | causal(b, h, q, kv)

    def few(b, h, q, kv):
        return (q > 100) & (q >= kv) & (b == h)

    def squares(b, h, q, kv):  # images of 16 columns, as in neighbourhood attention
        return ((q // 16 - kv // 16).abs() <= 2) & ((q % 16 - kv % 16).abs() <= 2)

    def alibi(s, b, h, q, kv):
        return s + slopes[h] * (kv - q)

    def capped(s, b, h, q, kv):
        return 20 * torch.tanh(s / 20)

    def by_tensor(s, b, h, q, kv):
        return cap * torch.tanh(s / cap) * (1 + b)

    def relative(s, b, h, q, kv):
        return s + distance[h, q - kv + 700]

    def dense(s, b, h, q, kv):
        return torch.where(shown[q, kv], s + by_pair[h, q, kv], -float("inf"))

    def softened(s, b, h, q, kv):
        return torch.nn.functional.softplus(s) - (q - kv).abs().float().sqrt() * 0.1

    def constant(s, b, h, q, kv):
        return (kv * 0.01 + h).to(s.dtype)

    return {
        "nothing": (None, None),
        "causal": (None, causal),
        "window": (None, window),
        "documents": (None, documents),
        "prefix": (None, prefix),
        "few": (None, few),
        "squares": (None, squares),
        "alibi": (alibi, causal),
        "capped": (capped, None),
        "by tensor": (by_tensor, documents),
        "relative": (relative, window),
        "dense": (dense, None),
        "softened": (softened, causal),
        "constant": (constant, causal),
    }


KINDS = list(functions(torch, torch.tensor))


def operands(rows, columns, depth=16, width=24, dtype=np.float32, batch=BATCH):
    rng = np.random.default_rng(1)
    sizes = ((rows, depth), (columns, depth), (columns, width))
    return [torch.tensor(rng.normal(size=(batch, HEADS, *s)).astype(dtype)) for s in sizes]


def on_all_pairs(q, k, v, score, block, scale):
    return flex._on_all_pairs(q, k, v, score, block, scale)[:2]


def results(run, q, k, v):
    rows = [x.detach().requires_grad_() for x in (q, k, v)]
    y, lse = run(*rows)
    weights = torch.arange(1, y.shape[-1] + 1) / y.shape[-1]
    hidden = torch.isinf(lse)
    total = (y * weights).sum() + torch.where(hidden, 0.0, lse).sum()
    grads = torch.autograd.grad(total, rows, materialize_grads=True)
    return [x.detach().double().numpy() for x in (y, lse, *grads)]


SIZES = [(1, 40), (3, 5), (70, 70), (200, 330), (300, 129), (512, 512)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [True, False])
def test_results_and_gradients_are_those_of_all_pairs(kind, sizes, compiled):
    q, k, v = operands(*sizes)
    score, mask = functions(torch, torch.tensor)[kind]
    block = None
    if mask is not None:
        many = (BATCH, HEADS) if kind == "few" else (None, None)
        block = create_block_mask(mask, *many, *sizes, BLOCK_SIZE=(32, 48))
    calls = []

    def run(q, k, v):
        calls.append(capture(score, mask, torch.float32))
        return flex_attention(q, k, v, score, block, scale=0.3, return_lse=True)

    with config.override(compile=compiled, wait=True, verify=False):
        found = results(run, q, k, v)
    expected = results(lambda *x: on_all_pairs(*x, score, block, 0.3), q, k, v)
    assert None not in calls
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@needs_torch
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_pytorchs(kind):
    arrays = [x.numpy() for x in operands(150, 150)]
    found = []
    for package, module, tensor in (
        (torch, flex, torch.tensor),
        (reference, reference_flex, reference.tensor),
    ):
        score, mask = functions(package, tensor)[kind]
        block = None
        if mask is not None:
            many = (BATCH, HEADS) if kind == "few" else (None, None)
            block = module.create_block_mask(mask, *many, 150, 150, device="cpu")
        rows = [package.from_numpy(a) for a in arrays]
        y, lse = module.flex_attention(*rows, score, block, return_lse=True)
        found.append((y.numpy(), lse.numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["window", "alibi", "capped"])
def test_other_types(dtype, kind):
    wide = operands(70, 90, dtype=np.float64)
    score, mask = functions(torch, torch.tensor)[kind]
    block = None if mask is None else create_block_mask(mask, None, None, 70, 90)
    with config.override(compile=True, wait=True):
        narrow = [x.to(getattr(torch, dtype)) for x in wide]
        found = results(lambda *x: flex_attention(*x, score, block, return_lse=True), *narrow)
        expected = results(lambda *x: flex_attention(*x, score, block, return_lse=True), *wide)
    tolerance = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for a, b in zip(found, expected, strict=True):
        scale = np.abs(b[np.isfinite(b)]).max()
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("kind", ["window", "alibi", "capped", "softened"])
def test_second_derivatives(kind):
    score, mask = functions(torch, torch.tensor)[kind]
    block = None if mask is None else create_block_mask(mask, None, None, 6, 7)
    rows = [x.requires_grad_() for x in operands(6, 7, 3, 2, np.float64)]

    def gradients(run):
        y = run(*rows)[0]
        first = torch.autograd.grad(y.square().sum(), rows, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), rows)

    found = gradients(lambda *x: flex_attention(*x, score, block, scale=0.3, return_lse=True))
    expected = gradients(lambda *x: on_all_pairs(*x, score, block, 0.3))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-11)


def test_a_function_that_learns():
    bias = torch.zeros(2 * 20, requires_grad=True)
    q, k, v = operands(20, 20)
    y = flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[i - j + 20])
    (g,) = torch.autograd.grad(y.square().sum(), bias)
    assert g.abs().sum() > 0 and g[0] == 0
    with torch.no_grad():
        same = flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[i - j + 20])
    np.testing.assert_allclose(same.numpy(), y.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_numbers_and_tensors_change_from_call_to_call():
    q, k, v = operands(40, 40)
    with config.override(compile=True, wait=True):
        for step in range(5):
            slope, wide = 0.1 * step, torch.full((HEADS,), float(step))
            score = lambda s, b, h, i, j, a=slope, w=wide: s * a + w[h] * (i - j)  # noqa: E731
            y = flex_attention(q, k, v, score, scale=0.3)
            z = on_all_pairs(q, k, v, score, None, 0.3)[0]
            np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-4, atol=1e-5)


def test_functions_that_need_a_value_and_that_are_not_elementwise():
    q, k, v = operands(9, 9)

    def looks(s, b, h, i, j):
        np.testing.assert_allclose(float(s.sum()), s.detach().numpy().sum(), rtol=1e-4)
        return s * 2

    def sums(s, b, h, i, j):
        return s + s.detach().sum() * 0 + torch.cumsum(i * 0, 0)

    for score in (looks, sums):
        assert capture(score, None, torch.float32) is None
        y = flex_attention(q, k, v, score)
        assert y.shape == (BATCH, HEADS, 9, 24) and torch.isfinite(y).all()


def test_a_tensor_indexed_beyond_its_end():
    q, k, v = operands(20, 20)
    table = torch.arange(10)
    for compiled in (False, True):
        with (
            config.override(compile=compiled, wait=True),
            pytest.raises(IndexError, match="out of"),
        ):
            flex_attention(q, k, v, lambda s, b, h, i, j: s + table[j]).numpy()


def test_other_results_and_shared_heads():
    q, k, v = operands(30, 40)
    y, lse = flex_attention(q, k, v, return_lse=True)
    z, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True))
    np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(lse.numpy(), aux.lse.numpy(), rtol=1e-5)
    scores = q @ k.transpose(-1, -2) / 4
    np.testing.assert_allclose(aux.max_scores.numpy(), scores.amax(-1).numpy(), rtol=1e-5)
    one = flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True)
    shared = flex_attention(q, *(x[:, :1].expand(-1, HEADS, -1, -1) for x in (k, v)))
    np.testing.assert_allclose(one.numpy(), shared.numpy(), rtol=1e-5)
    single = flex_attention(q, k[:1], v[:1])
    np.testing.assert_allclose(single[0].numpy(), y[0].numpy(), rtol=1e-4, atol=1e-6)


def test_under_vmap_and_in_an_exported_graph():
    q, k, v = operands(8, 9)
    score, mask = functions(torch, torch.tensor)["alibi"]
    block = create_block_mask(mask, None, None, 8, 9)
    y = flex_attention(q, k, v, score, block)
    rows = [x.unsqueeze(1) for x in (q, k, v)]
    mapped = torch.vmap(lambda *x: flex_attention(*x, score, block))(*rows)
    np.testing.assert_allclose(mapped.squeeze(1).numpy(), y.numpy(), rtol=1e-4, atol=1e-6)
    traced = torch.jit.trace(lambda *x: flex_attention(*x, score, block), (q, k, v))
    np.testing.assert_allclose(traced(q, k, v).numpy(), y.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v, m: (q[0], k, v, m), "have four dims"),
        (lambda q, k, v, m: (q, k.double(), v, m), "to have the same dtype"),
        (lambda q, k, v, m: (q, k[:, :1], v[:, :1], m), "set enable_gqa=True"),
        (lambda q, k, v, m: (q, k[..., :3], v, m), "do not fit"),
        (lambda q, k, v, m: (q[:, :, :10], k, v, m), r"_adjust\(q_len, kv_len\)"),
        (lambda q, k, v, m: (q[:1].expand(3, -1, -1, -1), k, v, m), "the batch of the query"),
    ],
)
def test_operands_that_do_not_fit(change, message):
    q, k, v = operands(20, 20)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 20, 20)
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
        q, k, v, mask = change(q, k, v, mask)
        flex_attention(q, k, v, block_mask=mask)


LISTS = [
    f"{full}{side}_{what}"
    for full in ("", "full_")
    for side in ("kv", "q")
    for what in ("num_blocks", "indices")
]


@needs_torch
@pytest.mark.parametrize("kind", ["causal", "window", "documents", "prefix", "few"])
@pytest.mark.parametrize("sizes", [(300, 300), (70, 500)])
def test_lists_of_blocks_are_pytorchs(kind, sizes):
    found = []
    for package, module in ((torch, flex), (reference, reference_flex)):
        mask = functions(package, package.tensor)[kind][1]
        many = (BATCH, HEADS) if kind == "few" else (None, None)
        block = module.create_block_mask(mask, *many, *sizes, device="cpu", BLOCK_SIZE=64)
        cut = block._adjust(64, 128)
        rows = [getattr(block, name).numpy() for name in LISTS]
        rows += [block.to_dense().numpy(), np.float64(block.sparsity()), np.array(block.shape)]
        part = block[:1, :1]
        rows += [part.kv_num_blocks.numpy(), part.to_dense().numpy(), np.array(part.shape)]
        rows += [np.array(cut.shape)]
        found.append(rows)
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_a_mask_for_other_lengths_and_a_part_of_a_mask():
    mask = functions(torch, torch.tensor)["window"][1]
    block = create_block_mask(mask, None, None, 300, 300, BLOCK_SIZE=64)
    cut = block._adjust(100, 200)
    whole = create_block_mask(mask, None, None, 100, 200, BLOCK_SIZE=64)
    np.testing.assert_array_equal(cut.to_dense().numpy(), whole.to_dense().numpy())
    q, k, v = operands(64, 300)
    part = block[:, :, 1]
    assert part.shape == (1, 1, 64, 300)
    with pytest.raises(RuntimeError, match="set mask_mod"):
        flex_attention(q, k, v, block_mask=part)
    part.mask_mod = lambda b, h, i, j: mask(b, h, i + 64, j)
    y = flex_attention(q, k, v, block_mask=part)
    expected = on_all_pairs(q, k, v, None, part, 0.25)[0]
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_a_mask_from_lists_of_blocks():
    counts = torch.tensor([[[1, 2]]], dtype=torch.int32)
    columns = torch.tensor([[[[1, 0, 2], [2, 0, 1]]]], dtype=torch.int32)
    full = torch.tensor([[[1, 0]]], dtype=torch.int32)
    whole = torch.tensor([[[[2, 0, 1], [0, 1, 2]]]], dtype=torch.int32)
    near = lambda b, h, q, kv: (q - kv) % 2 == 0  # noqa: E731
    block = BlockMask.from_kv_blocks(
        counts, columns, full, whole, BLOCK_SIZE=8, mask_mod=near, seq_lengths=(14, 20)
    )
    table = np.array([[0, 1, 2], [1, 0, 1]])
    assert block.table[0, 0].tolist() == table.tolist() and block.shape == (1, 1, 14, 20)
    i, j = np.indices((14, 20))
    entry = table[i // 8, j // 8]
    shown = (entry == 2) | ((entry == 1) & ((i - j) % 2 == 0))
    np.testing.assert_array_equal(block.create()[0, 0].numpy(), shown)
    q, k, v = operands(14, 20)
    y = flex_attention(q, k, v, block_mask=block)
    scores = (q @ k.transpose(-1, -2) / 4).masked_fill(~torch.tensor(shown), -math.inf)
    np.testing.assert_allclose(y.numpy(), (scores.softmax(-1) @ v).numpy(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="must be both provided"):
        BlockMask.from_kv_blocks(counts, columns, full)


def test_scores_of_all_pairs_are_not_kept():
    """The kernels' memory grows with the rows, not with the pairs."""
    score, mask = functions(torch, torch.tensor)["alibi"]
    q, k, v = (x.requires_grad_() for x in operands(600, 600, batch=1))
    block = create_block_mask(mask, None, None, 600, 600)
    with config.override(compile=True, wait=True, verify=False), tries.own_trie():
        for _ in range(2):
            y = flex_attention(q, k, v, score, block)
            y.sum().backward()
            torch.synchronize()
        flushes = torch.debug.explain().flushes
    plans = [flush.plan for flush in flushes if flush.plan is not None]
    steps = [s for plan in plans if plan.compiled for s in plan.compiled.code.steps]
    assert {"attend", "attend_backward"} <= {step.name for step in steps}
    assert create_mask(mask, None, None, 5, 6).shape == (1, 1, 5, 6)
