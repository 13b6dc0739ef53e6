"""Paths as machine code: the same numbers as the reference, for all sizes, without recompiling."""

import gc

import numpy as np
import pytest

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.codegen.nest import NestCode
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.pipeline import compile_path
from wend._engine.compiler.stages import finished
from wend._engine.core import _hot
from wend._engine.core.primitive import ops
from wend._engine.runtime import flush
from wend._engine.runtime.native.launcher import launcher


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run, and checked against the reference."""
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def last_plan(run, seen=None):
    """The plan of the last flush of `run`, and what it returned. seen: gets the plans of all."""
    seen = [] if seen is None else seen
    real = _hot.slot("execute")

    def spy(batch, live):
        seen.append(flush.find_plan(batch, live))
        real(batch, live)

    torch.synchronize()
    _hot.set_slot("execute", spy)
    try:
        result = run()
        torch.synchronize()
    finally:
        _hot.set_slot("execute", real)
    return seen[-1], result


def code_of(run):
    """The compiled path of the last flush of `run`, and what it returned."""
    plan, result = last_plan(run)
    reference = plan.reference
    needed = reference.wanted | reference.saved
    return finished(compile_path(reference.path, needed)), result


def compared(run):
    """What `run` gives with machine code; the reference gives the same."""
    before = launcher.runs()
    found = [x.detach().numpy().copy() for x in run()]
    assert launcher.runs() > before
    with config.override(compile=False, wait=False), own_trie():
        expected = [x.detach().numpy().copy() for x in run()]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5, equal_nan=True)
    return found


def normal(*shape, seed=0, dtype=np.float32):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


@pytest.mark.smoke
def test_a_chain_and_its_gradient_are_one_kernel():
    x, y = normal(8, 8).requires_grad_(), normal(8, 8, seed=1).requires_grad_()

    def run():
        h = x
        for _ in range(4):
            h = torch.tanh(h * y + x) - y
        loss = h.sum()
        loss.backward()
        return loss

    made, _ = code_of(run)
    assert len(made.steps) == 1 and len(made.regions) == 1


def test_passes_can_be_printed_and_verified():
    x, w = normal(6, 5), normal(4, 5, seed=1)
    made, _ = code_of(lambda: torch.softmax(F.relu(F.linear(x, w)), dim=1))
    made.function.verify()
    assert "contract" in repr(made.function) and "fold amax" in repr(made.function)
    assert [r.kind for r in made.regions] == ["contract", "nest"]
    nest = made.steps[1].nest
    assert "phase 2" in repr(nest), "softmax: greatest, sum, quotient"
    assert "relu" in repr(made)


def test_a_sum_over_dims_that_lie_apart_is_a_kernel():
    """The gradient of a matrix that multiplies a batch of others from the left."""
    w, x = normal(4, 5).requires_grad_(), normal(3, 5, 6, seed=1).requires_grad_()

    def run():
        return torch.autograd.grad((w @ x).square().sum(), (w, x))

    made, _ = code_of(run)
    assert all(isinstance(step, Kernel) for step in made.steps)
    product = np.einsum("ij,bjk->bik", w.detach().numpy(), x.detach().numpy())
    of_w, _ = compared(run)
    np.testing.assert_allclose(
        of_w, np.einsum("bik,bjk->ij", 2 * product, x.detach().numpy()), rtol=1e-5, atol=1e-5
    )


def test_sizes_that_happen_to_agree_are_no_structure():
    """A square matrix at first: another one later must not be taken for square."""
    bias = normal(7, seed=2)
    for n in (7, 3, 7, 5):
        x = normal(n, 7, seed=n)
        compared(lambda x=x: [torch.tanh(x) + bias, (x * bias).sum(0), x.sum(1)])


def test_no_size_is_compiled_in():
    w = normal(16, 16, seed=1).requires_grad_()

    def step(n):
        w.grad = None
        x = normal(n, 16, seed=n)
        h = torch.tanh(x @ w.t())
        loss = F.log_softmax(h, dim=1).square().mean()
        loss.backward()
        return loss.item()

    with config.override(verify=False):
        step(5)
        step(9)
        counted = jit.counters.compiled + jit.counters.loaded
        plans_before = flush.COUNTS["plans"]
        for n in range(2, 52):
            step(n)
    assert jit.counters.compiled + jit.counters.loaded == counted
    assert flush.COUNTS["plans"] == plans_before


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (0, 4), (1, 5), (5, 1), (2, 3, 4)])
def test_empty_and_single_extents(shape):
    x = normal(*shape) if shape else torch.tensor(0.5)
    compared(lambda: [torch.tanh(x) * 2 + 1, x.sum(), (x * x).sum(-1) if shape else x + 1])


def test_a_temporary_without_elements_may_be_all_there_is():
    """The gradient of an empty slice is read under a mask, from memory that must be there."""
    for n, m, expected in ((4, 5, 6.0), (6, 0, 3.0), (6, 5, 6.0)):
        x = torch.tensor([1.5], dtype=torch.float64, requires_grad=True)
        w = torch.ones(m, n, dtype=torch.float64, requires_grad=True)
        wide = w * 1
        wide.copy_(x)
        part = x[:-1]
        ((x * x).mean() + (wide * wide).mean() + (part * part).mean()).backward()
        assert x.grad.tolist() == pytest.approx([expected], rel=1e-14)  # a sum, in any order


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_many_tensors_are_joined_by_a_kernel(dtype, dim):
    """Parts of unlike sizes, some without elements, some turned; results of kernels and leaves."""
    rng = np.random.default_rng(0)
    shapes = [[2, 3, 4] for _ in range(40)]
    for shape in shapes:
        shape[dim] = int(rng.integers(0, 4))
    leaves = [torch.tensor(rng.normal(size=s) * 3).to(getattr(torch, dtype)) for s in shapes]
    turned = leaves[0].transpose(0, 2).contiguous().transpose(0, 2)

    shown = torch.float32 if dtype == "bfloat16" else leaves[0].dtype

    def run():
        made = [x.logical_not() if dtype == "bool" else x + 1 for x in leaves]
        return [torch.cat([*made, *leaves, turned], dim).to(shown)]

    compared(run)
    made, _ = code_of(run)
    assert [repr(step)[:11] for step in made.steps].count("kernel join") == 1
    assert all(type(step) is Kernel for step in made.steps), "no host step"


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float64", "bfloat16"]
)
def test_dtypes(dtype):
    x = torch.tensor([[0, 1, 2, 3, 5], [1, 0, 7, 4, 2]]).to(getattr(torch, dtype))
    y = torch.tensor([1, 1, 0, 2, 3]).to(getattr(torch, dtype))

    def run():
        total = (x + y).to(torch.float64)
        chosen = torch.where(x > 1, x, y).to(torch.float64)
        return [(x == y).to(torch.float32), total, x.sum(0).to(torch.float64), chosen]

    compared(run)


def test_reductions_of_every_kind():
    x = normal(5, 6, 7)

    def run():
        return [
            x.sum(), x.sum(0), x.sum((0, 2)), x.mean(1, keepdim=True), x.amax(-1), x.amin((0, 1)),
            x.prod(2), (x > 0).any(1), (x > -9).all(), x.var(1), torch.logsumexp(x, 2),
        ]  # fmt: skip

    compared(lambda: [y.to(torch.float32) for y in run()])


def test_rows_stay_in_one_kernel():
    x = normal(4, 33)
    weight, bias = normal(33, seed=1), normal(33, seed=2)
    made, _ = code_of(lambda: F.layer_norm(x, (33,), weight, bias))
    assert len(made.steps) == 1
    compared(lambda: [F.layer_norm(x, (33,), weight, bias), torch.softmax(x, 1)])


def rows_of_layer_norm():
    """The nest of layer norm with its gradient."""
    leaves = [normal(32, 64).requires_grad_(), normal(64).requires_grad_()]
    leaves.append(normal(64).requires_grad_())
    g = normal(32, 64, seed=1)

    def run():
        return torch.autograd.grad(F.layer_norm(leaves[0], (64,), *leaves[1:]), leaves, g)

    found, _ = code_of(run)
    (nest,) = [nest for nest in found.nests.values() if nest.row_folds]
    return nest


def read_in(nest, phase):
    """The values that a phase reads from memory."""
    keys = [(op.out, k) for op in nest.demanded(phase)[0] for k in range(len(op.reads))]
    return {nest.loads[key].base for key in keys if key in nest.loads}


def test_layer_norm_and_its_gradient_read_a_row_three_times_and_keep_nothing_of_it():
    nest = rows_of_layer_norm()
    assert (nest.phases, nest.kept) == (3, [])


def test_folds_wait_for_a_phase_that_reads_their_operands_anyway():
    nest = rows_of_layer_norm()
    first, second, third = (read_in(nest, phase) for phase in range(3))
    assert len(first) == 1
    assert len(second) == 3
    assert first < second == third
    assert not [out for out in nest.row_folds if nest.phase[out] == 2]  # dx needs them all


def test_what_is_dear_or_wanted_early_does_not_wait():
    x, g = normal(16, 64).requires_grad_(), normal(16, 64, seed=1)

    def phases(run):
        """Per phase the values that it reads from memory."""
        found, _ = code_of(run)
        compared(lambda: list(run()))
        (nest,) = [nest for nest in found.nests.values() if nest.row_folds]
        return [len(read_in(nest, phase)) for phase in range(nest.phases)]

    def weighed(function):
        """Two phases of x, whose second and third read g as well; function(g) may be in either."""
        y = x.detach()
        apart = y - y.amax(1, keepdim=True)
        return (apart * (apart * g).sum(1, keepdim=True) + function(g).sum(1, keepdim=True) * g,)

    assert phases(lambda: weighed(lambda g: g * 2)) == [1, 2, 2]
    assert phases(lambda: weighed(torch.exp)) == [2, 2, 2]
    assert phases(lambda: torch.autograd.grad(torch.softmax(x, 1), x, g)) == [1, 2, 1]


def test_the_next_row_is_asked_for_by_several_phases():
    nest = rows_of_layer_norm()
    code = NestCode(nest)
    code.write()
    asking = code.traffic.asking
    assert code.traffic.heavy == 2
    x, g = read_in(nest, 0), read_in(nest, 1)
    assert {access.base for access in asking[1]} == x
    assert {access.base for access in asking[2]} < g - x
    assert set(asking) == {1, 2}


SHORT = {
    "softmax": lambda x: F.softmax(x, 1),
    "of columns": lambda x: F.softmax(x, 0),
    "of a half": lambda x: F.softmax(x.half(), 1),
    "by hand": lambda x: (x - x.amax((0, 1), True)).exp(),
}
WHOLE = {
    "plain": lambda x: x.exp(),
    "another's maximum": lambda x: (x - (x - 1).amax(1, True)).exp(),
    "of other rows": lambda x: (x - x.amax(1)).exp(),
    "above": lambda x: (x.amax(1, True) - x).exp(),
    "from a number": lambda x: (1 - x).exp(),
    "minimum": lambda x: (x - x.amin(1, True)).exp(),
    "halves": lambda x: (x.half() - x.half().amax(1, True)).exp(),
}


@pytest.mark.parametrize("name", [*SHORT, *WHOLE])
def test_exponentials_of_what_lies_below_a_maximum_are_shorter(name):
    x = np.random.default_rng(3).normal(size=(6, 6)).astype(np.float32) * 50
    x[1, 2], x[3] = np.nan, -np.inf
    function = (SHORT | WHOLE)[name]
    found, (y,) = code_of(lambda: [function(torch.tensor(x))])
    text = "".join(step.text for step in found.steps if isinstance(step, Kernel))
    assert ("exp_of_negative" in text) == (name in SHORT)
    with config.override(compile=False, wait=False), own_trie():
        np.testing.assert_allclose(y.numpy(), function(torch.tensor(x)).numpy(), rtol=1e-6)


def test_views_are_index_maps():
    x = normal(4, 6, 10)

    def run():
        part = x[:, 1:5, ::2].transpose(1, 2)
        split = x.reshape(4, 6, 2, 5).permute(2, 0, 3, 1)
        return [part.tanh(), split.sum(-1), split.reshape(2, 120) + 1, x[2, 3].exp()]

    compared(run)


def test_leaves_that_are_not_contiguous_or_seen_from_outside():
    memory = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    x = torch.from_numpy(memory[:, ::2])
    y = torch.from_numpy(memory)

    def run():
        return [x * 2 + 1, y.t() + 1, y.view(48)]

    first = compared(run)
    kept = y.view(48).clone()
    torch.synchronize()
    memory[0, 0] += 1
    np.testing.assert_array_equal(kept.numpy(), first[2])
    assert (x * 2 + 1).numpy()[0, 0] == np.float32(memory[0, 0] * 2 + 1)


def test_losses_and_embeddings():
    table = normal(11, 6).requires_grad_()
    words = torch.tensor([[1, 2, 3], [4, 0, 1]])
    target = torch.tensor([2, 5])

    def run():
        table.grad = None
        scores = F.embedding(words, table).mean(1)
        loss = F.cross_entropy(scores, target)
        loss.backward()
        return [loss, table.grad]

    compared(run)


def test_an_index_out_of_range_is_the_references_error():
    table = normal(4, 3)
    index = torch.tensor([0, 1]) * torch.tensor([1, 9])
    good = table * 2
    bad = F.embedding(index, table)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        bad.sum().item()
    np.testing.assert_array_equal(good.numpy(), table.numpy() * 2)


def test_rows_of_an_empty_table_are_left_to_the_reference():
    """An index that is out of range reads or writes row 0 instead, and there is none."""
    index = torch.zeros(2, dtype=torch.int64)

    def gradient(rows):
        table = normal(rows, 3).requires_grad_()
        table.index_select(0, index * 1).square().sum().backward()
        return [table.grad]

    compared(lambda: gradient(4))
    assert None not in last_plan(lambda: gradient(4))[0].compiled.bound.values()
    seen = []
    with pytest.raises(IndexError, match="index 0 is out of bounds"):
        last_plan(lambda: gradient(0), seen)
    assert None in [bound for plan in seen for bound in plan.compiled.bound.values()]


def test_parameters_are_written_in_place_only_if_nobody_sees_them():
    p = torch.nn.Parameter(normal(50, 40))
    optimizer = torch.optim.Adam([p], lr=0.1)
    with config.override(verify=False):
        for _ in range(3):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
        torch.synchronize()
        held = p.detach()
        torch.synchronize()
        before = held.clone().numpy().copy()
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
        torch.synchronize()
    np.testing.assert_array_equal(held.numpy(), p.detach().numpy())  # one storage, as in PyTorch
    assert not np.array_equal(before, held.numpy())


def test_the_same_plan_gives_equal_bits():
    x, w = normal(37, 65), normal(65, 41, seed=3)

    def run():
        y = torch.softmax(x @ w, 1)
        return (y * y).sum(0).numpy().copy()

    first = run()
    for _ in range(3):
        np.testing.assert_array_equal(run(), first)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    """Elementwise ops, broadcasts, reductions and views, at sizes drawn anew."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        n, m, k = (int(rng.integers(1, 9)) for _ in range(3))
        leaves = [normal(n, m, k, seed=seed), normal(m, k, seed=1), normal(n, 1, k, seed=2)]
        choices = np.random.default_rng(seed)  # the same structure, other sizes
        compared(lambda leaves=leaves, choices=choices: random_graph(leaves, choices))
        gc.collect()


