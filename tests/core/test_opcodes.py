"""All evaluators of expressions of extents compute the operators of `symbolic.OPERATORS`."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from wend._engine.core import _types, symbolic
from wend._engine.core._select import OPCODES
from wend._engine.core.symbolic import ARG, OPERATORS
from wend._engine.runtime.native import _bind_select

TYPES = Path(_types.__file__).with_name("_types.pxd")
PAIRS = list(itertools.product((-7, -1, 0, 1, 2, 5, 7, 1 << 20), repeat=2))


def defined(row, a, b):
    """Whether an operator has an integer or a bool as its result."""
    if row.name in ("FLOORDIV", "MOD", "DIV"):
        return b != 0
    return row.name != "POW" or (b >= 0 and abs(a) < 10 and b < 10)


def test_the_core_has_the_opcodes_of_the_symbolic_layer():
    if not TYPES.exists():
        pytest.skip("an installation has no C types")
    block = TYPES.read_text().partition("cdef extern from *:\n")[2].partition("\n\n")[0]
    numbers = {name: int(number) for name, number in re.findall(r'int (\w+) "(\d+)"', block)}
    assert numbers == OPCODES


def test_the_binding_has_the_opcodes_of_the_symbolic_layer():
    source = Path(_bind_select.__file__).with_name("_bind.py")
    if not source.exists():
        pytest.skip("an installation has no source of compiled modules as text")
    text = source.read_text()
    found = {}
    for names, numbers in re.findall(r"^((?:DIM|EQ)(?:, \w+)*) = ([\d, ]+)$", text, re.M):
        found |= dict(zip(names.split(", "), map(int, numbers.split(", ")), strict=True))
    assert found.pop("SUM") == symbolic.ADD  # a sum of products is one instruction there
    assert found == {name: OPCODES[name] for name in found}


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_python_and_the_core_compute_the_same(row):
    expression = (row.opcode, (ARG, 0), (ARG, 1))
    for a, b in PAIRS:
        if defined(row, a, b):
            expected = row.function(a, b)
            assert symbolic.evaluate(expression, [], [a, b]) == expected
            assert _types.evaluate(expression, [], [a, b]) == expected


@pytest.mark.parametrize("row", [row for row in OPERATORS if row.native], ids=lambda row: row.name)
def test_the_binding_computes_the_same(row):
    if row.name in ("ADD", "SUB", "MUL"):
        pytest.skip("polynomials have them")
    bind = _bind_select.select()
    program = np.array([row.opcode, 0, 0, 1], np.int64)
    for a, b in PAIRS:
        if defined(row, a, b):
            numbers, atoms = np.array([a, b], np.int64), np.zeros(1, np.int64)
            addresses = numbers.ctypes.data, atoms.ctypes.data
            bind.evaluate(program.ctypes.data, len(program), (), [], *addresses)
            assert atoms[0] == row.function(a, b)
