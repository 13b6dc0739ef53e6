"""Generated convolutions and both of their gradients against sums in NumPy, tap by tap."""

import numpy as np
import pytest
from convolutions import (
    FEW_FILTERS,
    GEOMETRIES,
    Case,
    few_channels,
    large_squares,
    layouts,
    near,
    negate,
)
from products import guarded

from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.kernels.conv.winograd.squares import FIRST, FRONT, LATER, least
from wend._engine.compiler.kernels.conv.winograd.tiles_4x4 import has_wide
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.llvm_ir.jit import Target, assembly, compile_module, host


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_geometries(geometry, dtype):
    case = Case(geometry, dtype)
    for x in layouts(case.x):
        near(case.convolve(x), case.forward(), dtype)
        near(case.convolve_weight(x), case.to_weight(), dtype)
    for g in layouts(case.g):
        near(case.convolve_input(g), case.to_input(), dtype)


@pytest.mark.parametrize("geometry", FEW_FILTERS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_groups_of_few_filters(geometry, dtype):
    case = Case(geometry, dtype)
    for x in layouts(case.x) if dtype != "bfloat16" else [case.x]:
        near(case.convolve(x), case.forward(), dtype)
        near(case.convolve(x, accumulate=1), case.forward() + 7, dtype)
    near(case.convolve_input(), case.to_input(), dtype)


@pytest.mark.parametrize("geometry", FEW_FILTERS, ids=str)
def test_parts_of_groups_of_few_filters(geometry):
    case = Case((1, *geometry[1:]))
    area = case.out[0] * case.out[1]
    whole = case.convolve()
    for cut in (1, area // 3 + 5, area - 1):
        first, rest = case.convolve(last_column=cut), case.convolve(first_column=cut)
        flat = first.reshape(*first.shape[:2], area)
        assert (flat[:, :, cut:] == 7).all()
        flat[:, :, cut:] = rest.reshape(flat.shape)[:, :, cut:]
        assert np.array_equal(first, whole)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("geometry", GEOMETRIES[::4], ids=str)
def test_halves_are_summed_in_float32(geometry, dtype):
    case = Case(geometry, dtype)
    near(case.convolve(), case.forward())
    near(case.convolve_weight(), case.to_weight())
    near(case.convolve_input(), case.to_input())


def test_accumulate():
    case = Case(GEOMETRIES[0])
    near(case.convolve(accumulate=1), case.forward() + 7)
    near(case.convolve_weight(accumulate=1), case.to_weight() + 7)


@pytest.mark.parametrize("geometry", [GEOMETRIES[k] for k in (1, -3, -1)], ids=str)
def test_parts(geometry):
    case = Case((1, *geometry[1:]))
    area = case.out[0] * case.out[1]
    whole = case.convolve()
    cuts = matmul.column_cuts(area, "float32")
    cut = cuts[len(cuts) // 3]
    first, rest = case.convolve(last_column=cut), case.convolve(first_column=cut)
    assert (first == 7).any() and (rest == 7).any()  # as they were
    assert np.array_equal(np.where(first == 7, rest, first), whole)


TAILED = [*(GEOMETRIES[k] for k in (2, 5, 11, -4, -3, -2, -1)), *FEW_FILTERS]


@pytest.mark.parametrize("geometry", TAILED, ids=str)
def test_epilogue(geometry):
    case = Case(geometry)
    library = compile_module(matmul.epilogue("finish", "float32", negate), ["finish"])
    out = np.full(case.g.shape, 7, "f")
    area = case.out[0] * case.out[1]
    filters = len(case.w) // case.groups
    state = np.array([out.ctypes.data, area * len(case.w), area * filters, area], np.int64)
    case.convolve(epilogue=library.address("finish"), state=state.ctypes.data)
    near(out, -case.forward())


@pytest.mark.parametrize("geometry", GEOMETRIES[-3:], ids=str)
def test_many_filters_and_squares_are_transformed(geometry):
    filters, channels, fewest = least(TileConfig.of(host(), "float"))
    if geometry[2] < filters or geometry[1] < channels:
        pytest.skip("there are not filters enough for this processor's vectors")
    case = Case(geometry)
    whole = case.convolve()
    assert not np.isnan(case.room[1][0])
    near(case.convolve_weight(accumulate=1), case.to_weight() + 7)
    assert not np.isnan(case.room[1][0])
    # Some images of more give the same bits.
    batch, case.x, case.g = len(case.x), case.x[:1], case.g[:1]
    assert np.array_equal(case.convolve(batch=batch), whole[:1])
    assert not np.isnan(case.room[0][0])
    near(case.convolve(), case.forward())  # one image alone, if it has squares enough
    squares = -(-case.out[0] // 2) * -(-case.out[1] // 2)
    assert np.isnan(case.room[1]).all() == (squares < fewest)


def shared_room(case):
    """Memory for a weight that is transformed once for several calls, and where that begins."""
    sums = forward.workspace_sums("convolve", case.dtype, shared=True)
    room = np.full(sums * case.w.size + FRONT // 2, np.nan, "f")
    return room, -(-room.ctypes.data // 64) * 64 + FRONT


def test_calls_that_share_a_workspace_transform_a_weight_once():
    if not forward.keeps_turned("float32"):
        pytest.skip("each call transforms its weight")
    case, small = Case(GEOMETRIES[-3]), Case((1, 17, 16, (4, 4), *GEOMETRIES[-3][4:]))
    small.w = case.w
    whole = case.convolve()
    _room, at = shared_room(case)
    # The first call has too few squares: the second one transforms.
    near(small.convolve(workspace=at, turned=FIRST), small.forward())
    assert np.array_equal(case.convolve(workspace=at, turned=LATER), whole)
    case.w = np.zeros_like(case.w)
    assert np.array_equal(case.convolve(workspace=at, turned=LATER), whole)
    assert not case.convolve(workspace=at, turned=FIRST).any()


def is_in_wide_squares(case, **more):
    """Whether `case.convolve()` took squares of 4 x 4: they fill the workspace."""
    case.convolve(**more)
    return not np.isnan(case.room[0][-1])


@pytest.mark.parametrize("size", [23, 27, 43])
def test_a_weight_is_shared_by_squares_of_both_sizes(size):
    if not has_wide(TileConfig.of(host(), "float"), "float32"):
        pytest.skip("all squares are of 2 x 2")
    first, second = (Case((1, 32, 49, (n, n), *GEOMETRIES[0][4:])) for n in (size, 10))
    assert is_in_wide_squares(first, shared=1)
    assert not is_in_wide_squares(second, shared=1)
    second.w = first.w
    whole = first.convolve(shared=1), second.convolve(shared=1)
    _room, at = shared_room(first)
    shared = {"workspace": at, "shared": 1}
    found = [first.convolve(turned=FIRST, **shared)]
    found.append(second.convolve(turned=LATER, **shared))
    first.w = second.w = np.zeros_like(first.w)
    found += [case.convolve(turned=LATER, **shared) for case in (first, second)]
    assert all(np.array_equal(x, y) for x, y in zip(found, whole * 2))


def check_transformed(case):
    """Images of any layout, with an epilogue and without, and parts of one."""
    library = compile_module(matmul.epilogue("finish", "float32", negate), ["finish"])
    area = case.out[0] * case.out[1]
    for x in layouts(case.x):
        near(case.convolve(x), case.forward())
        out = np.full(case.g.shape, 7, "f")
        state = np.array([out.ctypes.data, area * len(case.w), 0, area], np.int64)
        case.convolve(x, epilogue=library.address("finish"), state=state.ctypes.data)
        assert np.array_equal(out, -case.convolve(x))
    if len(case.x) == 1:
        whole = case.convolve()
        cuts = matmul.column_cuts(area, "float32")
        for cut in {*cuts[::7], cuts[len(cuts) // 2]}:
            parts = case.convolve(last_column=cut), case.convolve(first_column=cut)
            assert np.array_equal(np.where(parts[0] == 7, parts[1], parts[0]), whole)


@pytest.mark.parametrize("case", list(large_squares()), ids=lambda case: f"{case.x.shape}")
def test_large_squares(case):
    assert is_in_wide_squares(case) == has_wide(TileConfig.of(host(), "float"), "float32")
    check_transformed(case)


def test_small_images_are_cut_into_large_squares_where_these_fit_or_a_weight_is_shared():
    has_some = has_wide(TileConfig.of(host(), "float"), "float32")
    for size, alone in (((13, 13), True), ((16, 11), False), ((8, 7), None)):
        case = Case((1, 32, 34, size, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1))
        assert is_in_wide_squares(case) == (has_some and bool(alone))
        assert is_in_wide_squares(case, shared=1) == (has_some and alone is not None)
        for shared in (0, 1):
            near(case.convolve(shared=shared), case.forward())


@pytest.mark.parametrize("kind", ["normal", "relu", "with a mean", "spikes", "edges"])
def test_large_squares_are_accurate(kind):
    case = Case((1, 32, 64, (20, 20), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1))
    if kind == "relu":
        case.x = np.maximum(case.x, 0)
    if kind in ("with a mean", "edges"):
        case.x += 10
    if kind == "spikes":
        case.x[:, :, 7:9] *= 1000
    if kind == "edges":
        case.w -= case.w.mean((2, 3), keepdims=True)
    want = case.forward()
    error = np.linalg.norm(case.convolve() - want) / np.linalg.norm(want)
    assert error < 2e-6


@pytest.mark.parametrize("case", list(few_channels()), ids=lambda case: f"{case.x.shape}")
def test_few_channels(case):
    check_transformed(case)


@pytest.mark.parametrize("case", list(few_channels()), ids=lambda case: f"{case.x.shape}")
def test_few_channels_are_transformed_along_columns(case):
    case.x[0, 0, 5, 5] = np.inf
    rows = (~np.isfinite(case.convolve()[0, 0])).any(1).sum()
    assert rows == 3 or (rows > 3 and has_wide(TileConfig.of(host(), "float"), "float32"))


@pytest.mark.parametrize("kind", ["normal", "positive", "with a mean", "spikes"])
def test_few_channels_are_accurate(kind):
    case = Case((1, 3, 16, (50, 50), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1))
    if kind == "positive":
        case.x = np.abs(case.x)
    if kind == "with a mean":
        case.x += 10
    if kind == "spikes":
        case.x[:, :, 7:9] *= 1000
    want = case.forward()
    error = np.linalg.norm(case.convolve() - want) / np.linalg.norm(want)
    assert error < 5e-7


def test_transformed_in_two_blocks_of_depth():
    case = Case((30, 1030, 48, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1))
    near(case.convolve(), case.forward(), terms=case.w[0].size)
    near(case.convolve_weight(), case.to_weight())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("features", ["", "+avx", "+avx,+avx2,+fma", "+avx512f,+avx512vl"])
def test_there_is_code_for_other_processors(features, dtype):
    if not host().triple.startswith("x86_64"):
        pytest.skip("needs LLVM for this family of processors")
    target = Target(host().triple, "x86-64", features)
    assert "convolve:" in assembly(forward.core_text("convolve", dtype, target), target)


@pytest.mark.parametrize(
    "geometry",
    [*GEOMETRIES, (1, 3, 8, (14, 27), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1)],
    ids=str,
)
@pytest.mark.parametrize("front", [False, True])
def test_nothing_outside_of_the_operands_is_touched(geometry, front):
    case = Case(geometry)
    if len(case.x):
        case.x, case.w, case.g = (guarded(a, front) for a in (case.x, case.w, case.g))
        case.sums = lambda shape, fill=7: guarded(np.full(shape, fill, "f"), front)
    near(case.convolve(), case.forward())
    near(case.convolve_weight(), case.to_weight())
    near(case.convolve_input(), case.to_input())
