"""Many polynomials for the sizes of one visit: evaluated by one function that is made for them."""

from __future__ import annotations

import ast
from typing import Any

from wend.core import symbolic

__all__ = ["Row"]

#: What evaluating a polynomial may raise.
_FAULTS = (ZeroDivisionError, OverflowError, IndexError, TypeError, ValueError)
#: Atoms that Python has operators for.
_OPERATORS = {symbolic.FLOORDIV: "//", symbolic.MOD: "%"}


class Row:
    """The polynomials that were asked for, each with its place in a row of numbers.

    places: by polynomial
    """

    def __init__(self, atoms: list[Any]) -> None:
        self.atoms = atoms
        self.polynomials: list[Any] = []
        self.places: dict[Any, int] = {}
        self._functions: list[Any] = []  # each makes a piece of the row
        self._ends: list[int] = [0]

    def place(self, p: Any) -> int:
        """The place of a polynomial."""
        found = self.places.get(p)
        if found is None:
            found = self.places[p] = len(self.polynomials)
            self.polynomials.append(p)
        return found

    def evaluate(self, types: Any, args: Any) -> list[int | None]:
        """The numbers of all that was asked for before; None for what may have none."""
        if self._ends[-1] < len(self.polynomials):
            fresh = tuple(self.polynomials[self._ends[-1] :])
            self._functions.append(_Code(self.atoms, fresh).function())
            self._ends.append(len(self.polynomials))
        row: list[int | None] = []
        for function, end in zip(self._functions, self._ends[1:], strict=True):
            try:
                row += function(types, args, symbolic.apply_binary)
            except _FAULTS:  # one of them may have no value, and need none, for these sizes
                row += [None] * (end - len(row))
        return row


class _Code:
    """The function: an assignment for each atom, and a tuple of sums of products."""

    def __init__(self, atoms: list[Any], polynomials: tuple[Any, ...]) -> None:
        self.atoms = atoms
        self.lines: list[str] = []
        self.done: set[int] = set()
        self.shapes: set[str] = set()  # those that are at hand
        sums = [self.sum(p) for p in polynomials]
        self.lines.append(f"return ({''.join(s + ', ' for s in sums)})")

    def function(self) -> Any:
        """The function, compiled: (types, args, apply) -> values."""
        body = "".join(f"    {line}\n" for line in self.lines)
        tree = ast.parse(f"def evaluate(types, args, apply):\n{body}")
        names: dict[str, Any] = {}
        exec(compile(tree, "<extents>", "exec"), names)
        return names["evaluate"]

    def sum(self, p: Any) -> str:
        """A polynomial as an expression."""
        terms = []
        for monomial, factor in p:
            for atom in monomial:
                self.atom(atom)
            names = [f"a{atom}" for atom in monomial]
            terms.append("*".join([f"({factor})", *names] if factor != 1 or not names else names))
        return "+".join(terms) or "0"

    def atom(self, atom: int) -> None:
        """Assign an atom, once."""
        if atom in self.done:
            return
        self.done.add(atom)
        key = self.atoms[atom]
        if key[0] == "dim":
            shape = f"t{key[1]}"
            if shape not in self.shapes:
                self.shapes.add(shape)
                self.lines.append(f"{shape} = tuple(types[{key[1]}].shape)")
            value = f"{shape}[{key[2]}]"
        elif key[0] == "arg":
            value = f"int(args[{key[1]}])"
        else:
            a, b = self.sum(key[1]), self.sum(key[2])
            sign = _OPERATORS.get(key[0])
            value = f"({a}) {sign} ({b})" if sign else f"apply({key[0]!r}, {a}, {b})"
        self.lines.append(f"a{atom} = {value}")
