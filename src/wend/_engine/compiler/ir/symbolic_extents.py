"""Extents as polynomials, and the equalities that a path's guards prove.

An extent is a polynomial over *atoms*.  Atoms are the dims of leaves, the run-time args of the
path, and expressions of these that are no polynomials (a quotient, a minimum).  Type rules compared
extents while they ran, and the outcomes hold for every visit of the path.  Each true equality lets
one atom be expressed by other atoms.  Two extents are equal only if their polynomials are the same
after that.  Equal numbers on one visit prove nothing.

A polynomial is a sorted tuple of (monomial, coefficient).  A monomial is a sorted tuple of atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd, prod
from typing import Any

from wend._engine.compiler.ir.extent_program import NONE, Row
from wend._engine.core import symbolic
from wend._engine.core._types import Program
from wend._engine.core.body import Body, Total
from wend._engine.core.graph import Node, PathGraph
from wend._engine.core.symbolic import ADD, ARG, DIM, EQ, FLOORDIV, MOD, MUL, NE, NEG, SUB, Expr
from wend._engine.ops.basic import Identity
from wend._engine.ops.views.slicing import ExpandTo

Monomial = tuple[int, ...]
Poly = tuple[tuple[Monomial, int], ...]

ZERO: Poly = ()
ONE: Poly = (((), 1),)


def constant(n: int) -> Poly:
    """Return the polynomial of the number n."""
    return (((), n),) if n else ()


def known(p: Poly) -> int | None:
    """Return the number of a constant polynomial; None for polynomials with atoms."""
    if not p:
        return 0
    return p[0][1] if len(p) == 1 and not p[0][0] else None


def _length_of(p: Poly) -> tuple[int, int, Poly]:
    """Return a key that orders polynomials by the numbers of factors and terms."""
    return sum(len(m) for m, _ in p), len(p), p


def _packed(terms: dict[Monomial, int]) -> Poly:
    return tuple(sorted((m, c) for m, c in terms.items() if c))


def add(a: Poly, b: Poly) -> Poly:
    """Return a + b."""
    if not a:
        return b
    if not b:
        return a
    terms = dict(a)
    for m, c in b:
        terms[m] = terms.get(m, 0) + c
    return _packed(terms)


def scale(a: Poly, n: int) -> Poly:
    """Return n * a."""
    return tuple((m, c * n) for m, c in a) if n else ()


def sub(a: Poly, b: Poly) -> Poly:
    """Return a - b."""
    return add(a, scale(b, -1))


def mul(a: Poly, b: Poly) -> Poly:
    """Return a * b."""
    if a == ONE:
        return b
    if b == ONE:
        return a
    terms: dict[Monomial, int] = {}
    for m, c in a:
        for n, d in b:
            key = tuple(sorted(m + n))
            terms[key] = terms.get(key, 0) + c * d
    return _packed(terms)


def product(factors: Iterable[Poly]) -> Poly:
    """Return the product of several polynomials."""
    result = ONE
    for factor in factors:
        result = mul(result, factor)
    return result


def _divided(p: Poly, divisor: Monomial) -> Poly | None:
    """Return p divided by a monomial; None if a term of p lacks any of the monomial's atoms."""
    if not p or not divisor:
        return None
    terms = []
    for m, c in p:
        rest = list(m)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        terms.append((tuple(rest), c))
    return tuple(sorted(terms))


