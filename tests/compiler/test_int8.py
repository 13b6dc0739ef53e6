"""Products of bytes as machine code: exact, for every way to multiply, and in every executor."""

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.kernels.int8 import windows
from wend._engine.compiler.kernels.int8.dots import Dots
from wend._engine.compiler.llvm_ir import jit
from wend._engine.core.primitive import ops

ONE = ((1, 1), (1, 1), (1, 1))
HERE = jit.host()


def exact(x, weight, offset):
    """The sums in Python's way: in int64."""
    return x.astype(np.int64) @ weight.astype(np.int64).T - offset


def product(x, weight, offset, compiled):
    with own_trie(), config.override(compile=compiled, wait=compiled):
        panels = ops.pack_int8(wend.from_numpy(weight[None]))
        rows = np.pad(x, ((0, 0), (0, -x.shape[1] % 4)))
        return ops.windows_sum(
            wend.from_numpy(rows[None, None, None]), panels, wend.from_numpy(offset[None]), *ONE
        ).numpy()[0, 0, 0]


@pytest.mark.parametrize("top", [127, 128, 255])
@pytest.mark.parametrize(
    ("rows", "depth", "filters"),
    [(1, 4, 1), (1, 256, 16), (3, 7, 33), (7, 130, 64), (13, 64, 100), (29, 516, 17), (0, 8, 4)],
)
def test_products_are_exact_at_the_edges_of_the_types(rows, depth, filters, top):
    rng = np.random.default_rng(rows + depth)
    x = rng.integers(0, top + 1, (rows, depth)).astype(np.uint8)
    weight = rng.integers(-128, 128, (filters, depth)).astype(np.int8)
    # Where 16 bits would saturate: the greatest bytes by the least weights, side by side.
    x[: (rows + 1) // 2], weight[::2] = top, -128
    offset = rng.integers(-(2**30), 2**30, filters).astype(np.int32)
    want = exact(x, weight, offset)
    for compiled in (True, False):
        np.testing.assert_array_equal(product(x, weight, offset, compiled), want)


def without(*names):
    """This processor without some features."""
    lost = [("-" if f[1:] in names else f[0]) + f[1:] for f in HERE.features.split(",")]
    return jit.Target(HERE.triple, HERE.cpu, ",".join(lost))


@pytest.mark.skipif(not HERE.has("avx2"), reason="the ways of x86-64 processors with AVX2")
@pytest.mark.parametrize(
    ("lost", "way", "lanes"),
    [
        ((), None, None),
        (("avx512vnni",), "pairs", 16),
        (("avx512vnni", "avx512bw"), "plain", 16),
    ],
)
def test_every_way_of_a_processor_gives_the_same(lost, way, lanes, monkeypatch):
    target = without(*lost)
    if way is not None and not HERE.has("avx512bw"):
        pytest.skip("the ways of AVX-512")
    dots = Dots(target)
    assert way is None or (dots.way, dots.lanes) == (way, lanes)
    rng = np.random.default_rng(1)
    for top in (127, 255):
        x = rng.integers(0, top + 1, (9, 60)).astype(np.uint8)
        weight = rng.integers(-128, 128, (40, 60)).astype(np.int8)
        weight[:20], x[:4] = -128, top
        offset = np.zeros(40, np.int32)
        with jit.writing_for(target):
            got = product(x, weight, offset, True)
        np.testing.assert_array_equal(got, exact(x, weight, offset))


def test_the_code_for_arm_is_compiled():
    arm = jit.Target("aarch64-unknown-linux-gnu", "generic", "+neon")
    for features in ("+neon", "+neon,+i8mm"):
        target = jit.Target(arm.triple, arm.cpu, features)
        assert Dots(target).way == ("usdot" if "i8mm" in features else "plain")
        with jit.writing_for(target):
            text = windows.text(wend.int32, False, 0)
        assert len(jit._translate(text, target)) > 0


@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_equal_sums_of_whole_numbers(padding, groups):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (2, 6, 9, 8)).astype(np.uint8)
    weight = rng.integers(-128, 128, (10, 6 // groups, 3, 2)).astype(np.int8)
    zero, stride, dilation = 9, (2, 1), (1, 2)
    moved = torch.from_numpy(x.astype(np.float64) - zero)
    want = torch.nn.functional.conv2d(
        moved, torch.from_numpy(weight.astype(np.float64)), None, stride, padding, dilation, groups
    ).numpy()
    want = np.clip(np.rint(want * 2.0**-9) + 7, 3, 250)
    rows = np.pad(weight.transpose(0, 2, 3, 1), ((0, 0),) * 3 + ((0, -weight.shape[1] % 4),))
    panels = ops.pack_int8(wend.from_numpy(rows.reshape(groups, 10 // groups, -1)))
    total = weight.astype(np.int32).sum((1, 2, 3)).reshape(groups, -1) * zero
    operands = [
        wend.from_numpy(total.astype(np.int32)), wend.full((groups, 10 // groups), 2.0**-9),
        wend.zeros(groups, 10 // groups), wend.tensor([[7, 3, 250]] * groups, dtype=wend.int32),
    ]  # fmt: skip
    for compiled in (True, False):
        with own_trie(), config.override(compile=compiled, wait=compiled):
            image = wend.from_numpy(x)
            y = ops.conv2d_int8(image, panels, *operands, zero, padding, (3, 2), stride, dilation)
            np.testing.assert_array_equal(y.numpy(), want)


@pytest.mark.parametrize("channels", [1, 16, 40])
@pytest.mark.parametrize(
    ("kernel", "padding", "stride", "dilation"),
    [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((3, 3), (0, 0), (2, 2), (1, 1)),
        ((3, 2), (4, 3), (2, 1), (1, 3)),  # windows beyond the image
        ((5, 7), (2, 3), (1, 2), (1, 1)),  # more taps than are written one by one
        ((1, 1), (0, 0), (3, 1), (1, 1)),
    ],
)
def test_depthwise_convolutions_equal_sums_of_whole_numbers(
    channels, kernel, padding, stride, dilation
):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (2, channels, 9, 8)).astype(np.uint8)
    weight = rng.integers(-128, 128, (channels, 1, *kernel)).astype(np.int8)
    x[0], weight[::2] = 255, -128  # the edges of the types
    zero = 9
    want = torch.nn.functional.conv2d(
        torch.from_numpy(x.astype(np.float64) - zero), torch.from_numpy(weight.astype(np.float64)),
        None, stride, padding, dilation, channels,
    ).numpy()  # fmt: skip
    want = np.clip(np.rint(want * 2.0**-9) + 7, 3, 250)
    taps = np.ascontiguousarray(weight.reshape(channels, -1).T)
    total = weight.astype(np.int32).sum((1, 2, 3)) * zero
    operands = [
        wend.from_numpy(taps), wend.from_numpy(total.astype(np.int32)),
        wend.full((channels,), 2.0**-9), wend.zeros(channels),
        wend.tensor([7, 3, 250, zero], dtype=wend.int32),
    ]  # fmt: skip
    targets = [HERE] if not HERE.has("avx512bw") else [HERE, without("avx512vnni", "avx512bw")]
    for compiled, target in ((False, HERE), *((True, t) for t in targets)):
        with own_trie(), config.override(compile=compiled, wait=compiled), jit.writing_for(target):
            y = ops.depthwise_int8(wend.from_numpy(x), *operands, padding, kernel, stride, dilation)
            np.testing.assert_array_equal(y.numpy(), want)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_images_of_few_channels_become_words(channels, padding):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (2, channels, 7, 9)).astype(np.uint8)
    weight = rng.integers(-128, 128, (5, channels, 3, 3)).astype(np.int8)
    zero = 200
    want = torch.nn.functional.conv2d(
        torch.from_numpy(x.astype(np.float64) - zero), torch.from_numpy(weight.astype(np.float64)),
        None, 1, padding,
    ).numpy()  # fmt: skip
    want = np.clip(np.rint(want * 2.0**-9) + 90, 3, 250)
    rows = np.pad(weight.transpose(0, 2, 3, 1), ((0, 0),) * 3 + ((0, 4 - channels),))
    panels = ops.pack_int8(wend.from_numpy(rows.reshape(1, 5, -1)))
    total = weight.astype(np.int32).sum((1, 2, 3)).reshape(1, -1) * zero
    operands = [
        wend.from_numpy(total.astype(np.int32)), wend.full((1, 5), 2.0**-9), wend.zeros(1, 5),
        wend.tensor([[90, 3, 250]], dtype=wend.int32),
    ]  # fmt: skip
    for compiled in (True, False):
        with own_trie(), config.override(compile=compiled, wait=compiled):
            image = wend.from_numpy(x)
            y = ops.conv2d_int8(image, panels, *operands, zero, padding, (3, 3), (1, 1), (1, 1))
            np.testing.assert_array_equal(y.numpy(), want)


@pytest.mark.parametrize("name", ["lstm_scan_int8", "gru_scan_int8"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("width", "sequences", "sizes"),
    [(33, 19, [19, 18, 17, 5, 1, 1]), (64, 16, [1 << 40] * 4), (1, 2, [2, 0, 1]), (19, 3, [])],
)
def test_scans_equal_their_references(name, back, width, sequences, sizes):
    rng = np.random.default_rng(width)
    gates = 4 if name.startswith("lstm") else 3
    rows = sum(min(n, sequences) for n in sizes)
    weight = rng.integers(-128, 128, (gates * width, width)).astype(np.int8)
    arrays = [
        (rng.normal(size=(rows, gates * width)) * 0.4).astype(np.float32),
        weight.astype(np.float32).sum(1),
        rng.uniform(1e-4, 2e-4, gates * width).astype(np.float32),
        (rng.normal(size=gates * width) * 0.1).astype(np.float32),
        *((rng.normal(size=(sequences, width)) * 0.4).astype(np.float32) for _ in range(gates - 2)),
    ][: 5 if gates == 3 else 6]
    results = []
    for compiled in (True, False):
        with own_trie(), config.override(compile=compiled, wait=compiled):
            panels = ops.pack_int8_gates(wend.from_numpy(weight), gates)
            x, *rest = map(wend.from_numpy, arrays)
            y = getattr(ops, name)(x, panels, *rest, wend.tensor(sizes, dtype=wend.int64), back)
            results.append([part.numpy() for part in y])
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)
