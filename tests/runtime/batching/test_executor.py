"""Off the trie, forward and backward by groups of regions: the same as op by op."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime import flush as plans
from wend._engine.runtime.batching import (
    _grouper_select,
    deferred_backward,
    executor,
    per_op,
    signatures,
    slabs,
)
from wend._engine.runtime.batching import forward as execution
from wend._engine.runtime.compiled import packed_weights
from wend._engine.runtime.native import _launch_select

Params = dict[str, "torch.Tensor"]


def tree(rng: random.Random, p: Params, words: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(h, c) of a random binary tree."""
    if words == 1:
        i = rng.randrange(7)
        gates = torch.nn.functional.linear(p["words"][i : i + 1], p["leaf"], p["bias"])
        i, o, u = gates.chunk(3, dim=1)
        c = i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c
    k = rng.randint(1, words - 1)
    (h1, c1), (h2, c2) = tree(rng, p, k), tree(rng, p, words - k)
    a, b = (torch.cat([h1, h2], dim=1) @ p["inner"]).chunk(2, dim=1)
    c = a.sigmoid() * c1 + b.tanh() * c2
    return c.tanh(), c


def tree_loss(rng: random.Random, p: Params) -> torch.Tensor:
    losses = [tree(rng, p, rng.randint(1, 9))[0].square().sum() for _ in range(6)]
    return torch.stack(losses).mean()


def sequence_loss(rng: random.Random, p: Params) -> torch.Tensor:
    """Sentences of unequal lengths through a cell, their states joined and scored at once."""
    scores = []
    for _ in range(5):
        words = p["words"][torch.tensor([rng.randrange(7) for _ in range(rng.randint(1, 6))])]
        h = torch.zeros(1, 5, dtype=torch.float64)
        states = []
        for t in range(len(words)):
            h = (words[t : t + 1] @ p["square"] + h @ p["square"]).tanh()
            states.append(h)
        scores.append(torch.nn.functional.linear(torch.cat(states), p["leaf"], p["bias"]))
    return torch.cat(scores).logsumexp(1).sum()


def vector_loss(rng: random.Random, p: Params) -> torch.Tensor:
    """Vectors without a leading dim: they are stacked."""
    total = torch.zeros((), dtype=torch.float64)
    for _ in range(5):
        x = p["words"][rng.randrange(7)]
        for _ in range(rng.randint(1, 4)):
            x = torch.softmax(x @ p["square"], 0) * x + p["words"][0] * 0.5
        total = total + x.sum()
    return total


def joined_loss(rng: random.Random, p: Params) -> torch.Tensor:
    """Tensors laid one behind the other: results, rows of parameters, one of them twice."""
    rows = [p["words"][i : i + rng.randint(1, 3)] for i in range(4)]
    found = []
    for _ in range(4):
        made = [rng.choice(rows) @ p["square"] for _ in range(rng.randint(1, 5))]
        both = torch.cat([*made, p["words"][1:2], made[0], p["square"]])
        found.append(both.tanh() @ p["square"])
    return torch.cat(found).square().sum() + torch.cat([p["bias"], p["bias"].exp()]).sum()


def mixed_loss(rng: random.Random, p: Params) -> torch.Tensor:
    """Values used several times, parts without gradient, scalars, a weight that is computed."""
    weight = p["square"] / p["square"].square().sum().sqrt()
    pool = [p["words"][i : i + 2] for i in range(3)]
    for _ in range(25):
        x, y = rng.choice(pool), rng.choice(pool)
        choice = rng.randrange(6)
        if choice == 0:
            z = (x @ weight).tanh() + y
        elif choice == 1:
            z = x * y.detach()
        elif choice == 2:
            z = x.relu() * rng.choice([0.5, 2.0]) - y
        elif choice == 3:
            z = torch.cat([x[:1], y[1:]])
        elif choice == 4:
            z = torch.where(x > 0, x, y) / (1.0 + y.square())
        else:
            z = x - x.mean(1, keepdim=True)
        pool.append(z.tanh())
    return torch.stack([x.square().sum() for x in pool]).sum()


