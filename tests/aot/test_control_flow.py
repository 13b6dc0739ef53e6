"""Programs with branches and loops become libraries, which take the same ways as the programs."""

import ctypes
import shutil
import threading
import time

import numpy as np
import pytest
from callers import NativeModel

import wend as torch
from wend import aot, nn
from wend._engine.base import tree

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")
torch.manual_seed(0)
CELL, LSTM = nn.LSTMCell(4, 5), nn.LSTM(4, 5, batch_first=True)
LAYERS = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
HEADS = nn.ModuleList(nn.Linear(8, 3) for _ in range(4))
TABLE = torch.randn(6, 4)


def branches(x):
    y = x * 2
    y = y + 1 if y.sum() > 0 else y - 1
    if (y * y).mean() > 1:
        y = torch.tanh(y)
    return y.view(y.size(0) * y.size(1))


def halve(x):
    while x.abs().max() > 1:
        x = x * 0.5
    return x


def early_exit(x):
    for layer, head in zip(LAYERS, HEADS, strict=True):
        x = torch.tanh(layer(x))
        p = head(x).softmax(-1)
        if p.max() > 0.45:
            return p
    return p


def recurrent(x):
    h, c = torch.zeros(x.size(1), 5), torch.zeros(x.size(1), 5)
    outs = []
    for t in range(x.size(0)):
        h, c = CELL(x[t], (h, c))
        outs.append(h)
    return torch.stack(outs), c


def layer(x):
    return LSTM(x)[0]


def both_directions(x):
    ways = []
    for order in (range(x.size(0)), reversed(range(x.size(0)))):
        h, states = x.new_zeros(1, 3), []
        for t in order:
            h = torch.tanh(h + x[t])
            states.append(h)
        ways.append(states)
    return torch.cat([torch.cat(ways[0]), torch.cat(ways[1][::-1])], dim=1)


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
            y = y + x[j] * x[i]
    return y


def grows(x):
    h = x
    while h.sum() < 10:
        h = torch.cat([h, x + 1])
    return h


def swaps(x):
    a, b = x, x * 2
    while a.sum() < 40:
        a, b = b, a + x.abs() + 1
    return a, b


def reads_numbers(x):
    n = x.argmax().item()
    y = x * x.sum().item()
    if n > 3:
        y = y - n
    mean = x.mean().item()
    return y, n, mean, n > 3


def plain_numbers(x):
    n, scale = int(x.sum() * 3), float(x[0])
    return x * n + scale, n


def raises(x):
    if x.sum() > 100:
        raise ValueError("too much")
    return x + 1


def looks_up(i):
    y = TABLE[i]
    while y.abs().max() < 20:
        y = y + TABLE[i] * 1.5
    return y


def weights_as_state(x):
    y = TABLE
    for row in x:
        y = y * 0.5 + row
    return y


def normal(*shapes):
    return [torch.randn(shape) for shape in shapes]


#: function, the example and further inputs
PROGRAMS = {
    branches: [*normal((3, 4), (7, 2), (1, 5)), torch.full((1, 3), -9.0), torch.full((2, 2), 3.0)],
    halve: [torch.randn(3, 4) * 9, torch.zeros(2, 2), torch.randn(1, 5) * 1000],
    early_exit: [torch.randn(4, 8), torch.randn(1, 8) * 5, torch.zeros(2, 8)],
    recurrent: normal((6, 3, 4), (1, 3, 4), (2, 1, 4), (40, 2, 4)),
    layer: normal((6, 3, 4), (1, 3, 4), (2, 1, 4), (2, 40, 4)),
    both_directions: normal((6, 1, 3), (1, 1, 3), (2, 1, 3), (40, 1, 3)),
    stops: [*normal((5, 4), (1, 4)), torch.randn(9, 4) * 2],
    counted: normal((5, 4), (1, 3), (9, 1)),
    nested: normal((4, 3), (1, 2), (7, 3)),
    grows: [torch.rand(3, 4), torch.rand(1, 2), torch.rand(5, 9)],
    swaps: [torch.rand(3, 4), torch.rand(1, 2) * 9, torch.rand(5, 9) - 1],
    reads_numbers: normal((5,), (2,), (11,)),
    plain_numbers: normal((5,), (2,), (11,), (1,)),
    raises: normal((2, 3), (1, 3), (4, 4)),
    looks_up: [torch.tensor([0, 1]), torch.tensor([3]), torch.tensor([5, 2, 2])],
    weights_as_state: normal((5, 4), (1, 4), (9, 4)),
}


