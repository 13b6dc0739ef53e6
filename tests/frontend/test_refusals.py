"""What PyTorch refuses is refused, what it takes is taken: each program beside PyTorch's.

A refusal's class derives from the one that PyTorch raises; its text is Wend's own.
"""

import operator

import numpy as np
import pytest

import wend
from wend._engine.base import errors

NAN, INF = float("nan"), float("inf")


def ints(ns, *values):
    return ns.tensor(values, dtype=ns.int64)


def ctc(ns, steps=2, labels=1, blank=0):
    steps = ns.tensor(steps).reshape(-1)
    return ns.nn.functional.ctc_loss(
        ns.ones(2, 1, 3), ns.tensor([[1]]), steps, ns.tensor([labels]), blank
    )


# fmt: off
REFUSED = {
    "a number for maximum": (
        lambda ns: ns.maximum(ns.ones(2), 1.0), errors.ArgumentTypeError,
        r"maximum\(\): argument 'other' must be Tensor, not float"),
    "a number for minimum": (
        lambda ns: ns.ones(2).minimum(1), errors.ArgumentTypeError, "must be Tensor, not int"),
    "a number for logaddexp": (
        lambda ns: ns.logaddexp(ns.ones(2), 1.0), errors.ArgumentTypeError, "must be Tensor"),
    "dim=True": (
        lambda ns: ns.ones(2, 2).sum(dim=True), errors.ArgumentTypeError,
        "sum: argument 'dim' must be int, not bool"),
    "dim=True after dim=1": (
        lambda ns: (ns.ones(2, 2).sum(1), ns.ones(2, 2).sum(True)), errors.ArgumentTypeError,
        "must be int, not bool"),
    "dim=(True,)": (
        lambda ns: ns.ones(2, 2).amax(dim=(True,)), errors.ArgumentTypeError, "not bool"),
    "norm(dim=True)": (
        lambda ns: ns.norm(ns.ones(2, 2), dim=True), errors.ArgumentTypeError, "not bool"),
    "dim of a function": (
        lambda ns: ns.ones(2, 2).unflatten(True, (1, 2)), errors.ArgumentTypeError,
        "must be int, not bool"),
    "an extent": (
        lambda ns: ns.zeros((True, 4)), errors.ArgumentTypeError, "it contains a bool"),
    "extents of a view": (
        lambda ns: ns.ones(4).reshape((True, 4)), errors.ArgumentTypeError, "not bool"),
    "keepdim=1": (
        lambda ns: ns.ones(2, 2).sum(1, keepdim=1), errors.ArgumentTypeError,
        "argument 'keepdim' must be bool, not int"),
    "a bool of NumPy": (
        lambda ns: ns.ones(2, 2).sum(1, np.bool_(True)), errors.ArgumentTypeError,
        "argument 'keepdim' must be bool"),
    "size(1.0)": (
        lambda ns: ns.ones(2, 2).size(1.0), errors.ArgumentTypeError, "must be an int, not float"),
    "~float": (
        lambda ns: ~ns.ones(2), errors.DTypeOfOperator,
        "bitwise_not: `~` is for bool and int tensors"),
    "bitwise_not": (
        lambda ns: ns.ones(2).bitwise_not(), errors.DTypeNotImplemented, "not implemented for"),
    "bits of floats": (
        lambda ns: ns.ones(2) & 1, errors.DTypeNotImplemented,
        "bitwise_and: not implemented for torch.float32: takes bool and int tensors"),
    "softmax of ints": (
        lambda ns: ns.softmax(ints(ns, 1, 2), 0), errors.DTypeNotImplemented,
        "softmax: not implemented for torch.int64; pass dtype="),
    "gelu of ints": (
        lambda ns: ns.nn.functional.gelu(ints(ns, 1)), errors.DTypeNotImplemented,
        "gelu: not implemented for torch.int64"),
    "product of masks": (
        lambda ns: ns.ones(2, 2, dtype=ns.bool) @ ns.ones(2, 2, dtype=ns.bool),
        errors.DTypeNotImplemented, "matmul: not implemented for torch.bool"),
    "+mask": (
        lambda ns: +ns.tensor([True]), errors.DTypeError, "positive: the `?\\+`? operator"),
    "ints for losses": (
        lambda ns: ns.nn.functional.cross_entropy(ints(ns, 1, 2), ints(ns, 1)[0]),
        errors.DTypeNotImplemented, "cross_entropy: not implemented for torch.int64"),
    "a target of ints": (
        lambda ns: ns.nn.functional.binary_cross_entropy(ns.ones(1), ints(ns, 1)),
        errors.DTypeError, "target must be of the input's dtype torch.float32, not torch.int64"),
    "a target beyond 1": (
        lambda ns: ns.nn.functional.binary_cross_entropy(ns.ones(1), ns.tensor([1.5])).item(),
        errors.ExecutionError, "all elements of target should be between 0 and 1"),
    "logits and ints": (
        lambda ns: ns.nn.functional.binary_cross_entropy_with_logits(ns.ones(1), ints(ns, 1)),
        errors.DTypeError, "the target must be a float tensor, not torch.int64"),
    "a divergence of ints": (
        lambda ns: ns.nn.functional.kl_div(ns.ones(2), ints(ns, 1, 1)), errors.DTypeError,
        "kl_div: takes float tensors, not torch.int64"),
    "a batch of another size": (
        lambda ns: ns.nn.functional.cross_entropy(ns.ones(2, 3), ns.zeros(1, 2).long()),
        errors.ArgumentError, r"input batch_size \(2\) to match target batch_size \(1\)"),
    "targets of another size": (
        lambda ns: ns.nn.functional.cross_entropy(ns.ones(2, 3, 4), ns.zeros(2, 5).long()),
        errors.ValueRefused, r"input size in dim 1 \(4\) to match target size in dim 1 \(5\)"),
    "a negative beta": (
        lambda ns: ns.nn.functional.smooth_l1_loss(ns.ones(2), ns.ones(2), beta=-1),
        errors.ValueRefused, "beta must not be negative"),
    "a negative variance": (
        lambda ns: ns.nn.functional.gaussian_nll_loss(ns.ones(2), ns.ones(2), -ns.ones(2)).item(),
        errors.ValuesRefused, "var has negative entry"),
    "triplets of unlike ranks": (
        lambda ns: ns.nn.functional.triplet_margin_loss(ns.ones(2, 2), ns.ones(2, 2), ns.ones(2)),
        errors.ShapeError, "must have the same number of dims, not 2, 2 and 1"),
    "prelu of two dtypes": (
        lambda ns: ns.nn.functional.prelu(ns.ones(2), ns.ones(1).double()), errors.DTypeError,
        "prelu: input and weight must be of one dtype"),
    "enlarged ints": (
        lambda ns: ns.nn.functional.interpolate(ns.ones(1, 1, 2, 2).long(), scale_factor=2),
        errors.DTypeNotImplemented, "interpolate: not implemented for torch.int64"),
    "softmax without a dim": (
        lambda ns: ns.softmax(ns.ones(2, 2)), errors.ArgumentTypeError, "argument: 'dim'"),
    "logsumexp of no dim": (
        lambda ns: ns.logsumexp(ns.ones(2), dim=None), errors.ArgumentTypeError, "not None"),
    "a negative power of ints": (
        lambda ns: (ns.tensor([1, 2], dtype=ns.uint8) ** -1).tolist(), errors.ExecutionError,
        "Integers to negative integer powers are not allowed"),
    "bernoulli beyond 1": (
        lambda ns: ns.bernoulli(ns.tensor([1.5])).item(), errors.ValuesRefused,
        "bernoulli: expects probabilities from 0 to 1"),
    "bernoulli(p=1.5)": (
        lambda ns: ns.ones(2).bernoulli(1.5), errors.ValueRefused, r"p to be in \[0, 1\]"),
    "bernoulli of ints": (
        lambda ns: ns.bernoulli(ints(ns, 1)), errors.DTypeNotImplemented, "not implemented for"),
    "bernoulli_(NaN)": (
        lambda ns: ns.ones(2).bernoulli_(NAN), errors.ValueRefused, "got p=nan"),
    "normal(std=-1)": (
        lambda ns: ns.normal(0.0, -1.0, (2,)), errors.ValueRefused, "found std -1.0"),
    "normal of negative deviations": (
        lambda ns: ns.normal(0.0, ns.tensor([1.0, -1.0])).tolist(), errors.ValuesRefused,
        "all elements of std >= 0.0"),
    "geometric_(1)": (
        lambda ns: ns.ones(2).geometric_(1.0), errors.ValueRefused, r"p to be in \(0, 1\)"),
    "exponential_(0)": (
        lambda ns: ns.ones(2).exponential_(0.0), errors.ValueRefused, "lambda > 0.0"),
    "exponential_ of ints": (
        lambda ns: ints(ns, 1).exponential_(), errors.DTypeNotImplemented,
        "torch.int64 is no float type"),
    "cauchy_(sigma=-1)": (
        lambda ns: ns.ones(2).cauchy_(0, -1), errors.ValueRefused, "sigma > 0.0"),
    "log_normal_(std=0)": (
        lambda ns: ns.ones(2).log_normal_(0, 0), errors.ValueRefused, "std > 0.0"),
    "uniform_ without end": (
        lambda ns: ns.ones(2).uniform_(0, INF), errors.ValueRefused, "out of bounds for"),
    "uniform_ of ints": (
        lambda ns: ints(ns, 1).uniform_(), errors.DTypeNotImplemented, "not implemented for"),
    "randint beyond its type": (
        lambda ns: ns.randint(0, 300, (2,), dtype=ns.uint8), errors.ValueRefused,
        "to - 1 is 299, which is out of bounds for torch.uint8"),
    "randint below its type": (
        lambda ns: ns.randint(-1, 5, (2,), dtype=ns.uint8), errors.ValueRefused, "from is -1"),
    "randint of masks": (
        lambda ns: ns.randint(0, 3, (2,), dtype=ns.bool), errors.ValueRefused, "to - 1 is 2"),
    "random_ beyond its type": (
        lambda ns: ns.ones(2).half().random_(0, 2**17), errors.ValueRefused, "out of bounds"),
    "randint(2.5)": (
        lambda ns: ns.randint(2.5, (2,)), errors.ArgumentTypeError, "must be int, not float"),
    "randint beyond 64 bits": (
        lambda ns: ns.randint(0, 2**63, (2,)), errors.ArgumentError, "more than 64 bits"),
    "randint of a size that is none": (
        lambda ns: ns.randint(5, 2), errors.ArgumentTypeError, "must be a tuple of ints"),
    "randperm beyond its type": (
        lambda ns: ns.randperm(257, dtype=ns.uint8), errors.ValueRefused, "cannot hold"),
    "dropout(1.5)": (
        lambda ns: ns.dropout(ns.ones(2), 1.5, True), errors.ValueRefused, "between 0 and 1"),
    "F.dropout(NaN)": (
        lambda ns: ns.nn.functional.dropout(ns.ones(2), NAN), errors.ValueRefused,
        "between 0 and 1"),
    "a quantile of nothing": (
        lambda ns: ns.quantile(ns.ones(0, 2), 0.5, dim=1), errors.ShapeError,
        "input tensor must be non-empty"),
    "a quantile of no kind": (
        lambda ns: ns.quantile(ns.ones(3), 0.5, interpolation="x"), errors.ValueRefused,
        "interpolation must be one of"),
    "scatter_reduce of no kind": (
        lambda ns: ns.zeros(3).scatter_reduce(0, ints(ns, 0), ns.ones(1), "x"),
        errors.ValueRefused, "reduce argument must be one of"),
    "scatter of no kind": (
        lambda ns: ns.zeros(3).scatter(0, ints(ns, 0), ns.ones(1), reduce="amax"),
        errors.ValueRefused, "add or multiply"),
    "lerp of ints": (
        lambda ns: ns.lerp(ints(ns, 1), ints(ns, 2), 0.5), errors.DTypeNotImplemented, "lerp: not"),
    "lerp of two dtypes": (
        lambda ns: ns.lerp(ns.ones(1), ns.ones(1).double(), 0.5), errors.DTypeError, "lerp: end"),
    "cumsum of masks": (
        lambda ns: ns.cumsum(ns.ones(2), 0, dtype=ns.bool), errors.DTypeNotImplemented, "cumsum"),
    "full beyond its type": (
        lambda ns: ns.full((2,), 300, dtype=ns.uint8), errors.ValueRefused, "without overflow"),
    "full of NaN": (
        lambda ns: ns.full((2,), NAN, dtype=ns.int64), errors.ValueRefused, "nan cannot be"),
    "fill_ beyond its type": (
        lambda ns: ns.ones(2).half().fill_(1e5), errors.ValueRefused, "fill_: 100000.0 cannot"),
    "full_like beyond its type": (
        lambda ns: ns.full_like(ns.ones(2).byte(), 300), errors.ValueRefused, "full_like: 300"),
    "full(2, 1)": (
        lambda ns: ns.full(2, 1), errors.ArgumentTypeError, "must be a tuple of ints"),
    "requires_grad=1": (
        lambda ns: ns.zeros(2, requires_grad=1), errors.ArgumentTypeError, "must be bool, not int"),
    "requires_grad_('a')": (
        lambda ns: ns.zeros(2).requires_grad_("a"), errors.ArgumentTypeError, "not str"),
    "out=[1]": (
        lambda ns: ns.add(ns.ones(2), 1, out=[1]), errors.ArgumentTypeError, "must be Tensor"),
    "grad of no inputs": (
        lambda ns: ns.autograd.grad(ns.ones((), requires_grad=True) * 1, []), errors.GraphError,
        "`inputs` is empty"),
    "a matrix of indices": (
        lambda ns: ns.ones(2, 2).index_select(0, ns.zeros(1, 1).long()), errors.ElementOutOfRange,
        "index is supposed to be a vector"),
    "no such side": (
        lambda ns: ns.searchsorted(ns.ones(2), ns.ones(2), side="x"), errors.ValueRefused,
        "side can only be"),
    "complex numbers in order": (
        lambda ns: ns.ones(2) < 1j, errors.DTypeNotImplemented, "lt: not implemented for"),
    "steps beyond the input's": (
        lambda ns: ctc(ns, steps=3), errors.ValueRefused, "input_lengths must lie from 0 to 2"),
    "labels beyond the target's": (
        lambda ns: ctc(ns, labels=2), errors.ValueRefused, "target_lengths must lie from 0 to 1"),
    "a blank that is no label": (
        lambda ns: ctc(ns, blank=3), errors.ValueRefused, "blank must be one of the 3 labels"),
    "steps for two examples": (
        lambda ns: ctc(ns, steps=[2, 2]), errors.ValueRefused, "has 2 lengths for 1 examples"),
    "a name as data": (
        lambda ns: ns.tensor(["a"]), errors.DataRefused, r"tensor: data\[0\] is a str"),
    "no data": (lambda ns: ns.tensor(None), errors.DataRefused, "tensor: data is a NoneType"),
    "a name in a tensor": (
        lambda ns: "a" in ns.ones(2), errors.DataRefused, "only supports Tensor or scalar"),
    "fewer steps than none": (
        lambda ns: ns.linspace(0, 1, -1), errors.ValueRefused, "must be non-negative"),
}