def parted_loss(rng: random.Random, p: Params) -> torch.Tensor:
    """Results of which some rows are read first, all, one twice, or none where others are."""
    read = []
    for k in range(12):
        x = p["words"][rng.randrange(3) : 3 + rng.randrange(2, 4)]
        y, z = torch.tanh(x @ p["square"]), torch.sigmoid(x @ p["square"].T)
        if k % 4 == 0:
            y = torch.tanh(y[1:] @ p["square"])  # the first row has no gradient
        elif k % 4 == 1:
            y = torch.tanh(y @ p["square"]) + torch.tanh(y @ p["square"]).sum()
            y = torch.cat([y[0] * z[0], y[1], z[0]])
        elif k % 4 == 2:
            y = torch.cat([torch.tanh(y[:1] @ p["square"]), torch.tanh(y @ p["square"]), y, -z])
        read.append(y.square().sum())
    return torch.stack(read).sum()


LOSSES: list[Callable[[random.Random, Params], torch.Tensor]] = [
    tree_loss, sequence_loss, vector_loss, joined_loss, mixed_loss, parted_loss,
]  # fmt: skip


def parameters() -> Params:
    draw = np.random.default_rng(3)
    shapes = {"words": (7, 5), "leaf": (15, 5), "bias": (15,), "inner": (10, 10), "square": (5, 5)}
    return {
        name: torch.tensor(draw.normal(size=shape) * 0.5, requires_grad=True)
        for name, shape in shapes.items()
    }


def run(loss_of: Callable[[random.Random, Params], torch.Tensor], seed: int) -> list[np.ndarray]:
    p = parameters()
    loss = loss_of(random.Random(seed), p)
    loss.backward()
    grads = [x.grad for x in p.values()]
    return [loss.detach().numpy().copy()] + [
        np.zeros(()) if g is None else g.numpy().copy() for g in grads
    ]


