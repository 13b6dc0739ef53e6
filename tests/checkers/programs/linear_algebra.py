"""Linear algebra, transforms of Fourier, special functions, statistics."""

from __future__ import annotations

import math

import wend as torch
from wend import Tensor, fft, linalg, special


def least_squares(x: Tensor, y: Tensor) -> Tensor:
    return linalg.lstsq(x, y).solution


def principal(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    centred = x - x.mean(dim=0, keepdim=True)
    _, s, vh = linalg.svd(centred, full_matrices=False)
    return centred @ vh[:count].T, s[:count] ** 2 / (len(x) - 1)


def gaussian_log_density(x: Tensor, covariance: Tensor) -> Tensor:
    factor = linalg.cholesky(covariance)
    z = linalg.solve_triangular(factor, x.unsqueeze(-1), upper=False)
    logdet = 2 * factor.diagonal().log().sum()
    return -0.5 * (z.square().sum() + logdet + len(x) * math.log(2 * math.pi))


def smoothed(signal: Tensor, cutoff: int) -> Tensor:
    spectrum = fft.rfft(signal)
    spectrum[cutoff:] = 0
    return fft.irfft(spectrum, n=signal.shape[-1])


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(20, 3, dtype=torch.float64)
    print(least_squares(x, x @ torch.ones(3, 1, dtype=torch.float64)).squeeze().tolist())
    scores, variances = principal(x, count=2)
    print(scores.shape, variances.tolist()[0] > 0)
    square = x.T @ x
    print(gaussian_log_density(x[0], square).item() < 0, linalg.det(square).item() > 0)
    values, vectors = linalg.eigh(square)
    named = linalg.qr(x)
    print(values.shape, vectors.shape, named.Q.shape, linalg.matrix_rank(square).item())
    sign, logdet = linalg.slogdet(square)
    print(sign.item(), logdet.item() == linalg.slogdet(square).logabsdet.item())
    print(
        linalg.norm(x, ord="fro").item() > 0, linalg.inv(square).shape, linalg.cond(square).item()
    )
    print(torch.linalg.solve(square, x[0]).shape, torch.linalg.pinv(x).shape)
    wave = torch.sin(torch.linspace(0, 6.28, 32)) + 0.1 * torch.randn(32)
    print(smoothed(wave, 4).shape, fft.fftfreq(8, d=0.5).tolist()[1])
    print(special.expit(torch.zeros(2)).tolist(), special.gammaln(torch.tensor(4.0)).item())
    print(torch.special.logsumexp(x, dim=0).shape, torch.quantile(x, 0.5, dim=0).shape)
    print(torch.var_mean(x)[0].item() > 0, torch.histc(x, bins=4).sum().item())
    print(torch.complex(torch.ones(2), torch.zeros(2)).abs().tolist(), wave.cumsum(0)[-1].ndim)


if __name__ == "__main__":
    main()