def random_graph(leaves, rng):
    rng = np.random.default_rng(rng.bit_generator.seed_seq)
    values = [*leaves]
    for _ in range(10):
        x, y = (values[int(rng.integers(len(values)))] for _ in range(2))
        match int(rng.integers(8)):
            case 0:
                values.append(torch.tanh(x))
            case 1:
                values.append(x * 0.5 + leaves[1])
            case 2:
                values.append(x - x.amax(-1, keepdim=True))
            case 3:
                values.append(torch.where(x > 0, x, leaves[0] * 0.1))
            case 4:
                values.append(x / (1 + (x * x).mean(-2, keepdim=True)))
            case 5:
                values.append(y.abs().sum(-1, keepdim=True) + x)
            case 6:
                values.append(x.flatten().reshape(x.shape).sigmoid())
            case _:
                values.append(torch.maximum(x, leaves[0]))
    return [values[-1], values[-2].sum(0), values[-3].mean()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_totals_of_half_floats_are_kept_wide(dtype):
    """5000 ones added up in half floats stay at 2048, or at 256."""
    x = torch.ones(50, 100, 3).to(dtype)
    whole = torch.tensor(5000.0).to(dtype).item()

    def run():
        made = x.sum((0, 1)), x.sum((0, 2)), x.reshape(5000, 3).sum(0)
        return [y.float() for y in made]  # NumPy has no bfloat16

    flat, _, rows = compared(run)
    assert flat.tolist() == rows.tolist() == [whole] * 3


def test_what_is_read_along_two_axes_is_not_repeated_along_one():
    """Of equal extents, one mask is read along both: by its row's op, and by that of pairs."""
    x = normal(2, 3, 3).requires_grad_()
    classes = torch.tensor([[2, 0, -1], [1, 2, 0], [-1, 2, 1]])

    def run():
        x.grad = None

        def loss(example):
            return F.multilabel_margin_loss(example, classes, reduction="none")

        torch.vmap(loss)(x).sum().backward()
        return [x.grad]

    compared(run)


def test_what_is_read_straight_and_turned_is_not_repeated_turned():
    """Backward of a write through a turned view reads one product at (i, j) and at (j, i)."""
    x = normal(4, 4, 3).requires_grad_()

    def run():
        x.grad = None
        zero = torch.zeros_like(x)
        whole = x.clone()
        turned = torch.movedim(whole, 1, 0)
        turned.copy_(x)
        mixed = torch.add(turned, whole, alpha=0.5) * x
        moved = turned + zero
        zero.mean().item()  # backward is a path of its own
        ((mixed * mixed).mean() + (moved * moved).mean()).backward()
        return [x.grad]

    compared(run)


@pytest.mark.parametrize("factor", [float("inf"), float("nan"), 3.0])
@pytest.mark.parametrize(("shape", "dim"), [((5,), 0), ((4, 3), 0)])
def test_a_linear_scan_does_not_use_the_first_factor(factor, shape, dim):
    a = torch.full(shape, factor)
    b = torch.ones(shape)
    found = [ops.linear_scan(a, b, dim).numpy()[0].copy() for _ in range(3)]
    assert (np.array(found) == 1).all()
