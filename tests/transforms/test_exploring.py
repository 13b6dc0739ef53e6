"""Explored graphs: the same results as the function, and as many points as there are questions."""

import gc
import math
import threading
import time

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._engine.base import tree
from wend._engine.core import _siblings
from wend._engine.core.symbolic import EQ
from wend._engine.transforms.exploring.program import Apply, Fail, StaticGraph
from wend._engine.transforms.exploring.recording import ExploreError, Run
from wend._engine.transforms.exploring.running import SizesDiffer, run
from wend._frontend.static.explored import explored as explore

F = nn.functional


def call(program, *args):
    tensors = [x for x in tree.leaves(args) if isinstance(x, torch.Tensor)]
    return run(program, tensors, {c.id: c.tensor for c in program.captured})


def same(found, expected):
    found, expected = tree.leaves(found), tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, torch.Tensor):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
        elif isinstance(b, float):  # read from tensors, which a kernel or NumPy has computed
            assert a == pytest.approx(b, rel=1e-5, abs=1e-6)
        else:
            assert a == b


def checked(function, example, *others):
    program = explore(function, (example,))
    for x in (example, *others):
        same(call(program, x.clone()), function(x.clone()))
    return program


def branches(x):
    y = x * 2
    y = y + 1 if y.sum() > 0 else y - 1
    if (y * y).mean() > 1:
        y = torch.tanh(y)
    return y.view(y.size(0) * y.size(1))


def test_branches_in_a_row_are_one_point_each():
    program = checked(branches, torch.randn(3, 4), torch.randn(7, 2), torch.full((1, 3), -9.0))
    assert len(program.points) == 3


def test_points_grow_with_the_branches_and_not_with_the_paths():
    def many(x):
        for k in range(12):
            if x[0, k] > 0:
                x = x * 1.5
        return x

    program = explore(many, (torch.randn(3, 12),))
    assert len(program.points) == 13


def test_a_while_loop_is_a_loop():
    def halve(x):
        while x.abs().max() > 1:
            x = x * 0.5
        return x

    program = checked(halve, torch.randn(3, 4) * 9, torch.zeros(2, 2), torch.randn(1, 5) * 1000)
    assert len(program.points) == 2


