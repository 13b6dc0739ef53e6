"""What is computed on a product's tiles: the same numbers as without products, wherever it lies."""

import numpy as np
import pytest
from test_pipeline import code_of, compared, normal

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import CONTRACT, CONVOLVE

SIZES = [(1, 1, 1), (2, 3, 5), (8, 48, 16), (17, 49, 33), (70, 310, 20), (3, 20, 1300), (40, 64, 7)]


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run, and checked; on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def tails(made):
    """Names of the ops behind each product of a compiled path."""
    kinds = (CONTRACT, CONVOLVE)
    return [
        [op.name for op in step.ops if op.kind not in kinds]
        for step in made.steps
        if isinstance(step, Kernel) and any(op.kind in kinds for op in step.ops)
    ]


def weight(*shape, **given):
    """Numbers of a size that leaves sums of products near 1."""
    return normal(*shape, **given) / max(shape[-1], 1) ** 0.5


ACTIVATIONS = {
    "none": lambda h: h,
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh gelu": lambda h: F.gelu(h, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky": lambda h: F.leaky_relu(h, 0.1),
    "scale": lambda h: h * 0.37,
    "clamp": lambda h: h.clamp(-0.5, 0.5),
}


def test_a_bias_and_an_activation_need_no_kernel_of_their_own():
    x, w, b = normal(5, 7, 40), normal(70, 40, seed=1), normal(70, seed=2)
    made, _ = code_of(lambda: F.relu(F.linear(x, w, b)))
    assert tails(made) == [["add", "relu"]] and len(made.steps) == 1


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_forward(name):
    for rows, columns, depth in SIZES:
        x, w, b = normal(rows, depth), weight(columns, depth, seed=1), normal(columns, seed=2)
        compared(lambda x=x, w=w, b=b: [ACTIVATIONS[name](F.linear(x, w, b))])


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations_backward(name, dtype):
    for rows, columns, depth in SIZES[:5]:
        x = normal(rows, depth, dtype=dtype).requires_grad_()
        w = weight(columns, depth, seed=1, dtype=dtype).requires_grad_()
        b = normal(columns, seed=2, dtype=dtype).requires_grad_()
        v = weight(depth, columns, seed=3, dtype=dtype).requires_grad_()
        leaves = [x, w, b, v]

        def run(leaves=leaves):
            for leaf in leaves:
                leaf.grad = None
            x, w, b, v = leaves
            y = F.linear(ACTIVATIONS[name](F.linear(x, w, b)), v)
            y.square().mean().backward()
            return [y, *(leaf.grad for leaf in leaves)]

        compared(run)


def test_the_gradient_of_an_activation_is_computed_on_the_tiles():
    x, w, v = normal(9, 20), normal(30, 20, seed=1), normal(10, 30, seed=2)
    w.requires_grad_()
    v.requires_grad_()

    def run():
        w.grad = v.grad = None
        F.linear(torch.tanh(F.linear(x, w)), v).sum().backward()
        return w.grad

    made, _ = code_of(run)
    assert any("mul" in tail for tail in tails(made))


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
def test_a_derivative_is_computed_where_its_activation_is(read):
    """GELU and its derivative share most of their work; one is kept in the place of their operand.

    If something else reads the operand behind the product, the derivative waits.
    """
    x, a, b = (weight(33, 40), weight(70, 40, seed=1), weight(20, 70, seed=2))
    for w in (a, b):
        w.requires_grad_()

    def step():
        h = F.linear(x, a)
        y = F.linear(F.gelu(h), b)
        if read:
            y = y.square().sum() + (y @ y.T @ h).sum()
        return torch.autograd.grad(y.sum(), (a, b))

    made, _ = code_of(step)
    first = ["normal_gate"] if read else ["normal_gate", "normal_slope"]
    assert tails(made)[0] == first
    assert sum("normal_slope" in tail for tail in tails(made)) == 1
    compared(step)


BIASES = [(6, 50), (50,), (1,), (), (6, 1), (1, 50), (3, 6, 50), (3, 1, 1), (3, 6, 1), (1, 1, 50)]


@pytest.mark.parametrize("shape", BIASES, ids=str)
def test_whatever_broadcasts(shape):
    x, w = normal(3, 6, 20), weight(50, 20, seed=1)
    b = normal(*shape, seed=2) if shape else torch.tensor(0.7)
    compared(lambda: [torch.tanh(F.linear(x, w)) * b + 1, F.linear(x, w) / (b * b + 1)])


