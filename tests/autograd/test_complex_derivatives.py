"""Derivatives of complex functions, of all kinds, against PyTorch's."""

import importlib

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

POINT = np.array([1 + 2j, 0.5 - 1j])
DIRECTION = np.array([0.3 - 1j, 2 + 0.1j])

FUNCTIONS = {
    "square": lambda t, z: z * z,
    "abs": lambda t, z: z.abs(),
    "conj": lambda t, z: z.conj() * z,
    "exp": lambda t, z: z.exp(),
    "real": lambda t, z: z.real * 2,
    "imag": lambda t, z: z.imag.sin(),
    "angle": lambda t, z: z.angle(),
    "sum": lambda t, z: (z * z).sum(),
    "inverse": lambda t, z: 1 / z,
    "product": lambda t, z: z[:, None] @ z[None].conj(),
    "norm": lambda t, z: (z.abs() ** 2).sum(),
    "pairs": lambda t, z: t.view_as_real(z),
    "polar": lambda t, z: t.polar(z.real, z.imag),
    "complex": lambda t, z: t.complex(z.real, z.imag * 2),
    "fft": lambda t, z: t.fft.fft(z),
    "log": lambda t, z: t.linalg.vector_norm(z).log(),
}


def dual(t, f, z, v):
    forward = importlib.import_module(f"{t.__name__}.autograd.forward_ad")
    with forward.dual_level():
        return forward.unpack_dual(f(forward.make_dual(z, v)))[1]


KINDS = {
    "jvp": lambda t, f, z, v: t.func.jvp(f, (z,), (v,)),
    "dual": dual,
    "vjp": lambda t, f, z, v: t.func.vjp(f, z)[1](t.ones_like(f(z)))[0],
    "grad": lambda t, f, z, v: t.func.grad(f)(z),
    "linearize": lambda t, f, z, v: t.func.linearize(f, z)[1](v),
    "jacrev": lambda t, f, z, v: t.func.jacrev(f)(z),
    "jacfwd": lambda t, f, z, v: t.func.jacfwd(f)(z),
    "jacobian of pairs": lambda t, f, z, v: t.func.jacfwd(lambda x: f(t.view_as_complex(x)).abs())(
        t.view_as_real(z)
    ),
    "mapped": lambda t, f, z, v: t.func.vmap(t.func.grad(lambda q: f(q).abs().sum()))(
        t.stack([z, v])
    ),
    "functional jvp": lambda t, f, z, v: t.autograd.functional.jvp(f, z, v)[1],
    "functional hvp": lambda t, f, z, v: t.autograd.functional.hvp(f, z, v)[1],
}


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_equal_torchs(kind):
    for name, function in FUNCTIONS.items():
        found = []
        for t in (wend, torch):
            z, v = t.tensor(POINT), t.tensor(DIRECTION)
            try:
                found.append(KINDS[kind](t, lambda z, t=t, f=function: f(t, z), z, v))
            except RuntimeError as error:
                found.append(error)
        ours, theirs = found
        if isinstance(theirs, Exception):
            assert isinstance(ours, Exception), name
            continue
        if isinstance(ours, Exception):
            raise ours
        pairs = zip(ours, theirs, strict=True) if isinstance(ours, tuple) else [(ours, theirs)]
        for a, b in pairs:
            a, b = a.detach().numpy(), b.detach().resolve_conj().numpy()
            assert a.dtype == b.dtype, name
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=name)
