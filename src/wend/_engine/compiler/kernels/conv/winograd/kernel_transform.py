"""The transform of kernels for Winograd's convolutions."""

from __future__ import annotations

from contextlib import nullcontext

from wend._engine.compiler.kernels.conv.winograd.squares import Squares, is_reversed, parameters
from wend._engine.compiler.kernels.conv.winograd.transforms import both_ways
from wend._engine.compiler.kernels.matmul.macrokernel import arguments
from wend._engine.compiler.kernels.matmul.microkernel import TileConfig, lane_mask, masked_store
from wend._engine.compiler.kernels.matmul.packing import ElementReader, transposed
from wend._engine.compiler.llvm_ir.function import Routine


def spread_weight(shape: TileConfig, dtype: str, names: list[str], way: Squares) -> str:
    """The text of the two functions that transform kernels, `spread_filters` and `spread_weight`.

    The weight has `row` bytes to the next row, and `step` bytes to the next step of the depth.
    """
    f = Routine("spread_filters" + way.name, [("ptr", "args")], internal=True)
    a = arguments(f, names, "weight workspace")
    unit = str(shape.size)
    line = f.mul(a["channels"], unit)
    row = f.mul(a["weight_filter"], unit)
    to = way.kernels(f, a, line)
    with f.loop(a["first_filter"], a["last_filter"]) as i:
        f.line(
            f"call void @spread_weight{way.name}(ptr {f.at(a['weight'], f.mul(i, row))}, "
            f"i64 {row}, i64 {9 * shape.size}, i64 1, i64 {a['channels']}, "
            f"ptr {f.at(to, f.mul(i, line))}, i64 {line}, "
            f"i64 {f.mul(line, a['filters'])}, i1 {is_reversed(f, a)})"
        )
    return f.text() + "\n" + _spread_kernels(shape, ElementReader(shape, dtype), way)


def _spread_kernels(shape: TileConfig, source: ElementReader, way: Squares) -> str:
    words = "ptr weight, i64 row, i64 step, i64 rows, i64 depth, ptr to, i64 to_row, i64 apart"
    signature = parameters(words)
    f = Routine("spread_weight" + way.name, [*signature, ("i1", "flipped")], internal=True)
    with f.loop("0", "%depth", str(shape.lanes)) as k, f.loop("0", "%rows") as i:
        mask = lane_mask(f, shape.lanes, f.sub("%depth", k))
        here = f.at("%weight", f.add(f.mul(i, "%row"), f.mul(k, "%step")))
        part: str | None = None
        if not shape.masks and shape.lanes == 8:
            whole = f.is_("sle", f.add(k, "8"), "%depth")
            with f.when(whole):
                _spread_kernel(f, shape, way, _turned_taps(f, shape, here), (i, k), None)
            part = f.let(f"xor i1 {whole}, true")
        with f.when(part) if part else nullcontext():
            taps = [source.gathered(f, f.at(here, t * shape.size), "%step", mask) for t in range(9)]
            _spread_kernel(f, shape, way, taps, (i, k), mask)
    return f.text()


def _turned_taps(f: Routine, shape: TileConfig, here: str) -> list[str]:
    """Return nine taps, each a vector of eight steps of the depth.

    Eight taps are transposed in registers, which is quicker than gathers. The last tap is put
    together element by element.
    """
    lines = [f.at(here, f.mul("%step", str(j))) for j in range(8)]
    taps = transposed(f, shape, [f.load(shape.vector, line, shape.size) for line in lines])
    last = "poison"
    for j, line in enumerate(lines):
        one = f.load(shape.element, f.at(line, 8 * shape.size), shape.size)
        last = f.let(f"insertelement {shape.vector} {last}, {shape.element} {one}, i64 {j}")
    return [*taps, last]


def _spread_kernel(
    f: Routine,
    shape: TileConfig,
    way: Squares,
    taps: list[str],
    at: tuple[str, str],
    mask: str | None,
) -> None:
    """Transform nine taps, and store the results in their planes. at: row and step of the depth"""
    taps = [f.select("%flipped", y, x, shape.vector) for x, y in zip(taps, taps[::-1])]
    columns = both_ways(f, shape, way.taps, [taps[3 * r : 3 * r + 3] for r in range(3)])
    to = f.at("%to", f.add(f.mul(at[0], "%to_row"), f.mul(at[1], str(shape.size))))
    by_column = list(columns)
    for down in range(way.seen):
        for across in range(way.seen):
            place = f.at(to, f.mul("%apart", str(way.seen * down + across)))
            masked_store(f, shape, by_column[across][down], place, mask)
