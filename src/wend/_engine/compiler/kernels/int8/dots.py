"""Dot products of four bytes with four int8, added to int32: in each lane of a vector, exactly.

With VNNI on x86-64, or `usdot` on Arm, this is an instruction. Elsewhere bytes are widened to
16 bits: the instruction for 16 bits adds pairs of products in 32 bits and never saturates. The
instruction for 8 bits saturates at 16 bits, but not if no byte is above 127. Code looks at the
bytes first.
"""

from __future__ import annotations

from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.ops.quantized.windows import FILTERS

_EVEN = "16711935"  # 0x00ff00ff, the even bytes of a word

#: The instruction that multiplies pairs of 16 bits, by the lanes of its result.
_PAIRS = {16: "avx512.pmaddw.d.512", 8: "avx2.pmadd.wd", 4: "sse2.pmadd.wd"}
#: The same for bytes by int8.
_SMALL = {16: "avx512.pmaddubs.w.512", 8: "avx2.pmadd.ub.sw", 4: "ssse3.pmadd.ub.sw.128"}


class Dots:
    """The instructions of a processor.

    small: whether no byte is above 127
    lanes: of a vector of int32     vectors: those of a panel
    waits: whether a sum waits several cycles for the sum before
    """

    def __init__(self, target: Target, small: bool = False) -> None:
        self.target = target
        self.lanes = target.vector_bytes // 4
        self.vectors = FILTERS // self.lanes
        self.kind = f"<{self.lanes} x i32>"
        self.pairs = f"<{2 * self.lanes} x i16>"
        self.quads = f"<{4 * self.lanes} x i8>"
        self.way = self._way()
        #: Whether small bytes are quicker than others.
        self.minds = self.way == "pairs" and target.has("ssse3")
        if small and self.minds:
            self.way = "small"
        self.waits = self.way in ("vnni", "usdot")
        #: Registers that a vector of weights, or a spread word of bytes, takes.
        self.parts = {"pairs": 2, "plain": 4}.get(self.way, 1)

    def _way(self) -> str:
        has = self.target.has
        if self.target.is_arm:
            return "usdot" if has("i8mm") else "plain"
        if self.lanes == 16:
            return "vnni" if has("avx512vnni") else "pairs" if has("avx512bw") else "plain"
        if self.lanes == 8 and has("avx2"):
            return "vnni" if has("avxvnni") else "pairs"
        return "pairs" if self.lanes == 4 and has("sse2") else "plain"

    def spread(self, f: Routine, pointer: str) -> list[str]:
        """The four bytes at an address in every lane, as `add` takes them."""
        word = f.load("i32", pointer)
        first = f.let(f"insertelement {self.kind} poison, i32 {word}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.bytes(
            f, f.let(f"shufflevector {self.kind} {first}, {self.kind} poison, {zeros}")
        )

    def bytes(self, f: Routine, words: str) -> list[str]:
        """Four unsigned bytes of each lane, as `add` takes them."""
        kind = self.kind
        if self.way == "pairs":
            even = f.let(f"and {kind} {words}, splat (i32 {_EVEN})")
            halves = f.let(f"bitcast {kind} {words} to {self.pairs}")
            odd = f.let(f"lshr {self.pairs} {halves}, splat (i16 8)")
            return [even, f.let(f"bitcast {self.pairs} {odd} to {kind}")]
        if self.way == "plain":
            moved = [f.let(f"lshr {kind} {words}, splat (i32 {8 * i})") for i in range(4)]
            return [f.let(f"and {kind} {x}, splat (i32 255)") for x in moved]
        return [words]

    def weights(self, f: Routine, pointer: str) -> list[str]:
        """A vector of four int8 in each lane, as `add` takes them."""
        kind = self.kind
        words = f.load(kind, pointer, 4)
        if self.way == "pairs":
            halves = f.let(f"bitcast {kind} {words} to {self.pairs}")
            even = f.let(f"shl {self.pairs} {halves}, splat (i16 8)")
            return [f.let(f"ashr {self.pairs} {x}, splat (i16 8)") for x in (even, halves)]
        if self.way == "plain":
            moved = [f.let(f"shl {kind} {words}, splat (i32 {24 - 8 * i})") for i in range(4)]
            return [f.let(f"ashr {kind} {x}, splat (i32 24)") for x in moved]
        return [words]

    def add_single(self, f: Routine, sums: str, x: str, w: str) -> str:
        """sums + x * w in each lane, where x is of 0 ... 255 and w an int8, both in 32 bits."""
        kind = self.kind
        if not self.target.is_arm and self.way != "plain":
            # A lane adds two products of 16 bits, the second of which has a factor 0.
            a, b = (f.let(f"bitcast {kind} {v} to {self.pairs}") for v in (x, w))
            call = f"@llvm.x86.{_PAIRS[self.lanes]}({self.pairs} {a}, {self.pairs} {b})"
            product = f.let(f"call {kind} {call}")
        else:
            product = f.let(f"mul {kind} {x}, {w}")
        return f.let(f"add {kind} {sums}, {product}")

    def add(self, f: Routine, sums: str, x: list[str], w: list[str]) -> str:
        """sums + x . w in each lane."""
        kind = self.kind
        if self.way == "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
            return f.let(f"call {kind} @{name}({kind} {sums}, {kind} {x[0]}, {kind} {w[0]})")
        if self.way == "usdot":
            a, b = (f.let(f"bitcast {kind} {v[0]} to {self.quads}") for v in (x, w))
            name = "llvm.aarch64.neon.usdot.v4i32.v16i8"
            return f.let(f"call {kind} @{name}({kind} {sums}, {self.quads} {a}, {self.quads} {b})")
        if self.way == "small":
            a, b = (f.let(f"bitcast {kind} {v[0]} to {self.quads}") for v in (x, w))
            call = f"@llvm.x86.{_SMALL[self.lanes]}({self.quads} {a}, {self.quads} {b})"
            halves = f.let(f"call {self.pairs} {call}")
            ones = f"{self.pairs} splat (i16 1)"
            call = f"@llvm.x86.{_PAIRS[self.lanes]}({self.pairs} {halves}, {ones})"
            return f.let(f"add {kind} {sums}, {f.let(f'call {kind} {call}')}")
        for a, b in zip(x, w, strict=True):
            if self.way == "pairs":
                halves = f.let(f"bitcast {kind} {a} to {self.pairs}")
                call = f"@llvm.x86.{_PAIRS[self.lanes]}({self.pairs} {halves}, {self.pairs} {b})"
                product = f.let(f"call {kind} {call}")
            else:
                product = f.let(f"mul {kind} {a}, {b}")
            sums = f.let(f"add {kind} {sums}, {product}")
        return sums


def are_small(f: Routine, target: Target, start: str, count: str) -> str:
    """Write a look at some bytes: an i1, whether none is above 127."""
    size = target.vector_bytes
    kind = f"<{size // 4} x i32>"
    whole = f.sub(count, f.let(f"urem i64 {count}, {size}"))
    with f.turns("0", whole, str(size)) as loop:
        every = loop.carry(kind, "zeroinitializer")
        here = f.load(kind, f.at(start, loop.index))
        loop.become(every, f.let(f"or {kind} {every}, {here}"))
    total = f.let(f"call i32 @llvm.vector.reduce.or.v{size // 4}i32({kind} {every})")
    with f.turns(whole, count) as loop:
        bits = loop.carry("i32", total)
        byte = f.let(f"zext i8 {f.load('i8', f.at(start, loop.index))} to i32")
        loop.become(bits, f.let(f"or i32 {bits}, {byte}"))
    high = f.let(f"and i32 {bits}, -2139062144")  # 0x80808080
    return f.is_("eq", high, "0", "i32")
