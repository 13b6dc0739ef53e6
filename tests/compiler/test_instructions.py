"""Every emit rule as machine code, from the registry: a new op is tested unasked."""

import ctypes

import elementwise
import harness
import numpy as np
import pytest
from harness import ELEMENTWISE, by_dtype, report, snippet

from wend._engine.base import dtypes
from wend._engine.base.errors import CompileError
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import literal
from wend._engine.ops.builder import Builder

#: Vectors of one register, of several, and none.
LANES = (1, 4, 16)


def test_the_vector_builder_has_every_instruction():
    asked = {name for name, member in vars(Builder).items() if callable(member)}
    missing = {name for name in asked if not name.startswith("_")} - set(dir(VectorBuilder))
    assert asked and not missing, missing


def rule(prim, params, numbers):
    """The emit rule between conversions, as a kernel has it; numbers among the operands stay."""
    targets, out = prim.dtypes_of(*params)

    def code(b, *values):
        rest = iter(values)
        operands = [
            n if n is None else b.convert(next(rest), t) if t is not None else next(rest)
            for n, t in zip(numbers, targets, strict=True)
        ]
        return b.convert(prim.emit(b, *operands), out)

    return code


def arrays(prim, params):
    """The operands as arrays; a number in the dtype that it enters in."""
    targets, _ = prim.dtypes_of(*params)
    return [
        p if isinstance(p, np.ndarray) else harness.enter(p, t)
        for p, t in zip(params, targets, strict=True)
        if p is not None
    ]


def checked_samples(op, dtype):
    found = harness.samples(op, dtype)
    if harness.has_grid(op):
        grid = harness.Sample(*harness.special_grid(op, dtype))
        found.append(harness.accepted(op, grid)[0])
    return found


@pytest.mark.parametrize(("op", "dtype"), by_dtype(ELEMENTWISE))
def test_machine_code_agrees_with_reference(op, dtype):
    faults = []
    for sample in checked_samples(op, dtype):
        prim, params = harness.bind(op, sample)
        with np.errstate(all="ignore"):
            want = prim.reference(*params)
            operands = arrays(prim, params)
        code = rule(prim, params, params)
        types = tuple(dtypes.from_numpy(a.dtype) for a in operands)
        key = prim, tuple(p is None for p in params), types
        found = elementwise.run_each(code, operands, LANES, key=key)
        for lanes, (got, failed) in zip(LANES, found, strict=True):
            if failed:
                faults.append(snippet(op, sample, f"of {lanes} lanes: {failed}"))
                continue
            fault = harness.difference(np.broadcast_to(got, want.shape), want)
            if fault:
                small = harness.narrowed(sample, harness.first_difference(got, want))
                faults.append(snippet(op, small, f"of {lanes} lanes: {fault}"))
    report(faults)


# -- what the registry does not know ---------------------------------------------------------------


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    ("op", "x", "y", "message"),
    [
        ("floor_divide", [1, 2, 3], [1, 0, 3], "floor_divide: ZeroDivisionError"),
        ("remainder", [1, 2, 3] * 20, [1] * 59 + [0], "remainder: ZeroDivisionError"),
        ("pow", [2, 3], -1, "Integers to negative integer powers"),
        ("binary_cross_entropy_term", [0.5, 2.0], [0.0, 1.0], "elements of input"),
    ],
)
def test_what_may_fail_says_so(op, x, y, message, lanes):
    from wend._engine.core.primitive import REGISTRY

    y = y if isinstance(y, int) else np.array(y)
    prim, params = harness.bind(REGISTRY[op], harness.Sample(np.array(x), y))
    with pytest.raises(Exception, match=message):
        prim.reference(*params)
    code = rule(prim, params, params)
    _, failed = elementwise.run(code, arrays(prim, params), lanes)
    assert len(failed) == 1 and message in failed[0]
    good = [np.ones_like(a) for a in arrays(prim, params)]
    assert elementwise.run(code, good, lanes)[1] == []


def test_failures_are_told_apart():
    def code(b, x):
        b.require(b.lt(x, b.constant(5, x)), "too large")
        b.require(b.gt(x, b.constant(-5, x)), "too small")
        b.require(b.lt(x, b.constant(9, x)), "too large")
        return x

    for values, want in (
        ([0, 1], []),
        ([7], ["too large"]),
        ([0, -9, 8] + [0] * 40, ["too large", "too small"]),
        ([-6] + [0] * 40, ["too small"]),
    ):
        assert elementwise.run(code, [np.array(values)], 16)[1] == want


