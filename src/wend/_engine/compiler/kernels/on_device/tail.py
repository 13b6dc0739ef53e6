"""The tail of a product on an accelerator: a work item does the ops on its own elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.kernel_code import KernelCode
from wend._engine.compiler.codegen.known_code import Written, form_of_tail, recall
from wend._engine.compiler.codegen.scalar_ops import ElementCode
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.kernels.on_device.tiles import OUT, TileCode
from wend._engine.compiler.llvm_ir.values import SsaValue
from wend._engine.compiler.schedule.epilogue_ops import LOOPS, Tail, tail_of
from wend._engine.compiler.schedule.fusion_group import Region


class TailCode(KernelCode):
    """Writes the ops of a tail into the code of tiles.

    outputs: the values that are stored
    """

    def __init__(self, tail: Tail, outputs: list[int], tiles: TileCode) -> None:
        like_a_nest: Any = tail
        super().__init__(like_a_nest)
        self.tail, self.outputs = tail, outputs
        self.text, self.entry, self.module = tiles.text, tiles.entry, tiles.module
        self.scalar = VectorBuilder(self.text, self.module, 1, self.target)
        # The words of the tail lie behind those of the tiles.
        self.slots.items += [Slot("word", k) for k in range(len(tiles.words))]

    def element(self, total: str, places: list[str]) -> None:
        """Write the ops on an element of the product.

        total: the element     places: its counters, two of a batch, the row and the column
        """
        tail, b = self.tail, self.scalar
        self.counters = dict(enumerate(places))
        head = tail.head.out
        values = {head: SsaValue(total, self.function.dtypes[head])}
        for op in tail.ops:
            assert op.emit is not None
            operands = [self.operand(op, k, values) for k in range(len(op.reads))]
            values[op.out] = op.emit(ElementCode(self, op, b, None), operands)
        for out in self.outputs:
            b.store(values[out], self.address(tail.stores[out], list(range(LOOPS))))

    def operand(self, op: Op, k: int, values: dict[int, SsaValue]) -> SsaValue:
        """Return operand `k` of an op. values: those computed so far"""
        value = self.tail.inside.get((op.out, k))
        if value is not None:
            return values[value]
        access = self.tail.loads.get((op.out, k))
        if access is None:
            number = self.function.uniform[self.function.base(op.reads[k].value)]
            return self.uniform(self.scalar, *number)
        return self.scalar.load(self.address(access, list(range(LOOPS))), access.dtype)


def add_tail(f: Function, kernel: Kernel, region: Region, code: Callable[[], TileCode]) -> Kernel:
    """Let the kernel of a product or convolution do the other ops of its region too; return it.

    code: returns the code of the product, still to be written
    """
    if len(region.ops) == 1:
        return kernel
    tail, outputs, slots = tail_of(f, region), region.outputs, kernel.slots

    def write() -> Written:
        tiles = code()
        tiles.tail = TailCode(tail, outputs, tiles)
        text = tiles.write()
        return Written(text, tiles.tail.slots.items[len(slots) :])

    form = form_of_tail(tail, outputs)
    if form is not None:
        form.facts.append(kernel.text)
    written = recall(form, write)
    kernel.text, kernel.slots = written.text, [*slots, *written.slots]
    if tail.head.out not in outputs:
        kernel.slots[OUT] = Slot("word", 0)  # nothing is stored there
    kernel.what += "".join(f" {op.name}" for op in tail.ops)
    kernel.reads = sorted({*kernel.reads, *(access.base for access in tail.loads.values())})
    kernel.writes = list(outputs)
    return kernel