def test_loops_of_other_threads_are_not_the_functions():
    """Found in a long run: a snapshot looks through the youngest objects, of all threads."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            for _ in zip(range(500), enumerate(range(500)), strict=True):
                pass

    def halve(x):
        while x.abs().max() > 1:
            x = x * 0.5
        return x

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    try:
        for _ in range(3):
            program = checked(halve, torch.randn(3, 4) * 9, torch.randn(1, 5) * 1000)
            assert len(program.points) == 2
    finally:
        stop.set()
        thread.join()


def test_nothing_of_an_exploration_outlives_its_program():
    def runs():
        gc.collect()
        return sum(type(o) in (Run, StaticGraph) for o in gc.get_objects())

    def checks(x):
        if x.shape[0] > 20:
            try:
                x[30, 0]
            except IndexError as error:
                raise ValueError("too long") from error
        for row in x.reshape(x.shape[0], -1):
            if row.sum() > 0:
                x = x * 2
        return x.sum(0)

    counts = []
    for _ in range(3):
        explore(checks, (torch.randn(3, 4),))
        with pytest.raises(ValueError, match="too long"):
            explore(checks, (torch.randn(23, 4),))
        counts.append(runs())  # ops know the last type that they were given
    assert counts[0] == counts[1] == counts[2]


def test_a_loop_over_different_layers_with_an_early_exit():
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))
    heads = nn.ModuleList(nn.Linear(8, 3) for _ in range(5))

    def early(x):
        for layer, head in zip(layers, heads, strict=True):
            x = torch.tanh(layer(x))
            p = head(x).softmax(-1)
            if p.max() > 0.45:
                return p
        return p

    program = checked(early, torch.randn(4, 8), torch.randn(1, 8) * 5, torch.zeros(2, 8))
    assert len(program.points) == 6 or len(program.points) == 5


def test_a_loop_that_lets_a_tensor_grow():
    def grow(x):
        h = x
        while h.sum() < 10:
            h = torch.cat([h, x + 1])
        return h

    program = checked(grow, torch.rand(3, 4), torch.rand(1, 2), torch.rand(5, 9))
    assert len(program.points) <= 3


def rows(x):
    h = torch.zeros_like(x[0])
    for t in range(x.size(0)):
        h = torch.tanh(x[t] + h)
    return h


def stops(x):
    h = x.new_zeros(x.size(1))
    for row in x:
        h = h * 0.5 + row
        if h.sum() > 3:
            break
    return h


def counted(x):
    total = 0
    for i, row in enumerate(x):
        total = total + row * i
    return total


def nested(x):
    y = torch.zeros(x.size(1))
    for i in range(x.size(0)):
        for j in range(i + 1):
            y = y + x[j]
    return y


def pairs(x):
    total = x.new_zeros(x.size(1))
    for a, b in zip(x, x * 2):
        total = total * a + b
    return total


def backwards(x):
    h = torch.zeros(x.size(1))
    for t in reversed(range(x.size(0))):
        h = torch.sin(h + x[t])
    return h


@pytest.mark.parametrize("function", [rows, stops, counted, nested, pairs, backwards])
def test_loops_over_extents_are_loops(function):
    program = checked(function, torch.randn(5, 4), torch.randn(1, 4), torch.randn(9, 4) * 2)
    assert program.n_ops() < 20
    assert len(program.points) <= 7


cell = nn.LSTMCell(4, 6)


def scan(x):
    h = c = x.new_zeros(x.size(1), 6)
    out = []
    for t in range(x.size(0)):
        h, c = cell(x[t], (h, c))
        out.append(h)
    return torch.stack(out, 1)


def appended(x):
    out = []
    for row in x:
        out.append(torch.tanh(row) * 2)
    return torch.cat(out, -1), len(out)


def comprehension(x):
    return torch.stack([torch.tanh(row) + i for i, row in enumerate(x)])


@pytest.mark.parametrize("function", [scan, appended, comprehension])
def test_lists_that_grow_in_a_loop_are_tensors(function):
    program = checked(function, torch.randn(5, 3, 4), torch.randn(1, 3, 4), torch.randn(9, 2, 4))
    assert len(program.points) <= 3


def doubled(x):
    rows = [x]
    while rows[-1].sum() < 10:
        rows.append(rows[-1] * 2)
    return torch.stack(rows).sum(0)


def filtered(x):
    """Two questions in a turn, and a count in Python."""
    rows, n = [], 0
    while x.sum() < 10:
        x = x * 2
        n += 1
        if x.max() > 3:
            rows.append(x)
        else:
            rows.append(x + 1)
    return torch.stack(rows), n


@pytest.mark.parametrize("function", [doubled, filtered])
def test_lists_that_grow_until_values_end_the_loop_are_tensors(function):
    examples = torch.tensor([1.0, 2.0]), torch.tensor([0.01, 0.02]), torch.tensor([2.0, 3.0])
    program = checked(function, *examples)
    assert len(program.points) <= 9


def test_other_objects_that_grow_until_values_end_the_loop_are_refused_soon():
    def pairs_of(x):
        rows = []
        while x.sum() < 10:
            x = x * 2
            rows.append((x, x + 1))
        return torch.stack([a + b for a, b in rows])

    with pytest.raises(ExploreError, match="append each tensor to a list of its own") as caught:
        explore(pairs_of, (torch.tensor([1.0, 2.0]),))
    assert "test_exploring.py" in str(caught.value)


def test_objects_that_grow_in_a_loop_over_a_range_are_explored():
    def early(x):
        rows = []
        for _ in range(55):
            x = x * 2
            rows.append((x, x + 1))
            if x.sum() > 1e10:
                break
        return rows[-1]

    checked(early, torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.1]))


def test_a_loop_without_an_end_for_the_example_is_not_compared():
    """The proof takes so many turns at most, and says that the graph was not compared."""

    def counts_up(x):
        n = torch.zeros(())
        while n < x.sum():
            n = n + 1e-9  # float32 stays the same from 0.03 on
        return n * x

    with pytest.warns(UserWarning, match="has not ended after 10000 turns") as caught:
        program = explore(counts_up, (torch.full((2, 3), 4.0),))
    assert "test_exploring.py" in str(caught[0].message)
    same(call(program, -torch.ones(2, 3)), counts_up(-torch.ones(2, 3)))


def test_layers_of_recurrence_in_both_directions_stay_loops():
    layers = nn.LSTM(4, 6, 2, bidirectional=True).eval()
    program = checked(layers, torch.randn(5, 2, 4), torch.randn(2, 3, 4))
    assert len(program.points) == 9


def turned(x):
    out = []
    for row in x:
        out.append(torch.tanh(row))
    return torch.stack(out[::-1])


def turned_twice(x):
    out = []
    for row in x:
        out.append(torch.tanh(row))
    out.reverse()
    more = []
    for row in x:
        more.append(row * 2)
    out = out + more[::-1]
    return torch.cat(out[::-1]) * len(out)


@pytest.mark.parametrize("function", [turned, turned_twice])
def test_a_list_in_reverse_order_is_a_flipped_tensor(function):
    program = checked(function, torch.randn(4, 3), torch.randn(7, 2))
    assert not program.guards


@pytest.mark.parametrize(
    "choose",
    [lambda out: out[1:], lambda out: out[:-1], lambda out: out[::2]],
)
def test_a_part_of_a_list_is_unrolled_for_its_size(choose):
    def part(x):
        out = []
        for row in x:
            out.append(torch.tanh(row))
        return torch.stack(choose(out))

    x = torch.randn(4, 3)
    program = explore(part, (x,))
    same(call(program, x), part(x))
    with pytest.raises(SizesDiffer, match=r"test_exploring\.py"):
        call(program, torch.randn(5, 3))


def numbers(x):
    n = (x > 0).sum().item()
    mean = x.mean().item()
    y = x.flatten()[:n].sum() * n
    return y + mean if mean > 0.1 else y * mean, n


def masks(x):
    return x[x > 0].sum(), torch.nonzero(x > 0.3), x.masked_select(x < 0)


def in_place(x):
    y = x.clone()
    y[:, 0] = 0
    y[1:, 1:].mul_(2)
    y += 1
    return {"y": y, "sizes": [y.shape[0] * 2, y.size(1)]}


@pytest.mark.parametrize("function", [numbers, masks, in_place])
def test_numbers_and_sizes_that_depend_on_values(function):
    checked(function, torch.randn(4, 4), torch.randn(6, 3), torch.full((2, 2), 0.5))


def test_arguments_and_buffers_are_written_to():
    x, y = torch.randn(6, 4), torch.randn(6, 4)
    norm, other = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(x):
        x.mul_(2)
        return norm(x)

    program = explore(forward, (x.clone(),))
    assert int(norm.num_batches_tracked) == 0
    given = y.clone()
    same(call(program, given), other(y * 2))
    same(given, y * 2)
    same(norm.running_mean, other.running_mean)
    assert int(norm.num_batches_tracked) == 1


def test_draws_are_drawn_anew():
    def noisy(x):
        return F.dropout(x, 0.5) * torch.rand_like(x) + torch.randn(x.size(0), 1)

    x = torch.randn(3, 4)
    program = explore(noisy, (x,))
    torch.manual_seed(3)
    first, second = call(program, x), call(program, x)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    same(first, noisy(x))


def test_gradients_flow_to_parameters_and_arguments():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss(x):
        y = model(x)
        return y.sum() if y.mean() > 0 else y.square().sum()

    x = torch.randn(5, 4, requires_grad=True)
    program = explore(loss, (x,))
    expected = torch.autograd.grad(loss(x), [x, *model.parameters()])
    same(torch.autograd.grad(call(program, x), [x, *model.parameters()]), expected)


def test_no_grad_stays_no_grad():
    def half(x):
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale

    x = torch.randn(3, requires_grad=True)
    same(
        torch.autograd.grad(call(explore(half, (x,)), x).sum(), x),
        torch.autograd.grad(half(x).sum(), x),
    )


def test_an_error_in_a_branch_is_raised_in_that_branch():
    def careful(x):
        if x.min() < 0:
            raise ValueError("negative")
        return x.sqrt()

    program = explore(careful, (torch.rand(3),))
    assert any(isinstance(s.end, Fail) for _, _, s in program.stretches())
    same(call(program, torch.ones(5)), torch.ones(5))
    with pytest.raises(ValueError, match="negative"):
        call(program, torch.tensor([-1.0, 2.0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * float(x.detach().numpy().max()),
        lambda x: x * x.tolist()[0],
        lambda x: [x] * int(x.sum()),
        lambda x: (print(x.sum()), x * 2)[1],
        lambda x: (x, f"{x.sum().item():.2f}"),
        lambda x: torch.autograd.grad((x * x).sum(), x),
        lambda x: [x] * x.sum().long().item(),
    ],
)
def test_values_that_python_needs_are_refused(function):
    with pytest.raises(ExploreError, match=r"test_exploring\.py"):
        explore(function, (torch.rand(3),))


def test_a_size_is_an_int_to_the_users_checks():
    """As in PyTorch, whose exported sizes pass `isinstance(n, int)`."""

    def checks(x):
        rows, columns = x.shape
        for n in (rows, columns, rows * columns + 1, x.numel()):
            if not isinstance(n, int) or isinstance(n, (bool, float)):
                raise TypeError(type(n))
        return x.reshape(columns, rows) * rows

    graph = explore(checks, (torch.rand(2, 3),))
    x = torch.rand(4, 5)
    np.testing.assert_array_equal(run(graph, [x], {}), x.numpy().reshape(5, 4) * 4)


def test_a_single_example_whose_size_is_fixed_keeps_its_size():
    """A batch of 1 stands for all sizes, but for those functions that fix the number."""

    def fixes(x):
        return x.repeat(range(1, 9)[len(x)], 1)  # an index of Python's, so a plain int

    x = torch.arange(3.0).reshape(1, 3)
    np.testing.assert_array_equal(run(explore(fixes, (x,)), [x], {}), fixes(x))
    free = explore(lambda x: x * len(x), (x,))
    np.testing.assert_array_equal(run(free, [torch.ones(4, 3)], {}), np.full((4, 3), 4.0))


def test_python_state_that_changes_is_refused():
    calls = []

    def counts(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(ExploreError, match="does not compute what the function computes"):
        explore(counts, (torch.rand(3),))


def test_a_loop_without_a_bound_is_refused():
    steps = {"n": 0}

    def endless(x):
        n = 0
        while True:
            n += 1
            if x.sum() > n:
                x = x + 1

    with pytest.raises(ExploreError, match="counts in Python without a bound"):
        explore(endless, (torch.rand(3),))
    assert steps == {"n": 0}


def test_other_threads_do_not_begin_to_record():
    """Python's `len` is exchanged in all threads, also in the one that compiles."""
    stop, lengths, found = threading.Event(), set(), []

    def counting():
        while not stop.is_set():
            lengths.add(len)
            found.append((len([1, 2]), list(enumerate("a")), list(zip([1], [2], strict=True))))
            found.append((int(2.5), float("1.5")))
            time.sleep(0.001)

    def slow(x):
        time.sleep(0.05)
        return x * int(x.sum())

    gc.collect()
    before = len(_siblings.traces())
    thread = threading.Thread(target=counting, daemon=True)
    thread.start()
    explore(slow, (torch.ones(3),))
    assert len(_siblings.traces()) == before and thread.is_alive()
    stop.set()
    thread.join()
    assert len(lengths) == 2  # the thread has met both, and `found` says that they agree
    assert [x for x in found if x not in [(2, [(0, "a")], [(1, 2)]), (2, 1.5)]] == []