@pytest.mark.parametrize("shape", BIASES[:6], ids=str)
def test_gradients_of_what_broadcasts(shape):
    x, w = normal(6, 20), weight(50, 20, seed=1).requires_grad_()
    b = (normal(*shape, seed=2) if shape else torch.tensor(0.7)).requires_grad_()

    def run():
        w.grad = b.grad = None
        y = torch.tanh(F.linear(x, w) * b + b)
        (y @ y.T).mean().backward()
        return [y, w.grad, b.grad]

    compared(run)


RESIDUALS = {
    "dense": lambda r: r,
    "transposed": lambda r: r.transpose(1, 2).contiguous().transpose(1, 2),
    "every second": lambda r: torch.cat([r, r], 2)[:, :, ::2],
    "reversed": lambda r: r.flip(1),
    "a part": lambda r: torch.cat([r, r, r], 1)[:, 3:9],
    "a column for all": lambda r: r[:, :, :1].expand(3, 6, 50),
    "a row for all": lambda r: r[:, :1].expand(3, 6, 50),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residuals_as_they_lie(name):
    x, w, r = normal(3, 6, 20), weight(50, 20, seed=1), normal(3, 6, 50, seed=2)
    compared(lambda: [F.linear(x, w) + RESIDUALS[name](torch.tanh(r))])
    compared(lambda: [F.linear(x, w) - RESIDUALS[name](r) * 2])


def test_a_product_added_to_another():
    x, w, v = normal(6, 20), weight(50, 20, seed=1), weight(50, 20, seed=2)
    made, _ = code_of(lambda: F.linear(x, w) + torch.tanh(F.linear(x, v)))
    assert len(made.steps) == 2
    compared(lambda: [F.linear(x, w) + torch.tanh(F.linear(x, v))])


def test_a_mask_of_booleans():
    x, w, m = normal(6, 20), weight(50, 20, seed=1), normal(6, 50, seed=2)
    keep = torch.tanh(m) > 0
    compared(lambda: [torch.where(keep, F.linear(x, w), torch.zeros(())), F.linear(x, w) > 0.5])


def test_scores_of_all_heads():
    for n, t in [(1, 1), (2, 9), (3, 70)]:
        q, k = normal(n, t, 4, 8), normal(n, t, 4, 8, seed=1)
        mask = torch.ones(t, t).tril() == 0

        def run(q=q, k=k, mask=mask):
            scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * 0.35
            weights = scores.masked_fill(mask, -1e9).softmax(-1)
            return [(weights @ k.transpose(1, 2)).transpose(1, 2).reshape(-1, 32) * 2]

        compared(run)


def test_the_product_is_kept_where_it_is_read_as_well():
    x, w = normal(6, 20), weight(50, 20, seed=1)

    def run():
        y = F.linear(x, w)
        return [y, F.relu(y), y.sum(0), torch.exp(y)]

    compared(run)


def test_results_in_other_dtypes():
    x, w = normal(6, 20), weight(50, 20, seed=1)
    with config.override(verify=False):  # which would ask for float64's precision
        compared(lambda: [F.linear(x, w).double() * 2, F.linear(x, w) > 0])
    compared(lambda: [F.linear(x, w).half(), F.linear(x, w).bfloat16().float()])


def test_depth_in_blocks_with_and_without_a_place_for_partial_sums():
    x, w = normal(9, 2500), weight(70, 2500, seed=1)
    compared(lambda: [F.linear(x, w) * 0.1 + 1])
    compared(lambda: [F.linear(x, w) > 1])


@pytest.mark.parametrize("rows", [0, 1, 2, 12])
def test_few_rows(rows):
    w, b = normal(50, 30, seed=1), normal(50, seed=2)
    for depth in (0, 1, 30):
        x, v = normal(rows, depth), w[:, :depth]
        compared(lambda x=x, v=v: [F.relu(F.linear(x, v, b)), F.linear(x, v, b) * 2 + 1])


def test_sizes_change_without_compiling():
    from wend._engine.compiler.llvm_ir import jit

    w, b = normal(50, 30, seed=1), normal(50, seed=2)

    def run(rows):
        x = normal(rows, 30, seed=rows)
        return F.gelu(F.linear(x, w, b)).numpy()

    run(5)
    before = jit.counters.compiled + jit.counters.loaded
    for rows in (2, 3, 4, 17, 300):
        run(rows)
    assert jit.counters.compiled + jit.counters.loaded == before


def test_weights_stay_packed_behind_a_tail():
    w, b = normal(50, 30, seed=1).clone(), normal(50, seed=2)
    x = normal(5, 30)
    made = [F.gelu(F.linear(x, w, b)).numpy() for _ in range(4)]
    for y in made[1:]:
        np.testing.assert_allclose(y, made[0], rtol=1e-5, atol=1e-6)


# -- convolutions -------------------------------------------------------------------------------

GEOMETRIES = [
    {},
    {"stride": 2, "padding": 1},
    {"padding": 2, "dilation": 2},
    {"groups": 2, "padding": 1},
    {"groups": 4},
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("size", [(1, 9, 7), (2, 20, 33), (1, 3, 3)])
def test_norm_activation_and_residual_behind_a_convolution(geometry, size):
    n, height, width = size
    if geometry.get("dilation") and height < 5:
        geometry = {**geometry, "padding": 4}
    w = normal(8, 4 // geometry.get("groups", 1), 3, 3, seed=1)
    x, b = normal(n, 4, height, width), normal(8, seed=2)
    mean, var = normal(8, seed=3), normal(8, seed=4).abs() + 0.5
    shape = F.conv2d(x, w, b, **geometry).shape
    r = normal(*shape, seed=5)

    def run():
        y = F.conv2d(x, w, b, **geometry)
        y = F.batch_norm(y, mean, var, b, var, training=False)
        return [F.relu(y + torch.tanh(r))]

    compared(run)


@pytest.mark.parametrize("channels", [3, 16])
def test_rows_of_any_length_behind_a_convolution(channels):
    w, b = weight(17, channels, 3, 3), normal(17, seed=1)
    for width in range(1, 36):
        x = normal(1, channels, 12, width, seed=2)
        compared(lambda x=x: [F.relu(F.conv2d(x, w, b, padding=1)), F.conv2d(x, w, padding=1)])


def test_a_norm_and_an_activation_need_no_kernel_behind_a_convolution():
    conv, norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8).eval()
    x = normal(2, 3, 9, 11)
    with torch.no_grad():
        made, _ = code_of(lambda: F.relu(norm(conv(x))))
    assert tails(made)[0][-1] == "relu"


def test_training_through_convolutions():
    w, v = normal(6, 3, 3, 3, seed=1).requires_grad_(), normal(4, 6, 3, 3, seed=2).requires_grad_()
    b, x = normal(6, seed=3).requires_grad_(), normal(2, 3, 8, 9)

    def run():
        w.grad = v.grad = b.grad = None
        y = F.conv2d(F.relu(F.conv2d(x, w, b, padding=1)), v, stride=2)
        y.square().mean().backward()
        return [y, w.grad, v.grad, b.grad]

    compared(run)


def test_one_dim():
    w, b, x = normal(6, 3, 3, seed=1), normal(6, seed=2), normal(2, 3, 40)
    compared(lambda: [F.silu(F.conv1d(x, w, b, padding=1)) * 2])


def test_a_softmax_in_the_backward_pass_keeps_no_more_than_it_must():
    """What reads a sum over a product's result can be no tail of it: the product is stored once."""
    q, k, v = (normal(3, 2, 17, 8, seed=i).requires_grad_() for i in range(3))
    seed = normal(3, 2, 17, 8, seed=3)

    def run():
        weights = torch.softmax(q @ k.transpose(-1, -2), dim=-1)
        return list(torch.autograd.grad(weights @ v, (q, k, v), seed))

    compared(run)
    made, _ = code_of(run)
    stored = [step.writes for step in made.steps if CONTRACT in [op.kind for op in step.ops]]
    assert stored and all(len(writes) == 1 for writes in stored)


def test_checks_of_values_are_no_part_of_an_epilogue():
    """The loss needs all its values between 0 and 1, and an epilogue has no place for a failure."""
    generator = np.random.default_rng(0)
    x, w = (generator.normal(size=(4, 4)).astype(np.float32) for _ in range(2))
    target = (generator.normal(size=(4, 4)) > 0).astype(np.float32)

    def loss(scale):
        y = torch.sigmoid(torch.tensor(x) @ torch.tensor(w)) * scale
        return float(F.binary_cross_entropy(y, torch.tensor(target)))

    before = len(torch.debug.explain().failures)
    with config.override(compile=True, wait=True):
        y = 1 / (1 + np.exp(-(x.astype(np.float64) @ w)))
        expected = -np.mean(target * np.log(y) + (1 - target) * np.log(1 - y))
        assert loss(1.0) == pytest.approx(expected, rel=1e-5)
        with pytest.raises(torch.errors.ExecutionError, match="between 0 and 1"):
            loss(9.0)
    assert len(torch.debug.explain().failures) == before
