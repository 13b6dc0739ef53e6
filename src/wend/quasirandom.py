"""torch.quasirandom: points that fill a cube more evenly than random points do."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._frontend.creation import from_numpy
from wend._frontend.interop import sobol
from wend._frontend.random import Generator, randint
from wend._frontend.toolkit import Tensor, arange, get_default_dtype, int64, zeros

__all__ = ["SobolEngine"]


class SobolEngine:
    """Sobol's sequence of points in [0, 1)^dimension.

    scramble: points are scrambled by random matrices of bits and a random shift (Owen, 1998)
    seed: of these; PyTorch's generator gives other matrices for the same seed
    Raises ArgumentError for dimensions beyond 1 to MAXDIM. Sobol (1967); direction numbers by Joe
    and Kuo (2008), as PyTorch has them.
    """

    MAXBIT = sobol.BITS
    MAXDIM = sobol.MOST_DIMS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ArgumentError(
                f"SobolEngine: Supported range of dimensionality for SobolEngine is "
                f"[1, {self.MAXDIM}], not {dimension}"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        numbers = sobol.directions(dimension)
        self.shift = zeros(dimension, dtype=int64)
        if scramble:
            generator = None if seed is None else Generator().manual_seed(seed)
            bits = randint(2, (dimension, self.MAXBIT), generator=generator)
            self.shift = (bits * 2 ** arange(self.MAXBIT)).sum(1)
            matrices = randint(2, (dimension, self.MAXBIT, self.MAXBIT), generator=generator)
            numbers = sobol.scrambled(numbers, matrices.numpy())
        self.sobolstate = from_numpy(numbers)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points, (n, dimension), of the default float type unless `dtype` is given.

        Raises ArgumentError for less than one point, and behind the last of 2^MAXBIT points.
        """
        if n < 1:
            raise ArgumentError(f"SobolEngine.draw: n must be 1 or more, and is {n}")
        self._check(n)
        points = sobol.points(self.sobolstate.numpy(), self.shift.numpy(), self.num_generated, n)
        self.num_generated += n
        result = (from_numpy(points).double() / 2**self.MAXBIT).to(dtype or get_default_dtype())
        if out is None:
            return result  # type: ignore[no-any-return]
        return out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2^m points.

        Raises ArgumentError unless the number of all points so far becomes a power of 2.
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ArgumentError(
                "SobolEngine.draw_base2: The balance properties of Sobol' points require n to be "
                f"a power of 2. {self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. Use draw for such numbers of points."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin anew with the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave n points out."""
        self._check(n)
        self.num_generated += n
        return self

    def _check(self, n: int) -> None:
        if self.num_generated + n > 2**self.MAXBIT:
            raise ArgumentError(
                f"SobolEngine: the sequence has 2**{self.MAXBIT} points, of which "
                f"{self.num_generated} are drawn, and {n} more are asked for"
            )

    def __repr__(self) -> str:
        words = [f"dimension={self.dimension}"]
        words += ["scramble=True"] * bool(self.scramble)
        words += [f"seed={self.seed}"] * (self.seed is not None)
        return f"{type(self).__name__}({', '.join(words)})"