def test_a_rule_that_fails_needs_a_place_for_it():
    b = VectorBuilder(Text(), Module(), 4, jit.host())
    with pytest.raises(CompileError, match="nowhere to note a failure: bad"):
        b.require(b.number(1, dtypes.bool_), "bad")
    faults = Faults()
    for i in range(64):
        faults.slot(f"fault {i}", 4)
    with pytest.raises(CompileError, match="in 64 ways"):
        faults.slot("one more", 4)


def test_operands_of_two_types_are_refused():
    b = VectorBuilder(Text(), Module(), 4, jit.host())
    x, y = b.number(1, dtypes.float32), b.number(1, dtypes.float64)
    one = b.number(1, dtypes.int32)
    for name in ("add", "div", "lt", "maximum", "pow", "copysign_", "fmod"):
        if hasattr(b, name):
            with pytest.raises(TypeError, match="of two types"):
                getattr(b, name)(x, y)
    for call in (lambda: b.div(one, one), lambda: b.exp(one), lambda: b.shift_left(x, x)):
        with pytest.raises(TypeError, match="does not take"):
            call()
    with pytest.raises(TypeError, match="the condition is of"):
        b.select(x, x, x)
    turn = b.number(1j, dtypes.complex64)
    for call in (lambda: b.lt(turn, turn), lambda: b.floor(turn), lambda: b.maximum(turn, turn)):
        with pytest.raises(TypeError, match="does not take"):
            call()


@pytest.mark.parametrize("dtype", harness.REAL)
def test_masks_leave_other_lanes_alone(dtype):
    """Loads, gathers and stores under a mask: of 8 elements every third, backwards."""
    lanes, size = 8, dtype.itemsize
    text, module, faults = Text(), Module(), Faults()
    mask = ", ".join(f"i1 {'true' if i % 3 == 0 else 'false'}" for i in range(lanes))
    b = VectorBuilder(text, module, lanes, jit.host(), faults, f"<{mask}>")
    loaded = b.load("%x", dtype)
    steps = ", ".join(f"i64 {(lanes - 1 - i) * size}" for i in range(lanes))
    pointers = text.let(f"getelementptr i8, ptr %x, <{lanes} x i64> <{steps}>")
    b.store(b.gather(pointers, dtype), "%y")
    b.require(b.ne(loaded, b.constant(0, loaded)), "zero")
    faults.leave(text, "%word")
    body = f"entry:\n{faults.entry()}\n{text.render()}\n  ret void"
    full = f"define void @k(ptr %x, ptr %y, ptr %word) {{\n{body}\n}}\n\n{module.render()}"
    function = jit.compile_module(full, ["k"]).function("k", *[ctypes.c_void_p] * 3)
    x = (np.arange(lanes) % 3 == 0).astype(dtype.numpy)  # the lanes left out would fail
    y = np.full(lanes, 1).astype(dtype.numpy)
    word = np.zeros(1, np.uint64)
    function(x.ctypes.data, y.ctypes.data, word.ctypes.data)
    want = np.where(np.arange(lanes) % 3 == 0, x[::-1], y)
    assert word[0] == 0
    np.testing.assert_array_equal(y, want)


def test_constants_are_written_as_numpy_casts_them():
    assert literal(-1, dtypes.uint8) == "-1" == literal(255, dtypes.uint8)
    assert literal(2**63, dtypes.int64) == str(-(2**63))
    assert literal(3.7, dtypes.int32) == "3" and literal(2, dtypes.bool_) == "true"
    assert literal(0.1, dtypes.float64) == "0x3FB999999999999A"
    assert literal(0.1, dtypes.float32) == "0x3FB99999A0000000"
    assert literal(1e39, dtypes.float32) == literal(INF, dtypes.float64)


def test_one_rule_is_one_text():
    texts = {
        elementwise.text_of(lambda b, x: b.tanh(x), [dtypes.float32], (1, 16))[0] for _ in "ab"
    }
    assert len(texts) == 1


INF = float("inf")
