"""Discrete Fourier transforms, stft and windows: against NumPy, and against PyTorch."""

import itertools
import warnings

import numpy as np
import pytest

import wend
from wend._engine.base.errors import LinAlgError

KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NORMS = (None, "forward", "ortho")
OVER = [(None, (0, 1), "ortho"), ((3, 6), (0, -1), "forward"), ((2, -1), (1, 0), None)]


def _numbers(kind, dtype=np.float64):
    x = np.random.default_rng(3).normal(size=(2, 3, 5))
    if kind in ("rfft", "ihfft"):
        return x.astype(dtype)
    return (x + 1j * x[::-1]).astype(np.result_type(dtype, np.complex64))


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_norms(kind):
    """A single dim, cut and padded."""
    x = _numbers(kind)
    for n, dim, norm in itertools.product((None, 1, 4, 9), (-1, 1), NORMS):
        found = getattr(wend.fft, kind)(wend.tensor(x), n, dim, norm)
        want = getattr(np.fft, kind)(x, n, dim, norm)
        np.testing.assert_allclose(found.numpy(), want, atol=1e-12)


def test_back_and_forth():
    """Inverses, types, and what a program writes first."""
    x = wend.randn(3, 7)
    assert wend.fft.rfft(x).dtype is wend.complex64
    wend.testing.assert_close(wend.fft.irfft(wend.fft.rfft(x), n=7), x)
    wend.testing.assert_close(wend.fft.ifft2(wend.fft.fft2(x)).real, x)
    assert wend.fft.fft(wend.arange(4)).dtype is wend.complex64
    found = wend.fft.ifftshift(wend.fft.fftshift(wend.fft.fftfreq(5, 0.5)))
    np.testing.assert_allclose(found.numpy(), np.fft.fftfreq(5, 0.5), rtol=1e-6)


