"""Equalities of extents come from guards alone, and hold through polynomials."""

import numpy as np
import pytest

from wend._engine.compiler.ir.extent_program import NONE
from wend._engine.compiler.ir.symbolic_extents import (
    ONE,
    ZERO,
    Extents,
    add,
    constant,
    known,
    mul,
    product,
    scale,
    sub,
)
from wend._engine.core import symbolic
from wend._engine.runtime.native import _bind_select
from wend._engine.runtime.native.launcher import launcher

binding = _bind_select.select()


@pytest.fixture
def space():
    return Extents()


def test_arithmetic(space):
    n, m = space.atom(("dim", 0, 0)), space.atom(("dim", 0, 1))
    assert sub(add(n, m), m) == n
    assert mul(add(n, ONE), add(n, ONE)) == add(add(mul(n, n), scale(n, 2)), ONE)
    assert product([n, m, constant(3)]) == scale(mul(m, n), 3)
    assert known(sub(n, n)) == 0 and known(constant(4)) == 4 and known(n) is None
    assert mul(n, ZERO) == ZERO


def test_two_atoms_that_were_compared_are_one(space):
    n, m, k = (space.atom(("dim", i, 0)) for i in range(3))
    space.assume(n, m)
    space.assume(m, k)
    assert space.equal(n, k)
    assert space.equal(mul(n, m), mul(k, k))


def test_what_was_not_compared_is_not_equal(space):
    n, m = space.atom(("dim", 0, 0)), space.atom(("dim", 1, 0))
    assert not space.equal(n, m)


def test_factors_of_a_product_of_extents_that_is_one_are_one(space):
    n, k = space.atom(("arg", 0)), space.atom(("arg", 1))
    space.assume(mul(n, k), ONE)
    assert not space.equal(n, ONE)  # both may be -1
    space.shapes[0] = (n,)
    space.assume(mul(n, k), ONE)
    assert space.equal(n, ONE) and space.equal(k, ONE)


def test_factors_of_another_product_stay_unknown(space):
    space.add_leaf(0, 2)
    n, k = space.shapes[0]
    space.assume(mul(n, k), constant(2))
    assert not space.equal(n, ONE) and not space.equal(k, ONE)


def test_a_common_factor_is_divided_out(space):
    n, k = space.atom(("arg", 0)), space.atom(("arg", 1))
    space.assume(scale(n, 8), scale(k, 8))
    assert space.equal(n, k)


def test_products_that_were_compared_are_equal_as_wholes(space):
    n, k, m, p = (space.atom(("arg", i)) for i in range(4))
    space.assume(product([n, m, p]), mul(n, k))
    assert space.equal(product([n, m, p]), mul(n, k))
    assert not space.equal(mul(m, p), k)  # n may be 0
    assert space.canonical(product([p, n, m])) == mul(n, k)


def test_wholes_stay_equal_when_more_is_known_of_their_factors(space):
    n, k, m, p, q = (space.atom(("arg", i)) for i in range(5))
    space.assume(product([n, m, p]), mul(n, k))
    space.assume(mul(n, k), constant(24))
    space.assume(p, q)
    assert space.equal(product([n, m, q]), constant(24))
    space.assume(n, ONE)
    assert space.equal(mul(m, q), k) and space.equal(k, constant(24))


def test_a_factor_grouping_is_known(space):
    width, heads, each = (space.atom(("arg", k)) for k in range(3))
    space.assume(width, mul(heads, each))
    assert space.equal(mul(width, width), mul(mul(heads, heads), mul(each, each)))


def test_a_circle_of_equalities_ends(space):
    n, m = space.atom(("dim", 0, 0)), space.atom(("dim", 1, 0))
    space.assume(n, add(m, ONE))
    space.assume(m, sub(n, ONE))
    assert space.equal(sub(n, m), ONE)


def test_a_circle_of_divisors_ends(space):
    from wend._engine.core.symbolic import EQ, MOD

    atoms = [space.atom(("dim", k, 0)) for k in range(2)]
    n, m = (0, 0, 0), (0, 1, 0)
    guards = [(EQ, (MOD, n, m), 0, True), (EQ, (MOD, m, n), 0, True)]
    space.add_guards(guards, lambda k, _: atoms[k], None)
    assert space.equal(mul(*atoms), mul(*atoms[::-1]))
    assert not space.equal(atoms[1], ONE)


