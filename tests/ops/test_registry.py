"""Tests of every op, from the registry: a new op is tested without being named here."""

import harness
import numpy as np
import pytest
from harness import ELEMENTWISE, OPS, PRIMITIVES, by_dtype, report, snippet

from wend._engine.base import dtypes
from wend._engine.base.errors import DTypeError
from wend._engine.core.primitive import NO_GRADIENT, Composite
from wend._engine.ops.builder import Builder
from wend._engine.runtime.numpy_executor.numpy_builder import NumpyBuilder

needs_torch = pytest.mark.skipif(not harness.HAS_TORCH, reason="PyTorch is not installed")


def ids(ops):
    return [pytest.param(op, id=op.name) for op in ops]


@pytest.mark.parametrize("op", ids(OPS))
def test_no_rule_is_missing(op):
    missing = []
    if not op.__doc__:
        missing.append("docstring")
    if not hasattr(op, "samples"):
        missing.append("samples")
    elif not harness.samples(op):
        missing.append("a sample")
    if not issubclass(op, Composite):
        if op.infer is harness.wend._engine.core.primitive.Primitive.infer:
            missing.append("infer")
        missing += [rule for rule in ("reference", "vjp", "batch") if not getattr(op, rule, None)]
        if op.facts.elementwise and op.emit is None:
            missing.append("emit")
    assert not missing, f"{op.name} ({op.__module__}) lacks: {', '.join(missing)}"


@pytest.mark.parametrize("op", ids(OPS))
def test_names_are_pytorchs(op):
    """A function or method that PyTorch lacks is a typing error, or does not belong there."""
    if not harness.HAS_TORCH:
        pytest.skip("PyTorch is not installed")
    import torch

    wrong = [f"torch.{n}" for n in op.torch.functions if not hasattr(torch, n)]
    wrong += [f"Tensor.{n}" for n in op.torch.methods if not hasattr(torch.Tensor, n)]
    wrong += [
        f"nn.functional.{n}"
        for n in getattr(op, "functional", ())
        if not hasattr(torch.nn.functional, n)
    ]
    in_place = (
        op.torch.inplace
        if isinstance(op.torch.inplace, tuple)
        else [n + "_" for n in op.torch.methods]
    )
    wrong += [f"Tensor.{n}" for n in in_place if op.torch.inplace and not hasattr(torch.Tensor, n)]
    assert not wrong, f"{op.name}: PyTorch has no {', '.join(wrong)}"


@pytest.mark.parametrize(("op", "dtype"), by_dtype(PRIMITIVES))
def test_reference_has_the_inferred_type(op, dtype):
    faults = []
    for sample in harness.samples(op, dtype):
        prim, params = harness.bind(op, sample)
        specs = harness.as_tuple(prim.infer(*harness.specs(prim, params)))
        results, error = harness.outcomes(prim.reference, *params)
        if error is not None:
            faults.append(snippet(op, sample, f"reference raises {error!r}"))
            continue
        for result, spec in zip(harness.as_tuple(results), specs, strict=True):
            want = np.empty(tuple(spec.shape), spec.dtype.numpy)
            if not isinstance(result, np.ndarray):
                faults.append(snippet(op, sample, f"reference returns a {type(result).__name__}"))
            elif (result.dtype, result.shape) != (want.dtype, want.shape):
                fault = f"reference gives {result.dtype}{result.shape}, infer {spec}"
                faults.append(snippet(op, sample, fault))
    report(faults)


def strided(array):
    """The same values, of which no two lie side by side in memory."""
    spread = np.zeros((*array.shape, 2), array.dtype)
    spread[..., 0] = array
    return spread[..., 0]