TAKEN = {
    "an int of NumPy as dim": lambda ns: ns.ones(2, 2).sum(np.int64(1)),
    "a bool among the later dims": lambda ns: ns.ones(2, 2, 2).sum((0, True)),
    "dtype=float": lambda ns: ns.ones(2).sum(dtype=float),
    "a list of floats as index": lambda ns: ns.arange(3.0)[[-1.5]],
    "an array of floats as index": lambda ns: ns.arange(3.0)[np.array([1.5])],
    "lists of floats as indices": lambda ns: ns.arange(4.0).reshape(2, 2)[[1.5], [0.2]],
    "an array of no dims": lambda ns: ns.ones(2) * np.array(2.0),
    "an array of ints": lambda ns: ns.ones(2).int() * np.array(2),
    "an array of another float type": lambda ns: ns.ones(2).int() * np.ones(2, np.float32),
    "a number of NumPy": lambda ns: ns.ones(2) * np.float64(2.0),
    "product with an array": lambda ns: ns.ones(2) @ np.array([2.0, 1.0]),
    "a mask to a bool": lambda ns: ns.tensor([True, False]) ** True,
    "a mask to a bool, in place": lambda ns: operator.ipow(ns.tensor([True, False]), True),
    "a mask to no power": lambda ns: ns.tensor([True, False]) ** False,
    "numbers to a bool": lambda ns: ns.tensor([1.5, 2.0]) ** True,
    "numbers to no power": lambda ns: ns.tensor([1.5, 0.0]) ** False,
    "add of numbers": lambda ns: ns.add(1, 2),
    "add of numbers, scaled": lambda ns: ns.add(1, 2.5, alpha=3),
    "add of bools": lambda ns: ns.add(True, True),
    "div of ints": lambda ns: ns.div(3, 2),
    "div of ints, rounded": lambda ns: ns.div(3, 2, rounding_mode="floor"),
    "mul of an int and a bool": lambda ns: ns.mul(2, True),
    "an imaginary number": lambda ns: ns.ones(2) == 1j,
    "a complex number that is real": lambda ns: ns.ones(2) == 1 + 0j,
    "unlike a complex number": lambda ns: ns.ne(ints(ns, 1, 2), 1 + 0j),
    "scatter_reduce by 'max'": lambda ns: ns.zeros(3).scatter_reduce(
        0, ints(ns, 0, 0), ns.tensor([2.0, 1.0]), "max"),
    "a bool in randint": lambda ns: ns.randint(0, 2, (2,), dtype=ns.bool) & False,
    "a wrapped number": lambda ns: ns.full((2,), -1, dtype=ns.uint8),
    "hardtanh of ints": lambda ns: ns.nn.functional.hardtanh(ints(ns, -5, 9), -1.5, 2.5),
    "relu6 of ints": lambda ns: ns.nn.functional.relu6(ints(ns, -1, 9)),
    "threshold of ints": lambda ns: ns.nn.functional.threshold(ints(ns, 1, 9), 2, 3),
    "softsign of ints": lambda ns: ns.nn.functional.softsign(ints(ns, 1, 9)),
    "tanhshrink of ints": lambda ns: ns.nn.functional.tanhshrink(ints(ns, 1, 9)),
    "similarity of ints and floats": lambda ns: ns.cosine_similarity(
        ints(ns, 1, 2), ns.tensor([2.0, 1.0]), 0),
    "squares of masks": lambda ns: ns.nn.functional.mse_loss(ns.zeros(2), ns.ones(2).bool()),
    "infinite quantiles": lambda ns: ns.nanquantile(
        ns.tensor([-INF, 1.0, NAN, 2.0]), ns.tensor([0.0, 0.1, 0.3, 0.5, 1.0])),
    "lerp from infinity": lambda ns: ns.lerp(ns.tensor([-INF, 1.0]), ns.tensor([1.0, INF]), 0.6),
    "mode with NaN": lambda ns: ns.mode(ns.tensor([1.0, NAN, NAN, 2.0]))[0],
    "NaN counts in norm(0)": lambda ns: ns.norm(ns.tensor([0.0, NAN, 1.0]), 0),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    program, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        program(wend)


@pytest.mark.parametrize("name", REFUSED)
def test_whoever_catches_pytorchs_refusal_catches_this(name):
    torch = pytest.importorskip("torch")
    program, kind, _ = REFUSED[name]
    with pytest.raises(Exception) as theirs:
        program(torch)
    assert issubclass(kind, theirs.type)


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.filterwarnings("ignore:__array_wrap__")
def test_taken(name):
    torch = pytest.importorskip("torch")
    expected, found = TAKEN[name](torch), TAKEN[name](wend)
    assert str(found.dtype) == str(expected.dtype) and tuple(found.shape) == tuple(expected.shape)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_a_softmax_without_a_dim_warns_each_time(name):
    function = getattr(wend.nn.functional, name)
    for shape, dim in (((2, 3), 1), ((2, 3), 1), ((2, 3, 2), 0)):
        # Held, so that both calls have one path: a longer path rounds in its own way.
        x = wend.tensor(np.arange(float(np.prod(shape))).reshape(shape))
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name}") as met:
            found = function(x)
        assert met[0].filename == __file__
        np.testing.assert_array_equal(found.numpy(), function(x, dim=dim).numpy())


