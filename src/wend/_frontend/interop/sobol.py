"""Sobol's points as arrays of integers: direction numbers, scrambling, points by their number.

The direction numbers are those of Joe and Kuo (2008), from the table that SciPy brings along.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from wend._engine.base.errors import ExecutionError
from wend._engine.base.extras import needed

__all__ = ["BITS", "MOST_DIMS", "directions", "points", "scrambled"]

BITS = 30  # of each coordinate, the first of weight 1/2
MOST_DIMS = 21201

Bits = np.ndarray[Any, np.dtype[np.int64]]


@functools.cache
def _table() -> tuple[Bits, Bits]:
    """(primitive polynomials, first direction numbers) of all dims.

    Raises ModuleNotAvailable, with the extra to install, where SciPy is not there. Raises
    ExecutionError if this SciPy keeps no such table.
    """
    for folder in needed("scipy", "SobolEngine").__path__:
        path = os.path.join(folder, "stats", "_sobol_direction_numbers.npz")
        if os.path.exists(path):
            with np.load(path) as archive:
                return archive["poly"].astype(np.int64), archive["vinit"].astype(np.int64)
    raise ExecutionError(
        "SobolEngine: this version of SciPy has no table of direction numbers; install another"
    )


def directions(dims: int) -> Bits:
    """(dims, BITS) direction numbers, each as the integer of its BITS binary digits."""
    polynomials, first = (part[:dims] for part in _table())
    numbers = np.zeros((dims, BITS), dtype=np.int64)
    numbers[0] = 1  # the first dim has no polynomial
    degrees = np.array([int(p).bit_length() - 1 for p in polynomials.tolist()])
    for degree in np.unique(degrees[1:]).tolist():
        rows = np.flatnonzero(degrees == degree)
        rows = rows[rows > 0]
        numbers[rows, :degree] = first[rows, :degree]
        for j in range(degree, BITS):
            value = numbers[rows, j - degree] ^ (numbers[rows, j - degree] << degree)
            for k in range(1, degree):
                factor = (polynomials[rows] >> (degree - k)) & 1
                value ^= factor * (numbers[rows, j - k] << k)
            numbers[rows, j] = value
    return numbers << np.arange(BITS - 1, -1, -1)


def scrambled(numbers: Bits, bits: Bits) -> Bits:
    """Direction numbers times random lower triangular matrices of bits (dims, BITS, BITS)."""
    places = np.arange(BITS - 1, -1, -1)
    digits = (numbers[:, :, None] >> places) & 1  # (dims, number, digit), the largest digit first
    matrices = np.tril(bits, -1) + np.eye(BITS, dtype=np.int64)
    mixed = np.einsum("dpk,djk->djp", matrices, digits) & 1
    return (mixed << places).sum(-1)


def points(numbers: Bits, shift: Bits, start: int, count: int) -> Bits:
    """(count, dims) points from number `start` on, each coordinate as an integer.

    A point is the sum, without carries, of the direction numbers at the ones of the Gray code of
    its number (Antonov and Saleev, 1979).
    """
    number = np.arange(start, start + count, dtype=np.int64)
    gray = number ^ (number >> 1)
    coordinates = np.broadcast_to(shift, (count, numbers.shape[0])).copy()
    for bit in range(max(int(number[-1]).bit_length(), 1) if count else 0):
        coordinates ^= ((gray >> bit) & 1)[:, None] * numbers[:, bit]
    return coordinates