def test_nothing_is_left_behind():
    bias = torch.zeros(3)

    def writes(x):
        bias.add_(x)
        raise RuntimeError("stop")

    before = (range, len, enumerate, zip)
    with pytest.raises(RuntimeError, match="stop"):
        explore(writes, (torch.ones(3),))
    same(bias, torch.zeros(3))
    assert before == (range, len, enumerate, zip)
    same(torch.ones(2) + 1, torch.full((2,), 2.0))


def test_a_batch_of_one_is_a_batch():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    checked(model, torch.randn(1, 3, 8, 8), torch.randn(5, 3, 9, 12))


def test_every_op_names_its_line():
    program = explore(branches, (torch.randn(3, 4),))
    items = [i for _, _, s in program.stretches() for i in s.items if isinstance(i, Apply)]
    assert items
    assert all(i.site.code is branches.__code__ for i in items)


def test_constants_may_be_read():
    def steps(x):
        rates = torch.linspace(0, 1, 3)
        for rate in rates.tolist():
            x = x * (1 - rate)
        if torch.tensor([1.0, 2.0]).sum() > 2:
            x = x + float(rates[1])
        return x

    program = checked(steps, torch.rand(3), torch.rand(5))
    assert len(program.points) == 1


def sizes(x):
    n, m = x.shape
    y = x + torch.arange(0, m, dtype=torch.long) + torch.zeros(x.shape) + x.new_full((n, 1), 2.0)
    y = y.masked_fill(torch.tril(torch.ones(n, m)) == 0, -9.0) / torch.tensor(m, dtype=x.dtype)
    z = F.interpolate(y[None, None], scale_factor=2)
    return F.pad(y, (0, n, 1, 1)), z.view(1, -1), y ** (1 / m), torch.cat([y, torch.zeros(2, m)])


