"""Steps off the trie: ops of many operands, with several results, of sizes known and new."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.core import _hot, _trie_policy
from wend._engine.core.provenance import Site
from wend._engine.runtime.batching import signatures


def run(cell, sizes, grad=True):
    """Steps of a cell over batches of these sizes; the results, and gradients of the weights."""
    torch.manual_seed(0)
    made = []
    for n in sizes:
        h = c = torch.zeros(n, 3)
        for _ in range(3):
            h, c = cell(torch.randn(n, 4), (h, c))
        made += [h, c]
    if grad:
        sum(y.sum() for y in made).backward()
        made += [p.grad for p in cell.parameters()]
        cell.zero_grad()
    return [y.tolist() for y in made]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 5, 2), (1, 2, 0, 1)])
def test_a_cell_of_many_operands(bias, sizes):
    cell = nn.LSTMCell(4, 3, bias=bias)
    with own_trie():
        expected = run(cell, sizes)
    with own_trie(sealed=True):
        found = run(cell, sizes)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b))


def test_what_requires_no_grad_is_known():
    cell = nn.LSTMCell(4, 3)
    with own_trie(sealed=True):
        run(cell, (2, 2))
        with torch.no_grad():
            h, c = cell(torch.randn(2, 4), (torch.zeros(2, 3), torch.zeros(2, 3)))
        assert not h.requires_grad and not c.requires_grad
        h, c = cell(torch.randn(2, 4), (torch.zeros(2, 3), torch.zeros(2, 3)))
        assert h.requires_grad and c.requires_grad


def test_an_op_whose_types_take_turns():
    x = torch.randn(2, 4, requires_grad=True)
    weights = {n: torch.randn(n, 4, requires_grad=True) for n in (3, 5, 7)}
    with own_trie(sealed=True):
        for n in (3, 5, 3, 5, 5, 7, 3, 7, 5, 3):
            made = torch.nn.functional.linear(x, weights[n])
            assert made.shape == (2, n) and made.requires_grad
            assert [part.shape for part in made.chunk(n, dim=1)] == [(2, 1)] * n
            low, high = torch.aminmax(made[:, : n - 2], dim=0)
            assert low.shape == high.shape == (n - 2,)
        with pytest.raises(RuntimeError):
            torch.nn.functional.linear(x[:, :3], weights[3])
        np.testing.assert_allclose(
            made.detach().numpy(), x.detach().numpy() @ weights[3].detach().numpy().T, rtol=1e-5
        )


@pytest.mark.parametrize("sealed", [False, True])
def test_parts_of_one_op_derive_each_for_itself(sealed):
    with own_trie(sealed=sealed):
        for _ in range(3):
            x = torch.arange(12.0).reshape(2, 6).clone()
            a, b, c = x.chunk(3, dim=1)
            inner, other = b[1], c.chunk(2, dim=1)[1]
            assert a.alias is not b.alias and a.alias is a.alias
            assert [part.alias.chain[0][1] for part in (a, b, c)] == [(0, 2), (2, 2), (4, 2)]
            b.add_(100.0)
            x[0].mul_(2.0)
            assert a.tolist() == [[0.0, 2.0], [6.0, 7.0]]
            assert b.tolist() == [[204.0, 206.0], [108.0, 109.0]]
            assert c.tolist() == [[8.0, 10.0], [10.0, 11.0]]
            assert inner.tolist() == [108.0, 109.0] and other.tolist() == [[10.0], [11.0]]
            other.zero_()
            assert x[:, 2:].tolist() == [[204.0, 206.0, 8.0, 0.0], [108.0, 109.0, 10.0, 0.0]]
            assert a._version == c._version == x._version


def test_tensors_end_with_what_users_gave_them():
    ended = []

    class Told:
        def __del__(self):
            ended.append(True)

    with own_trie(sealed=True):
        x = torch.randn(2, 4)
        for n in range(1, 4):
            y = x * 2.0
            y.note = Told()
            del y
            assert len(ended) == n
            y = x * 2.0
            weak = weakref.ref(y)
            assert weak() is y
            del y
            assert weak() is None


def test_results_come_in_the_container_of_the_op():
    x = torch.randn(3, 4)
    with own_trie(sealed=True):
        for _ in range(3):
            found = torch.max(x, dim=1)
            assert type(found).__name__ == "max"
            assert found.values.shape == found.indices.shape == (3,)
            assert not found.indices.requires_grad
        y = x.clone().requires_grad_()
        for _ in range(3):
            found = torch.max(y, dim=1)
            assert found.values.requires_grad and not found.indices.requires_grad


def test_a_bad_operand_raises_at_once():
    cell = nn.LSTMCell(4, 3)
    state = torch.zeros(2, 3), torch.zeros(2, 3)
    with own_trie(sealed=True):
        for _ in range(2):
            cell(torch.randn(2, 4), state)
        with pytest.raises(RuntimeError):
            cell(torch.randn(2, 5), state)
        with pytest.raises(RuntimeError):
            cell(torch.randn(2, 4), (torch.zeros(2, 3), torch.zeros(3, 3)))
        h, _ = cell(torch.randn(2, 4), state)
        assert h.shape == (2, 3)


def test_types_of_the_fourth_operand_are_compared():
    x, h, c = torch.randn(2, 4), torch.zeros(2, 3), torch.zeros(2, 3)
    narrow, wide = nn.LSTMCell(4, 3), nn.LSTMCell(4, 3, bias=False).double()
    with own_trie(sealed=True):
        trace = _hot.current_trace()
        for _ in range(2):
            a, _ = narrow(x, (h, c))
            b, _ = wide(x.double(), (h.double(), c.double()))
            assert trace.state is None
            assert a.dtype is torch.float32 and b.dtype is torch.float64


def test_cells_with_weights_of_their_own_take_turns():
    cells = [nn.LSTMCell(4, 3), nn.LSTMCell(4, 3)]
    rows = torch.randn(6, 2, 4)

    def run_turns(order):
        states = [(torch.zeros(2, 3), torch.zeros(2, 3)) for _ in cells]
        for k, which in enumerate(order):
            states[which] = cells[which](rows[k], states[which])
        (states[0][0].sum() + 2 * states[1][0].sum()).backward()
        made = [y.tolist() for pair in states for y in pair]
        for cell in cells:
            made += [p.grad.tolist() for p in cell.parameters()]
            cell.zero_grad()
        return made

    # The weights enter in another order, at other places, each time.
    for order in ([0, 1, 0, 1, 1, 0], [1, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 1]):
        with own_trie():
            expected = run_turns(order)
        with own_trie(sealed=True):
            for _ in range(2):
                found = run_turns(order)
                for a, b in zip(expected, found, strict=True):
                    torch.testing.assert_close(torch.tensor(a), torch.tensor(b))


def test_rows_are_found_whatever_they_are_rows_of():
    narrow, wide = torch.randn(5, 2, 3), torch.randn(4, 2, 7)
    with own_trie(sealed=True):
        for forget in (False, False, True):
            if forget:
                signatures.BOOK.clear()
                assert not signatures._grouper.PLACES
            made = [x[k].exp() for k in (0, 3, -1, 3) for x in (narrow, wide, narrow.double())]
            made += [x.select(1, k).exp() for k in (1, 0) for x in (narrow, wide)]
            expected = [
                np.exp(x.numpy()[k]) for k in (0, 3, -1, 3) for x in (narrow, wide, narrow.double())
            ] + [np.exp(x.numpy()[:, k]) for k in (1, 0) for x in (narrow, wide)]
            for a, b in zip(made, expected, strict=True):
                np.testing.assert_allclose(a.numpy(), b, rtol=1e-6)


@pytest.mark.parametrize("cls", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_a_cell_refuses_other_ranks(cls):
    cell = cls(4, 3)
    state = (torch.zeros(2, 2, 3),) * 2 if cls is nn.LSTMCell else torch.zeros(2, 2, 3)
    with pytest.raises(ValueError, match="Expected hidden to be 1D or 2D, got 3D"):
        cell(torch.randn(2, 4), state)
    good = (torch.zeros(2, 3),) * 2 if cls is nn.LSTMCell else torch.zeros(2, 3)
    for shape in ((2, 2, 4), ()):
        with pytest.raises(ValueError, match=f"input to be 1D or 2D, got {len(shape)}D"):
            cell(torch.randn(shape), good)


def test_a_long_structure_that_comes_back_is_known():
    """It is told by some of its steps."""

    def chain(n):
        with own_trie(sealed=True):
            x = torch.ones(2)
            for k in range(n):
                x = x.abs() if k % 3 else x.neg()
            x.tolist()

    torch.synchronize()  # what the tests before have left
    for n in (40, 5000):
        _trie_policy.STRANGERS.clear()
        chain(n)
        chain(n + 1)
        assert len(_trie_policy.STRANGERS) == 2
        _trie_policy.RETURNED[0] = 0
        chain(n)
        assert len(_trie_policy.STRANGERS) == 2
        assert _trie_policy.RETURNED[0] == 1
    _trie_policy.RETURNED[0] = 0


def test_what_is_read_of_a_long_trace_is_computed():
    """Handles are found among the many values that nobody has any more."""
    with own_trie(sealed=True):
        x = torch.zeros(3)
        kept = []
        for k in range(3000):
            x = x + 1
            if k % 100 == 0:
                kept.append((k + 1, x))
        del x
        wanted = _hot.wanted(_hot.current_trace())
        assert len(wanted) == len(kept)
        assert [y.tolist() for _, y in kept] == [[k] * 3 for k, _ in kept]


HELD_WORDS = [  # as users hold them: (made of a list, what of it a table of 5 rows refuses)
    lambda rows: np.array(rows),
    lambda rows: np.array(rows, np.int32),
    lambda rows: np.array([[k, 9] for k in rows])[:, 0],  # apart from one another
    lambda rows: np.frombuffer(b"-" + np.array(rows).tobytes(), np.uint8)[1:].view(np.int64),
]


@pytest.mark.parametrize("made", HELD_WORDS)
@pytest.mark.parametrize("sealed", [False, True])
def test_rows_are_looked_up_in_memory_that_is_written_to(made, sealed):
    """Each lookup sees what the memory is then, and refuses what no row has."""
    table = torch.arange(10.0).reshape(5, 2).requires_grad_()
    with own_trie(sealed=sealed):
        for rows in ([0, 4, 1], [3, 3], [], [2]):
            memory = made(np.array(rows, np.int64)) if rows else np.array(rows, np.int64)
            words = torch.from_numpy(memory)
            y = nn.functional.embedding(words, table)
            again = nn.functional.embedding(words, table)
            if memory.flags.writeable and rows:
                memory[0] = 4
            last = nn.functional.embedding(words, table)
            expected = table.detach().numpy()
            assert y.tolist() == again.tolist() == expected[rows].tolist()
            assert last.tolist() == expected[memory].tolist()
            for bad in (5, -1) if memory.flags.writeable and rows else ():
                memory[-1] = bad
                with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
                    nn.functional.embedding(words, table)
            if rows:
                (last + y).sum().backward()
                assert table.grad.sum().item() == 4 * len(rows)
                table.grad = None


@pytest.mark.parametrize("n", [1, 1 << 16])
def test_a_large_shared_index_is_read_when_its_line_runs(n):
    table = torch.arange(6.0).reshape(3, 2)
    memory = np.zeros(n, np.int64)
    words = torch.from_numpy(memory)
    with own_trie(sealed=True):
        for k in (1, 2, 0):
            memory[:] = k
            y = nn.functional.embedding(words, table) + 1
            memory[:] = 7
            assert y[-1].tolist() == [2.0 * k + 1, 2.0 * k + 2]


def test_slices_that_lie_inside_or_not():
    x = torch.arange(30.0).reshape(10, 3).requires_grad_()
    held = x.detach().numpy()
    bounds = [(2, 3), (3, 4), (0, 1), (9, 10), (4, 4), (3, 5), (8, 12), (-3, 9), (5, 3), (10, 11)]
    keys = [slice(a, b, step) for step in (None, 1, 2) for a, b in bounds]
    with own_trie(sealed=True):
        for _ in range(2):
            for key in keys:
                part, narrow = x[key], x[:, key]
                assert part.shape == held[key].shape and narrow.shape == held[:, key].shape
                np.testing.assert_array_equal(part.detach().numpy(), held[key])
                np.testing.assert_array_equal(narrow.detach().numpy(), held[:, key])
        for n in (7, 4, 7):  # what was inside of the last operand may be none of this one's
            y = x[:n] * 2.0
            assert y[n - 1 : n].shape == (1, 3) and y[n : n + 1].shape == (0, 3)
            assert y[n - 2 : n + 1].shape == (2, 3)


def test_lines_of_users_and_modules_are_told_apart():
    """A record says the user's line, also where the package's own line is that of the last one."""
    layer, x = nn.Linear(3, 3), torch.randn(2, 3)
    with own_trie(sealed=True):
        trace = _hot.current_trace()
        y = x * 1.0
        for _ in range(2):
            y = layer(y)
            y = torch.sigmoid(y)
            y = layer(torch.nn.functional.linear(y, layer.weight))
        lines = []
        for step in trace.states:
            if step.code is not None:
                assert step.code.co_filename == __file__
                lines.append(Site(step.code, step.lasti).line)
    first = lines[0]
    assert [line - first for line in lines] == [0, 2, 3, 4, 4, 2, 3, 4, 4]


def test_an_op_off_the_trie_follows_its_conditions():
    """Views are up to date, modes are those of the line, gradients are wanted or not."""
    x = torch.randn(2, 4, requires_grad=True)
    with own_trie(sealed=True):
        for _ in range(3):
            y = torch.tanh(x * 2.0)
            assert torch.sigmoid(y).requires_grad
            with torch.no_grad():
                assert not torch.sigmoid(y).requires_grad
            with torch.inference_mode():
                z = torch.sigmoid(y)
                assert z.is_inference() and not z.requires_grad
            with torch.eager():
                assert _hot.value_of(torch.sigmoid(y)).buffer is not None
            base = torch.zeros(2, 4)
            part = base[:, 1:3].chunk(2, dim=1)[0]
            base += 1.0  # the part has to be derived again
            np.testing.assert_allclose(torch.exp(part).tolist(), np.exp(np.ones((2, 1))), rtol=1e-6)
            torch.set_default_dtype(torch.float64)
            try:
                assert (torch.ones(2, dtype=torch.int64) / 2.0).dtype == torch.float64
            finally:
                torch.set_default_dtype(torch.float32)
            assert (torch.ones(2, dtype=torch.int64) / 2.0).dtype == torch.float32


def chain(x, w, n=6):
    """Scores of n rows, each by a product of its own, and what each has come to before."""
    rows = [x[k : k + 1] @ w for k in range(n)]
    return torch.cat([row.tanh() for row in rows]).sum(), rows


@pytest.mark.parametrize("held", [False, True])
def test_what_users_keep_of_a_flush_stays(held):
    """The rest of it ends with the flush, unless somebody has the list of what was pending."""
    x, b = np.random.default_rng(0).normal(size=(6, 4)), np.eye(4)
    with own_trie(sealed=True):
        for _ in range(3):
            w = torch.tensor(b, requires_grad=True)
            loss, rows = chain(torch.tensor(x), w)
            row, left = rows[2], weakref.ref(rows[3])
            del rows
            values = _hot.current_trace().values if held else []
            count = len(values)
            loss.backward()
            assert len(values) == count and left() is None
            assert all(v.trace is None for v in values)
            assert _hot.value_of(row).trace is None and _hot.value_of(loss).trace is None
            np.testing.assert_allclose((row * 2).detach().numpy(), 2 * x[2:3])
            np.testing.assert_allclose(w.grad.numpy(), x.T @ (1 - np.tanh(x) ** 2))


def test_what_ends_with_a_flush_may_record():
    """A value that stays may be pending anew when its turn comes."""

    class Memory:
        def __init__(self, array):
            self.array, self.__array_interface__ = array, array.__array_interface__

        def __del__(self):
            made.append(kept * 3 + 1)

    made = []
    with own_trie(sealed=True):
        for _ in range(3):
            kept = torch.ones(6, 4, dtype=torch.float64)
            w = torch.eye(4, dtype=torch.float64).requires_grad_()
            loss, rows = chain(kept, w)
            other = torch.from_numpy(np.asarray(Memory(np.full((6, 4), 2.0))))
            loss = loss + chain(other, w)[0]
            del other, rows
            loss.backward()
            assert _hot.value_of(loss).buffer is not None
        gc.collect()
        assert len(made) == 3
        for y in made:
            np.testing.assert_array_equal(y.numpy(), np.full((6, 4), 4.0))
        np.testing.assert_array_equal((kept + w.grad[:1]).numpy().shape, (6, 4))
