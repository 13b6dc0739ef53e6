"""Every op with an ONNX rule, as a model of one op: the runtime computes what Wend computes."""

import harness
import numpy as np
import pytest

from wend._engine.base import dtypes
from wend._engine.core.primitive import Composite
from wend._engine.ops.special.family import HostFunction
from wend.onnx.exporting import UnsupportedOperatorError

for name in ("onnx", "onnxruntime"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

from onnx_calls import Call, check, session, valid  # noqa: E402

NO_FUNCTION = "ONNX has no operator for this function"
GRADIENT = "a gradient's own op: models are for inference"
TRAINING = "dropout inside of attention is for training"
DRAW = "ONNX draws uniform and normal numbers only"
NO_SOLVER = "ONNX has no operator of linear algebra beyond products"
LOOPS = "an exported layer is a node of ONNX, or a loop"
SEARCH = "a search without a formula of ONNX operators"
BYTES = "quantised models are not exported; their float models are"
#: Ops without a rule, with the reason. Strict: an op that has one must not be here.
NO_RULE = {
    **dict.fromkeys(
        "channels_quantized conv2d_int8 depthwise_int8 linear_int8 linear_int8_dynamic "
        "windows_quantized windows_scaled windows_sum".split(),
        BYTES,
    ),
    **dict.fromkeys(("gru_scan_int8", "lstm_scan_int8"), LOOPS),
    "complex": "operators have no complex numbers",
    "polar": "operators have no complex numbers",
    "real": "operators have no complex numbers",
    "imag": "operators have no complex numbers",
    "view_as_complex": "operators have no complex numbers",
    "view_as_real": "operators have no complex numbers",
    "attend_backward": GRADIENT,
    "attend_dropout": TRAINING,
    "attend_pairs": "an exported graph has the composition of all pairs",
    "attend_pairs_backward": GRADIENT,
    "attend_dropout_backward": GRADIENT,
    "attention_dropout": TRAINING,
    "binomial_draw": DRAW,
    "convolve_weight": GRADIENT,
    "digamma": NO_FUNCTION,
    "dirichlet_draw": DRAW,
    "dirichlet_slope": GRADIENT,
    "embedding_adjoint": GRADIENT,
    "erfinv": NO_FUNCTION,
    "fft_c2c": "operators have no complex numbers",
    "fft_c2r": "operators have no complex numbers",
    "fft_r2c": "operators have no complex numbers",
    "frexp": NO_FUNCTION,
    "gamma_slope": GRADIENT,
    "gcd": NO_FUNCTION,
    "gru_scan": LOOPS,
    "histc": SEARCH,
    "i0": NO_FUNCTION,
    "i0e": NO_FUNCTION,
    "i1": NO_FUNCTION,
    "i1e": NO_FUNCTION,
    "lcm": NO_FUNCTION,
    "lexsort_rows": SEARCH,
    "lgamma": NO_FUNCTION,
    "lstm_scan": LOOPS,
    "memory_steps": GRADIENT,
    "memory_steps_back": GRADIENT,
    "mode": SEARCH,
    "mvlgamma": NO_FUNCTION,
    "nextafter": NO_FUNCTION,
    "no_derivative": GRADIENT,
    "poisson_draw": DRAW,
    "polygamma": NO_FUNCTION,
    "random_bits": DRAW,
    "random_order": DRAW,
    "reinterpret": "operators that keep the bits come with opset 26",
    "rnn_scan": LOOPS,
    "standard_gamma": DRAW,
    "state_steps": GRADIENT,
    "state_steps_back": GRADIENT,
    "steps_before": GRADIENT,
    "user_function": "Python of the user's own",
    **{op.name: NO_FUNCTION for op in harness.PRIMITIVES if issubclass(op, HostFunction)},
    "von_mises_draw": DRAW,
    "xor_sum": "operators fold no bits",
    **dict.fromkeys(
        "cholesky_factor cholesky_inverse cholesky_solve cofactors cofactors_along geqrf "
        "householder_product inv_ex ldl_factor_ex ldl_solve least_squares linalg_completed "
        "linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_lu_solve linalg_pinv "
        "linalg_pinv_hermitian linalg_qr linalg_slogdet linalg_svd linalg_svdvals logdet "
        "lu_factor_ex matrix_exp ormqr pivots_order solve_matrix triangular_solve_matrix".split(),
        NO_SOLVER,
    ),
}
#: Element types of Wend's ops that the operators of ONNX do not take.
INTS = frozenset({"uint8", "int8", "int16", "int32", "int64"})
REFUSED = {
    "convolve": INTS,
    "convolve_input": INTS,
    "unpatches": INTS,
    "max_windows": frozenset({"int64"}),
}
#: Ops that make another result of an extent of 1, and ops whose operand must be in order.
OF_ITS_SIZES = {"squeeze", "cov", "corrcoef", "searchsorted", "bucketize"}
UNORDERED = ("searchsorted", "uint8")  # the samples' row, as numbers without a sign
WITH_RULE = [op for op in harness.OPS if op.name not in NO_RULE]
EXTENTS = (("larger", lambda n: n + 1 if n > 1 else n), ("one", lambda n: 1 if n > 1 else n))


def main_dtype(op):
    """The element type of the samples: float32 where the op takes floats."""
    found = harness.supported(op)
    return dtypes.float32 if dtypes.float32 in found else found[-1]


def calls(op, dtype=None):
    """The op's samples as calls; without those that hold bfloat16, which NumPy has no name for."""
    for sample in harness.samples(op, dtype or main_dtype(op)):
        if any(a is dtypes.bfloat16 for a in sample.args):
            continue
        yield Call(op, sample)


def ids(op):
    return op.name


@pytest.mark.parametrize("op", WITH_RULE, ids=ids)
def test_an_op_computes_the_same_in_onnx(op):
    for call in calls(op):
        check(call, valid(call.model()), call.arrays)


@pytest.mark.parametrize("name", sorted(NO_RULE))
def test_an_op_without_a_rule_says_so(name):
    op = harness.REGISTRY[name]
    refused = 0
    for call in calls(op):
        with pytest.raises(UnsupportedOperatorError, match=rf"onnx export: {name}: .*; "):
            call.model()
        refused += 1
    assert refused


def resized(arrays, change):
    """The arrays with every extent changed: equal extents stay equal."""
    return [np.resize(a, tuple(map(change, a.shape))) for a in arrays]


@pytest.mark.parametrize(
    "op", [o for o in WITH_RULE if not o.facts.random and o.name not in OF_ITS_SIZES], ids=ids
)
def test_a_model_holds_for_other_sizes(op):
    for call in calls(op):
        model = call.model()
        for name, change in EXTENTS if call.free is None else ():
            arrays = resized(call.arrays, change)
            try:
                same = call.typed(arrays) is call.program
                call.expected(arrays)
            except Exception:  # the sizes fit no call of the op
                continue
            if (same or name == "one") and all(a.size for a in arrays):
                check(call, model, arrays)


TYPES = (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)


@pytest.mark.parametrize("dtype", [*TYPES, dtypes.float16, dtypes.float64], ids=str)
def test_element_types(dtype):
    for op in WITH_RULE:
        if issubclass(op, Composite) or dtype not in harness.supported(op):
            continue
        if dtype.name in REFUSED.get(op.name, ()) or (op.name, dtype.name) == UNORDERED:
            continue
        for call in list(calls(op, dtype))[:3]:
            check(call, valid(call.model()), call.arrays)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_element_types_that_onnx_lacks_are_refused(name):
    for dtype in REFUSED[name]:
        for call in calls(harness.REGISTRY[name], dtypes.named(dtype)):
            with pytest.raises(UnsupportedOperatorError, match=dtype):
                call.model_of(21, ())


@pytest.mark.parametrize(
    "op", [o for o in harness.ELEMENTWISE if o.name not in NO_RULE and harness.has_grid(o)], ids=ids
)
def test_special_values(op):
    dtype = main_dtype(op)
    sample, _ = harness.accepted(op, harness.Sample(*harness.special_grid(op, dtype, False)))
    call = Call(op, sample)
    check(call, call.model(), call.arrays)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 20, 22, 23, 24])
def test_every_opset(opset):
    for op in WITH_RULE:
        for call in calls(op):
            model = valid(call.model(opset))
            if opset < 22 or not any(n.op_type.startswith("Random") for n in model.graph.node):
                check(call, model, call.arrays)


def test_models_of_bfloat16_load():
    # NumPy has no such type to compare with.
    for op in WITH_RULE:
        if not issubclass(op, Composite) and dtypes.bfloat16 in harness.supported(op):
            for call in list(calls(op, dtypes.bfloat16))[:2]:
                session(valid(call.model()))