def test_sizes_stay_symbols():
    program = checked(sizes, torch.rand(4, 6), torch.rand(3, 5), torch.rand(7, 2))
    assert not any(op == EQ and type(n) is int for op, _, n in program.guards)


IN_A_ROW = [
    lambda x: x * 2 if x.shape == x.t().shape else x + 1,
    lambda x: x * 2 if x.shape[1:] != x.t().shape[1:] else x + 1,
    lambda x: x.sum() if 0 in (*x.shape, *x.t().shape) else x + 1,
    lambda x: x * 2 if tuple(x.shape) < tuple(x.t().shape) else x + 1,
    lambda x: x * 2 if max(x.shape) > 4 else x + 1,
    lambda x: x[: min(x.shape)] * 2,
    lambda x: x * 2 if sorted(x.shape)[0] == 3 else x + 1,
    lambda x: x * 2 if any(n == 0 for n in x.shape) else x + 1,
]


@pytest.mark.parametrize("function", IN_A_ROW)
def test_questions_in_a_row_of_a_function_in_c_are_points_each(function):
    """Between the comparisons of two shapes nothing of Python's state changes."""
    example = torch.randn(3, 4)
    sizes = ((3, 4), (4, 4), (5, 2), (2, 5), (0, 3), (3, 0), (0, 0), (6, 6), (3, 3))
    program = checked(function, example, *(torch.randn(*n) for n in sizes))
    assert not program.guards  # no size is fixed


