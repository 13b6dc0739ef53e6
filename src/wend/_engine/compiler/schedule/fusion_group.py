"""Regions: ops that run as a step of a plan."""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.ir.symbolic_extents import Poly


class Region:
    """Ops that run as a step: a loop nest over `axes`, a contraction, or a host op."""

    def __init__(self, number: int, kind: str) -> None:
        self.number = number
        self.kind = kind
        self.ops: list[Op] = []
        self.axes: list[Poly] = []
        self.loops: dict[int, tuple[int, ...]] = {}  # result of an op -> axis of each of its loops
        self.places: dict[int, tuple[int, ...]] = {}  # value -> axis of each of its dims, or -1
        self.inner: frozenset[int] | None = None
        self.late: dict[int, frozenset[int]] = {}  # folds not used in this region -> folded axes
        self.indexed: set[int] = set()  # axes along which rows are looked up: never inner axes
        self.before = 0  # regions that this region needs, as bits
        self.outputs: list[int] = []  # values that are stored
        self.tail: Any = None  # of a product with ops behind it: see `epilogue_ops.tail_of`
        self.repeated: set[int] = set()  # values that another region computes as well

    def loops_alone(self, number: int) -> Region:
        """Return a new region with the same ops and loops, and nothing else of this region."""
        region = Region(number, self.kind)
        region.ops, region.axes = list(self.ops), list(self.axes)
        region.loops, region.places = dict(self.loops), dict(self.places)
        region.inner, region.late, region.indexed = self.inner, dict(self.late), set(self.indexed)
        return region

    def __repr__(self) -> str:
        names = " ".join(op.node.prim.name for op in self.ops)
        return f"region {self.number} {self.kind} after {bin(self.before)}: {names}"
