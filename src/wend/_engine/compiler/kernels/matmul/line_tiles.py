"""A tile of a product whose left rows lie anywhere, and whose depth is lines of images.

    void lines_W(a, places, a_step, a_jump, a_image, length, count, images, b, b_step, out, out_row)

    a + places[i] + ...     row i of the left operand: `count` lines of `length` elements of each
                            image; elements are a_step bytes apart, a line begins a_jump bytes
                            behind the line before, and images are a_image bytes apart
    b + k * b_step          W vectors, one after another
    out                     the sums to add to, in whole vectors

A tile has as many rows as the largest tile. The gradient of a convolution's weight is made of these
tiles: a row is a channel shifted by a tap of the kernel, and no patch is ever copied.
"""

from __future__ import annotations

from wend._engine.compiler.kernels.matmul.microkernel import TileConfig, multiply_step
from wend._engine.compiler.llvm_ir.function import Routine


def line_tiles(shape: TileConfig) -> str:
    """The texts of the functions for panels of each width, and the table `@lines` of addresses."""
    widths = range(1, shape.vectors + 1)
    table = ", ".join(f"ptr @lines_{width}" for width in widths)
    texts = [_lines(shape, width) for width in widths]
    return f"@lines = internal constant [{len(widths)} x ptr] [{table}]\n\n" + "\n".join(texts)


def _lines(shape: TileConfig, width: int) -> str:
    names = "a places a_step a_jump a_image length count images b b_step out out_row".split()
    pointers = {"a", "places", "b", "out"}
    parameters = [("ptr" if name in pointers else "i64", name) for name in names]
    f = Routine(f"lines_{width}", parameters, internal=True)
    rows = [f.at("%a", f.load("i64", f.at("%places", 8 * i), 8)) for i in range(shape.rows)]
    sums = ["zeroinitializer"] * (shape.rows * width)
    with f.turns("0", "%images") as images:
        first, b = images.carry("i64", "0"), images.carry("ptr", "%b")
        sums = [images.carry(shape.vector, x) for x in sums]
        with f.turns("0", "%count") as lines:
            a, b_line = lines.carry("i64", first), lines.carry("ptr", b)
            line_sums = [lines.carry(shape.vector, x) for x in sums]
            with f.turns("0", "%length") as steps:
                a_now, b_now = steps.carry("i64", a), steps.carry("ptr", b_line)
                now = [steps.carry(shape.vector, x) for x in line_sums]
                places = [f.at(row, a_now) for row in rows]
                for name, x in zip(now, multiply_step(f, shape, places, b_now, now, width)):
                    steps.become(name, x)
                steps.become(a_now, f.add(a_now, "%a_step"))
                steps.become(b_now, f.at(b_now, "%b_step"))
            lines.become(a, f.add(a_now, "%a_jump"))
            lines.become(b_line, b_now)
            for name, x in zip(line_sums, now):
                lines.become(name, x)
        images.become(first, f.add(first, "%a_image"))
        images.become(b, b_line)
        for name, x in zip(sums, line_sums):
            images.become(name, x)
    for i in range(shape.rows):
        line = f.at("%out", f.mul("%out_row", str(i)))
        for w in range(width):
            to = f.at(line, w * shape.bytes)
            old = f.load(shape.vector, to, shape.size)
            x = f.let(f"fadd {shape.vector} {sums[i * width + w]}, {old}")
            f.store(shape.vector, x, to, shape.size)
    return f.text()