@pytest.mark.parametrize("ending", ["2", "n"])
def test_several_dims(ending):
    """Sizes by dims, of every kind, with gradients of both orders."""
    torch = pytest.importorskip("torch")
    for kind, (s, dims, norm) in itertools.product(KINDS, OVER):
        found = []
        for lib in (wend, torch):
            t = lib.tensor(_numbers(kind)).requires_grad_()
            y = getattr(lib.fft, kind + ending)(t, s, dims, norm)
            loss = (y * y * y).sum()
            (g,) = lib.autograd.grad(loss.real if y.is_complex() else loss, t, create_graph=True)
            (h,) = lib.autograd.grad((g * g.conj()).real.sum(), t)
            found.append([v.detach().resolve_conj().numpy() for v in (y, g, h)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * abs(b).max())


def test_under_vmap():
    """A batch of transforms is a transform of the batch."""
    x = wend.tensor(_numbers("rfft"))
    found = wend.vmap(lambda v: wend.fft.irfft(wend.fft.rfft(v, dim=0), 3, dim=0))(x)
    wend.testing.assert_close(found, x)


REFUSED = [
    (RuntimeError, "Unsupported dtype", lambda: wend.fft.fft(wend.ones(3, dtype=wend.float16))),
    (RuntimeError, "expects a real input", lambda: wend.fft.rfft(wend.ones(3) + 1j)),
    (RuntimeError, "Invalid number of data points", lambda: wend.fft.fft(wend.ones(3), 0)),
    (RuntimeError, "Invalid number of data points", lambda: wend.fft.irfft(wend.ones(1))),
    (RuntimeError, "Invalid normalization mode", lambda: wend.fft.fft(wend.ones(3), norm="x")),
    (RuntimeError, "dims must be unique", lambda: wend.fft.fftn(wend.ones(3, 3), dim=(0, -2))),
    (RuntimeError, "same length", lambda: wend.fft.fft2(wend.ones(3, 3), s=(3,))),
    (RuntimeError, "only has 1 dim", lambda: wend.fft.fftn(wend.ones(3), s=(3, 3))),
    (RuntimeError, "at least one axis", lambda: wend.fft.rfftn(wend.ones(()))),
    (RuntimeError, "negative dimension", lambda: wend.fft.fftfreq(-1)),
    (RuntimeError, "cast", lambda: wend.fft.fft(wend.ones(3), out=wend.empty(0))),
    (IndexError, "no dimensions", lambda: wend.fft.fft(wend.ones(()))),
    (IndexError, "out of range", lambda: wend.fft.fft2(wend.ones(3))),
    (TypeError, "must be int", lambda: wend.fft.fft(wend.ones(3), 1.5)),
    (RuntimeError, "return_complex", lambda: wend.stft(wend.ones(9), 4, window=wend.ones(4))),
    (RuntimeError, "window tensor", lambda: _stft(wend.ones(9), window=wend.ones(3))),
    (RuntimeError, "1D or 2D", lambda: _stft(wend.ones(1, 1, 9))),
    (RuntimeError, "floating point", lambda: _stft(wend.ones(9, dtype=wend.int64))),
    (RuntimeError, "hop_length > 0", lambda: _stft(wend.ones(9), hop_length=0)),
    (RuntimeError, "complex-valued", lambda: wend.istft(wend.ones(3, 4), 4, window=wend.ones(4))),
    (RuntimeError, "cannot be empty", lambda: _istft(wend.ones(3, 0) + 0j)),
    (RuntimeError, "frequency dimension", lambda: _istft(wend.ones(2, 4) + 0j)),
    (LinAlgError, "window overlap add min", lambda: _istft(wend.ones(3, 4) + 0j, wend.zeros(4))),
    (ValueError, "non-negative window length", lambda: wend.signal.windows.hann(-1)),
    (ValueError, "float32 or float64", lambda: wend.signal.windows.hann(3, dtype=wend.int64)),
    (ValueError, "must be positive", lambda: wend.signal.windows.gaussian(3, std=0)),
    (RuntimeError, "non-negative window_length", lambda: wend.hann_window(-1)),
    (RuntimeError, "floating point dtypes", lambda: wend.hann_window(3, dtype=wend.int64)),
]


def _stft(x, window=None, **how):
    window = wend.ones(4) if window is None else window
    return wend.stft(x, 4, window=window, return_complex=True, **how)


def _istft(z, window=None):
    return wend.istft(z, 4, window=wend.ones(4) if window is None else window)


@pytest.mark.parametrize(("error", "told", "call"), REFUSED)
def test_refusals(error, told, call):
    """Types and texts of errors."""
    with pytest.raises(error, match=told):
        call()


STFT = [
    {"window": 8},
    {"window": 5, "win_length": 5, "hop_length": 3, "normalized": True},
    {"window": 8, "onesided": False, "pad_mode": "constant"},
    {"window": 5, "win_length": 5, "center": False},
    {"window": None, "return_complex": False},
]


@pytest.mark.parametrize("how", STFT)
def test_stft(how):
    """Values and gradients by signal and window; the inverse gives the signal back."""
    torch = pytest.importorskip("torch")
    found, how = [], dict(how)
    size = how.pop("window")
    for lib in (wend, torch):
        x = lib.tensor(_numbers("rfft").reshape(2, 15)).requires_grad_()
        window = lib.signal.windows.hann(size + 2, dtype=lib.float64)[1:-1] if size else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's first use of a window's absence
            y = lib.stft(x, 8, window=window, **{"return_complex": True, **how})
            values = [y]
            if y.is_complex() and how.get("center", True):
                back = {k: v for k, v in how.items() if k != "pad_mode"}
                values.append(lib.istft(y, 8, window=window, length=15, **back))
        (g,) = lib.autograd.grad(sum((v * v.conj()).real.sum() for v in values), x)
        found.append([v.detach().resolve_conj().numpy() for v in (*values, g)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_windows():
    """Every window, symmetric or not; the older names are periodic."""
    signal = pytest.importorskip("scipy.signal.windows")
    names = "bartlett blackman cosine hann hamming nuttall".split()
    for name, m, sym in itertools.product(names, (0, 1, 2, 5, 8), (True, False)):
        found = getattr(wend.signal.windows, name)(m, sym=sym, dtype=wend.float64)
        np.testing.assert_allclose(found.numpy(), getattr(signal, name)(m, sym), atol=1e-12)
    for sym in (True, False):
        how = {"sym": sym, "dtype": wend.float64}
        pairs = [
            (wend.signal.windows.kaiser(6, beta=3.0, **how), signal.kaiser(6, 3.0, sym)),
            (wend.signal.windows.gaussian(6, std=2.0, **how), signal.gaussian(6, 2.0, sym)),
            (
                wend.signal.windows.exponential(6, tau=2.0, **how),
                signal.exponential(6, None, 2.0, sym),
            ),
            (
                wend.signal.windows.general_cosine(6, a=[0.3, 0.4, 0.3], **how),
                signal.general_cosine(6, [0.3, 0.4, 0.3], sym),
            ),
            (
                wend.signal.windows.general_hamming(6, alpha=0.6, **how),
                signal.general_hamming(6, 0.6, sym),
            ),
        ]
        for found, want in pairs:
            np.testing.assert_allclose(found.numpy(), want, atol=1e-12)
    for name in ("bartlett", "blackman", "hann", "hamming"):
        found = getattr(wend, f"{name}_window")(8)
        assert found.dtype is wend.float32
        np.testing.assert_allclose(found.numpy(), getattr(signal, name)(8, False), atol=1e-6)
    np.testing.assert_allclose(wend.kaiser_window(8, beta=3.0), signal.kaiser(8, 3.0, False), 1e-6)
