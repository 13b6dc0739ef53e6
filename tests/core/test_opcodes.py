"""The compiled core writes opcodes of expressions as numbers: those of `wend.core.symbolic`."""

import re
from pathlib import Path

from wend.core import symbolic
from wend.core._select import OPCODES

TYPES = Path(__file__).parents[2] / "src" / "wend" / "core" / "_hot.pxd"


def test_the_core_and_the_symbolic_layer_mean_the_same():
    block = TYPES.read_text().partition("cdef extern from *:\n")[2].partition("\n\n")[0]
    numbers = {name: int(number) for name, number in re.findall(r'int (\w+) "(\d+)"', block)}
    assert numbers == {name: getattr(symbolic, name) for name in OPCODES}
