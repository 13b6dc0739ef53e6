"""Sorts the ops of a function into regions: nests, tails of products, and ops by themselves."""

from __future__ import annotations

from collections.abc import Generator

from wend._engine.compiler.ir.loops import NESTED, Function
from wend._engine.compiler.schedule.epilogue_fusion import Attachment
from wend._engine.compiler.schedule.epilogue_ops import may_have_tail, place_head
from wend._engine.compiler.schedule.fuse import Fusion, in_order
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.schedule.rematerialize import Repetition


def regions_of(function: Function) -> Generator[None, None, list[Region]]:
    """Sort all ops into regions, an op in each slice; return the regions in the order to run."""
    fusion = Fusion(function)
    attachment = Attachment(fusion)
    for op in function.ops:
        yield
        if op.kind in NESTED:
            if not attachment.run(op):
                fusion.place(op)
            continue
        region = fusion.new(op.kind)
        if may_have_tail(op):
            place_head(function, region, op)
        else:
            region.ops.append(op)
        fusion.settle(region, op)
    regions = [r for r in fusion.regions if r is not None]
    yield from Repetition(fusion).run(regions)
    yield
    ordered = in_order(regions)
    yield
    fusion.mark_outputs(ordered)
    narrowed = [part for region in ordered for part in fusion.narrowed(region)]
    if len(narrowed) > len(ordered):
        for region in narrowed:
            region.outputs.clear()
        fusion.mark_outputs(narrowed)
    return narrowed
