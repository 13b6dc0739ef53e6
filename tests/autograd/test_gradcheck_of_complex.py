"""gradcheck of complex functions, and make_tensor: what PyTorch accepts and refuses."""

import importlib
import sys
import warnings

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

FUNCTIONS = {
    "square": lambda t, z, x: z * z,
    "abs": lambda t, z, x: z.abs(),
    "conj": lambda t, z, x: z.conj() * x,
    "real": lambda t, z, x: z.real,
    "complex": lambda t, z, x: t.complex(x, z.imag),
    "two results": lambda t, z, x: (z * x, z.abs()),
    "of a real number": lambda t, z, x: x * (1 + 2j),
    "fft": lambda t, z, x: t.fft.fft(x),
    "product": lambda t, z, x: z[:, None] @ z.conj()[None],
    "without gradient": lambda t, z, x: (z * x).detach() + z * 0,
}
WRONG = ["no conj", "imaginary part lost", "complex of real"]
MODES = [{}, {"fast_mode": True}]


def wrong(t, kind):
    """A function with a faulty backward."""

    class Wrong(t.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z.real.clone() if kind == "complex of real" else z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            if kind == "no conj":
                return g * 2 * z
            if kind == "imaginary part lost":
                return (g * 2 * z.conj()).real + 0j * g
            return g * (1 + 1j)

    return Wrong.apply


def inputs(t):
    z = t.tensor(np.array([1 + 2j, 0.5 - 1j]), requires_grad=True)
    return z, t.tensor(np.array([1.0, 2.0]), requires_grad=True)


def judged(t, check, function, settings):
    try:
        return getattr(t.autograd, check)(function, inputs(t), **settings)
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        return False


@pytest.mark.parametrize("settings", MODES, ids=str)
@pytest.mark.parametrize("check", ["gradcheck", "gradgradcheck"])
def test_functions_are_judged_as_by_torch(check, settings):
    for name, function in FUNCTIONS.items():
        ours, theirs = (
            judged(t, check, lambda z, x, t=t, f=function: f(t, z, x), settings)
            for t in (wend, torch)
        )
        assert ours == theirs, name


@pytest.mark.parametrize("settings", MODES, ids=str)
@pytest.mark.parametrize("kind", WRONG)
def test_faulty_gradients_are_found(kind, settings):
    for t in (wend, torch):
        function = wrong(t, kind)
        with pytest.raises(RuntimeError, match="mismatch"):
            t.autograd.gradcheck(lambda z, x, f=function: f(z), inputs(t), **settings)
        assert not judged(t, "gradcheck", lambda z, x, f=function: f(z), settings)


def test_the_part_of_a_complex_result_is_named():
    with pytest.raises(RuntimeError, match="the imaginary part of complex outputs only"):
        function = wrong(wend, "no conj")
        wend.autograd.gradcheck(lambda z, x: function(z), inputs(wend))


def test_a_transposed_jacobian_is_found_along_directions():
    class Transposed(wend.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return wend.stack([x[0] + 3 * x[1], x[1]])

        @staticmethod
        def backward(ctx, g):
            return wend.stack([g[0] + 3 * g[1], g[1]])  # should be g[0], 3 g[0] + g[1]

    with pytest.raises(RuntimeError, match="mismatch"):
        wend.autograd.gradcheck(Transposed.apply, inputs(wend)[1:], fast_mode=True)


def test_forward_mode_is_compared_where_asked_for():
    x = inputs(wend)
    good, bad = FUNCTIONS["square"], wrong(wend, "no conj")
    forward_alone = {"check_forward_ad": True, "check_backward_ad": False}
    assert wend.autograd.gradcheck(lambda z, x: good(wend, z, x), x, **forward_alone)
    with pytest.raises(RuntimeError, match="forward mode"):
        wend.autograd.gradcheck(lambda z, x: bad(z), x, **forward_alone)
    assert wend.autograd.gradgradcheck(
        lambda z, x: good(wend, z, x), x, check_fwd_over_rev=True, check_rev_over_rev=False
    )


def test_jacobians_of_complex_inputs():
    jacobians = [sys.modules[f"{t.__name__}.autograd.gradcheck"] for t in (wend, torch)]
    get_numerical_jacobian = jacobians[0].get_numerical_jacobian
    get_analytical_jacobian = jacobians[0].get_analytical_jacobian
    z, _ = inputs(wend)
    (numerical,) = get_numerical_jacobian(lambda z: z.abs(), z, eps=1e-6)
    (analytical,), *_ = get_analytical_jacobian(z, z.abs())
    their_z, _ = inputs(torch)
    (wanted,), *_ = jacobians[1].get_analytical_jacobian((their_z,), their_z.abs())
    for found in (numerical, analytical):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="non-complex"):
        get_analytical_jacobian(z, z * z)
    with pytest.raises(ValueError, match="non-complex"):
        get_numerical_jacobian(lambda z: z * z, z)


# --- tensors for such tests ------------------------------------------------------------------

TENSORS = [
    {},
    {"low": 1, "high": 2},
    {"noncontiguous": True},
    {"exclude_zero": True},
    {"low": -1e39, "high": 1e39},
    {"requires_grad": True},
    {"low": 2, "high": 2},
    {"low": 3, "high": 1},
    {"memory_format": "channels_last"},
    {"low": float("nan")},
    {"low": 1 + 0j},
]


@pytest.mark.parametrize("settings", TENSORS, ids=str)
@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float32", "int32", "bool"])
def test_made_tensors_are_as_torchs(dtype, settings):
    found = []
    for t in (wend, torch):
        make = importlib.import_module(f"{t.__name__}.testing").make_tensor
        given = {
            key: getattr(t, value) if key == "memory_format" else value
            for key, value in settings.items()
        }
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                x = make((2, 3, 4, 5), dtype=getattr(t, dtype), device="cpu", **given)
            except (ValueError, TypeError) as error:
                found.append(isinstance(error, ValueError))
                continue
        warned = any(issubclass(w.category, FutureWarning) for w in told)
        facts = x.is_contiguous(), x.is_leaf, x.requires_grad, tuple(x.shape), warned
        found.append((*facts, str(x.dtype).split(".")[-1]))
        if not settings.get("noncontiguous"):
            found[-1] += (x.stride(),)
        if x.is_complex():
            parts = t.view_as_real(x.detach())
            low, high = settings.get("low", -9), settings.get("high", 9)
            assert bool(((parts >= low) & (parts <= high)).all())
            if low != high:
                assert all(len(set(parts[..., k].reshape(-1).tolist())) > 50 for k in (0, 1))
    assert found[0] == found[1]
