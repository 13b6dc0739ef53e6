"""Random numbers of generated loops are those of the reference."""

import elementwise
import numpy as np
import pytest
from targets import targets

from wend._engine.base import dtypes
from wend._engine.compiler.codegen import philox
from wend._engine.core.primitive import ops

SEEDS = [(7, 5), (-3, 2**40), (2**62, -5000), (0, 2**63 - 8)]
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]


def drawn(function, seed, offset, count, lanes, target, *rest):
    position = (np.arange(count, dtype=np.uint64) + np.uint64(offset % 2**64)).view(np.int64)
    got, _ = elementwise.run(
        lambda b, at: function(b, b.number(seed, dtypes.int64), at, *rest),
        [position],
        lanes,
        target,
    )
    return got


def reference(op, *parameters, **attributes):
    """What the op's reference draws."""
    from harness import Sample, bind

    prim, params = bind(op.primitive, Sample(*parameters, **attributes))
    return prim.reference(*params)


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize(("seed", "offset"), SEEDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype, seed, offset, kind, target):
    got = drawn(philox.uniform, seed, offset, 101, 8, target, dtype)
    np.testing.assert_array_equal(got, reference(ops.uniform, (101,), seed, offset, dtype=dtype))


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 2**40 + 5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_at_neighbouring_positions(dtype, offset, lanes):
    def run(b, index):
        start = b.text.let(f"add i64 %i, {offset}")
        return philox.uniform_run(b, "7", start, dtype)

    got, _ = elementwise.run(run, [np.zeros(101, np.int64)], lanes)
    np.testing.assert_array_equal(got, reference(ops.uniform, (101,), 7, offset, dtype=dtype))


@pytest.mark.parametrize(("kind", "target"), targets())
@pytest.mark.parametrize(("seed", "offset"), SEEDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_standard_normal(dtype, seed, offset, kind, target):
    got = drawn(philox.standard_normal, seed, offset, 2001, 8, target, dtype).astype(np.float64)
    want = reference(ops.standard_normal, (2001,), seed, offset, dtype=dtype).astype(np.float64)
    # The last digit of float64 functions is nobody's; rounded to less it seldom shows.
    bound = 1e-14 if dtype is dtypes.float64 else 0.0
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound)


@pytest.mark.parametrize("lanes", [1, 2, 8, 16])
@pytest.mark.parametrize("offset", [0, 1, 6, 2**40 + 5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_at_neighbouring_positions(dtype, offset, lanes):
    def run(b, index):
        start = b.text.let(f"add i64 %i, {offset}")
        return philox.standard_normal_run(b, "-7", start, dtype)

    got, _ = elementwise.run(run, [np.zeros(301, np.int64)], lanes)
    want = reference(ops.standard_normal, (301,), -7, offset, dtype=dtype).astype(np.float64)
    bound = 1e-14 if dtype is dtypes.float64 else 0.0
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=bound, atol=bound)


@pytest.mark.parametrize(("seed", "offset"), SEEDS)
def test_bits_and_integers(seed, offset):
    got = drawn(philox.random_bits, seed, offset, 77, 16, None)
    np.testing.assert_array_equal(got, reference(ops.random_bits, (77,), seed, offset))
    for low, high in ((0, 10), (-5, -2), (-(2**63), 2**63 - 1), (3, 4)):

        def integers(b, key, at, low=low, high=high):
            ends = (b.number(n, dtypes.int64) for n in (low, high))
            return philox.random_integers(b, key, at, *ends, dtypes.float32)

        got = drawn(integers, seed, offset, 77, 16, None)
        want = reference(ops.random_integers, (77,), low, high, seed, offset, dtype=dtypes.float32)
        np.testing.assert_array_equal(got, want)


def test_other_types_of_seeds_are_refused():
    with pytest.raises(TypeError, match="seed and position are int64"):
        elementwise.run(
            lambda b, at: philox.random_bits(b, b.number(1, dtypes.int32), at),
            [np.arange(3)],
            1,
        )