def test_a_plain_number_of_a_size_fixes_the_size():
    program = explore(lambda x: x * len("abc"[: x.size(0)]), (torch.rand(4, 3),))
    with pytest.raises(SizesDiffer, match="compares"):
        call(program, torch.rand(3, 3))


@pytest.mark.parametrize(
    ("make", "points"),
    [
        (lambda: nn.GRU(4, 5), 3),
        (lambda: nn.RNN(4, 5, nonlinearity="relu", bidirectional=True), 5),
        (lambda: nn.LSTM(4, 6, 2, proj_size=3, batch_first=True), 5),
    ],
)
def test_recurrent_layers_hold_for_all_lengths(make, points):
    layer = make().eval()
    program = checked(layer, torch.randn(3, 5, 4), torch.randn(1, 1, 4), torch.randn(6, 2, 4))
    assert len(program.points) == points


def converts(x):
    y = x * 2
    k = int(x.sum().abs() * 3)
    if k > 3:
        y = y + 1
    return y * k + float(x.max()) * int(x.argmax())


def rounds(x):
    value = x.mean().item() * 10
    return x * math.floor(value) + math.ceil(value), round(value), x[: math.ceil(len(x) / 2)]


def acts(x):
    taken = []
    while len(taken) < 3:
        taken.append(int(x[len(taken)] > 0))
        if taken[-1] == 1:
            x = x * 1.5
    return x, torch.tensor(taken)


@pytest.mark.parametrize("function", [converts, rounds, acts])
def test_int_and_float_of_values_are_numbers_of_the_graph(function):
    generator = torch.Generator().manual_seed(1)
    examples = [torch.randn(n, generator=generator) for n in (5, 3, 8, 6)]
    checked(function, *examples)
    assert "int" not in globals()
    assert "float" not in globals()


def held(x):
    return x * (x.sum().item() * (2 if x[0] > 0 else 3)), x.mean().item(), x.max() > x.mean() + 1


def listed(x):
    return [x.sum().item() + k for k in range(3) if x[k] > 0]


@pytest.mark.parametrize("function", [held, listed])
def test_numbers_that_expressions_hold_while_a_question_is_asked(function):
    generator = torch.Generator().manual_seed(2)
    checked(function, *[torch.randn(n, generator=generator) for n in (5, 3, 8, 4)])


def test_the_rounded_half_of_a_size_stays_a_size():
    program = checked(lambda x: x[: int(x.size(0) / 2)], torch.randn(5), torch.randn(9))
    assert len(program.points) == 1


def test_an_assertion_may_show_the_values():
    def strict(x):
        assert (x.sum() > -100) & (x[0] < 100), f"out of range: {x}, {x[0]:.3f}"
        return x * 2

    checked(strict, torch.randn(4), torch.randn(2))


