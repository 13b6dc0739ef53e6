"""Max pooling on an accelerator: a work item finds the greatest element of a window."""

from __future__ import annotations

from functools import cache

from wend._engine.base import dtypes
from wend._engine.base.dtypes import FLOAT, DType
from wend._engine.compiler.codegen.device_nest import ALONE, launch_line
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.codegen.scalar_ops import identity_of
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, mul, product, scale
from wend._engine.compiler.kernels.pooling import window_words
from wend._engine.compiler.llvm_ir.device_verbs import DeviceVerbs
from wend._engine.compiler.llvm_ir.jit import Target, written_for
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type

NAME = "windows"
#: Facts of each dim of a window.
_SIDES = ("taps", "stride", "pad", "dilation", "counts", "sizes")


def words_of(sides: int) -> list[str]:
    """The words of the argument block, for windows of so many dims."""
    return ["values", "indices", "input", "turns", "row",
            *(f"{name}{d}" for name in _SIDES for d in range(sides))]  # fmt: skip


def device_windows(f: Function, op: Op) -> Kernel:
    """Return the kernel of a max pooling."""
    x, (values, indices) = op.reads[0].value, op.outputs
    dtype = f.dtypes[x]
    words = window_words(f, op)
    sides = len(words) // 4
    kernel = Kernel(NAME, windows_text(written_for(), dtype, sides), f"max_windows {values}")
    kernel.reads, kernel.writes = [f.base(x)], [values, indices]
    kernel.is_whole = True
    layout = f.layout(x)
    sizes, counts = f.shape(x)[-sides:], f.shape(values)[-sides:]
    row = mul(product(counts), product(f.shape(values)[:-sides]))
    extents: list[Poly] = [row, product(sizes), *words, *counts, *sizes]
    kernel.slots = [
        Slot("pointer", values, ZERO),
        Slot("pointer", indices, ZERO),
        Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize)),
        *(Slot("extent", p) for p in extents),
    ]
    return kernel


@cache
def windows_text(target: Target, dtype: DType, sides: int) -> str:
    """Return the module of a max pooling of so many dims."""
    text, entry, module = Text(), Text(), Module()
    entry._count = 1_000_000
    verbs = DeviceVerbs(target, text, entry, module)
    pointer = target.pointer
    w = {}
    names = words_of(sides)
    for k, name in enumerate(names):
        place = entry.let(f"getelementptr i64, {pointer} %block, i64 {k}")
        w[name] = entry.let(f"load {pointer if k < 3 else 'i64'}, {pointer} {place}", "w")
    b = VectorBuilder(text, module, 1, target)
    wide = dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype
    kind = b.type_of(wide)
    best, at = entry.let(f"alloca {kind}", "best"), entry.let("alloca i64", "at")
    lowest = b.number(identity_of("lowest", wide), wide)
    first, step = verbs.numbered()

    def moved(base: str, element: str, place: str) -> str:
        return text.let(f"getelementptr {element}, {pointer} {base}, i64 {place}")

    with text.counted(entry.let("alloca i64", "var"), first, w["turns"], step) as turn:
        number = turn
        places: list[str] = []
        for d in reversed(range(sides)):
            place = text.let(f"urem i64 {number}, {w[f'counts{d}']}")
            number = text.let(f"udiv i64 {number}, {w[f'counts{d}']}")
            begin = text.let(f"mul i64 {place}, {w[f'stride{d}']}")
            places.insert(0, text.let(f"sub i64 {begin}, {w[f'pad{d}']}"))
        source = moved(w["input"], memory_type(dtype), text.let(f"mul i64 {number}, {w['row']}"))
        text.line(f"store {kind} {lowest.name}, ptr {best}")
        text.line(f"store i64 -1, ptr {at}")

        def look(d: int, index: str, inside: str) -> None:
            """Look at the elements along dim d and the following dims."""
            if d < sides:
                variable = entry.let("alloca i64", "var")
                with text.counted(variable, "0", w[f"taps{d}"]) as tap:
                    apart = text.let(f"mul i64 {tap}, {w[f'dilation{d}']}")
                    place = text.let(f"add i64 {places[d]}, {apart}")
                    here = text.let(f"icmp ult i64 {place}, {w[f'sizes{d}']}")
                    here = text.let(f"and i1 {inside}, {here}")
                    line = text.let(f"mul i64 {index}, {w[f'sizes{d}']}")
                    look(d + 1, text.let(f"add i64 {line}, {place}"), here)
                return
            with text.when(inside):
                x = b.convert(b.load(moved(source, memory_type(dtype), index), dtype), wide)
                before = SsaValue(text.let(f"load {kind}, ptr {best}"), wide)
                better = b.gt(x, before)
                if wide.category == FLOAT:
                    better = b.bitwise_or(better, b.ne(x, x))
                chosen = text.let(f"load i64, ptr {at}")
                none = text.let(f"icmp slt i64 {chosen}, 0")
                with text.when(text.let(f"or i1 {better.name}, {none}")):
                    text.line(f"store {kind} {x.name}, ptr {best}")
                    text.line(f"store i64 {index}, ptr {at}")

        look(0, "0", "true")
        value = SsaValue(text.let(f"load {kind}, ptr {best}"), wide)
        b.store(b.convert(value, dtype), moved(w["values"], memory_type(dtype), turn))
        index = text.let(f"load i64, ptr {at}")
        b.store(SsaValue(index, dtypes.int64), moved(w["indices"], "i64", turn))
    text.line("ret void")
    about = launch_line(NAME, False, ALONE, [(names.index("turns"), 1)], len(names))
    module.add(NAME, verbs.definition(NAME))
    return f"{about}\n{module.render()}"
