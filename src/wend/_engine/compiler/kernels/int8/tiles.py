"""Tiles of products of bytes: some rows by some panels of 16 filters, with sums in registers."""

from __future__ import annotations

from wend._engine.compiler.kernels.int8.dots import Dots
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.ops.quantized.windows import DEPTH, FILTERS

#: Sums that are in progress at least, where a sum waits for the sum before.
_CHAINS = 8


def heights(target: Target, dots: Dots) -> dict[int, list[int]]:
    """The rows of tiles by the number of their panels, the most first."""
    if target.registers == 32 and dots.vectors == 1:
        return {4: [6, 4, 2, 1], 2: [12, 8, 4, 2, 1], 1: [16, 8, 4, 2, 1]}
    most = max(1, (target.registers - 3 * dots.parts) // dots.vectors)
    return {1: [most, *(n for n in (4, 2, 1) if n < most)]}


class ByteTile:
    """The code of a tile.

    rows, panels: those of the tile     zeros: the sums before the first step
    """

    def __init__(self, dots: Dots, rows: int, panels: int) -> None:
        self.dots, self.rows, self.panels = dots, rows, panels
        self.count = rows * panels * dots.vectors
        self.sets = max(1, _CHAINS // self.count) if dots.waits else 1
        self.zeros = ["zeroinitializer"] * (self.count * self.sets)

    def steps(
        self, f: Routine, a: str, row: str, panel: str, apart: str, steps: str, sums: list[str]
    ) -> tuple[str, list[str]]:
        """Write steps of depth. Returns the address behind the first panel, and the new sums.

        a, row: the address of the first row, and the bytes between rows
        panel, apart: the address of the first panel, and the bytes between panels
        """
        away = [f.mul(row, str(r)) for r in range(self.rows)]
        panels = [f.mul(apart, str(p)) for p in range(self.panels)]
        whole = f.mul(f.div(steps, str(self.sets)), str(self.sets))
        parts = [("0", whole, self.sets), (whole, steps, 1)]
        for first, stop, unrolled in parts if self.sets > 1 else [("0", steps, 1)]:
            with f.turns(first, stop, str(unrolled)) as loop:
                a_now, panel_now = loop.carry("ptr", a), loop.carry("ptr", panel)
                now = [loop.carry(self.dots.kind, x) for x in sums]
                rows = [f.at(a_now, distance) for distance in away]
                places = [f.at(panel_now, distance) for distance in panels]
                for s in range(unrolled):
                    part = slice(s * self.count, (s + 1) * self.count)
                    for old, new in zip(now[part], self._step(f, rows, places, now[part], s)):
                        loop.become(old, new)
                loop.become(a_now, f.at(a_now, unrolled * DEPTH))
                loop.become(panel_now, f.at(panel_now, unrolled * FILTERS * DEPTH))
            a, panel, sums = a_now, panel_now, now
        return panel, sums

    def _step(
        self, f: Routine, rows: list[str], panels: list[str], sums: list[str], s: int
    ) -> list[str]:
        """Write a step, `s` steps on. Returns the new sums."""
        dots = self.dots
        weights = [
            dots.weights(f, f.at(place, (s * FILTERS + v * dots.lanes) * DEPTH))
            for place in panels
            for v in range(dots.vectors)
        ]
        added, old = [], iter(sums)
        for place in rows:
            x = dots.spread(f, f.at(place, s * DEPTH))
            added += [dots.add(f, next(old), x, w) for w in weights]
        return added

    def totals(self, f: Routine, sums: list[str]) -> list[str]:
        """The sums of all sets: of each row, of each vector of filters."""
        totals = sums[: self.count]
        for k, x in enumerate(sums[self.count :]):
            place = k % self.count
            totals[place] = f.let(f"add {self.dots.kind} {totals[place]}, {x}")
        return totals
