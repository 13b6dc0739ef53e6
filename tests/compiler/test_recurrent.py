"""Recurrences over the steps of sequences as machine code, against their references."""

import harness
import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.parallel import partition
from wend._engine.core.primitive import REGISTRY, ops
from wend._engine.ops.recurrent.steps import StepsOp

OPS = [
    op
    for op in harness.PRIMITIVES
    if issubclass(op, StepsOp) and "float" in op.facts.supports  # not those of bytes
]
RNG = np.random.default_rng(3)


def operands(op, gates, width, sequences, sizes, spare, dtype):
    counts = {"N": sequences, "R": sum(min(max(n, 0), sequences) for n in sizes) + spare}
    counts |= {"H": width, "J": gates * width}

    def drawn(dims):  # small numbers: states that grew from step to step would cancel in sums
        array = RNG.normal(size=[counts[letter] for letter in dims]) * 0.4
        return (array / np.sqrt(width) if dims == "JH" else array).astype(dtype)

    for dims in op.operands.split():
        if dims == "T":
            yield np.array(sizes, np.int64)
        else:
            yield [drawn(dims[:-1]) for _ in range(gates)] if dims[-1] == "*" else drawn(dims)


def outcome(op, arrays, attributes, compiled):
    with own_trie(), config.override(compile=compiled, wait=compiled):
        tensors = harness.map_arrays(harness.Sample(*arrays), harness.tensor).args
        return [harness.value(y) for y in op.function(*tensors, **attributes)]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize(
    ("width", "sequences", "sizes", "spare", "dtype"),
    [
        (33, 19, [19, 18, 17, 5, 1, 1], 0, "float32"),  # every number of rows of a tile
        (64, 16, [1 << 40] * 4, 0, "float32"),  # as many rows as there are sequences
        (7, 3, [2, 3, 1], 2, "float64"),  # a sequence that begins later; rows that are left
        (16, 1, [1] * 9, 0, "float64"),
        (5, 4, [], 3, "float32"),
        (1, 2, [2, 0, -1, 1], 0, "float32"),
    ],
)
def test_machine_code_equals_the_reference(op, back, width, sequences, sizes, spare, dtype):
    of_a_list = "tensors" in op.signature and "tensor?" in op.signature
    for gates in (1, 3) if of_a_list else (op.gates,):
        arrays = list(operands(op, gates, width, sequences, sizes, spare, dtype))
        attributes = {"back": back}
        for z in (False, True) if of_a_list else (True,):
            given = [None if k == 4 and not z else a for k, a in enumerate(arrays)]
            want = outcome(op, given, attributes, False)
            got = outcome(op, given, attributes, True)
            loose = (
                {"rtol": 1e-9, "atol": 1e-9} if dtype == "float64" else {"rtol": 2e-5, "atol": 2e-5}
            )
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, **loose)


def test_terms_that_are_zero_are_left_out():
    back = REGISTRY["state_steps_back"]
    x, y, weight, k, _, start, sizes = operands(back, 3, 8, 2, [2, 2], 0, "float32")
    zeros = np.zeros_like(y)
    want = outcome(back, [x, zeros, weight, k, None, start, sizes], {}, False)
    with own_trie(), config.override(compile=True, wait=True):
        tensors = harness.map_arrays(
            harness.Sample(x, weight, k, start, sizes), harness.tensor
        ).args
        none = ops.full(y.shape, 0.0, dtype=tensors[0].dtype)
        results = ops.state_steps_back(tensors[0], none, *tensors[1:3], None, *tensors[3:])
        got = [harness.value(y) for y in results]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["lstm_scan", "memory_steps_back"])
def test_threads_share_the_sequences(name):
    op, sizes = REGISTRY[name], [21, 21, 20, 9, 8, 7, 1] * 4
    arrays = list(operands(op, op.gates, 96, 21, sizes, 3, "float32"))
    want = outcome(op, arrays, {}, False)
    threads, by_threads = wend.get_num_threads(), []
    try:
        for count in (1, 3):
            wend.set_num_threads(count)
            by_threads.append(outcome(op, arrays, {}, True))
    finally:
        wend.set_num_threads(threads)
    for a, b, c in zip(*by_threads, want, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=2e-5, atol=2e-5)


def test_recurrences_are_cut_into_sequences():
    assert partition._sequences((20, 8, 8, 16)).form.how == "sequences"
    assert partition._sequences((20, 8, 8, 16)).form.parts == 1
    cut = partition._sequences((3200, 512, 512, 30))
    assert cut.form.parts == 4
    assert cut.edges == [0, 8, 16, 24, 30]


def test_reports_count_the_multiplications():
    layer, x = wend.nn.LSTM(8, 16), wend.ones(5, 3, 8)
    with config.override(compile=True, wait=True):
        layer(x)[0].sum().item()
    steps = [step for step in wend.debug.explain().flushes[-1].steps if step.kind == "steps"]
    assert [step.flops for step in steps] == [2 * 15 * 64 * 16]