@pytest.fixture
def ran(monkeypatch):
    """Whether flushes were run by groups of regions; what goes wrong there shows."""
    torch.synchronize()  # what the tests before have left
    outcomes: list[bool] = []
    real = plans.run_regions

    def watched(batch, live):
        reason = real(batch, live)
        outcomes.append(not reason)
        return reason

    monkeypatch.setattr(plans, "run_regions", watched)
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    return outcomes


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """Both ran in float64: what differs is the rounding of sums in another order."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loss_of", LOSSES, ids=lambda f: f.__name__)
def test_regions_compute_what_single_ops_compute(loss_of, seed, ran):
    with own_trie(sealed=True):
        found = run(loss_of, seed)
    assert ran and all(ran), "it must have been run by groups"
    with own_trie(sealed=True), torch.autobatch(False):
        expected = run(loss_of, seed)
    assert_same(found, expected)


@pytest.mark.parametrize("loss_of", LOSSES, ids=lambda f: f.__name__)
def test_groups_run_on_addresses_compute_what_single_ops_compute(loss_of, ran, monkeypatch):
    """Once machine code is there: compiled at once, in a first run that compiles it."""
    done: list[bool] = []
    real = slabs.Family.forward

    def watched(family, group):
        done.append(real(family, group))
        return done[-1]

    monkeypatch.setattr(slabs.Family, "forward", watched)
    with config.override(compile=True, wait=True):
        for seed in (1, 2, 1):
            done.clear()
            with own_trie(sealed=True):
                found = run(loss_of, seed)
    assert ran and all(ran), "it must have been run by groups"
    assert done and all(done), "it must have been run on addresses"
    with own_trie(sealed=True), torch.autobatch(False):
        expected = run(loss_of, seed)
    assert_same(found, expected)


def weighted_loss(rng: random.Random, p: Params) -> torch.Tensor:
    """Sums over rows, weighted: of some numbers of rows there are several at a depth, or one."""
    found = []
    for _ in range(6):
        x = p["words"][rng.randrange(7)][None]
        for _ in range(rng.randint(2, 6)):
            rows = torch.cat([x @ p["square"], *[p["words"][:1] * x] * rng.randint(1, 3)])
            x = (torch.softmax(rows, 0) * rows).sum(0, keepdim=True)
        found.append(x)
    return torch.cat(found).square().sum()


def test_one_of_a_kind_runs_as_a_stack_of_one(ran, monkeypatch):
    """Where machine code runs stacks of such members."""
    taken = []
    real = execution.Forward.family_of

    def family_of(flush, group, *others):
        found = real(flush, group, *others)
        if group.count == 1 and not group.by_rows:
            taken.append(found)
        return found

    monkeypatch.setattr(execution.Forward, "family_of", family_of)
    with config.override(compile=True, wait=True):
        for seed in range(5):
            taken.clear()
            ran.clear()
            with own_trie(sealed=True):
                found = run(weighted_loss, seed)
            assert ran and all(ran), "it must have been run by groups"
            with own_trie(sealed=True), torch.autobatch(False):
                expected = run(weighted_loss, seed)
            assert_same(found, expected)
    assert any(family is not None for family in taken)


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "later"])
def test_groups_that_have_run_let_go_of_what_was_pending(wait, ran, monkeypatch):
    """All of it would wait for the collector, and the next flush take other memory."""
    begun: list[weakref.ref[object]] = []
    real = executor.execution_of

    def watched(*given):
        begun.append(weakref.ref(found := real(*given)))
        return found

    monkeypatch.setattr(executor, "execution_of", watched)
    p = parameters()
    gc.disable()
    try:
        with config.override(compile=True, wait=True):
            for _ in range(3):
                with own_trie(sealed=True):
                    loss = tree_loss(random.Random(1), p)
                    if wait:
                        loss.item()
                    loss.backward()
                    del loss
        assert begun and ran and all(ran), "it must have been run by groups"
        assert begun[-1]() is None
    finally:
        gc.enable()


@pytest.fixture
def singly(ran, monkeypatch):
    """Nothing is run by regions; how many ops of the last flush were left by the native loop."""
    monkeypatch.setattr(signatures.BOOK, "begin", lambda: False)
    signatures.SINGLES.clear()
    left: list[int] = []
    real = per_op.PerOpExecution.forward

    def watched(self, *given):
        real(self, *given)
        left.append(len(self.others))

    monkeypatch.setattr(per_op.PerOpExecution, "forward", watched)
    return left


@pytest.mark.parametrize("wait", [False, True], ids=["reference", "machine code"])
@pytest.mark.parametrize("loss_of", LOSSES, ids=lambda f: f.__name__)
def test_single_ops_compute_the_same(loss_of, wait, ran, singly):
    """Where no region comes back: op by op, on addresses once there is machine code."""
    with config.override(compile=wait, wait=wait):
        for seed in (1, 2, 1):
            with own_trie(sealed=True):
                found = run(loss_of, seed)
    assert singly and all(ran), "it must have been run by single ops"
    with own_trie(sealed=True), torch.autobatch(False):
        expected = run(loss_of, seed)
    assert_same(found, expected)


def test_single_ops_are_the_same_whoever_made_their_operands(ran, singly):
    """What is planned for each combination of leaves and results would not soon be complete."""
    x, y = (torch.full((3, 3), v, requires_grad=True) for v in (0.5, 1.5))
    plain = torch.full((3, 3), 2.0)
    # The steps without machine code must not keep later ones from having it.
    for compiles in (False, True):
        with config.override(compile=compiles, wait=compiles), own_trie(sealed=True):
            for _ in range(4):
                x.grad = y.grad = None
                inner = x * y
                found = inner * x + y * inner + inner * (x * y)
                (found * plain + plain * plain * inner).sum().backward()
    assert singly[-1] == 0
    products = [node for node in signatures.SINGLES.cells if node.prim.name == "mul"]
    assert len(products) == 4  # of operands with and without a gradient, and of one with itself
    np.testing.assert_allclose(x.grad.numpy(), np.full((3, 3), 18.0))
    np.testing.assert_allclose(y.grad.numpy(), np.full((3, 3), 7.0))


def views_and_more(rng: random.Random, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Views of every kind, ops of several results, operands met twice, values that are not read."""
    pool = [x, w, x * 2.0]
    for _ in range(30):
        a, b = rng.choice(pool), rng.choice(pool)
        k = rng.randrange(9)
        if k == 0:
            a = a.T
        elif k == 1:
            a = a.flip(1)[:, ::2].repeat_interleave(2, 1)
        elif k == 2:
            a = a[1].expand(4, 4) + b
        elif k == 3:
            a, _ = torch.sort(a, 1)
        elif k == 4:
            a = torch.stack([p * (j + 1) for j, p in enumerate(b.unbind(1))], 0)
        elif k == 5:
            a = a @ a
        elif k == 6:
            a, _ = a.max(1, keepdim=True)
        elif k == 7:
            a = torch.where(a > b, a, b.detach())
        else:
            a = a.reshape(2, 2, -1).sum(1).reshape(-1, 4) if a.shape == (4, 4) else a - b
            a = torch.cat([a, a])
        pool.append(a[:4].expand(4, 4).tanh())
    return torch.stack([p.sum() for p in pool[-3:]]).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_single_ops_of_many_kinds(dtype, ran, singly):
    """Compared with PyTorch's ways of the reference, over programs that are all different."""
    rows = np.random.default_rng(0).normal(size=(2, 4, 4))
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for on in (True, False):
        with config.override(compile=on, wait=on), torch.autobatch(on):
            for seed in range(12):
                x, w = (torch.tensor(row, dtype=dtype, requires_grad=True) for row in rows)
                with own_trie(sealed=True):
                    loss = views_and_more(random.Random(seed), x, w)
                    loss.backward()
                    grads = [np.zeros(()) if t.grad is None else t.grad.numpy() for t in (x, w)]
                    found[on] += [loss.detach().numpy(), *grads]
    assert singly and singly[-1] < 10, "most of it must have been run by the native loop"
    for a, b in zip(found[True], found[False], strict=True):
        tolerance = 1e-4 if dtype is torch.float32 else 1e-11
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def many_launches(rng: random.Random, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Products by what is from outside and what is not, numbers that differ, copies of views."""
    pool = [x, w]
    for _ in range(30):
        a, b = rng.choice(pool), rng.choice(pool)
        k = rng.randrange(6)
        if k == 0:
            a = a @ w
        elif k == 1:
            a = a @ b
        elif k == 2:
            a = a * (0.25 + 0.125 * rng.randrange(4)) + b
        elif k == 3:
            a = torch.where((a > b).T, a, b)
        elif k == 4:
            a = a.reshape(2, 3, 6).permute(2, 0, 1).reshape(6, 6)
        else:
            a = a.T
        pool.append(a.tanh())
    return torch.stack([p.sum() for p in pool[-3:]]).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_single_ops_are_launched_with_and_without_packed_operands(dtype, ran, singly, monkeypatch):
    """One kind of op reads a weight that is packed, and results; frames are shared by numbers."""
    monkeypatch.setattr(packed_weights, "patience", lambda lies: 1)
    rows = np.random.default_rng(0).normal(size=(2, 6, 6))
    x, w = (torch.tensor(row, dtype=dtype, requires_grad=True) for row in rows)
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for on in (True, False):
        with config.override(compile=on, wait=on), torch.autobatch(on):
            for seed in range(12):
                x.grad = w.grad = None
                with own_trie(sealed=True):
                    loss = many_launches(random.Random(seed), x, w)
                    loss.backward()
                    grads = [np.zeros(()) if t.grad is None else t.grad.numpy() for t in (x, w)]
                    found[on] += [loss.detach().numpy(), *grads]
    cells = [cell for cell in signatures.SINGLES.cells.values() if cell is not None]
    assert singly[-1] < 10 and any(cell.plain and cell.weighted for cell in cells)
    assert type(w.value.packed) is dict, "it must have been packed"
    for a, b in zip(found[True], found[False], strict=True):
        tolerance = 1e-4 if dtype is torch.float32 else 1e-11
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("wait", [False, True], ids=["reference", "machine code"])
def test_single_ops_whose_backward_pass_comes_later(wait, ran, singly, monkeypatch):
    """Their values are read before; passes come in parts, twice, and through two flushes."""
    passes: list[bool] = []
    real = deferred_backward.DeferredBackward.pass_on

    def watched(self, *given):
        passes.append(real(self, *given))
        return passes[-1]

    monkeypatch.setattr(deferred_backward.DeferredBackward, "pass_on", watched)
    rows = np.random.default_rng(0).normal(size=(2, 4, 4))

    def gradients(seed: int) -> list[np.ndarray]:
        x, w = (torch.tensor(row, requires_grad=True) for row in rows)
        with own_trie(sealed=True):
            first = views_and_more(random.Random(seed), x, w)
            found = [np.array(first.item())]
            second = views_and_more(random.Random(seed + 50), x * first, w)
            found.append(np.array(second.item()))
            second.backward(retain_graph=True)
            found += [np.zeros(()) if t.grad is None else t.grad.numpy().copy() for t in (x, w)]
            (second * 2.0).backward(retain_graph=True)
            first.backward()
            found += [np.zeros(()) if t.grad is None else t.grad.numpy() for t in (x, w)]
            with pytest.raises(RuntimeError, match="second time"):
                first.backward()
        return found

    with config.override(compile=wait, wait=wait):
        found = [gradients(seed) for seed in range(6)]
    assert singly and len(passes) >= 24 and all(passes), "it must have been run by single ops"
    with torch.autobatch(False):
        expected = [gradients(seed) for seed in range(6)]
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b)


def test_single_ops_that_have_run_let_go_of_what_they_read(ran, singly):
    """What a later pass may read is freed with the result that leads to it."""
    with config.override(compile=False), own_trie(sealed=True):
        x = torch.ones(3, 2, requires_grad=True)
        for _ in range(3):
            loss = (x * 2.0).tanh().sum()
            loss.item()
        gc.collect()
        gc.disable()
        try:
            kept = weakref.ref(loss.value.segment.structure.later.execution)
            del loss
            assert kept() is None
        finally:
            gc.enable()


def test_single_ops_that_fail_name_their_line(ran, singly):
    """An index out of range is found by the kernel, and told by the reference."""
    x = torch.ones(3, 2, requires_grad=True)
    with config.override(compile=True, wait=True):
        for index in (1, 2, 1, 7):
            with own_trie(sealed=True):
                picked = x[(torch.tensor([index]) * 1).clone()]
                loss = (picked * 2.0).sum()
                if index < 3:
                    loss.backward()
                    continue
                with pytest.raises(
                    IndexError, match=r"index 7 is out of bounds[^$]*test_executor\.py"
                ):
                    loss.backward()
                    loss.item()


def test_a_long_path_of_large_groups_is_run_by_groups_each_time(ran):
    """Planned op by op, a data set that comes back would be slower than new data."""
    by_groups = []
    with own_trie():
        for _ in range(3):
            ran.clear()
            found = run(tree_loss, 5)
            by_groups.append(any(ran))
    assert by_groups == [True, True, True]
    with own_trie(sealed=True), torch.autobatch(False):
        expected = run(tree_loss, 5)
    assert_same(found, expected)


def test_a_region_of_many_values(ran):
    """More values than an int of 32 bits tells apart."""
    with own_trie(sealed=True):
        x = torch.ones(2, dtype=torch.float64)
        y = x
        for _ in range(300):
            y = y + 1.0
        assert y.tolist() == [301.0, 301.0]
    assert all(ran)


def test_slices_of_other_bounds_share_a_template_and_have_their_own_extents(ran):
    """A gradient read past the end of a narrower slice's, as wide as the first one's."""
    with config.override(compile=True, wait=True), own_trie(sealed=True):
        for n in (4, 3, 5, 4):
            x = torch.tensor(np.zeros((4, 6)), requires_grad=True)
            y = x[:, :n]
            assert y.shape == (4, n)
            g = np.arange(1.0, 1.0 + 4 * n).reshape(4, n)
            y.backward(torch.tensor(g))
            expected = np.zeros((4, 6))
            expected[:, :n] = g
            np.testing.assert_array_equal(x.grad.numpy(), expected)
    assert any(ran), "some of it must have been run by groups"


def test_what_never_repeats_is_soon_left_to_single_ops(monkeypatch):
    """Making structure ready that does not come back would cost time and memory."""
    functions = [torch.sin, torch.exp, torch.tanh, torch.sigmoid, torch.relu]
    with own_trie(sealed=True):
        for seed in range(signatures.STRIKES + 3):
            rng, x = random.Random(seed), torch.ones(2, 3)
            for _ in range(30):
                f = rng.choice(functions)
                x = rng.choice([f(x), f(x) * x, x - f(x), x.sum(rng.choice([0, 1]), True) + x])
            x.tolist()
    assert signatures.BOOK.pause > 0 and signatures.BOOK.n == 0
    assert signatures.BOOK.next_pause == 2 * signatures.PAUSE  # and ever more rarely looked at


def test_draws_do_not_grow_the_trie_of_regions():
    """Each draw has numbers of its own, and so a node of its own."""
    with own_trie(sealed=True):
        w = torch.ones(3, 3)
        for _ in range(60):
            rows = [torch.tanh(torch.randn(1, 3) @ w) for _ in range(6)]
            sum(rows, torch.zeros(1, 3)).tolist()
    assert 0 < signatures.BOOK.n < 4 * signatures.MOST_ALIKE
    assert all(
        len(found) <= signatures.MOST_ALIKE for found in signatures.BOOK.root.children.values()
    )


def test_one_row_beside_many_is_not_taken_for_rows_side_by_side():
    """An op known for operands of equal rows, met again with 1 row beside 4."""
    w = torch.ones(3, 3, dtype=torch.float64, requires_grad=True)

    def work(*rows: tuple[int, int]) -> list[float]:
        w.grad = None
        total = torch.zeros((), dtype=torch.float64)
        for n, m in rows:
            x, y = (torch.full((k, 3), 0.1 * k, dtype=torch.float64) @ w for k in (n, m))
            total = total + ((x.tanh() @ w) + (y.tanh() @ w)).square().sum()
        total.backward()
        return [total.item(), *w.grad.flatten().tolist()]

    sizes = [(4, 4), (2, 2), (1, 4), (4, 1), (1, 4)]
    with own_trie(sealed=True):
        found = [work(*sizes[:k]) for k in range(1, 6)]
    expected = [work(*sizes[:k]) for k in range(1, 6)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("read_first", [False, True], ids=["at once", "later"])
def test_what_nothing_of_the_pass_depends_on_has_no_gradient(read_first, ran):
    """Two heads on one product are one region; only one of them is in the loss."""
    w, b, c = [torch.tensor(np.full(s, 0.5), requires_grad=True) for s in ((4, 4), (4,), (4,))]

    def heads(x):
        y = x @ w
        return torch.tanh(y + b), torch.sigmoid(y + c)

    with own_trie(sealed=True):
        found = [heads(torch.tensor(np.full((1, 4), 0.1 * k))) for k in range(5)]
        loss = torch.cat([first for first, _ in found]).sum()
        if read_first:
            expected = sum(4 * np.tanh(0.2 * k + 0.5) for k in range(5))
            assert loss.item() == pytest.approx(expected)
        loss.backward()
        assert w.grad is not None
        assert b.grad is not None
        assert c.grad is None
        assert ran and all(ran), "it must have been run by groups"


def test_what_was_read_outside_of_a_region_once_is_forgotten(ran):
    """A flush that is cut short leaves values to the next one; later ones keep fewer."""
    w = torch.tensor(np.full((3, 3), 0.5), requires_grad=True)

    def work(keeping):
        with own_trie(sealed=True):
            inner = [torch.tensor(np.full((1, 3), 0.1 * k)) @ w for k in range(4)]
            outer = torch.cat([torch.tanh(x) for x in inner])
            kept = inner if keeping else None
            del inner
            outer.square().sum().backward()
            return kept

    def read_outside():
        """Of the product with w and its tanh, the values that are kept for others."""
        first = [node for nodes in signatures.BOOK.root.children.values() for node in nodes]
        second = [node for one in first for nodes in one.children.values() for node in nodes]
        (mask,) = [node.mask for node in second if node.prim.name == "tanh"]
        return mask

    signatures.BOOK.clear()
    work(True)
    assert read_outside() == 0b11
    for _ in range(2 * signatures.TERM):
        w.grad = None
        work(False)
    assert read_outside() == 0b10
    x = 0.1 * np.arange(4)[:, None] * np.ones(3)
    y = np.tanh(x @ np.full((3, 3), 0.5))
    np.testing.assert_allclose(w.grad.numpy(), x.T @ (2 * y * (1 - y * y)), rtol=1e-12)
    assert ran and all(ran), "it must have been run by groups"


@pytest.mark.parametrize("dims", [(0,), (1,), (1, 0), ()], ids=str)
def test_rows_of_a_table_are_summed_whatever_dims_they_were_given(dims, ran):
    """The gradient of a table is put off as it comes: a group of lookups does nothing for it."""
    numbers = [[3, 1, 3], [4], [0, 5]]

    def square(n: list[int], table: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.embedding(torch.tensor(n), table)
        for dim in dims:
            rows = rows.unsqueeze(dim)
        return (rows[0] * rows[-1]).sum()

    def table_gradient() -> list[list[float]]:
        table = torch.tensor(np.arange(18.0).reshape(6, 3), requires_grad=True)
        torch.stack([square(n, table) for n in numbers]).sum().backward()
        return table.grad.tolist()

    with own_trie(sealed=True):
        found = table_gradient()
    assert found == table_gradient()
    if dims == (1,):
        templates = [t for kept in signatures.BOOK.templates.values() for t in kept]
        with_late = [t for t in templates if t.late and t.body is not None]
        bodies = [(t, [type(node.prim).__name__ for node in t.body[0].nodes]) for t in with_late]
        assert any(t.backward is None and names[1:] == ["Unsqueeze"] for t, names in bodies)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_of_any_length_are_added(dtype):
    sort, address_of = _grouper_select.select(), _launch_select.select().address_of
    for n in (0, 1, 7, 8, 9, 31, 128, 1003):
        x, y = (np.random.default_rng(seed).normal(size=n).astype(dtype) for seed in (n, n + 1))
        total = x + y
        sort.add_bytes(address_of(x), address_of(y), x.nbytes, dtype is np.float64)
        assert np.array_equal(x, total)


def test_parameters_of_extent_one_get_the_sum_of_their_rows_gradients():
    """One row and such a parameter have equal shapes; several rows are broadcast against it.

    What was found for one row must not serve several: the gradient would have their number of rows.
    """
    for shape, use in (
        ((1,), lambda h, x: h * h + x),
        ((1,), lambda h, x: torch.sigmoid(h * x)),
        ((1, 1), lambda h, x: torch.where(h > 0, h * x, h + x)),
        ((1, 3), lambda h, x: torch.tanh(h + x) * x),
        ((1, 3), lambda h, x: torch.maximum(h, x) - h / (x + 9.0)),
    ):

        def gradient(shape=shape, use=use):
            x = torch.full(shape, 0.6, dtype=torch.float64, requires_grad=True)
            for turns in (2, 3, 4):
                h = x * 1.5
                for _ in range(turns):
                    h = use(h, x)
                    h.sum().item()
                h.sum().backward()
            return x.grad.numpy()

        with torch.eager():
            expected = gradient()
        assert expected.shape == shape
        for compiled in (False, True):
            with config.override(compile=compiled), own_trie(sealed=True):
                for _ in range(4):
                    found = gradient()
                    assert found.shape == shape
                    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_node_of_a_trie_that_another_thread_has_emptied_is_known():
    """A flush is still being sorted there."""
    for book in (signatures.BOOK, signatures.SINGLES):
        root = book.root
        book.clear()
        assert book.root is not root and not root.children
        assert signatures.book_of(root) is book is signatures.book_of(book.root)
