"""Memory beyond the caches: what a nest asks for ahead of time, and what it writes past them.

A processor fetches ahead by itself, but not from one page to the next, and not while a row is still
computed with. Nests that go over much memory ask for it `AHEAD` bytes early. A large result that
the plan does not read again is written without being read into the cache before, where its vectors
lie at whole registers. One long row of several operands is computed from its middle on as well as
from its beginning, because more pages are read at once then. All is decided by words of the
argument block, when the kernel runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wend.compiler.codegen.instructions import SsaValue, memory_type, vector_type
from wend.compiler.ir.loops import MAP
from wend.compiler.ir.symbolic_extents import ONE, ZERO, add, scale
from wend.compiler.schedule.loop_order import Access, Nest

if TYPE_CHECKING:
    from wend.compiler.codegen.inner_loop import PhaseCode
    from wend.compiler.codegen.nest import NestCode

__all__ = ["FAR_BYTES", "STREAM_BYTES", "Traffic"]

#: Bytes that a nest goes over, and bytes of a result, from which on they are not in a cache.
FAR_BYTES, STREAM_BYTES = 4 << 20, 4 << 20
#: How far ahead memory is asked for.
AHEAD = 2048
#: The levels of cache that it is asked into, in LLVM's words.
FIRST, SECOND = 3, 2
#: Shorter rows are asked for while the row before is computed with.
ROW = 64 << 10
#: The smallest vector that can be written past the caches.
LEAST = 16
#: Bytes of a cache line, and elements that are gathered where vectors are smaller than that.
LINE, GATHERED = 64, 128


class Halves(NamedTuple):
    """A loop over one half of the elements, or over all: names of i64.

    stop: where it ends     step: elements to the next turn     apart: from the first half of a
    turn's vectors to the second     rest: elements that are done behind where it ends
    """

    stop: str
    step: str
    apart: str
    rest: str


class Traffic:
    """The flags of one nest, and the code that asks for them."""

    def __init__(self, code: NestCode) -> None:
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
        """Whether a word is at least so much, as an i1 that is found when the kernel begins."""
        found = self.flags.get(slot)
        if found is None:
            word = self.code.word(slot)
            found = self.flags[slot] = self.code.entry.let(f"icmp uge i64 {word}, {least}", "flag")
        return found

    def is_far(self) -> str:
        """Whether the nest goes over more memory than caches hold, as an i1."""
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
        """An i1: whether to write a result so, whose line begins at element `begin` of `where`."""
        text, size = self.code.text, access.dtype.itemsize
        flag = self.flag(self.code.slots.streamed(access.base), STREAM_BYTES)
        if flag not in self.streamed:
            self.streamed.append(flag)
        place = text.let(f"getelementptr {memory_type(access.dtype)}, ptr {where}, i64 {begin}")
        bits = text.let(f"ptrtoint ptr {place} to i64")
        over = text.let(f"and i64 {bits}, {self.code.lanes * size - 1}")
        whole = text.let(f"icmp eq i64 {over}, 0")
        return text.let(f"and i1 {flag}, {whole}")

    def may_halve(self, phase: PhaseCode) -> bool:
        """Whether a phase goes over both halves of its elements at once, where these are far.

        Any order must do. With one operand there is nothing to gain.
        """
        nest = self.code.nest
        single = not nest.outer and len(nest.inner) == 1 and nest.phases == 1
        plain = all(op.kind == MAP for op in phase.ops) and not phase.again
        return single and plain and phase.copies % 2 == 0 and len(self.ahead) > 1

    def halves(self, begin: str, extent: str, wide: int) -> Halves:
        """How to: half of a turn's vectors are of each half, if the nest goes far."""
        text, far = self.code.text, self.is_far()
        count = text.let(f"sub i64 {extent}, {begin}")
        half = text.let(f"mul i64 {text.let(f'udiv i64 {count}, {wide}')}, {wide // 2}")
        middle = text.let(f"add i64 {begin}, {half}")
        return Halves(
            text.let(f"select i1 {far}, i64 {middle}, i64 {extent}"),
            text.let(f"select i1 {far}, i64 {wide // 2}, i64 {wide}"),
            text.let(f"select i1 {far}, i64 {half}, i64 {wide // 2}"),
            text.let(f"select i1 {far}, i64 {half}, i64 0"),
        )

    def pass_over(self, halves: Halves, counter: str) -> None:
        """Go on behind the second half."""
        text = self.code.text
        reached = text.let(f"load i64, ptr {counter}")
        text.line(f"store i64 {text.let(f'add i64 {reached}, {halves.rest}')}, ptr {counter}")

    def spread(self) -> dict[int, list[Access]]:
        """Per phase what it asks for of the next row: what light phases read first.

        They are over before memory answers. The heaviest asks for the last, the phase before it for
        the one before, and so on: asked for at once, memory would keep one phase waiting and be
        idle during the others.
        """
        nest = self.code.nest
        axis = nest.outer[-1:]
        moving = [
            a for a in self.early.values() if axis and a.row < 0 and a.strides[axis[0]] != ZERO
        ]
        found: dict[int, list[Access]] = {}
        for k, access in enumerate(reversed(moving)):
            found.setdefault((self.heavy - k) % nest.phases, []).append(access)
        return found

    def next_rows(self, phase: PhaseCode) -> list[tuple[Access, str]]:
        """What a phase asks for of the next row, and where that is."""
        code, text = self.code, self.code.text
        found = []
        for access in self.asking.get(phase.phase, ()):
            where = code.address(access, phase.around)
            step = code.poly(access.strides[code.nest.outer[-1]])
            where = text.let(f"getelementptr {memory_type(access.dtype)}, ptr {where}, i64 {step}")
            found.append((access, where))
        return found

    def fetch(self, phase: PhaseCode) -> None:
        """Ask for what the phase reads first, some turns ahead, if the nest goes far."""
        reads = [(op.out, k) for op in phase.ops for k in range(len(op.reads))]
        found = [self.ahead[key][1] for key in reads if key in self.ahead]
        here = [(access, phase.where[id(access)]) for access in found if id(access) in phase.where]
        self.ask(phase, [pair for pair in here if id(pair[0]) not in self.early], "", AHEAD)
        self.ask(phase, [pair for pair in here if id(pair[0]) in self.early], "long", AHEAD)
        self.ask(phase, phase.following, "short", 0)

    def ask(self, phase: PhaseCode, reads: list[tuple[Access, str]], rows: str, ahead: int) -> None:
        """Ask for memory, so many bytes beyond where a turn reads; `rows`: where long or short.

        What is read soon comes into the first-level cache. The next row waits in the second: its
        lines fall into the same places as those of this row, and would drive them out of the first.
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
        parts = 2 if phase.apart else 1
        with text.when(condition):
            for access, where in reads:
                size = access.dtype.itemsize
                for part in range(parts):
                    place = text.let(
                        f"getelementptr {memory_type(access.dtype)}, ptr {where}, "
                        f"i64 {phase.position(part * phase.copies // parts)}"
                    )
                    for byte in range(0, phase.copies // parts * self.code.lanes * size, LINE):
                        line = text.let(f"getelementptr i8, ptr {place}, i64 {ahead + byte}")
                        into = f"i32 0, i32 {FIRST if ahead else SECOND}, i32 1"
                        text.line(f"call void @llvm.prefetch.p0(ptr {line}, {into})")

    def store(self, phase: PhaseCode, access: Access, values: list[SsaValue], stream: str) -> None:
        """Vectors side by side to memory, past the caches if the i1 says so."""
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
        """Whether a line takes several stores: between them the processor must not wait.

        A part of a line that is written past the caches waits for the rest while other memory is
        read, and much is lost if that takes long. Results are gathered in the first-level cache.
        """
        return self.code.target.vector_bytes < LINE

    def gather(self, phase: PhaseCode, counter: str, extent: str, wide: int) -> None:
        """All whole turns; of results that are flagged, blocks are written past the caches at once.

        Where none is flagged, or less than a block is left, a block is all that is left.
        wide: elements of a turn
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
        phase.loop(counter, end, str(wide), phase.copies, masked=False)
        for access, room, flag in rooms:
            with text.when(flag):
                self.write_past(access, room, aims[id(access)], first)
        phase.where.update(aims)
        text.line(f"br label {head}")
        text.label(done)

    def write_past(self, access: Access, room: str, aim: str, first: str) -> None:
        """A block from the first-level cache to elements `first` ... of memory."""
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
        """Whether one of these holds, as an i1."""
        some, *more = flags
        for flag in more:
            some = self.code.text.let(f"or i1 {some}, {flag}")
        return some

    def leave(self) -> None:
        """Before the kernel returns: let other threads see what was written past the caches."""
        if not self.streamed or not self.code.target.triple.startswith("x86_64"):
            return
        with self.code.text.when(self.any_of(self.streamed)):
            self.code.text.line("call void @llvm.x86.sse.sfence()")


def heaviest(nest: Nest) -> int:
    """The phase that computes most, of a nest whose rows are lines; else the first."""
    if not nest.outer or len(nest.inner) > 1:
        return 0
    weights = [
        sum(1 if op.cheap or op.kind != MAP else 10 for op in nest.demanded(phase)[0])
        for phase in range(nest.phases)
    ]
    return weights.index(max(weights))


def first_reads(nest: Nest) -> dict[tuple[int, int], tuple[int, Access]]:
    """Per value the first operand that is read along the vectors, neighbour by neighbour.

    With the phase that reads it.
    """
    found: dict[tuple[int, int], tuple[int, Access]] = {}
    seen: set[int] = set()
    for phase in range(nest.phases):
        for op in nest.demanded(phase)[0]:
            for k in range(len(op.reads)):
                access = nest.loads.get((op.out, k))
                if access is None or access.base in seen or access.shifts:
                    continue
                if access.strides[nest.inner[-1]] == ONE:
                    seen.add(access.base)
                    found[op.out, k] = phase, access
    return found