@pytest.mark.parametrize("op", ids(PRIMITIVES))
def test_reference_reads_strided_operands_and_leaves_them(op):
    dtype = dtypes.float64 if "float" in op.facts.supports else harness.supported(op)[-1]
    faults = []
    for sample in [] if op.facts.random else harness.samples(op, dtype):
        prim, params = harness.bind(op, sample)
        moved = harness.map_operands(params, strided)
        before = harness.map_operands(moved, np.copy)
        want, got = prim.reference(*params), prim.reference(*moved)
        for a, b in zip(harness.as_tuple(got), harness.as_tuple(want), strict=True):
            fault = harness.difference(a, b)
            if fault:
                faults.append(snippet(op, sample, f"of strided operands: {fault}"))
        for a, b in zip(harness.operands(moved), harness.operands(before), strict=True):
            if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                faults.append(snippet(op, sample, "reference overwrites an operand"))
    report(faults)


MADE = [op for op in PRIMITIVES if hasattr(op, "runner")]


@pytest.mark.parametrize(("op", "dtype"), by_dtype(MADE))
def test_what_is_made_of_a_rule_gives_the_same_bits(op, dtype):
    """A family may make a faster function of a rule, for operands of known ranks and dtypes.

    The function reads dense operands, strided operands, and the numbers that NumPy makes of arrays
    without dims.
    """
    faults = []
    for sample in harness.samples(op, dtype):
        prim, params = harness.bind(op, sample)
        rule = prim.runner(list(harness.specs(prim, params)))
        for name, way in ("dense", np.copy), ("strided", strided), ("numbers", lambda a: a[()]):
            operands = harness.map_operands(params, way)
            before = harness.map_operands(operands, np.copy)
            with np.errstate(all="ignore"):
                wants = harness.as_tuple(prim.reference(*operands))
                found = harness.as_tuple(rule(*operands))
            for got, want in zip(found, wants, strict=True):
                got, want = np.asarray(got), np.asarray(want)
                if (got.dtype, got.shape) != (want.dtype, want.shape):
                    faults.append(snippet(op, sample, f"of {name}: {got.dtype}{got.shape}"))
                elif got.tobytes() != want.tobytes():
                    faults.append(snippet(op, sample, f"of {name}: {got}, not {want}"))
            for a, b in zip(harness.operands(operands), harness.operands(before), strict=True):
                if np.asarray(a).tobytes() != np.asarray(b).tobytes():
                    faults.append(snippet(op, sample, f"of {name}: an operand is overwritten"))
    report(faults)


@pytest.mark.parametrize(("op", "dtype"), by_dtype(PRIMITIVES))
def test_reference_reads_the_numbers_that_numpy_makes_of_arrays_without_dims(op, dtype):
    """Some rules return numbers, and no memory follows a number: the next rule reads no further."""
    faults = []
    for sample in [] if op.facts.random else harness.samples(op, dtype):
        prim, params = harness.bind(op, sample)
        wants = harness.as_tuple(prim.reference(*params))
        read = prim.reference(*harness.map_operands(params, lambda a: a[()]))
        for got, want in zip(harness.as_tuple(read), wants, strict=True):
            fault = harness.difference(np.asarray(got), np.asarray(want))
            if fault or (got.dtype, got.shape) != (want.dtype, want.shape):
                faults.append(snippet(op, sample, f"of numbers: {fault or got.dtype}"))
    report(faults)


def comparable(ops):
    """Ops that PyTorch has a function for; random ones differ by design."""
    return [op for op in ops if harness.torch_function(op) is not None and not op.facts.random]


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "dtype"), by_dtype(comparable(OPS)))
def test_results_agree_with_torch(op, dtype):
    function = harness.torch_function(op)
    faults = []
    for sample in harness.samples(op, dtype):
        faults += _against_torch(op, function, sample)
    report(faults)


