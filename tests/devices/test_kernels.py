"""Kernels of accelerators that are no loop nests: long lines, repeated places, other schedules."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.compiler.kernels.on_device import order, updates
from wend._engine.runtime.devices import queue


@pytest.fixture(params=[(256, 256, 1 << 14), (7, 3, 2), (32, 1, 1)], ids=str)
def schedule(request, monkeypatch, accelerator):
    """Make kernels with other numbers of work items, places of a work item, and groups."""
    items, block, groups = request.param
    monkeypatch.setattr(order, "ITEMS", items)
    monkeypatch.setattr(updates, "BLOCK", block)
    monkeypatch.setattr(queue.accelerator_at(accelerator)._ring, "most_groups", groups)
    order.order_text.cache_clear()
    updates.updates_text.cache_clear()
    yield
    order.order_text.cache_clear()
    updates.updates_text.cache_clear()


def on_both(program, arrays, accelerator):
    """Compare what a program gives on both places; the accelerator's bits are always the same."""
    results = []
    for place in ("cpu", accelerator, accelerator):
        with own_trie():
            tensors = [torch.tensor(a, device=place) for a in arrays]
            results.append([r.cpu().numpy() for r in program(*tensors)])
    want, got, again = results
    for a, b, c in zip(got, want, again, strict=True):
        np.testing.assert_array_equal(a, c)
        assert a.dtype == b.dtype
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(a, b)


LENGTHS = [1, 2, 3, 5, 255, 256, 257, 1000, 4097]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8"])
def test_sorts(n, kind, accelerator, schedule):
    rng = np.random.default_rng(n)
    x = rng.integers(0, max(2, n // 3), size=(3, n)).astype(kind)
    if kind[0] == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
        x[1] = rng.normal(size=n)
    on_both(
        lambda x: (*x.sort(), *x.sort(1, True), *x.t().sort(0), *x.topk((n + 1) // 2, 1)),
        [x],
        accelerator,
    )


@pytest.mark.parametrize("n", [1, 5, 300, 1000])
@pytest.mark.parametrize("kind", ["float32", "int64", "bool"])
def test_changes_at_places(n, kind, accelerator, schedule):
    rng = np.random.default_rng(n)
    x = rng.integers(0, 9, size=(n, 5)).astype(kind)
    source = rng.integers(0, 9, size=(40, 5)).astype(kind)
    rows = rng.integers(0, n, size=40)
    places = rng.integers(0, n, size=(40, 5))

    def program(x, source, rows, places):
        yield x.index_copy(0, rows, source)
        yield x.t().index_copy(1, rows, source.t())
        yield x.scatter(0, places, source)
        yield x.t().scatter(1, places.t(), source.t())
        yield x.scatter(0, places[:20, :3], 1)
        y = x.clone()
        y[rows] = source
        yield y
        if kind != "bool":
            yield x.index_add(0, rows, source)
            yield x.index_put((rows,), source, accumulate=True)
            for how in ("sum", "prod", "amax", "amin"):
                for keep in (True, False):
                    yield x.scatter_reduce(0, places, source, how, include_self=keep)

    on_both(program, [x, source, rows, places], accelerator)


def test_a_place_that_is_out_of_range_is_told(accelerator):
    x, source = np.zeros((4, 2), np.float32), np.ones((2, 2), np.float32)
    for name, places in (("index_copy", [0, 4]), ("scatter", [[0, 4], [1, 1]])):
        errors = []
        for place in ("cpu", accelerator):
            with own_trie(), pytest.raises(IndexError) as error:
                a, b = (torch.tensor(v, device=place) for v in (x, source))
                getattr(a, name)(0, torch.tensor(places, device=place), b).cpu().numpy()
            errors.append(str(error.value))
        assert errors[1].startswith(errors[0]), errors


def test_windows_are_added_up(accelerator):
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)

    def program(x):
        windows = x.unfold(2, 3, 2).unfold(3, 2, 3)
        yield windows
        columns = torch.nn.functional.unfold(x, (3, 2), dilation=(2, 1), stride=(1, 2))
        yield torch.nn.functional.fold(columns, (9, 8), (3, 2), dilation=(2, 1), stride=(1, 2))

    on_both(program, [x], accelerator)


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_several_tensors_index(kind, accelerator, schedule):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 9, size=(7, 300, 4)).astype(kind)
    i, j = rng.integers(0, 7, size=(5, 1)), rng.integers(-300, 300, size=(6,))
    source = rng.integers(0, 9, size=(5, 6, 4)).astype(kind)

    def program(x, i, j, source):
        yield x[i, j]
        yield x.permute(1, 0, 2)[j, i]
        yield x.permute(2, 0, 1)[:, i, j]
        for accumulate in (False, True):
            yield x.index_put((i, j), source, accumulate=accumulate)
            yield (x * 2).index_put((i, j), source, accumulate=accumulate)
        y = x.clone()
        y[i, j] = 3
        y[:, j] += 1
        yield y

    on_both(program, [x, i, j, source], accelerator)


def test_draws_are_those_of_a_processor(accelerator):
    weights = np.random.default_rng(0).random((5, 700)).astype(np.float32)
    weights[:, ::3] = 0
    draws = []
    for place in ("cpu", accelerator):
        with own_trie():
            torch.manual_seed(3)
            x = torch.tensor(weights, device=place)
            draws.append(torch.multinomial(x, 300, replacement=True).cpu().numpy())
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("kinds", [("float32", "float32"), ("int64", "float32"), ("bool", "int64")])
def test_searches(kinds, accelerator):
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, 40, size=(3, 1000)), -1).astype(kinds[0])
    values = rng.integers(-2, 44, size=(3, 50)).astype(kinds[1])
    if kinds[0] == "float32":
        rows[1, -100:] = values[1, 3] = np.nan

    def program(rows, values):
        for right in (False, True):
            yield torch.searchsorted(rows, values, right=right)
            yield torch.searchsorted(rows[1], values, right=right, out_int32=True)
            yield torch.searchsorted(rows[0], 7, right=right)

    on_both(program, [rows, values], accelerator)
