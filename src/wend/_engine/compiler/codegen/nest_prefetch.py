"""Prefetching and streaming stores of a nest, for memory that is not in the caches.

A processor prefetches by itself, but not from page to page, and not while computing with a row. So
nests that go over much memory prefetch it `AHEAD` bytes early. A large result that the plan does
not read again is written past the caches, without reading its lines first. Such stores require
aligned vectors. Words of the argument block decide all this when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable

from wend._engine.compiler.codegen.kernel_code import KernelCode
from wend._engine.compiler.codegen.phase import Phase
from wend._engine.compiler.ir.loops import MAP
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, add, scale
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type, vector_type
from wend._engine.compiler.schedule.loop_order import Access, Nest

#: The least bytes that a nest goes over, and the least bytes of a result, to count as uncached.
FAR_BYTES, STREAM_BYTES = 4 << 20, 4 << 20
#: The distance of prefetching, in bytes.
AHEAD = 2048
#: LLVM's numbers for prefetching into the first-level and the second-level cache.
FIRST, SECOND = 3, 2
#: The bytes below which a row is prefetched while the row before is computed.
ROW = 64 << 10
#: The bytes of the smallest vector that can be written past the caches.
LEAST = 16
#: The bytes of a cache line, and the elements gathered in a block where vectors are smaller.
LINE, GATHERED = 64, 128


class Traffic:
    """The flags of a nest that decide on prefetching and streaming, and the code for both."""

    def __init__(self, code: KernelCode) -> None:
        self.code = code
        self.flags: dict[int, str] = {}  # slot -> the flag, an i1
        self.streamed: list[str] = []
        self.ahead = first_reads(code.nest)
        self.heavy = heaviest(code.nest)
        self.early = {
            id(access): access for phase, access in self.ahead.values() if phase < self.heavy
        }
        self.asking = self.spread()

    def flag(self, slot: int, least: int) -> str:
        """An i1, computed when the kernel begins: whether a word is at least `least`."""
        condition = self.flags.get(slot)
        if condition is None:
            word = self.code.word(slot)
            condition = self.flags[slot] = self.code.entry.let(
                f"icmp uge i64 {word}, {least}", "flag"
            )
        return condition

    def is_far(self) -> str:
        """An i1: whether the nest goes over more memory than caches hold."""
        function = self.code.function
        total = ZERO
        for base in sorted({access.base for access in self.code.nest.accesses()} - {-1}):
            total = add(total, function.bytes_of(base))
        return self.flag(self.code.slots.extent(total), FAR_BYTES)

    def may_stream(self, access: Access) -> bool:
        """Whether vectors of a result can be written past the caches."""
        axis, lanes = self.code.nest.inner[-1], self.code.lanes
        size = lanes * access.dtype.itemsize
        return access.strides[axis] == ONE and size >= LEAST and not size & (size - 1)

    def streams(self, access: Access, where: str, begin: str) -> str:
        """An i1: whether to write a result past the caches.

        The result's line begins at element `begin` of the address `where`.
        """
        text, size = self.code.text, access.dtype.itemsize
        flag = self.flag(self.code.slots.streamed(access.base), STREAM_BYTES)
        if flag not in self.streamed:
            self.streamed.append(flag)
        place = text.let(f"getelementptr {memory_type(access.dtype)}, ptr {where}, i64 {begin}")
        bits = text.let(f"ptrtoint ptr {place} to i64")
        over = text.let(f"and i64 {bits}, {self.code.lanes * size - 1}")
        whole = text.let(f"icmp eq i64 {over}, 0")
        return text.let(f"and i1 {flag}, {whole}")

    def spread(self) -> dict[int, list[Access]]:
        """Assign the operands that light phases read first to phases that prefetch the next row.

        Light phases are over before memory answers. The heaviest phase prefetches the last of these
        operands, the phase before it prefetches the operand before, and so on. If a single phase
        prefetched all, it would wait for memory, which would then idle in other phases.
        """
        nest = self.code.nest
        axis = nest.outer[-1:]
        moving = [
            a for a in self.early.values() if axis and a.row < 0 and a.strides[axis[0]] != ZERO
        ]
        accesses: dict[int, list[Access]] = {}
        for k, access in enumerate(reversed(moving)):
            accesses.setdefault((self.heavy - k) % nest.phases, []).append(access)
        return accesses

    def next_rows(self, phase: Phase) -> list[tuple[Access, str]]:
        """Return the accesses that a phase prefetches of the next row, with their addresses."""
        code, text = self.code, self.code.text
        accesses = []
        for access in self.asking.get(phase.phase, ()):
            where = code.address(access, phase.around)
            step = code.poly(access.strides[code.nest.outer[-1]])
            where = text.let(f"getelementptr {memory_type(access.dtype)}, ptr {where}, i64 {step}")
            accesses.append((access, where))
        return accesses

    def fetch(self, phase: Phase) -> None:
        """Prefetch, some turns ahead, the operands that the phase is the first to read."""
        reads = [(op.out, k) for op in phase.ops for k in range(len(op.reads))]
        accesses = [self.ahead[key][1] for key in reads if key in self.ahead]
        here = [
            (access, phase.where[id(access)]) for access in accesses if id(access) in phase.where
        ]
        self.ask(phase, [pair for pair in here if id(pair[0]) not in self.early], "", AHEAD)
        self.ask(phase, [pair for pair in here if id(pair[0]) in self.early], "long", AHEAD)
        self.ask(phase, phase.following, "short", 0)

    def ask(self, phase: Phase, reads: list[tuple[Access, str]], rows: str, ahead: int) -> None:
        """Write the prefetches of a turn, for nests that go over much memory.

        Operands of this row go to the first-level cache. The next row goes to the second-level
        cache: in the first, its lines would evict those of this row.

        reads: the accesses to prefetch, with their addresses
        rows: "long" or "short" to prefetch only if rows are so, else ""
        ahead: the distance in bytes from the elements that a turn reads
        """
        if not reads:
            return
        text, condition = self.code.text, self.is_far()
        if rows:
            nest, size = self.code.nest, reads[0][0].dtype.itemsize
            length = self.code.slots.extent(scale(nest.extents[nest.inner[-1]], size))
            long = self.flag(length, ROW)
            chosen = long if rows == "long" else text.let(f"xor i1 {long}, true")
            condition = text.let(f"and i1 {condition}, {chosen}")
        with text.when(condition):
            for access, where in reads:
                size = access.dtype.itemsize
                first, element = phase.position(0), memory_type(access.dtype)
                place = text.let(f"getelementptr {element}, ptr {where}, i64 {first}")
                for byte in range(0, phase.copies * self.code.lanes * size, LINE):
                    line = text.let(f"getelementptr i8, ptr {place}, i64 {ahead + byte}")
                    into = f"i32 0, i32 {FIRST if ahead else SECOND}, i32 1"
                    text.line(f"call void @llvm.prefetch.p0(ptr {line}, {into})")

    def store(self, phase: Phase, access: Access, values: list[SsaValue], stream: str) -> None:
        """Store vectors side by side, past the caches if the i1 `stream` holds."""
        text, lanes, size = self.code.text, self.code.lanes, access.dtype.itemsize
        past, through, on = (text.fresh(hint) for hint in ("past", "through", "on"))
        element = memory_type(access.dtype)
        kind = vector_type(element, lanes)
        places = [
            text.let(
                f"getelementptr {element}, ptr {phase.where[id(access)]}, i64 {phase.position(c)}"
            )
            for c in range(len(values))
        ]
        written = [phase.builders[c].to_memory(value) for c, value in enumerate(values)]
        text.line(f"br i1 {stream}, label {past}, label {through}")
        text.label(past)
        self.code.module.need("!0", lambda module: "!0 = !{i32 1}")
        for place, value in zip(places, written, strict=True):
            text.line(f"store {kind} {value}, ptr {place}, align {lanes * size}, !nontemporal !0")
        text.line(f"br label {on}")
        text.label(through)
        for place, value in zip(places, written, strict=True):
            text.line(f"store {kind} {value}, ptr {place}, align {size}")
        text.line(f"br label {on}")
        text.label(on)

    @property
    def gathers(self) -> bool:
        """Whether a cache line takes several stores, so that results are gathered in a block first.

        A part of a line that is written past the caches waits for the rest of the line. Much time
        is lost if different memory is read in between. So results are gathered in the first-level
        cache.
        """
        return self.code.target.vector_bytes < LINE

    def gather(
        self, phase: Phase, counter: str, extent: str, wide: int, turns: Callable[[str], None]
    ) -> None:
        """Write the loop over blocks of whole turns; flagged results are streamed block by block.

        If no result is flagged, or if less than a block is left, the rest is a single block.

        counter: the address of the next element's number
        extent: the end of the elements
        wide: the elements of a turn
        turns: writes the loop over whole turns up to an element
        """
        code, text = self.code, self.code.text
        stores = [phase.nest.stores.get(op.out) for op in phase.ops]
        accesses = [access for access in stores if access and id(access) in phase.streams]
        streams, phase.streams = phase.streams, {}
        aims = {id(access): phase.where[id(access)] for access in accesses}
        some = self.any_of([streams[id(access)] for access in accesses])
        head, block, done = (text.fresh(hint) for hint in ("blocks", "block", "gathered"))
        text.line(f"br label {head}")
        text.label(head)
        first = text.let(f"load i64, ptr {counter}")
        left = text.let(f"sub i64 {extent}, {first}")
        text.line(f"br i1 {text.let(f'icmp sge i64 {left}, {wide}')}, label {block}, label {done}")
        text.label(block)
        large = text.let(f"icmp sge i64 {left}, {GATHERED}")
        past = text.let(f"and i1 {some}, {large}")
        end = text.let(f"add i64 {first}, {GATHERED}")
        end = text.let(f"select i1 {past}, i64 {end}, i64 {extent}")
        back = text.let(f"sub i64 0, {first}")
        rooms = []
        for access in accesses:
            element, aim = memory_type(access.dtype), aims[id(access)]
            room = code.alloca(f"[{GATHERED} x {element}], align {LINE}")
            flag = text.let(f"and i1 {streams[id(access)]}, {large}")
            here = text.let(f"getelementptr {element}, ptr {room}, i64 {back}")
            phase.where[id(access)] = text.let(f"select i1 {flag}, ptr {here}, ptr {aim}")
            rooms.append((access, room, flag))
        turns(end)
        for access, room, flag in rooms:
            with text.when(flag):
                self.write_past(access, room, aims[id(access)], first)
        phase.where.update(aims)
        text.line(f"br label {head}")
        text.label(done)

    def write_past(self, access: Access, room: str, aim: str, first: str) -> None:
        """Stream a block to memory, to the elements from `first` on.

        room: the address of the block
        aim: the address of the result's line
        """
        text, lanes, size = self.code.text, self.code.lanes, access.dtype.itemsize
        element = memory_type(access.dtype)
        kind = vector_type(element, lanes)
        self.code.module.need("!0", lambda module: "!0 = !{i32 1}")
        to = text.let(f"getelementptr {element}, ptr {aim}, i64 {first}")
        for k in range(0, GATHERED, lanes):
            source = text.let(f"getelementptr {element}, ptr {room}, i64 {k}")
            value = text.let(f"load {kind}, ptr {source}, align {lanes * size}")
            place = text.let(f"getelementptr {element}, ptr {to}, i64 {k}")
            text.line(f"store {kind} {value}, ptr {place}, align {lanes * size}, !nontemporal !0")

    def any_of(self, flags: list[str]) -> str:
        """An i1: whether any of the flags holds."""
        some, *more = flags
        for flag in more:
            some = self.code.text.let(f"or i1 {some}, {flag}")
        return some

    def leave(self) -> None:
        """Write the fence before the kernel returns, so that all threads see streamed results."""
        if not self.streamed or not self.code.target.triple.startswith("x86_64"):
            return
        with self.code.text.when(self.any_of(self.streamed)):
            self.code.text.line("call void @llvm.x86.sse.sfence()")


def heaviest(nest: Nest) -> int:
    """The number of the phase that computes most, if rows are lines; else 0."""
    if not nest.outer or len(nest.inner) > 1:
        return 0
    weights = [
        sum(1 if op.cheap or op.kind != MAP else 10 for op in nest.demanded(phase)[0])
        for phase in range(nest.phases)
    ]
    return weights.index(max(weights))


def first_reads(nest: Nest) -> dict[tuple[int, int], tuple[int, Access]]:
    """For each value, find the first operand that reads it along the vectors, as neighbours.

    Returns (result of an op, operand) -> (the phase that reads it, the access).
    """
    reads: dict[tuple[int, int], tuple[int, Access]] = {}
    seen: set[int] = set()
    for phase in range(nest.phases):
        for op in nest.demanded(phase)[0]:
            for k in range(len(op.reads)):
                access = nest.loads.get((op.out, k))
                if access is None or access.base in seen or access.shifts:
                    continue
                if access.strides[nest.inner[-1]] == ONE:
                    seen.add(access.base)
                    reads[op.out, k] = phase, access
    return reads
