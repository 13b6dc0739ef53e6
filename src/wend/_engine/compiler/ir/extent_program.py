"""A program that evaluates many polynomials together, for the sizes of a visit."""

from __future__ import annotations

import threading
from typing import Any

from wend._engine.core import symbolic

#: In a row: the polynomial has no value for these sizes, or its value does not fit into 64 bits.
NONE = -(1 << 63)
#: The ops of atoms that the program knows how to compute: polynomials have the others.
_BINARY = {row.opcode for row in symbolic.OPERATORS if row.native}
_BINARY -= {symbolic.ADD, symbolic.SUB, symbolic.MUL}
_SUM, _UNKNOWN = symbolic.ADD, symbolic.NEG


class Row:
    """The polynomials that were asked for, each with its place in a row of numbers.

    places: the place of each polynomial

    The program is a row of numbers itself, instruction by instruction:

    ADD, place, number of terms, then for each term: factor, number of atoms, these atoms
    DIM, leaf, number of dims, then for each dim: atom, axis
    ARG, atom, arg
    another op of `symbolic`, atom, places of the two operands
    NEG, atom           (the atom has no value here)
    """

    def __init__(self, atoms: list[Any]) -> None:
        self.atoms = atoms
        self.polynomials: list[Any] = []
        self.places: dict[Any, int] = {}
        self._program: list[int] = []
        self._coded = 0  # number of polynomials that the program computes
        self._done: set[tuple[str, int]] = set()
        # Two threads may bind a plan. Plans are bound within a flush, so no fork finds a lock held.
        self._lock = threading.RLock()

    def place(self, p: Any) -> int:
        """Return the place of a polynomial, a new place for a new polynomial."""
        index = self.places.get(p)
        if index is None:
            with self._lock:
                index = self.places.setdefault(p, len(self.polynomials))
                if index == len(self.polynomials):
                    self.polynomials.append(p)
        return index

    def program(self) -> tuple[list[int], int]:
        """Return the program for all polynomials that were asked for, and their number."""
        with self._lock:
            while self._coded < len(self.polynomials):
                self._sum(self._coded)
                self._coded += 1
            return list(self._program), self._coded

    def _sum(self, place: int) -> None:
        if ("sum", place) in self._done:
            return
        self._done.add(("sum", place))
        p = self.polynomials[place]
        for monomial, _ in p:
            for atom in monomial:
                self._atom(atom)
        self._program += (_SUM, place, len(p))
        for monomial, factor in p:
            self._program += (factor, len(monomial), *monomial)

    def _atom(self, atom: int) -> None:
        if ("atom", atom) in self._done:
            return
        self._done.add(("atom", atom))
        key = self.atoms[atom]
        if key[0] == "dim":
            dims = [(k, other[2]) for k, other in enumerate(self.atoms) if other[:2] == key[:2]]
            self._program += (symbolic.DIM, key[1], len(dims))
            for k, axis in dims:
                self._done.add(("atom", k))
                self._program += (k, axis)
        elif key[0] == "arg":
            self._program += (symbolic.ARG, atom, key[1])
        elif key[0] in _BINARY:
            places = [self.place(p) for p in key[1:]]
            for place in places:
                self._sum(place)
            self._program += (key[0], atom, *places)
        else:
            self._program += (_UNKNOWN, atom)