def test_what_a_mask_selects_may_be_given_a_known_shape():
    def columns(x):
        mask = torch.zeros_like(x)
        mask[:, 1] = 1
        return x[mask.bool()].view(x.size(0))

    checked(columns, torch.randn(4, 6), torch.randn(7, 2))


def test_numbers_of_turns_may_be_keys_of_a_dict():
    def keyed(x):
        found = {i: x[i] * i for i in range(x.size(0))}
        return torch.stack([found[i] for i in range(x.size(0))])

    checked(keyed, torch.randn(4, 2), torch.randn(4, 5))


class Keeps(nn.Module):
    """Layers whose calls leave something in the module."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.count, self.state, self.last, self.size = 0, torch.zeros(1, 4), None, 7
        self.maps = []

    def forward(self, x):
        return self.layer(x)


class Scratch(Keeps):
    def forward(self, x):
        self.size = x.size(0)
        self.count += 1
        self.last = self.layer(x)
        self.maps.append(self.last)
        return self.last if self.last.sum() > 0 else -self.last


class Counts(Keeps):
    def forward(self, x):
        self.count += 1
        return self.layer(x) * (2 if self.count > 10 else 1)


class Remembers(Keeps):
    def forward(self, x):
        self.state = torch.tanh(self.layer(x) + self.state)
        return self.state


class Piles(Keeps):
    def forward(self, x):
        self.maps.append(self.layer(x).sum())
        return torch.stack(self.maps).sum()


def test_attributes_that_a_call_leaves_behind_are_as_before():
    module = Scratch()
    before = dict(vars(module))
    explore(module, (torch.randn(3, 4),))
    assert vars(module) == before
    assert module.maps == []
    assert module(torch.randn(2, 4)).shape == (2, 4)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Counts, r"changes Counts\.count"),
        (Remembers, r"changes Remembers\.state"),
        (Piles, "other values"),
    ],
)
def test_state_from_call_to_call_is_refused(kind, text):
    module = kind()
    before = dict(vars(module))
    with pytest.raises(ExploreError, match=text):
        explore(module, (torch.randn(3, 4),))
    assert vars(module) == before
    assert module.maps == []


def test_a_leaf_made_inside_of_the_function():
    checked(lambda x: x.clone().detach().requires_grad_(True) * 2, torch.randn(3), torch.randn(5))


def columns(x):
    h = x.new_zeros(x.size(0), 1)
    for part in x.split(1, dim=1):
        h = torch.tanh(h + part)
    return h


def unbound(x):
    parts = x.unbind(1)
    h = parts[0]
    for part in reversed(parts):
        h = h * 0.5 + part
    return h * len(parts), parts[-1]


def zipped(x):
    h = x.new_zeros(x.size(0), 1)
    for i, (a, b) in enumerate(zip(x.split(1, 1), (x * 2).split(1, 1))):
        h = h * a + b * i
    return h


def restacked(x):
    return torch.stack([part * 2 for part in torch.unbind(x, 1)], 1)


@pytest.mark.parametrize("function", [columns, unbound, restacked])
def test_loops_over_parts_stay_loops(function):
    program = checked(function, torch.randn(3, 4), torch.randn(3, 1), torch.randn(2, 7))
    assert not any(op == EQ for op, _, _ in program.guards)


def test_loops_over_parts_of_two_tensors():
    checked(zipped, torch.randn(3, 4), torch.randn(3, 6))


def test_turns_are_counted_from_0():
    def steps(x):
        found = []
        for i, k in enumerate(range(1, x.size(0), 2)):
            found.append(x[k] * i + k)
        for i, k in enumerate(reversed(range(x.size(0))), 1):
            found.append(x[k] * i)
        return torch.stack(found)

    checked(steps, torch.randn(6, 2), torch.randn(9, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.unbind(0),
        lambda x: torch.cat(x.split(1, 0)[::-1]),
        lambda x: (lambda first, *rest: first + torch.stack(rest).sum(0))(*x.unbind(0)),
    ],
)
def test_parts_that_are_used_as_a_tuple_fix_their_number(function):
    program = checked(function, torch.randn(4, 5))
    assert program.guards
    with pytest.raises(SizesDiffer):
        call(program, torch.randn(3, 5))


def test_a_part_that_is_written_to_is_a_view():
    def first_row(x):
        x = x * 1
        parts = x.unbind(0)
        parts[0].add_(1)
        return x

    checked(first_row, torch.randn(4, 5), torch.randn(2, 3))
