"""Kernels of `ops/quantized/windows.py`: products of windows of bytes and panels of weights.

    void windows_of_bytes(ptr args)

`args` holds WORDS, then the addresses of the operands and of the result, all dense. Distances are
in bytes. A window is a row of a product, whose depth lies in memory in a few pieces: the columns
and channels of each row of the kernel, side by side unless the kernel is dilated.

    void tile_RxP(ptr a, i64 row, ptr panels, ptr args, ptr out, i64 left, ptr of, ptr limits)

computes R rows by P panels of 16 filters. The sums stay in registers, and go through the epilogue:
less offsets, by factors, rounded to bytes.

    left: how many filters there are from these panels on     of: offsets of these filters
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wend._engine.base.dtypes import DType, float32, int32, uint8
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.kernels.int8.dots import Dots, are_small
from wend._engine.compiler.kernels.int8.rounding import limits_of, rounded
from wend._engine.compiler.kernels.int8.tiles import ByteTile, heights
from wend._engine.compiler.kernels.matmul.microkernel import lane_mask
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import cached_by_processor, written_for
from wend._engine.compiler.llvm_ir.text import Module
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.ops.quantized.windows import DEPTH, FILTERS

#: Extents: groups, images, rows and columns of windows, filters, panels. Distances: of groups,
#: images, rows and columns of windows; of rows and columns of a kernel. The kernel's extents, and
#: the steps of four bytes in a piece.
WORDS = (
    "groups images rows columns filters panels group image row column "
    "kernel_row kernel_column kernel_rows kernel_columns steps"
).split()


class WindowsKernel:
    """Writes the module for a kind of result.

    gives: the dtype of the result     relu: whether numbers below 0 become 0
    loops: the loops around the steps: over a kernel's rows, and over its columns
    """

    def __init__(self, gives: DType, relu: bool, loops: int) -> None:
        self.gives, self.relu, self.loops = gives, relu, loops
        self.target = written_for()
        self.dots, self.small = Dots(self.target), Dots(self.target, True)
        self.vectors = self.dots.vectors  # of a panel
        self.module = Module()
        self.operands = "x weight offset factor shift limits".split()
        self.operands = self.operands[: {int32: 3, float32: 5, uint8: 6}[gives]]
        self.places = {name: 8 * k for k, name in enumerate([*WORDS, *self.operands, "out"])}

    def word(self, f: Routine, name: str, args: str = "%args") -> str:
        """A word of the argument block."""
        kind = "ptr" if name in (*self.operands, "out") else "i64"
        return f.load(kind, f.at(args, self.places[name]), 8)

    def write(self) -> str:
        """Return the text of the module."""
        tiles = heights(self.target, self.dots)
        shapes = [(r, p) for p, heights in tiles.items() for r in heights]
        functions = [self.tile(r, p, dots) for dots in self.ways() for r, p in shapes]
        return "\n".join([*functions, self.function(tiles), self.module.render()])

    def ways(self) -> list[Dots]:
        """The ways to multiply: small bytes may have their own."""
        return [self.dots, self.small] if self.dots.minds else [self.dots]

    def function(self, tiles: dict[int, list[int]]) -> str:
        """The loops around the tiles."""
        f = Routine("windows_of_bytes", [("ptr", "args")])
        word = {name: self.word(f, name) for name in self.places}
        steps = f.mul(f.mul(word["steps"], word["kernel_rows"]), word["kernel_columns"])
        panel = f.mul(steps, str(FILTERS * DEPTH))  # the bytes of a panel
        line = f.mul(word["filters"], str(self.gives.itemsize))  # of the result
        count = word["panels"]
        with f.loop("0", word["groups"]) as g:
            x = f.at(word["x"], f.mul(g, word["group"]))
            of = f.at(word["offset"], f.mul(f.mul(g, word["filters"]), "4"))
            limits = f.at(word["limits"], f.mul(g, "12")) if "limits" in word else "null"
            panels = f.at(word["weight"], f.mul(f.mul(g, count), panel))
            lines = f.mul(f.mul(word["images"], word["rows"]), word["columns"])
            out = f.at(word["out"], f.mul(f.mul(g, lines), line))
            first = "0"
            for width, heights in tiles.items():
                whole = f.sub(count, f.let(f"and i64 {count}, {width - 1}"))
                with f.loop(first, whole, str(width)) as p:
                    filters = f.mul(p, str(FILTERS))
                    left = f.sub(word["filters"], filters)
                    here = f.at(panels, f.mul(p, panel))
                    into = f.at(out, f.mul(filters, str(self.gives.itemsize)))
                    those = f.at(of, f.mul(filters, "4"))
                    with f.loop("0", word["images"]) as n:
                        tail = (
                            f"i64 {word['column']}, ptr {here}, i64 {panel}, ptr %args, ptr {{}}, "
                            f"i64 {line}, i64 {left}, ptr {those}, ptr {limits}"
                        )
                        image = f.at(x, f.mul(n, word["image"]))
                        to = f.at(into, f.mul(f.mul(n, f.mul(word["rows"], word["columns"])), line))
                        small = "false"
                        if self.dots.minds:
                            small = are_small(f, self.target, image, word["image"])
                        with f.loop("0", word["rows"]) as i:
                            a = f.at(image, f.mul(i, word["row"]))
                            goal = f.at(to, f.mul(f.mul(i, word["columns"]), line))
                            self.row(f, word, a, goal, line, tail, small, width, heights)
                first = whole
        return f.text()

    def row(
        self, f: Routine, word: dict[str, str], a: str, goal: str, line: str, tail: str,
        small: str, width: int, heights: list[int],
    ) -> None:  # fmt: skip
        """Write the tiles of a row of windows.

        a, goal: the addresses of the first window and of its result
        tail: further arguments of a tile, with a place for the address of the result
        small: whether no byte is above 127
        """
        with f.turns("0", word["columns"]) as loop:
            rest = f.sub(word["columns"], loop.index)
            start = f.at(a, f.mul(loop.index, word["column"]))
            arguments = f"ptr {start}, {tail.format(f.at(goal, f.mul(loop.index, line)))}"
            for height, fits in self.cases(f, rest, heights):
                name = f"tile_{height}x{width}"
                if not self.dots.minds:
                    with f.when(fits):
                        f.line(f"call void @{name}({arguments})")
                    continue
                with f.when(f.both(fits, small)):
                    f.line(f"call void @{name}_small({arguments})")
                with f.when(f.both(fits, f.let(f"xor i1 {small}, true"))):
                    f.line(f"call void @{name}({arguments})")
            taken = "1"
            for height in reversed(heights):
                taken = f.select(f.is_("sge", rest, str(height)), str(height), taken)
            loop.step = taken

    def cases(self, f: Routine, rest: str, heights: list[int]) -> Iterator[tuple[int, str]]:
        """Each height, and whether it is the most that fits."""
        below = None
        for height in heights:
            fits = f.is_("sge", rest, str(height))
            if below is not None:
                fits = f.both(fits, f.is_("slt", rest, str(below)))
            yield height, fits
            below = height

    def tile(self, rows: int, panels: int, dots: Dots) -> str:
        """The text of the function of a tile."""
        names = "a row panels panel args out line left of limits".split()
        integers = ("row", "panel", "line", "left")
        f = Routine(
            f"tile_{rows}x{panels}{'_small' if dots is self.small else ''}",
            [("i64" if name in integers else "ptr", name) for name in names],
            internal=True,
        )
        sums = self.products(f, rows, panels, dots)
        full = f.is_("sge", "%left", str(panels * FILTERS))
        for condition, masked in ((full, False), (f.let(f"xor i1 {full}, true"), True)):
            with f.when(condition):
                self.put(f, rows, panels, sums, masked)
        return f.text()

    def products(self, f: Routine, rows: int, panels: int, dots: Dots) -> list[str]:
        """Write the sums of a tile: of each row, of each vector of filters."""
        tile = ByteTile(dots, rows, panels)
        steps = self.word(f, "steps")

        def pieces_of(names: list[str], a: str, panel: str, sums: list[str]) -> Any:
            if not names:
                return tile.steps(f, a, "%row", panel, "%panel", steps, sums)
            count, distance = (self.word(f, f"kernel_{names[0]}{end}") for end in ("s", ""))
            with f.turns("0", count) as loop:
                a_now, panel_now = loop.carry("ptr", a), loop.carry("ptr", panel)
                now = [loop.carry(self.dots.kind, x) for x in sums]
                behind, added = pieces_of(names[1:], a_now, panel_now, now)
                loop.become(a_now, f.at(a_now, distance))
                loop.become(panel_now, behind)
                for old, new in zip(now, added, strict=True):
                    loop.become(old, new)
            return panel_now, now

        _, sums = pieces_of(["row", "column"][: self.loops], "%a", "%panels", tile.zeros)
        return tile.totals(f, sums)

    def put(self, f: Routine, rows: int, panels: int, sums: list[str], masked: bool) -> None:
        """Write the epilogue and the stores of a tile."""
        lanes, vectors = self.dots.lanes, panels * self.vectors
        of = {"offset": "%of"}
        for name in ("factor", "shift"):
            if name in self.operands:  # as far along as the offsets
                base, zero = self.word(f, name, "%args"), self.word(f, "offset", "%args")
                distance = f.sub(*(f.let(f"ptrtoint ptr {p} to i64") for p in ("%of", zero)))
                of[name] = f.at(base, distance)
        limits = limits_of(f) if self.gives is uint8 else None
        for v in range(vectors):
            left = f.sub("%left", str(v * lanes))
            mask = lane_mask(f, lanes, left) if masked else None
            b = VectorBuilder(f, self.module, lanes, self.target, None, mask)
            there = {
                name: b.load(f.at(place, 4 * v * lanes), int32 if name == "offset" else float32)
                for name, place in of.items()
            }
            for r in range(rows):
                y = b.sub(SsaValue(sums[r * vectors + v], int32), there["offset"])
                if self.gives is not int32:
                    y = b.convert(y, float32)
                    y = b.add(b.mul(y, there["factor"]), there["shift"])
                if self.relu:
                    none = b.number(0, float32)
                    y = b.select(b.gt(y, none), y, none)
                if limits is not None:
                    y = rounded(b, y, [b.spread(x.name, x.dtype) for x in limits])
                to = f.at("%out", f.add(f.mul("%line", str(r)), str(v * lanes * y.dtype.itemsize)))
                b.store(y, to)


@cached_by_processor
def text(gives: DType, relu: bool, loops: int) -> str:
    """The text of the module for a kind of result."""
    return WindowsKernel(gives, relu, loops).write()
