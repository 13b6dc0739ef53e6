"""Storing some lanes of a vector, on processors with and without quick masked stores.

With AVX-512 a masked store is a store. With AVX2 a masked store takes as long as twelve stores on
some processors; with less, LLVM takes the store apart. There all lanes are stored without a mask if
all are wanted, and the first lanes in pieces: halves, quarters, ... of the vector.
"""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.text import Text


def store_lanes(
    text: Text, element: str, lanes: int, value: str, place: tuple[str, int], mask: str, cheap: bool
) -> None:
    """Put the lanes of a mask to memory. place: pointer, alignment; cheap: masked stores are"""
    pointer, align = place
    kind = f"<{lanes} x {element}>"
    suffix = f"v{lanes}" + {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
    masked = (
        f"call void @llvm.masked.store.{suffix}.p0({kind} {value}, ptr {pointer}, i32 {align}, "
        f"<{lanes} x i1> {mask})"
    )
    if cheap:
        text.line(masked)
        return
    whole, some, done = (text.fresh(name) for name in ("whole", "some", "stored"))
    bits = text.let(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
    every = text.let(f"icmp eq i{lanes} {bits}, -1")
    text.line(f"br i1 {every}, label {whole}, label {some}")
    text.label(whole)
    text.line(f"store {kind} {value}, ptr {pointer}, align {align}")
    text.line(f"br label {done}")
    text.label(some)
    text.line(masked)
    text.line(f"br label {done}")
    text.label(done)


def store_counted(
    f: Routine,
    element: str,
    lanes: int,
    values: Sequence[str],
    places: Sequence[str],
    align: int,
    count: str,
) -> None:
    """Put the first lanes of vectors to memory: all of them, or pieces. count: of them, or more"""
    whole = f.is_("sge", count, str(lanes))
    with f.when(whole):
        for x, place in zip(values, places, strict=True):
            f.store(f"<{lanes} x {element}>", x, place, align)
    with f.when(f.let(f"xor i1 {whole}, true")):
        store_first(f, element, lanes, values, places, align, count)


def store_first(
    f: Routine,
    element: str,
    lanes: int,
    values: Sequence[str],
    places: Sequence[str],
    align: int,
    count: str,
) -> None:
    """Put the first lanes of vectors to memory, in pieces. count: of them, fewer than all"""
    values, width = list(values), lanes // 2
    while width:
        kind = f"<{width} x {element}>"
        lower, upper = (
            ", ".join(f"i32 {lane}" for lane in range(first, first + width)) for first in (0, width)
        )
        both = f"<{2 * width} x {element}>"
        halves = [
            [
                f.let(f"shufflevector {both} {x}, {both} poison, <{width} x i32> <{part}>")
                for part in (lower, upper)
            ]
            for x in values
        ]
        wanted = f.is_("ne", f.let(f"and i64 {count}, {width}"), "0")
        offset = f.let(f"and i64 {count}, {lanes - 2 * width}")
        offset = f.mul(offset, str(align))
        before = f.block
        with f.when(wanted):
            for (x, _), place in zip(halves, places, strict=True):
                f.store(kind, x, f.at(place, offset), align)
            inside = f.block
        values = [f.let(f"phi {kind} [ {x}, %{before} ], [ {y}, %{inside} ]") for x, y in halves]
        width //= 2
