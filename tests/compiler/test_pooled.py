"""Max pooling of what convolutions make: the same bits, and only where nobody reads more."""

import itertools

import numpy as np
import pytest
from convolutions import GEOMETRIES, Case, few_channels, large_squares, layouts, negate
from products import aligned
from test_pipeline import code_of, compared, normal

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.kernels.conv.winograd.pool import POOL
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir.jit import compile_module

pools = forward.pools("float32")
WINDOW = {"kernel": 2, "step": 2, "pad": 0, "dilation": 1}


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run, and checked; on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def pooled_steps(run):
    """How many kernels of a program pool what they make."""
    made, _ = code_of(run)
    return sum(isinstance(step, Kernel) and step.what.endswith("pooled") for step in made.steps)


# -- the kernels ----------------------------------------------------------------------------------


def convolved(case, x=None, epilogue=0, window=WINDOW, **more):
    """What `convolve` pools: values, whether it has noted so, and what else it has stored."""
    high, wide = (n // 2 for n in case.out)
    values = aligned(case.g[:, :, : high * 2 : 2, : wide * 2 : 2].size, "f")
    values[:] = 7
    flag = np.full(1, 99, np.int64)
    given = {f"{what}_{side}": n for what, n in window.items() for side in ("height", "width")}
    given |= {"flag": flag.ctypes.data, "values": values.ctypes.data, "high": high, "wide": wide}
    block = np.array([given.get(name, 0) for name in POOL], np.int64)
    area = high * wide
    state = np.array([values.ctypes.data, area * len(case.w), 0, area], np.int64)
    block[POOL.index("state")] = state.ctypes.data
    out = case.convolve(x, pool=block.ctypes.data, epilogue=epilogue, **more)
    return values.reshape(len(case.x), len(case.w), high, wide), flag[0], out


def greatest(array):
    """The greatest of each 2 x 2."""
    high, wide = (n // 2 for n in array.shape[2:])
    cut = array[:, :, : high * 2, : wide * 2]
    return cut.reshape(*array.shape[:2], high, 2, wide, 2).max((3, 5))


def poolable():
    """Images that are computed in ways that pool."""
    yield from large_squares()
    yield from few_channels()
    for size in range(13, 26):
        width = (37 - size) * matmul.lanes("float32") // 8
        yield Case((1, 3, 11, (size, width), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1))
        yield Case((1, 16, 17, (size, size + 17), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1))


@pytest.mark.skipif(not pools, reason="no convolution pools")
@pytest.mark.parametrize("case", list(poolable()), ids=lambda case: f"{case.x.shape}")
def test_the_greatest_of_windows(case):
    library = compile_module(matmul.epilogue("finish", "float32", negate), ["finish"])
    values, flag, out = convolved(case)
    assert flag == 1 and (out == 7).all()
    assert np.array_equal(values, greatest(case.convolve()))
    negative, flag, _ = convolved(case, epilogue=library.address("finish"))
    assert flag == 1 and np.array_equal(negative, -values)
    for x in layouts(case.x):  # some are computed in other ways
        found, flag, out = convolved(case, x)
        assert np.array_equal(found, greatest(case.convolve(x))) if flag else (found == 7).all()
        assert flag in (0, 1) and (out == 7).all() == flag
    if len(case.x) == 1:
        cuts = matmul.column_cuts(case.out[0] * case.out[1], "float32")
        for cut in {*cuts[::7], cuts[len(cuts) // 2]}:
            parts = [convolved(case, **{name: cut})[0] for name in ("last_column", "first_column")]
            assert np.array_equal(np.where(parts[0] == 7, parts[1], parts[0]), values)


@pytest.mark.skipif(not pools, reason="no convolution pools")
@pytest.mark.parametrize(
    "case", [*few_channels(), *large_squares()][::3], ids=lambda c: f"{c.x.shape}"
)
def test_what_is_not_a_number_is_the_greatest(case):
    case.x[-1, 0, ::4, 5] = np.nan
    case.x[0, 0, 1, 1] = np.inf
    values, flag, _ = convolved(case)
    assert flag == 1
    np.testing.assert_array_equal(values, greatest(case.convolve()))
    assert np.isnan(values).any() and not np.isnan(values).all()


@pytest.mark.skipif(not pools, reason="no convolution pools")
@pytest.mark.parametrize("what", WINDOW)
def test_other_windows_are_left(what):
    case = next(few_channels())
    values, flag, out = convolved(case, window=WINDOW | {what: WINDOW[what] + 1})
    assert flag == 0 and (values == 7).all() and np.array_equal(out, case.convolve())


@pytest.mark.skipif(not pools, reason="no convolution pools")
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_other_ways_leave_the_pooling(geometry):
    case = Case(geometry)
    values, flag, out = convolved(case)
    if flag:
        assert np.array_equal(values, greatest(case.convolve())) and (out == 7).all()
    else:
        assert (values == 7).all() and np.array_equal(out, case.convolve())
    assert flag in (0, 1)


# -- in plans -------------------------------------------------------------------------------------


def layer(channels=3, filters=16, h=24, w=37, images=1, bias=True):
    x, weight = normal(images, channels, h, w), normal(filters, channels, 3, 3, seed=1)
    return x, weight, normal(filters, seed=2) if bias else None


def apart(x, weight, bias, then=F.relu, **window):
    """The same, with what is pooled read in between."""
    y = then(F.conv2d(x, weight, bias, padding=1))
    y.numpy()
    return F.max_pool2d(y, **{"kernel_size": 2} | window).numpy()


@pytest.mark.parametrize(("channels", "filters"), [(3, 16), (16, 32), (15, 9), (32, 64), (2, 8)])
def test_a_layer_is_pooled(channels, filters):
    sizes = [(8, 8), (9, 24), (24, 24), (25, 27), (17, 33), (6, 70), (13, 15), (10, 23)]
    for (h, w), images, bias in itertools.product(sizes, (1, 3), (True, False)):
        given = layer(channels, filters, h, w, images, bias)
        for then in (F.relu, lambda y: y, lambda y: F.relu(y + 0.5)):

            def run(given=given, then=then):
                return F.max_pool2d(then(F.conv2d(*given, padding=1)), 2)

            with torch.no_grad():
                assert np.array_equal(run().numpy(), apart(*given, then))
    assert pooled_steps(run) == pools


def test_one_plan_serves_all_windows_and_sizes():
    programs = [{"kernel_size": 2}, {"kernel_size": 3}, {"kernel_size": 3, "stride": 2}]
    programs += [{"kernel_size": 2, "padding": 1}, {"kernel_size": 2, "ceil_mode": True}]
    programs += [
        {"kernel_size": 2, "stride": 1},
        {"kernel_size": 2, "dilation": 2},
        {"kernel_size": (2, 1)},
    ]
    for window, size in itertools.product(programs, (24, 25)):
        given = layer(h=size, w=size + 2)
        for _ in range(2):
            y = F.max_pool2d(F.relu(F.conv2d(*given, padding=1)), **window)
            assert np.array_equal(y.numpy(), apart(*given, **window))


KEPT = {
    "read": lambda y: (y, F.max_pool2d(y, 2)),
    "used": lambda y: (y.sum(), F.max_pool2d(y, 2)),
    "indices": lambda y: F.max_pool2d(y, 2, return_indices=True),
    "tanh": lambda y: (F.max_pool2d(torch.tanh(y), 2),),
    "scaled": lambda y: (F.max_pool2d(y * -2, 2),),
    "residual": lambda y: (F.max_pool2d(y + normal(*y.shape, seed=3), 2),),
    "view": lambda y: (F.max_pool2d(y.transpose(2, 3), 2),),
    "one dim": lambda y: (F.max_pool1d(y.reshape(1, 16, -1), 2),),
}


@pytest.mark.parametrize("what", KEPT)
def test_not_where_more_is_read(what):
    given = layer()

    def run():
        return KEPT[what](F.conv2d(*given, padding=1))

    assert pooled_steps(run) == 0
    compared(run)


def test_not_in_float64():
    given = [a.double() for a in layer()]

    def run():
        return [F.max_pool2d(F.relu(F.conv2d(*given, padding=1)), 2)]

    assert pooled_steps(run) == 0
    compared(run)


def test_what_is_read_later_is_there():
    given, seen = layer(), []
    convolution = torch.nn.Conv2d(3, 16, 3, padding=1)
    net = torch.nn.Sequential(convolution, torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    with torch.no_grad():
        plain = net(given[0]).numpy()
        handle = net[1].register_forward_hook(lambda m, i, y: seen.append(y))
        assert np.array_equal(net(given[0]).numpy(), plain)
        want = F.relu(convolution(given[0])).numpy()
        assert np.array_equal(seen[0].numpy(), want)
        handle.remove()
        assert np.array_equal(net(given[0]).numpy(), plain)


def test_gradients():
    given = layer()

    def run():
        x, w, b = (a.detach().clone().requires_grad_() for a in given)
        y = F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)
        first = torch.autograd.grad((y * y).sum(), (x, w, b), create_graph=True)
        second = torch.autograd.grad(sum((g * g).mean() for g in first), (w, b))
        return [y, *second]

    def scaled():
        return [a / a.abs().max() for a in run()]

    compared(scaled)


def test_any_number_of_threads():
    given = layer(16, 32, 150, 131), layer(3, 16, 203, 180), layer(3, 16, 60, 61, images=8)
    before, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            with own_trie(), torch.no_grad():
                runs = [F.max_pool2d(F.relu(F.conv2d(*a, padding=1)), 2) for a in given]
                found.append([y.numpy() for y in runs])
    finally:
        torch.set_num_threads(before)
    for one in found[1:]:
        assert all(np.array_equal(x, y) for x, y in zip(one, found[0], strict=True))
    assert all(np.array_equal(y, apart(*a)) for y, a in zip(found[0], given, strict=True))