def test_integers_that_a_float_type_cannot_tell_apart():
    with pytest.warns(UserWarning, match="beyond 2\\*\\*24 torch.float32 cannot tell"):
        wend.randint(0, 2**30, (2,), dtype=wend.float32)


F_OF_X = {
    "elu": lambda ns, x: ns.nn.functional.elu(x, 2.0),
    "selu": lambda ns, x: ns.nn.functional.selu(x),
    "celu": lambda ns, x: ns.nn.functional.celu(x, 2.0),
    "leaky_relu": lambda ns, x: ns.nn.functional.leaky_relu(x),
}


@pytest.mark.parametrize("name", F_OF_X)
def test_derivatives_where_branches_meet(name):
    torch = pytest.importorskip("torch")

    def derivatives(ns):
        x = ns.tensor([-1.0, 0.0, 1.0, -0.0], requires_grad=True)
        (first,) = ns.autograd.grad(F_OF_X[name](ns, x).square().sum(), x, create_graph=True)
        (second,) = ns.autograd.grad((first + F_OF_X[name](ns, x)).sum(), x)
        return first.tolist(), second.tolist()

    for found, expected in zip(derivatives(wend), derivatives(torch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_second_derivatives_of_prelu_by_its_weight():
    torch = pytest.importorskip("torch")

    def derivatives(ns):
        x = ns.tensor([-1.0, 0.0, 1.0, -0.0], requires_grad=True)
        w = ns.tensor([0.3], requires_grad=True)
        a, b = ns.autograd.grad(ns.nn.functional.prelu(x, w).sum(), (x, w), create_graph=True)
        return [g.tolist() for g in ns.autograd.grad((a * a).sum() + b.sum(), (x, w))]

    for found, expected in zip(derivatives(wend), derivatives(torch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_gradient_of_ctc_loss_by_scores_that_are_no_log_probabilities(reduction):
    torch = pytest.importorskip("torch")

    def gradient(ns):
        x = ns.arange(24.0).reshape(4, 2, 3).sin().requires_grad_()
        targets, steps = ns.tensor([[1, 2], [1, 1]]), ns.tensor([4, 3])
        loss = ns.nn.functional.ctc_loss(x, targets, steps, ns.tensor([2, 1]), reduction=reduction)
        loss.sum().backward()
        return loss.tolist(), x.grad.tolist()

    for found, expected in zip(gradient(wend), gradient(torch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