def compare(model, function, inputs):
    for x in inputs:
        wanted = tree.leaves(function(x))
        found = model(x.numpy(), outputs=len(wanted))
        for mine, theirs in zip([found] if len(wanted) == 1 else found, wanted, strict=True):
            want = theirs.detach().numpy() if isinstance(theirs, torch.Tensor) else theirs
            want = np.asarray(want)
            assert mine.shape == want.shape and mine.dtype == want.dtype
            np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)


@needs_cc
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(function, tmp_path):
    example, *others = PROGRAMS[function]
    model = NativeModel(aot.compile(function, example, directory=tmp_path))
    compare(model, function, [example, *others])
    model.free()


@needs_cc
def test_lists_grow_in_place(tmp_path):
    made = aot.compile(recurrent, torch.randn(6, 3, 4), directory=tmp_path)
    assert made.source.read_text().count("grow(&") == 1  # of the only loop
    model = NativeModel(made)
    times = []
    for n in (1000, 8000):
        x = np.ones((n, 16, 4), np.float32)
        start = time.thread_time()
        model(x, outputs=2)
        times.append(time.thread_time() - start)
    assert times[1] < 25 * times[0]  # 64 times as long with a copy of the list in each turn


@needs_cc
def test_a_list_that_is_read_in_the_loop_is_kept(tmp_path):
    def function(x):
        h = x
        while h.sum() < 50:
            longer = torch.cat([h, x + 1])
            h = torch.cat([longer, h * 0.5])
        return h

    model = NativeModel(aot.compile(function, torch.rand(3, 4), directory=tmp_path))
    compare(model, function, [torch.rand(3, 4), torch.rand(1, 2), torch.rand(5, 9)])


@needs_cc
def test_two_threads_run_one_model(tmp_path):
    model = NativeModel(aot.compile(recurrent, torch.randn(6, 3, 4), directory=tmp_path))
    inputs = [torch.randn(5, 2, 4), torch.randn(30, 7, 4)]
    wanted = [[y.detach().numpy() for y in recurrent(x)] for x in inputs]
    faults = []

    def work(k):
        try:
            for _ in range(40):
                found = model(inputs[k].numpy(), outputs=2)
                for mine, theirs in zip(found, wanted[k], strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
                with pytest.raises(RuntimeError, match=f"float32 \\({k}\\)"):
                    model(np.ones(k, np.float32), outputs=2)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults


@needs_cc
def test_failures_have_codes_and_texts(tmp_path):
    model = NativeModel(aot.compile(raises, torch.randn(4, 3), directory=tmp_path / "a"))
    header = (tmp_path / "a" / "model.h").read_text()
    for x, code, name, text in (
        (np.full((4, 3), 50.0, np.float32), 6, "RAISED", "ValueError: too much"),
        (np.ones((4, 3)), 2, "WRONG_SIZES", r"inputs of float64 \(4, 3\)"),
        (np.ones(4, np.float32), 2, "WRONG_SIZES", r"inputs of float32 \(4\)"),
    ):
        assert f"MODEL_{name} = {code}" in header
        with pytest.raises(RuntimeError, match=text):
            model(x)
        assert model.code == code
    x = torch.randn(2, 2)
    compare(model, raises, [x])
    looks = NativeModel(aot.compile(looks_up, torch.tensor([1]), directory=tmp_path / "b"))
    with pytest.raises(RuntimeError, match="out of range"):
        looks(np.array([2, 6]))
    assert looks.code == 5
    compare(looks, looks_up, [torch.tensor([1, 4])])


@needs_cc
def test_a_lack_of_memory_is_an_error(tmp_path):
    def function(x):
        y = x + 1
        while y.sum() > 0:
            y = y - 1
        return y

    model = NativeModel(aot.compile(function, torch.randn(4, 3), directory=tmp_path))
    for shape, code in (((1 << 30, 1 << 29), 3), ((1 << 31, 1 << 31), 2)):  # nobody has so much
        with pytest.raises(RuntimeError, match="no memory" if code == 3 else "no recorded pattern"):
            model.call_with([(shape, "float32", 0)], 1)
        assert model.code == code
    compare(model, function, normal((3, 2)))


@needs_cc
def test_calls_give_their_memory_back(tmp_path):
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("needs mallinfo2, which this C library does not have")

    class Info(ctypes.Structure):
        _fields_ = tuple((k, ctypes.c_size_t) for k in "abcdefghij")

    libc.mallinfo2.restype = Info
    model = NativeModel(aot.compile(grows, torch.rand(4, 3), directory=tmp_path))
    x = np.full((20, 30), 0.001, np.float32)
    used = []
    for turns in (5, 1, 60):
        for _ in range(turns):
            model(x)
        used.append(libc.mallinfo2().h)
    assert used[2] - used[1] < 20 * x.nbytes  # a value that is kept would be 60 times as much