class Extents:
    """The extents of a path's values, with their atoms and known equalities."""

    def __init__(self) -> None:
        self.atoms: list[Any] = []  # ("dim", leaf, axis), ("arg", k), (op, Poly, Poly), ("free",)
        self.row = Row(self.atoms)
        self._ids: dict[Any, int] = {}
        self._parts: list[int] = []  # by atom: the atoms of which it is an expression, as bits
        self._meaning: dict[int, Poly] = {}  # atom -> the polynomial that it equals
        self._pairs: list[tuple[Poly, Poly]] = []  # equal ones that give no atom's meaning
        self._alike: dict[Poly, Poly] = {}  # of each pair, the longer one -> the shorter one
        self._canonical: dict[Poly, Poly] = {}
        self._products: dict[tuple[Poly, Poly], Poly] = {}
        self.loops: dict[Any, Any] = {}  # loops that `lower.contraction` has merged
        #: The extents of nodes' results by the nodes' operands, until a new equality is known.
        self._results: dict[Any, list[tuple[Poly, ...]]] = {}
        self._ranks: dict[Program, list[int] | None] = {}
        self.shapes: dict[int, tuple[Poly, ...]] = {}

    # -- polynomials ------------------------------------------------------------------------

    def atom(self, key: Any) -> Poly:
        """Return the polynomial of an atom, a new atom for a new key."""
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self.atoms)
            self.atoms.append(key)
            self._parts.append(self._bits_of(key))
        return (((number,), 1),)

    def _bits_of(self, key: Any) -> int:
        """Return the atoms inside an atom's expression, at any depth, as a set of bits."""
        bits = 0
        if type(key[0]) is int:  # (op, Poly, Poly)
            for part in key[1:]:
                for m, _ in part:
                    for atom in m:
                        bits |= 1 << atom | self._parts[atom]
        return bits

    def quotient(self, whole: Poly, parts: Poly) -> Poly:
        """Return whole / parts, rounded down."""
        floor = self.of((FLOORDIV, (ARG, 0), (ARG, 1)), None, (whole, parts).__getitem__)  # type: ignore[arg-type]
        return self.canonical(floor)

    def minimum(self, a: Poly, b: Poly) -> Poly:
        """The smaller of two extents."""
        return self._opaque(symbolic.MIN, self.canonical(a), self.canonical(b))

    def of(self, expr: Expr, dim_of: Callable[[int, int], Poly], args: Any) -> Poly:
        """Return the polynomial of an expression.

        dim_of: function from (operand, axis) to the polynomial of a DIM
        args: function from a number to the polynomial of an ARG
        """
        if type(expr) is not tuple:
            return constant(int(expr))
        op = expr[0]
        if op == DIM:
            return dim_of(expr[1], expr[2])
        if op == ARG:
            return args(expr[1])  # type: ignore[no-any-return]
        a = self.of(expr[1], dim_of, args)
        if op == NEG:
            return scale(a, -1)
        b = self.of(expr[2], dim_of, args)
        if op == ADD:
            return add(a, b)
        if op == SUB:
            return sub(a, b)
        if op == MUL:
            return mul(a, b)
        return self._opaque(op, self.canonical(a), self.canonical(b))

    def _opaque(self, op: int, a: Poly, b: Poly) -> Poly:
        x, y = known(a), known(b)
        if x is not None and y is not None:
            return constant(int(symbolic.apply_binary(op, x, y)))
        if a == b and op in (symbolic.MIN, symbolic.MAX):
            return a
        if op == FLOORDIV and len(b) == 1 and b[0][1] == 1:
            quotient = _divided(a, b[0][0])
            if quotient is not None:
                return quotient
        if op == FLOORDIV and y:
            return self._quotient(a, y)
        return self.atom((op, a, b))

    def remainder(self, a: Poly, n: Poly) -> Poly:
        """Return a modulo n, from 0 to n - 1."""
        return self._opaque(MOD, self.canonical(a), self.canonical(n))

    def _quotient(self, a: Poly, n: int) -> Poly:
        if all(c % n == 0 for _, c in a):
            return tuple((m, c // n) for m, c in a)
        return self.atom((symbolic.FLOORDIV, a, constant(n)))

    # -- equalities -------------------------------------------------------------------------

    def canonical(self, p: Poly) -> Poly:
        """Return p with each atom replaced by the polynomial that the atom is known to equal."""
        form = self._canonical.get(p)
        if form is None:
            form = p
            while True:
                atom = next((a for m, _ in form for a in m if a in self._meaning), None)
                if atom is None:
                    break
                form = self._replace(form, atom, self._meaning[atom])
            while form in self._alike:
                form = self._alike[form]
            self._canonical[p] = form
        return form

    def times(self, a: Poly, b: Poly) -> Poly:
        """Return the canonical form of a * b."""
        product = self._products.get((a, b))
        if product is None:
            product = self._products[a, b] = self.canonical(mul(a, b))
        return product

    @staticmethod
    def _replace(p: Poly, atom: int, meaning: Poly) -> Poly:
        terms: dict[Monomial, int] = {}
        for m, c in p:
            if atom not in m:
                terms[m] = terms.get(m, 0) + c
                continue
            term: Poly = ((tuple([a for a in m if a != atom]), c),)
            for _ in range(m.count(atom)):
                term = mul(term, meaning)
            for n, d in term:
                terms[n] = terms.get(n, 0) + d
        return _packed(terms)

    def equal(self, a: Poly, b: Poly) -> bool:
        """Return whether a and b are known to be equal on every visit of the path."""
        return a == b or self.canonical(a) == self.canonical(b)

    def assume(self, a: Poly, b: Poly) -> None:
        """Note that a equals b: express an atom that is a term by itself by the other terms.

        Where there is no such atom, the longer polynomial as a whole stands for the shorter.
        """
        rest = self.canonical(sub(a, b))
        if not rest:
            return
        common = gcd(*[c for _, c in rest])
        rest = tuple((m, c // common) for m, c in rest)
        best = -1
        for m, c in rest:
            if len(m) == 1 and c in (1, -1) and self._occurs_once(m[0], rest):
                best = max(best, m[0])  # later atoms are expressed by earlier ones
        if best < 0:
            if not self._assume_ones(rest):
                self._assume_alike(a, b)
            return
        sign = next(c for m, c in rest if m == (best,))
        others = tuple(t for t in rest if t[0] != (best,))
        self._learn(best, scale(others, -sign))

    def _assume_ones(self, rest: Poly) -> bool:
        """Note of a product of extents that equals 1 that each factor is 1; return if it is one.

        rest: a polynomial that equals 0
        """
        terms = dict(rest)
        if len(terms) != 2 or () not in terms or {*terms.values()} != {1, -1}:
            return False
        (factors,) = [m for m in terms if m]
        extents = {p for shape in self.shapes.values() for p in shape}
        # Extents are no less than 0; of other numbers two could be -1.
        if sum(1 for atom in factors if (((atom,), 1),) not in extents) >= 2:
            return False
        for atom in set(factors):
            self._learn(atom, ONE)
        return True

    def _assume_alike(self, a: Poly, b: Poly) -> None:
        """Note that two polynomials are equal, as wholes: products of sizes, say."""
        short, long = sorted((self.canonical(a), self.canonical(b)), key=_length_of)
        if _length_of(short) < _length_of(long):
            self._pairs.append((a, b))
            self._alike[long] = short
            self._forget()

    def _learn(self, atom: int, meaning: Poly) -> None:
        """Note the polynomial that an atom equals, where none is known yet."""
        self._meaning[atom] = meaning
        self._forget()
        pairs, self._pairs = self._pairs, []
        self._alike.clear()
        for a, b in pairs:
            self.assume(a, b)  # with what is known now

    def _forget(self) -> None:
        """Drop all that was worked out with fewer equalities."""
        self._canonical.clear()
        self._products.clear()
        self.loops.clear()
        self._results.clear()

    def _occurs_once(self, atom: int, p: Poly) -> bool:
        count = 0
        for m, _ in p:
            for other in m:
                if other == atom:
                    count += 1
                elif self._inside(atom, other):
                    return False
        return count == 1

    def _inside(self, atom: int, other: int) -> bool:
        return bool(self._parts[other] >> atom & 1)

    # -- paths ------------------------------------------------------------------------------

    def dim(self, i: int, axis: int) -> Poly:
        """Return the extent of dim `axis` of value i."""
        return self.shapes[i][axis]

    def path_expr(self, expr: Expr) -> Poly:
        """Return the polynomial of an expression over the path's values and args."""
        return self.of(expr, self.dim, lambda k: self.atom(("arg", k)))

    def add_leaf(self, i: int, rank: int) -> None:
        """Note a value that comes from outside: each of its dims is an atom."""
        self.shapes[i] = tuple(self.atom(("dim", i, axis)) for axis in range(rank))

    def add_results(self, node: Node, path: PathGraph) -> None:
        """Note the extents of a node's results without use of the node's program.

        Extents of recorded values become new atoms.  Extents of other values are given by the path.
        """
        for out in node.outputs:
            if out >= 0:
                self.add_leaf(out, len(path.types[out].shape))
            else:
                self.shapes[out] = tuple(self.path_expr(e) for e in path.shape_of(out))

    def holds_for(self, node: Node) -> bool:
        """Return whether the program of a node was traced for operands of these ranks."""
        program, shapes = node.program, self.shapes
        try:
            ranks = self._ranks[program]
        except KeyError:
            # A value whose extents were never asked for: the sample of the pattern serves.
            types = program.sample_types
            ranks = self._ranks[program] = types and [len(t.shape) for t in types]
        if isinstance(node.prim, (Body, Total)) or ranks is None:
            return False
        return [len(shapes[i]) for i in node.inputs] == ranks

    def add_node(self, node: Node) -> None:
        """Note the extents of a node's results, and the equalities that its program proves."""
        shapes = self.shapes
        if isinstance(node.prim, Identity):  # one program serves for all ranks
            shapes[node.outputs[0]] = shapes[node.inputs[0]]
            return
        key = node.prim, node.program, node.args, *[shapes[i] for i in node.inputs]
        known = self._results.get(key)
        if known is None:
            n_known = len(self._meaning), len(self._pairs)
            self._trace(node)
            if (
                len(self._meaning),
                len(self._pairs),
            ) == n_known:  # with new equalities, the results may simplify
                self._results[key] = [shapes[out] for out in node.outputs]
            return
        for out, shape in zip(node.outputs, known, strict=True):
            shapes[out] = shape

    def _trace(self, node: Node) -> None:
        def dim_of(k: int, axis: int) -> Poly:
            return self.shapes[node.inputs[k]][axis]

        def arg_of(k: int) -> Poly:
            return self.path_expr(node.args[k])

        for (row, _), out in zip(node.program.outs, node.outputs, strict=True):
            self.shapes[out] = tuple(self.of(e, dim_of, arg_of) for e in row)
        self.add_guards(node.program.guards, dim_of, arg_of)
        if isinstance(node.prim, ExpandTo):  # has no guards, and repeats along its axes only
            source, target = self.shapes[node.inputs[0]], self.shapes[node.outputs[0]]
            for d, n in enumerate(source, len(target) - len(source)):
                if d not in node.prim.axes:
                    self.assume(n, target[d])

    def add_guards(self, guards: Any, dim_of: Any, arg_of: Any) -> None:
        """Note the equalities among guards."""
        for op, a, b, outcome in guards:
            if (op == EQ and outcome) or (op == NE and not outcome):
                if is_real(a) or is_real(b):
                    continue
                if b == 0 and type(a) is tuple and a[0] == MOD:
                    self._assume_multiple(*(self.of(e, dim_of, arg_of) for e in a[1:]))
                self.assume(self.of(a, dim_of, arg_of), self.of(b, dim_of, arg_of))

    def _assume_multiple(self, a: Poly, n: Poly) -> None:
        """Note that n divides a: where a is an atom, a equals n times the quotient a / n."""
        a, n = self.canonical(a), self.canonical(n)
        if len(a) != 1 or len(a[0][0]) != 1 or a[0][1] != 1 or known(n) == 1:
            return
        atom = a[0][0][0]
        meaning = mul(n, self.canonical(self._opaque(FLOORDIV, a, n)))
        if any(atom in m for m, _ in meaning):
            return  # a also divides n: an atom is not expressed by itself
        self._learn(atom, meaning)

    def settle(self) -> None:
        """Bring all shapes to their canonical form, once every equality is known."""
        for i, shape in self.shapes.items():
            self.shapes[i] = tuple(self.canonical(p) for p in shape)

    # -- at run time ------------------------------------------------------------------------

    def evaluator(self, types: Any, args: Any, row: Sequence[int] = ()) -> Callable[[Poly], int]:
        """Return a function from polynomials to numbers, for the sizes of a visit.

        row: numbers of the polynomials that earlier visits asked for (see `extent_program.Row`)
        """
        return Evaluator(self, types, args, row)

    def show(self, p: Poly) -> str:
        """Return p as text, for people."""
        if not p:
            return "0"
        parts = []
        for m, c in p:
            names = [self._name(a) for a in m]
            if c != 1 or not names:
                names.insert(0, str(c))
            parts.append("*".join(names))
        return "+".join(parts)

    def _name(self, atom: int) -> str:
        key = self.atoms[atom]
        if key[0] == "dim":
            return f"d{key[1]}.{key[2]}"
        if key[0] == "arg":
            return f"a{key[1]}"
        if key[0] == "free":
            return f"s{atom}"
        return f"e{atom}"


class Evaluator:
    """A function from polynomials to numbers, for the sizes of a visit (`Extents.evaluator`).

    This is a class because nested functions that call each other are freed only by the garbage
    collector.
    """

    __slots__ = (
        "_args",
        "_atoms",
        "_known",
        "_late",
        "_meanings",
        "_n",
        "_place",
        "_places",
        "_types",
    )

    def __init__(self, extents: Extents, types: Any, args: Any, known: Sequence[int]) -> None:
        self._types, self._args = types, args
        self._known, self._n = known, len(known)
        self._meanings = extents.atoms
        self._places, self._place = extents.row.places, extents.row.place
        self._atoms: dict[int, int] = {}
        self._late: dict[Poly, int] = {}

    def __call__(self, p: Poly) -> int:
        k = self._places.get(p)
        if k is None:
            k = self._place(p)
        if k < self._n and (known := self._known[k]) != NONE:
            return known
        total = self._late.get(p)
        if total is None:
            total = 0
            for monomial, factor in p:
                for atom in monomial:
                    factor *= self._atom(atom)
                total += factor
            self._late[p] = total
        return total

    def _atom(self, atom: int) -> int:
        extent = self._atoms.get(atom)
        if extent is None:
            key = self._meanings[atom]
            if key[0] == "dim":
                extent = int(self._types[key[1]].shape[key[2]])
            elif key[0] == "arg":
                extent = int(self._args[key[1]])
            else:
                extent = int(symbolic.apply_binary(key[0], self(key[1]), self(key[2])))
            self._atoms[atom] = extent
        return extent


class FirstSizes:
    """The values of extents when a path was met first: a hint on which nothing may rely.

    Unlike an evaluator, this class adds no polynomials to the row that later visits compute.
    """

    #: The number taken for an atom that is not known before a plan is bound.
    USUAL = 16

    def __init__(self, extents: Extents, path: PathGraph) -> None:
        self._meanings, self._path = extents.atoms, path
        self._atoms: dict[int, int] = {}

    def __call__(self, p: Poly) -> int:
        return sum(factor * prod(map(self._atom, monomial)) for monomial, factor in p)

    def _atom(self, atom: int) -> int:
        extent = self._atoms.get(atom)
        if extent is None:
            try:
                extent = self._asked(self._meanings[atom])
            except (LookupError, TypeError, ZeroDivisionError):
                # The extent depends on unknown values: a usual size serves for choosing.
                extent = self.USUAL
            self._atoms[atom] = extent
        return extent

    def _asked(self, key: Any) -> int:
        if key[0] == "dim":
            return int(self._path.types[key[1]].shape[key[2]])
        if key[0] == "arg":
            return int(self._path.args[key[1]])
        return int(symbolic.apply_binary(key[0], self(key[1]), self(key[2])))


def is_real(expr: Expr) -> bool:
    """Return whether an expression is of floats, which are no extents."""
    if type(expr) is float:
        return True
    if type(expr) is not tuple or expr[0] in (DIM, ARG):
        return False
    return expr[0] in (symbolic.DIV, symbolic.POW) or any(is_real(e) for e in expr[1:])


def find_extents(path: PathGraph, extents: Extents) -> Iterator[None]:
    """Add the extents of all values of a path, with all equalities that its guards prove.

    Each slice adds a node.
    """
    for i, _ in path.leaves:
        if i not in path.producer:
            extents.add_leaf(i, len(path.types[i].shape))
    for node in path.nodes[: path.n_nodes]:
        for i in node.inputs:
            if i not in extents.shapes:
                extents.add_leaf(i, len(path.types[i].shape))
        if isinstance(node.prim, Identity) or extents.holds_for(node):
            extents.add_node(node)
        else:  # one program serves for all ranks
            extents.add_results(node, path)
        yield
    yield from _add_composites(path, extents)
    _add_known(path, extents)
    yield
    extents.settle()


def _add_composites(path: PathGraph, extents: Extents) -> Iterator[None]:
    """Add the guards of the bodies of composites, besides those of the ops in the bodies."""
    for state in path.states[: path.n_states]:
        program = state.program
        if state.is_step or program is None or not program.prim.is_composite:
            continue
        inputs = state.operand_indices()
        first = state.arg0

        def dim_of(k: int, axis: int, inputs: Any = inputs) -> Poly:
            return extents.dim(inputs[k], axis)

        def arg_of(k: int, first: int = first) -> Poly:
            return extents.atom(("arg", first + k))

        extents.add_guards(program.guards, dim_of, arg_of)
        yield


def _add_known(path: PathGraph, extents: Extents) -> None:
    """Add the equalities of a path that was built and not recorded (see `batching.templates`).

    Some leaves have the same number of rows.  Ops have guards on operands, in which dim d is now
    dim d + shift.
    """
    shapes = extents.shapes
    for i in path.same[1:]:
        extents.assume(shapes[path.same[0]][0], shapes[i][0])
    for guards, operands, shifts, args in path.asked:

        def dim_of(k: int, axis: int, operands: Any = operands, shifts: Any = shifts) -> Poly:
            return shapes[operands[k]][axis + shifts[k]]

        def arg_of(k: int, args: Any = args) -> Poly:
            return extents.path_expr(args[k])

        extents.add_guards(guards, dim_of, arg_of)