def test_extents_that_are_no_polynomials_are_atoms(space):
    n = space.atom(("dim", 0, 0))
    from wend._engine.core.symbolic import FLOORDIV

    half = space.of((FLOORDIV, (0, 0, 0), 2), lambda i, a: n, None)
    again = space.of((FLOORDIV, (0, 0, 0), 2), lambda i, a: n, None)
    assert half == again and not space.equal(half, n)
    whole = space.of((FLOORDIV, (4, (0, 0, 0), 2), 2), lambda i, a: n, None)
    assert space.equal(whole, n)


def test_values_at_run_time(space):
    n = space.atom(("dim", 0, 1))
    k = space.atom(("arg", 0))

    class Type:
        shape = (5, 7)

    value = space.evaluator([Type()], [3])
    assert value(add(mul(n, k), ONE)) == 22


def test_what_was_asked_for_before_is_computed_at_once():
    class Type:
        def __init__(self, *shape):
            self.shape = shape

    extents = Extents()
    n, k = extents.atom(("dim", 0, 1)), extents.atom(("arg", 2))
    quotient = extents.atom((symbolic.FLOORDIV, n, k))
    asked = [add(mul(n, n), scale(k, 3)), scale(quotient, -2), mul(quotient, n), constant(7), ()]

    def values(size, number):
        value = extents.evaluator([Type(4, size)], [0, 0, number])
        return [value(p) for p in asked]

    def expected(size, number):
        return [size * size + 3 * number, -2 * (size // number), size // number * size, 7, 0]

    for size, number in [(5, 2), (6, 1), (9, 4), (0, 3)]:
        assert values(size, number) == expected(size, number)
    asked.append(mul(k, k))
    assert values(8, 3) == [*expected(8, 3), 9] == values(8, 3)
    value = extents.evaluator([Type(4, 8)], [0, 0, 0])  # nothing can be divided by that
    assert value(scale(n, 2)) == 16


def test_numbers_of_a_visit_are_computed_natively():
    """A program for all polynomials gives what each by itself does, or says that there is none."""
    extents = Extents()
    n, m = extents.atom(("dim", 1, 0)), extents.atom(("dim", 1, 1))
    k = extents.atom(("arg", 1))
    ops = [5, 6, 8, 9, 20, 21, 22, 23, 24, 25]
    asked = [extents.atom((op, add(n, scale(m, -3)), k)) for op in ops]
    asked += [mul(asked[0], asked[1]), add(mul(mul(n, n), m), constant(-5)), (), constant(7)]
    asked.append(extents.atom(("free",)))
    places = [extents.row.place(p) for p in asked]

    class Type:
        def __init__(self, *shape):
            self.shape = shape

    def numbers(types, args):
        words, count = extents.row.program()
        code = np.array(words)
        found = np.empty(count + len(extents.atoms), np.int64)
        address = launcher.address_of(found)
        row = launcher.address_of(code)
        binding.evaluate(row, len(code), types, args, address, address + 8 * count)
        return [int(found[place]) for place in places]

    for rows, columns, number in [(8, 3, 2), (8, 3, -2), (1, 3, 5), (1, 3, -5), (0, 0, 1)]:
        types = [None, Type(rows, columns)]
        value = extents.evaluator(types, [0.5, number])
        assert numbers(types, [0.5, number]) == [*[value(p) for p in asked[:-1]], NONE]
    found = numbers([None, Type(8, 3)], [0.5, 0])
    assert found[:2] == [NONE, NONE] and found[2] == -1 and found[11] == 187
    assert numbers([None, Type(8, 3)], [0.5, "no number"])[2] == NONE
    huge = numbers([None, Type(1 << 40, 1 << 40)], [0.5, 1])
    assert huge[11] == NONE and huge[13] == 7  # more than 64 bits can hold
    assert numbers([None, Type(8)], [0.5, 1])[11] == NONE  # of another rank
