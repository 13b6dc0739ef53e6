"""Generated matrix products against NumPy: sizes at the edges of tiles, strides, batches, parts."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from products import guarded, pack, product

from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir.jit import Target, compile_module, host

# Some cross the extents of tiles, of chunks of columns and of blocks of depth.
ROWS = (0, 1, 2, 5, 8, 9, 16, 17, 23)
COLUMNS = (0, 1, 7, 16, 17, 31, 47, 48, 64, 97)
DEPTHS = (0, 1, 3, 16, 17, 33, 130)


def normal(seed, *shape, dtype="float32"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(got, left, right, dtype="float32", plus=0.0):
    """Normwise: the error of each sum against the sum of absolute values."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    size = np.matmul(abs(left), abs(right)) + abs(plus) + 1e-30
    unit = np.finfo(matmul.accumulator(dtype)).eps
    error = abs(got - (np.matmul(left, right) + plus)) / size
    assert error.size == 0 or error.max() < unit * (4 + left.shape[-1] ** 0.5), error.max()


def ways(rows, depth, columns, dtype="float32"):
    """Operands of one product, each as it stands and transposed."""
    left, right = normal(1, rows, depth, dtype=dtype), normal(2, depth, columns, dtype=dtype)
    turned = [np.ascontiguousarray(x.T).T for x in (left, right)]
    return itertools.product((left, turned[0]), (right, turned[1]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", ROWS)
def test_all_small_sizes(rows, dtype):
    for columns, depth in itertools.product(COLUMNS, DEPTHS):
        for left, right in ways(rows, depth, columns, dtype):
            for packed in (None, pack(right, dtype)):
                room = np.full((rows, columns + 3), 7, dtype)
                product(left, right, room[:, :columns], dtype, packed)
                close(room[:, :columns], left, right, dtype)
                assert (room[:, columns:] == 7).all()


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1300, 401), (13, 600, 817), (40, 1025, 100), (70, 40, 1000), (32, 3300, 90),
        (140, 20, 2 * 9840), (13, 1, 70_000), (200, 300, 700), (75, 1100, 60), (700, 5, 200),
        (30, 54, 230), (32, 160, 1024), (52, 70, 301), (130, 260, 64),
        (29, 113, 1810), (41, 900, 437),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_depth_and_columns(shape, dtype):
    for left, right in ways(*shape, dtype):
        for packed in (None, pack(right, dtype)):
            out = product(left, right, np.empty((shape[0], shape[2]), dtype), dtype, packed)
            close(out, left, right, dtype)


@pytest.mark.parametrize("columns", [1, 2, 5, 8, 13, 20, 33, 40, 66])
@pytest.mark.parametrize(("rows", "depth"), [(24, 31), (100, 33), (333, 1100), (30, 3400)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_columns(rows, depth, columns, dtype):
    for left, right in ways(rows, depth, columns, dtype):
        for packed in (None, pack(right, dtype)):
            for before in (None, 3):
                room = np.full((rows, columns + 2), 7 if before is None else before, dtype)
                out = room[:, :columns]
                product(left, right, out, dtype, packed, accumulate=before is not None)
                close(out - (before or 0), left, right, dtype)
                assert (room[:, columns:] == (before or 7)).all()


def check_written_and_added(rows, depth, columns, dtype):
    """All ways of a product, into a part of an array: its own sums, then added to what is there."""
    for left, right in ways(rows, depth, columns, dtype):
        for before in (None, 3):
            room = np.full((rows, columns + 2), 7 if before is None else before, dtype)
            out = room[:, :columns]
            product(left, right, out, dtype, accumulate=before is not None)
            close(out, left, right, dtype, plus=before or 0)
            assert (room[:, columns:] == (before or 7)).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("depth", "columns"), [(700, 64), (133, 817), (3, 3300)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows(rows, depth, columns, dtype):
    check_written_and_added(rows, depth, columns, dtype)


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 7, 8, 11, 12])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 16), (6, 35), (9, 4100), (5, 1030), (75, 131), (40, 3), (33, 40)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_steps(rows, depth, columns, dtype):
    check_written_and_added(rows, depth, columns, dtype)


@pytest.mark.parametrize("depth", [1, 4, 9, 24, 25])
@pytest.mark.parametrize("rows", [7, 16, 21, 100])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_steps_and_columns(rows, depth, dtype):
    for columns in (1, 2, 3, 4, 5):
        for left, right in ways(rows, depth, columns, dtype):
            for packed in (None, pack(right, dtype)):
                room = np.full((rows + 1, columns + 1), 7, dtype)
                product(left, right, room[:rows, :columns], dtype, packed)
                close(room[:rows, :columns], left, right, dtype)
                assert (room[rows:] == 7).all() and (room[:, columns:] == 7).all()


@pytest.mark.smoke
def test_a_product():
    left, right = normal(1, 9, 20), normal(2, 20, 50)
    close(product(left, right, np.empty((9, 50), "f"), "float32"), left, right)


@pytest.mark.parametrize("packing", [False, True])
def test_any_strides(packing):
    left = normal(1, 40, 90)[::3, ::-2]
    right = normal(2, 90, 120)[::-2, ::2]
    spread = np.broadcast_to(normal(3, 45, 1), (45, 33))
    rows = np.broadcast_to(normal(4, 45), (14, 45))
    for x, y in itertools.product((left, rows, left[:1], left[:, :45]), (right, spread)):
        packed = pack(y, "float32") if packing else None
        out = np.zeros((2 * len(x), y.shape[1]), "f")[::2]
        close(product(x, y, out, "float32", packed), x, y)


@pytest.mark.parametrize("depth", [5, 700])
@pytest.mark.parametrize("rows", [2, 11])
def test_accumulate(rows, depth):
    for left, right in ways(rows, depth, 70):
        before = normal(3, rows, 70)
        out = product(left, right, before.copy(), "float32", accumulate=1)
        close(out, left, right, plus=before)


def test_batches():
    left, right = normal(1, 3, 5, 9, 20), normal(2, 3, 5, 20, 33)
    heads = normal(3, 3, 9, 5, 20).swapaxes(1, 2)  # as attention cuts its heads
    one = np.broadcast_to(right[0, 0], right.shape)
    each = np.broadcast_to(right[:, :1], right.shape)
    for x, y in itertools.product((left, heads), (right, one, each)):
        out = np.empty((3, 5, 9, 33), "f")
        close(product(x, y, out, "float32"), x, y)
    out = np.empty((3, 5, 9, 33), "f")
    close(product(left, right, out, "float32", pack(right, "float32")), left, right)
    close(product(left[0], right[0], out[0], "float32"), left[0], right[0])
    out = np.empty((0, 5, 9, 33), "f")
    product(left[:0], right[:0], out, "float32")


@pytest.mark.parametrize("packing", [False, True])
def test_parts_make_up_the_whole_bit_for_bit(packing):
    left, right = normal(1, 50, 600), normal(2, 600, 500)
    packed = pack(right, "float32") if packing else None
    whole = product(left, right, np.empty((50, 500), "f"), "float32", packed)
    cuts = matmul.column_cuts(500, "float32")
    columns = [0, cuts[0], cuts[3], cuts[-1], 500]
    parts = np.full((50, 500), np.nan, "f")
    for top, bottom in itertools.pairwise([0, 8, 31, 50]):
        for start, stop in itertools.pairwise(columns):
            product(
                left,
                right,
                parts,
                "float32",
                packed,
                first_row=top,
                last_row=bottom,
                first_column=start,
                last_column=stop,
            )
    assert np.array_equal(whole, parts)


def test_parts_of_any_way_of_computing():
    for shape in [(5, 40, 200), (30, 300, 200), (16, 700, 96), (60, 8, 200), (60, 5, 200)]:
        for left, right in ways(*shape):
            rows, columns = shape[0], shape[2]
            cut = matmul.column_cuts(columns, "float32")[-1]
            out = np.full((rows, columns), np.nan, "f")
            for top, bottom in ((0, rows // 3), (rows // 3, rows)):
                for start, stop in ((0, cut), (cut, columns)):
                    names = ("first_row", "last_row", "first_column", "last_column")
                    part = dict(zip(names, (top, bottom, start, stop)))
                    product(left, right, out, "float32", **part)
            close(out, left, right)


OTHERS = {
    "avx2": ("haswell", "+avx,+avx2,+fma,+f16c"),
    "sse2": ("x86-64", "+sse,+sse2"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("other", OTHERS)
def test_other_processors(other, dtype):
    cpu, features = OTHERS[other]
    here = host()
    if not here.triple.startswith("x86_64") or not here.has("avx2"):
        pytest.skip("needs a processor that runs this code")
    target = Target(here.triple, cpu, features)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    shapes = [
        (1, 17, 19), (3, 90, 95), (5, 33, 9), (13, 600, 401), (32, 64, 70), (9, 64, 17),
        (60, 32, 130), (333, 8, 1), (90, 5, 2), (100, 11, 4), (33, 49, 24), (724, 130, 77),
        (29, 12, 8), (300, 1100, 16), (20, 600, 700),
    ]  # fmt: skip
    for shape in shapes:
        for left, right in ways(*shape, kind):
            for packed in (None, pack(right, dtype, target)):
                out = np.empty((shape[0], shape[2]), matmul.accumulator(dtype))
                product(left, right, out, dtype, packed, target)
                close(out, left, right, dtype)


def test_nan_and_infinity_stay_in_their_rows_and_columns():
    left, right = normal(1, 20, 30), normal(2, 30, 50)
    left[3, 4], left[5, 6], right[7, 8] = np.nan, np.inf, np.inf
    for x, y in [(left, right), (left.T.copy().T, right.T.copy().T)]:
        out = product(x, y, np.empty((20, 50), "f"), "float32")
        with np.errstate(invalid="ignore"):
            want = x @ y
        assert np.array_equal(np.isfinite(out), np.isfinite(want))
        assert np.array_equal(np.isnan(out), np.isnan(want))


def bias_and_rectify(f, site):
    """max(sums + bias[column], 0) into out[batch1, row, column]."""
    lanes = matmul.lanes("float32")
    kind, flags = f"<{lanes} x float>", f"<{lanes} x i1> {site.mask}"
    bias, out, stride, area = (
        f.load(word, f.at(site.state, 8 * i)) for i, word in enumerate(["ptr", "ptr", "i64", "i64"])
    )
    near = f.at(bias, f.mul(site.column, "4"))
    intrinsic = f"v{lanes}f32.p0"
    x = f.let(
        f"call {kind} @llvm.masked.load.{intrinsic}(ptr {near}, i32 4, {flags}, {kind} poison)"
    )
    x = f.let(f"fadd {kind} {site.sums}, {x}")
    positive = f.let(f"fcmp ogt {kind} {x}, zeroinitializer")
    x = f.let(f"select <{lanes} x i1> {positive}, {kind} {x}, {kind} zeroinitializer")
    place = f.add(f.add(f.mul(site.row, stride), site.column), f.mul(site.batch1, area))
    to = f.at(out, f.mul(place, "4"))
    f.line(f"call void @llvm.masked.store.{intrinsic}({kind} {x}, ptr {to}, i32 4, {flags})")


@pytest.mark.parametrize("depth", [0, 3, 40, 1100])
@pytest.mark.parametrize("turned", ["", "left", "right", "both"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 10), (3, 61), (9, 64), (20, 401), (50, 50)])
def test_epilogue(rows, columns, depth, turned):
    text = matmul.epilogue("finish", "float32", bias_and_rectify)
    library = compile_module(text, ["finish"])
    left, right, bias = normal(1, 2, rows, depth), normal(2, 2, depth, columns), normal(3, columns)
    if turned in ("right", "both"):
        right = np.ascontiguousarray(right.swapaxes(1, 2)).swapaxes(1, 2)
    if turned in ("left", "both"):
        left = np.ascontiguousarray(left.swapaxes(1, 2)).swapaxes(1, 2)
    out = np.full((2, rows, columns), 7, "f")
    state = np.array([bias.ctypes.data, out.ctypes.data, columns, rows * columns], np.int64)
    sums = np.empty_like(out)
    product(
        left,
        right,
        sums,
        "float32",
        epilogue=library.address("finish"),
        state=state.ctypes.data,
    )
    want = np.maximum(np.matmul(left.astype("d"), right.astype("d")) + bias, 0)
    np.testing.assert_allclose(out, want, atol=1e-4)


def test_epilogue_of_few_rows():
    test_epilogue(4, 900, 300, "")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 33, 70), (3, 600, 17), (130, 20, 48)])
def test_halves_are_summed_in_float32(shape, dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    for left, right in ways(*shape, kind):
        for packed in (None, pack(right, dtype)):
            out = product(left, right, np.empty((shape[0], shape[2]), "f"), dtype, packed)
            close(out, left, right, dtype)


@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize(
    "shape",
    [(1, 17, 19), (2, 90, 99), (3, 31, 50), (9, 3, 49), (21, 4, 3), (30, 600, 401), (200, 33, 70)],
)
def test_nothing_outside_of_the_operands_is_touched(shape, front):
    for left, right in ways(*shape):
        x, y = (
            guarded(a, front) if a.flags.c_contiguous else guarded(a.T, front).T
            for a in (left, right)
        )
        out = guarded(np.zeros((shape[0], shape[2]), "f"), front)
        close(product(x, y, out, "float32"), left, right)
        close(product(x, y, out, "float32", pack(y, "float32")), left, right)
