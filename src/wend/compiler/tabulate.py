"""Many polynomials for the sizes of one visit: evaluated by one function that is made for them."""

from __future__ import annotations

import ast
from typing import Any

from wend.core import symbolic

__all__ = ["Row", "Table"]

#: What evaluating a polynomial may raise.
_FAULTS = (ZeroDivisionError, OverflowError, IndexError, TypeError, ValueError)

#: How often the function is made anew, because more polynomials were asked for.
MAX_MADE = 6


class Table:
    """The polynomials that were asked for, over the atoms of some extents.

    asked: those that the function does not compute yet
    """

    def __init__(self, atoms: list[Any]) -> None:
        self.atoms = atoms
        self.asked: dict[Any, None] = {}
        self._known: tuple[Any, ...] = ()
        self._function: Any = None
        self._made = 0

    def evaluate(self, types: Any, args: Any) -> dict[Any, int]:
        """The values of all polynomials that the function computes; empty if it fails."""
        if self.asked and self._made < MAX_MADE:
            self._known = (*self._known, *self.asked)
            self.asked.clear()
            self._made += 1
            self._function = _Code(self.atoms, self._known).function()
        elif self._made >= MAX_MADE:
            self.asked.clear()
        if self._function is None:
            return {}
        try:
            found = self._function(types, args, symbolic.apply_binary)
        except _FAULTS:
            return {}  # one of them may have no value, and need none, for these sizes
        return dict(zip(self._known, found, strict=True))


class Row:
    """Polynomials that have a place in a row of numbers; more may be added at any time."""

    def __init__(self, atoms: list[Any]) -> None:
        self.atoms = atoms
        self.polynomials: list[Any] = []
        self._places: dict[Any, int] = {}
        self._functions: list[Any] = []  # (first, last, function of the polynomials in between)
        self._made = 0

    def place(self, p: Any) -> int:
        """The place of a polynomial."""
        found = self._places.get(p)
        if found is None:
            found = self._places[p] = len(self.polynomials)
            self.polynomials.append(p)
        return found

    def evaluate(self, types: Any, args: Any, value: Any) -> list[int | None]:
        """The numbers, None for what has none. value: evaluates one polynomial."""
        if self._made < len(self.polynomials):
            fresh = tuple(self.polynomials[self._made :])
            function = _Code(self.atoms, fresh).function()
            self._functions.append((self._made, len(self.polynomials), function))
            self._made = len(self.polynomials)
        row: list[int | None] = []
        for first, last, function in self._functions:
            try:
                row += function(types, args, symbolic.apply_binary)
            except _FAULTS:
                row += [_number(value, p) for p in self.polynomials[first:last]]
        return row


def _number(value: Any, p: Any) -> int | None:
    try:
        return int(value(p))
    except _FAULTS:
        return None


class _Code:
    """The function: an assignment for each atom, and a tuple of sums of products."""

    def __init__(self, atoms: list[Any], polynomials: tuple[Any, ...]) -> None:
        self.atoms = atoms
        self.lines: list[str] = []
        self.done: set[int] = set()
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
            value = f"types[{key[1]}].shape[{key[2]}]"
        elif key[0] == "arg":
            value = f"args[{key[1]}]"
        else:
            value = f"apply({key[0]!r}, {self.sum(key[1])}, {self.sum(key[2])})"
        self.lines.append(f"a{atom} = int({value})")
