"""Numbers at the ends of domains: an op gives PyTorch's results or refuses, and never fails inside.

Each op of the registry that takes a number is called with 0, numbers below 0, infinities, NaN, and
numbers beyond float32 and int64: at the first call of a line, and after calls with other numbers,
when the path is known. Functions without an op of their own follow in a table.
"""

import harness
import numpy as np
import pytest
from edges import with_torch_dtypes

import wend
from tries import own_trie
from wend._engine.base import dtypes
from wend._engine.base.errors import DefectError
from wend._engine.core.primitive import Sample, ops

needs_torch = pytest.mark.skipif(not harness.HAS_TORCH, reason="PyTorch is not installed")
INF, NAN = float("inf"), float("nan")
NUMBERS = [0, 0.0, -1, -1.0, INF, -INF, NAN]
HUGE = [1e300, 10**30]
#: Ops whose results or refusals differ, and why.
KNOWN = {
    "addmm addbmm": "the products are multiplied by alpha, not their factors",
    "logit": "PyTorch compares with NaN, and so does not clamp",
    "gaussian_nll_loss": "PyTorch calls any() of a number",
    "minimum maximum logaddexp": "numbers are operands here",
    "add_alpha_first sub_alpha_first clamp_number_tensor clamp_tensor_number":
        "forms of an overloaded function, whose tests are in test_elementwise.py",
}  # fmt: skip
SKIPPED = {name for names in KNOWN for name in names.split()}


def places(op):
    """(sample, position, parameter, the number there) of each number that the op takes."""
    seen = set()
    dtype = dtypes.float32 if "float" in op.facts.supports else None
    for sample in harness.samples(op, dtype):
        for i, p in enumerate(op.params):
            if p.kind not in ("scalar", "scalar?", "operand"):
                continue
            number = sample.args[i] if i < len(sample.args) else sample.kwargs.get(p.name)
            number = p.default if number is None else number
            known = p.kind == "scalar?" and number is None
            known = known or (isinstance(number, (int, float)) and not isinstance(number, bool))
            if known and (p.name, type(number)) not in seen:
                seen.add((p.name, type(number)))
                yield sample, i, p, number


def replaced(sample, i, p, number):
    args, kwargs = list(sample.args), dict(sample.kwargs)
    if i < len(args):
        args[i] = number
    else:
        kwargs[p.name] = number
    return Sample(*args, **kwargs)


def by_wend(op, sample):
    given = harness.map_arrays(sample, harness.tensor)
    results = harness.as_tuple(getattr(ops, op.name)(*given.args, **given.kwargs))
    return [harness.value(r) for r in results if hasattr(r, "dtype")]


def by_torch(function, sample):
    given = with_torch_dtypes(harness.map_arrays(sample, harness.to_torch))
    results = harness.as_tuple(function(*given.args, **given.kwargs))
    return [harness.from_torch(r) for r in results if hasattr(r, "dtype")]


def compare(got, want, refusal, theirs, what):
    assert not isinstance(refusal, DefectError), f"{what}: {refusal}"
    assert (refusal is None) == (theirs is None), f"{what}: {refusal!r}, PyTorch: {theirs!r}"
    if refusal is None:
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5, err_msg=what)


TAKERS = [op for op in harness.OPS if not op.facts.random and any(True for _ in places(op))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in TAKERS])
def test_an_op_of_numbers_agrees_or_refuses(op):
    function = harness.torch_function(op)
    for sample, i, p, number in places(op):
        for new in [*NUMBERS, *HUGE]:
            call, what = replaced(sample, i, p, new), f"{op.name}, {p.name} = {new}"
            with own_trie():
                got, refusal = harness.outcomes(by_wend, op, call)
            assert not isinstance(refusal, DefectError), f"{what}: {refusal}"
            if function is not None and new in NUMBERS and op.name not in SKIPPED:
                want, theirs = harness.outcomes(by_torch, function, call)
                compare(got, want, refusal, theirs, what)
        for new in (0, NAN):  # the line has been called before
            what = f"{op.name}, {p.name} = {number}, and then {new}"
            with own_trie():
                for k in range(4):
                    call = sample if k < 3 else replaced(sample, i, p, new)
                    got, refusal = harness.outcomes(by_wend, op, call)
                assert not isinstance(refusal, DefectError), f"{what}: {refusal}"
                with own_trie():
                    want, theirs = harness.outcomes(by_wend, op, call)
            compare(got, want, refusal, theirs, what)


def _optimizer(name, t, **settings):
    p = t.nn.Parameter(t.tensor([1.0, -2.0]))
    optimizer = getattr(t.optim, name)([p], **{"lr": 0.1} | settings)
    for _ in range(3):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    return p.detach()


M = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
A = np.random.default_rng(1).normal(size=(1, 2, 4, 4)).astype(np.float32)
# fmt: off
FUNCTIONS = {
    "celu": lambda t, v: t.nn.functional.celu(t.tensor(M), v),
    "CELU": lambda t, v: t.nn.CELU(v)(t.tensor(M)),
    "layer_norm": lambda t, v: t.nn.functional.layer_norm(t.tensor(M), (4,), eps=v),
    "batch_norm": lambda t, v: t.nn.functional.batch_norm(
        t.tensor(M), t.zeros(4), t.ones(4), training=True, eps=v),
    "batch_norm, evaluation": lambda t, v: t.nn.functional.batch_norm(
        t.tensor(M), t.zeros(4), t.zeros(4), eps=v),
    "instance_norm": lambda t, v: t.nn.functional.instance_norm(t.tensor(A), eps=v),
    "dropout": lambda t, v: t.nn.functional.dropout(t.tensor(M), v, training=True) * 0,
    "interpolate": lambda t, v: t.nn.functional.interpolate(t.tensor(A), scale_factor=v),
    "normalize": lambda t, v: t.nn.functional.normalize(t.tensor(M) * 0, eps=v),
    "huber": lambda t, v: t.nn.functional.huber_loss(t.tensor(M), t.tensor(M) * 0, delta=v),
    "smooth_l1": lambda t, v: t.nn.functional.smooth_l1_loss(t.tensor(M), t.tensor(M) * 0, beta=v),
    "pdist": lambda t, v: t.nn.functional.pdist(t.tensor(M), v),
    "cdist": lambda t, v: t.cdist(t.tensor(M), t.tensor(M) + 1, v),
    "lp_pool": lambda t, v: t.nn.functional.lp_pool2d(t.tensor(A), v, 2),
    "avg_pool": lambda t, v: t.nn.functional.avg_pool2d(t.tensor(A), 2, divisor_override=v),
    "softshrink": lambda t, v: t.nn.functional.softshrink(t.tensor(M), v),
    "rrelu": lambda t, v: t.nn.functional.rrelu(t.tensor(M), v, 0.5),
    "isclose": lambda t, v: t.isclose(t.tensor(M), t.tensor(M) + 1, rtol=v),
    "clip_grad_norm_": lambda t, v: t.nn.utils.clip_grad_norm_([t.nn.Parameter(t.tensor(M))], v),
    "renorm": lambda t, v: t.renorm(t.tensor(M), 2, 0, v),
    "quantile": lambda t, v: t.quantile(t.tensor(M), v),
    "std": lambda t, v: t.std(t.tensor(M), 1, correction=v),
    "arange": lambda t, v: t.arange(0, v, 1),
    "power": lambda t, v: v ** t.tensor(M),
    "remainder": lambda t, v: t.tensor(M) % v,
    "floor": lambda t, v: t.tensor(M) // v,
    "Adam, eps": lambda t, v: _optimizer("Adam", t, eps=v),
    "Adam, lr": lambda t, v: _optimizer("Adam", t, lr=v),
    "RMSprop, alpha": lambda t, v: _optimizer("RMSprop", t, alpha=v),
    "Adagrad, eps": lambda t, v: _optimizer("Adagrad", t, eps=v),
}
# fmt: on


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_numbers_agrees_or_refuses(name):
    import torch

    def array(library, number):
        return np.asarray(FUNCTIONS[name](library, number).detach().numpy())

    for number in NUMBERS:
        want, theirs = harness.outcomes(array, torch, number)
        for _ in range(2):
            got, refusal = harness.outcomes(array, wend, number)
            what = f"{name}, {number}"
            compare([got], [want], refusal, theirs, what)


def test_the_error_names_the_line_of_the_call():
    x = wend.tensor([1.0, -1.0])
    for _ in range(4):
        wend.nn.functional.celu(x, 1.0).sum().item()
    with pytest.raises(RuntimeError, match="celu: ZeroDivisionError: alpha cannot be 0"):
        wend.nn.functional.celu(x, 0.0)


def test_ints_that_no_type_holds_are_refused():
    x, large = wend.tensor([1, 2]), 10**30
    calls = [
        lambda n: wend.nn.functional.pad(x, (1, 1), value=n),
        lambda n: wend.clamp(x, n, None),
    ]
    for call in calls:
        for number in (3, 3, 3, large):  # at a known call as well
            if number == large:
                with pytest.raises(OverflowError, match="int too big to convert"):
                    call(number)
            else:
                call(number).tolist()
