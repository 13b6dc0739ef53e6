"""Run-time args that only say where operands begin: no plan is bound to the values of such args.

`inputs[position]` adds a multiple of `position` to an address, and the extent of `x[i:i + n]` does
not depend on `i`. Such args *move*. Kernels, memory and results of a bound plan are the same for
all values of a moving arg. Only words of argument blocks depend on the arg, and each run writes
these words.
"""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.symbolic_extents import Poly, add, scale


class DynamicOffsets:
    """The args of a plan that move.

    places: the sizes among the args to which the plan is bound, as pairs k, j in a flat row:
        args[k] - args[j], or args[k] where j < 0
    """

    def __init__(self, code: Any, cut_by: list[Poly]) -> None:
        """cut_by: the polynomials that decide how kernels are cut"""
        self.extents = code.function.extents
        self.fixed = list(dict.fromkeys([*cut_by, *_fixed(code)]))
        words = list(dict.fromkeys(_words(code)))
        self._slopes: dict[Poly, list[tuple[int, Poly]]] = {}
        self.groups: dict[int, int] = {}  # atom -> the arg with which it moves
        self.args = {a: key[1] for a, key in enumerate(self.extents.atoms) if key[0] == "arg"}
        self._find(words)
        sizes = []
        for atom, k in sorted(self.args.items(), key=lambda row: row[1]):
            j = self.groups.get(atom, -1)
            if j != k:
                sizes += [k, j]
        self.places = tuple(sizes)
        self.moves = tuple(sorted(set(self.groups.values())))

    def _find(self, words: list[Poly]) -> None:
        nested = self._nested([*self.fixed, *words])
        tied = {a for p in self.fixed for m, _ in p for a in m if a in self.args}
        for atom, k in self.args.items():
            if atom not in nested and atom not in tied:
                self.groups[atom] = k
        self._pair(tied - nested)
        while True:
            bad = {k for p in words for k in self._unfit(p)}
            if not bad:
                return
            self.groups = {a: k for a, k in self.groups.items() if k not in bad}

    def _pair(self, atoms: set[int]) -> None:
        """Find pairs of args of which only the difference matters, as their rates cancel.

        Where a product has both args as factors, the rate of each arg depends on the second arg,
        and the rates do not cancel.
        """
        rates: dict[int, dict[int, Poly]] = {atom: {} for atom in atoms}
        for i, p in enumerate(self.fixed):
            for atom in {a for m, _ in p for a in m} & rates.keys():
                rate = _slope(p, {atom})
                if rate is None:
                    del rates[atom]
                elif rate:
                    rates[atom][i] = rate
        waiting: dict[Any, list[int]] = {}
        for atom in sorted(rates, key=lambda a: self.args[a]):
            others = waiting.get(frozenset((i, scale(r, -1)) for i, r in rates[atom].items()))
            if others:
                # The later arg is known by its distance from the first.
                first = others.pop(0)
                self.groups[first] = self.groups[atom] = self.args[first]
            else:
                waiting.setdefault(frozenset(rates[atom].items()), []).append(atom)

    def _nested(self, polys: list[Poly]) -> set[int]:
        """Return the args inside of atoms that are no polynomials, such as quotients."""
        atoms = self.extents.atoms
        args: set[int] = set()
        seen: set[int] = set()
        pending = {a for p in polys for m, _ in p for a in m if type(atoms[a][0]) is int}
        while pending:
            atom = pending.pop()
            seen.add(atom)
            within = {a for part in atoms[atom][1:] for m, _ in part for a in m}
            args.update(a for a in within if atoms[a][0] == "arg")
            pending.update(a for a in within - seen if type(atoms[a][0]) is int)
        return args

    def _unfit(self, p: Poly) -> set[int]:
        """Return the moving args in which p is not linear."""
        bad: set[int] = set()
        for m, _ in p:
            moving = [self.groups[a] for a in m if a in self.groups]
            if len(moving) > 1:
                bad.update(moving)
        return bad

    def slopes(self, p: Poly) -> list[tuple[int, Poly]]:
        """Return (arg, how much p grows per unit of the arg) for each moving arg in p."""
        pairs = self._slopes.get(p)
        if pairs is None:
            pairs = self._slopes[p] = []
            for k in sorted({self.groups[a] for m, _ in p for a in m if a in self.groups}):
                slope = _slope(p, {a for a, j in self.groups.items() if j == k})
                if slope:
                    pairs.append((k, slope))
        return pairs


def _slope(p: Poly, atoms: set[int]) -> Poly | None:
    """Return how p changes as all these atoms grow by 1; None if p is not linear in the atoms."""
    slope: Poly = ()
    for m, c in p:
        at = [n for n, a in enumerate(m) if a in atoms]
        if len(at) > 1:
            return None
        if at:
            slope = add(slope, ((m[: at[0]] + m[at[0] + 1 :], c),))
    return slope


def _fixed(code: Any) -> list[Poly]:
    """Return the polynomials that must be the same in all runs of a bound plan."""
    f = code.function
    polynomials: list[Poly] = [*f.small, *[size for size, _, _ in code.lifetimes.values()]]
    for together in code.nonempty:
        polynomials += together
    for result in code.results:
        polynomials += [*result.shape, *result.strides, result.offset]
    for step in code.steps:
        if not isinstance(step, Kernel):
            for read in step.reads:
                layout = f.layout(read.value)
                polynomials += [*f.shape(read.value), *layout.strides, layout.offset]
            continue
        for slot in step.slots:
            if slot.kind == "scratch" or (slot.kind == "extent" and step.nest is None):
                polynomials.append(slot.a)
            elif slot.kind == "last":
                polynomials.append(slot.b)
        if step.packable:  # kept panels are found by the offset at which the operand begins
            polynomials.append(step.slots[step.words.index("right")].b)
    return polynomials


def _words(code: Any) -> list[Poly]:
    """Return the polynomials that may move: those of words of argument blocks."""
    slots = [s for step in code.steps if isinstance(step, Kernel) for s in step.slots]
    return [s.b if s.kind == "pointer" else s.a for s in slots if s.kind in ("pointer", "extent")]