def _against_torch(op, function, sample):
    moved = harness.torch_sample(sample)
    want, refusal = harness.outcomes(function, *moved.args, **moved.kwargs)
    if refusal is not None:
        return []  # what Wend takes beyond PyTorch is its own affair
    got, error = harness.outcomes(harness.computed, op, sample)
    if isinstance(error, DTypeError) and issubclass(op, Composite):
        return []  # a refusal in words; a primitive would say so in `supports`
    if error is not None:
        return [snippet(op, sample, f"raises {error!r}; PyTorch does not")]
    faults = []
    for k, (a, b) in enumerate(zip(got, harness.as_tuple(want), strict=True)):
        b = harness.from_torch(b)
        fault = harness.difference(a, b, loose=issubclass(op, Composite))
        if fault and a.dtype == np.float32:
            # Its vectors round otherwise than its numbers do, where much cancels (gelu with AVX2).
            fault = harness.difference(a, _by_double(function, moved, k))
        if fault:
            small = harness.narrowed(sample, harness.first_difference(a, b))
            faults.append(snippet(op, small, f"other than PyTorch: {fault}"))
    return faults


def _by_double(function, sample, k):
    """The k-th result as PyTorch computes it in float64, rounded to float32."""
    import torch

    def wide(x):
        return x.double() if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x

    args = [wide(x) for x in sample.args]
    results = function(*args, **{name: wide(x) for name, x in sample.kwargs.items()})
    return harness.from_torch(harness.as_tuple(results)[k]).astype(np.float32)


def grid_sample(op, dtype, with_ends=True):
    """Every combination of special values, without those of which the op raises."""
    return harness.accepted(op, harness.Sample(*harness.special_grid(op, dtype, with_ends)))[0]


def with_grid(ops):
    """Elementwise ops that need nothing but tensors."""
    return [op for op in ops if harness.has_grid(op)]


@pytest.mark.parametrize(("op", "dtype"), by_dtype(ELEMENTWISE))
def test_emit_agrees_with_reference(op, dtype):
    checked = harness.samples(op, dtype)
    if with_grid([op]):
        checked.append(grid_sample(op, dtype))
    faults = []
    for sample in checked:
        prim, params = harness.bind(op, sample)
        if any(
            p.kind not in ("tensor", "operand", "tensor?", "scalar?")
            for p in op.params
            if not p.is_attr
        ):
            pytest.skip("takes scalars")
        with np.errstate(all="ignore"):
            want = prim.reference(*params)
            targets, _ = prim.dtypes_of(*params)
            operands = [harness.enter(p, t) for p, t in zip(params, targets, strict=True)]
            result, error = harness.outcomes(prim.emit, NumpyBuilder(), *operands)
        if error is not None:
            faults.append(snippet(op, sample, f"emit raises {error!r}"))
            continue
        with np.errstate(all="ignore"):
            got = np.asarray(result).astype(want.dtype)
        got = np.broadcast_to(got, want.shape)
        fault = harness.difference(got, want)
        if fault:
            small = harness.narrowed(sample, harness.first_difference(got, want))
            faults.append(snippet(op, small, f"emit is other than reference: {fault}"))
    report(faults)


@needs_torch
@pytest.mark.parametrize(("op", "dtype"), by_dtype(with_grid(comparable(ELEMENTWISE))))
def test_special_values_agree_with_torch(op, dtype):
    function = harness.torch_function(op)
    # Of two operands at the ends of the range PyTorch's vectorised remainder makes NaN.
    with_ends = sum(p.kind in ("tensor", "operand") for p in op.params) == 1
    report(_against_torch(op, function, grid_sample(op, dtype, with_ends)))


def test_ops_of_bool_results_have_no_gradient():
    for op in ELEMENTWISE:
        if op.kind == "bool":
            assert op.vjp is NO_GRADIENT, op.name


def test_the_numpy_builder_has_every_instruction():
    asked = {name for name, member in vars(Builder).items() if callable(member)}
    asked = {name for name in asked if not name.startswith("_")}
    missing = {name for name in asked if not hasattr(NumpyBuilder, name)}
    assert asked and not missing, missing
    extra = {name for name in vars(NumpyBuilder) if not name.startswith("_")} - asked
    assert not extra, f"not in the protocol: {extra}"
