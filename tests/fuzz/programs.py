"""Random programs: what one is, how it is drawn, and how it looks as Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import gradients
import statements
from hypothesis import strategies as st
from scope import LOW, Scope

HEAD = "def program(torch, F, Product, data, decide, read, seen, n, m, fill, watch, caught):"
PALETTES = (
    ("float64",), ("float64",), ("float32",), ("float64", "float32"), ("float32", "float64"),
    ("float32", "bfloat16"), ("float16", "float32"),
)  # fmt: skip


# How often each kind of statement is drawn.
KINDS = (
    (statements.assignment, 14), (statements.again, 1), (statements.write, 3),
    (statements.through_view, 2), (statements.branch, 1), (statements.loop, 1),
    (statements.repeat, 1), (statements.unrecorded, 1), (statements.detached, 1),
    (gradients.gradient, 2), (gradients.backward, 1), (gradients.hook, 1),
    (gradients.function, 1), (statements.read, 2), (statements.forget, 2), (statements.changed, 2),
)  # fmt: skip
STATEMENTS = tuple(kind for kind, times in KINDS for _ in range(times))


@dataclass(frozen=True)
class Run:
    """One execution: its sizes, which data, and a seed of where it reads values (0: nowhere)."""

    n: int
    m: int
    data: int
    reads: int


@dataclass
class Program:
    """A function of what HEAD names, which returns tensors by name; and how to run it.

    apart: also run it where nothing is kept in the trie     forced: also as machine code at once
    """

    lines: list[str]
    kept: list[str]
    runs: list[Run]
    dtypes: set[str]
    apart: bool
    forced: bool = False
    _compiled: Callable[..., dict[str, Any]] | None = field(default=None, repr=False)

    @property
    def source(self) -> str:
        """The program as Python."""
        result = ", ".join(f"{name!r}: {name}" for name in self.kept)
        return "\n".join([HEAD, *self.lines, f"    return {{{result}}}", ""])

    @property
    def function(self) -> Callable[..., dict[str, Any]]:
        """The program as a function. Raises SyntaxError if its lines make none."""
        if self._compiled is None:
            space: dict[str, Any] = {}
            exec(compile(self.source, "<random program>", "exec"), space)
            self._compiled = space["program"]
        return self._compiled

    @property
    def tolerance(self) -> float:
        """How far two ways may be apart, relative to the greatest number of a result."""
        if self.dtypes & set(LOW):
            return 0.15 if "bfloat16" in self.dtypes else 0.05
        return 5e-3 if "float32" in self.dtypes else 1e-6

    def __repr__(self) -> str:
        return "\n".join(["", self.source, *map(str, self.runs), f"off the trie: {self.apart}", ""])

    @property
    def script(self) -> str:
        """A script of its own, to be run with the name of a library: wend, torch."""
        surroundings = (Path(__file__).parent / "ways.py").read_text(encoding="utf-8")
        surroundings = surroundings[surroundings.index("import random") :]
        calls = [
            f"print(*call(torch, program, product_of(torch), {self.tolerance}, *{astuple(run)}))"
            for run in self.runs
        ]
        library = "torch = importlib.import_module(sys.argv[1])\n"
        return "\n".join(
            ["import importlib\nimport sys", surroundings, "", self.source, "", library, *calls, ""]
        )


@st.composite
def programs(draw: Any, most: int = 14) -> Program:
    """Programs as Hypothesis draws (and shrinks) them."""
    strategies: dict[tuple[int, int], Any] = {}

    def integer(low: int, high: int) -> int:
        strategy = strategies.get((low, high))
        if strategy is None:
            strategy = strategies[low, high] = st.integers(low, high)
        return int(draw(strategy))

    return drawn(integer, most)


def drawn(integer: Callable[[int, int], int], most: int = 14) -> Program:
    """A program of up to `most` statements at the top level.

    integer: draws a number of a range, both ends included
    """
    s = Scope(integer, ("float64",))
    s.floats = s.pick(PALETTES)
    for _ in range(s.integer(1, 3)):
        s.leaf()
    train = s.chance(6)
    for _ in range(s.integer(1, 4 if train else most)):
        s.pick(STATEMENTS)(s)
    if train:
        gradients.training(s)
    _finish(s)
    kept = [v.text for v in s.values if v.leaf or s.chance(2)] or [s.values[-1].text]
    return Program(s.lines, kept, _runs(s), s.dtypes, s.chance(3))


def _finish(s: Scope) -> None:
    """A loss of some of the values, and its gradients."""
    last = [v for v in s.values if v.is_float and v.grad][-3:]
    if last:
        terms = [f"({v.text} * {v.text}).mean().double()" for v in last]
        s.emit(f"loss = {' + '.join(terms)}")
        s.emit("if loss.requires_grad:")
        s.emit("    loss.backward()")
        s.dtypes.add("float64")


def _runs(s: Scope) -> list[Run]:
    """Twice the same, then other data, then other sizes, then other places to read at, ..."""
    n, m = s.pick((3, 2, 4, 5, 7)), s.pick((2, 3, 5, 4))
    first = Run(n, m, s.integer(0, 99), 0)
    other = Run(s.pick((4, 1, 6, 2, 0)), s.pick((5, 1, 3, 2, 0)), s.integer(0, 99), s.integer(0, 3))
    return [
        first, first, Run(n, m, s.integer(100, 199), 0), other,
        Run(n, m, s.integer(100, 199), s.integer(0, 3)), Run(other.n, m, 5, 0),
    ]  # fmt: skip
