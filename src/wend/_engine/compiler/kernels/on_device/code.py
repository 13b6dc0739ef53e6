"""Base of the kernels of accelerators that are no loop nests: words, variables, loops, places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from wend._engine.base.dtypes import DType, int64
from wend._engine.compiler.codegen.device_nest import launch_line
from wend._engine.compiler.codegen.instructions import VectorBuilder
from wend._engine.compiler.llvm_ir.device_verbs import DeviceVerbs
from wend._engine.compiler.llvm_ir.error_flags import Faults
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.text import Module, Text
from wend._engine.compiler.llvm_ir.values import SsaValue, memory_type


class DeviceCode:
    """Writes the kernel of an accelerator: `text` behind `entry`, with all words loaded there.

    words: names of the words of the argument block
    w: what each word holds: an address, or an i64
    b: writes instructions on elements
    """

    def __init__(
        self, target: Target, name: str, words: Collection[str], pointers: Collection[str]
    ) -> None:
        self.target, self.name, self.words = target, name, list(words)
        self.text, self.entry, self.module = Text(), Text(), Module()
        self.entry._count = 1_000_000  # names of the entry block are apart from all other names
        self.verbs = DeviceVerbs(target, self.text, self.entry, self.module)
        self.faults = Faults()
        self.b = VectorBuilder(self.text, self.module, 1, target, self.faults)
        self.w: dict[str, str] = {}
        pointer = target.pointer
        for k, word in enumerate(self.words):
            place = self.entry.let(f"getelementptr i64, {pointer} %block, i64 {k}")
            kind = pointer if word in pointers else "i64"
            self.w[word] = self.entry.let(f"load {kind}, {pointer} {place}, align 8", "w")

    def module_text(
        self, per_group: bool, items: int, sizes: Iterable[tuple[str, int]], n_words: int = 0
    ) -> str:
        """Return the text of the module, once all else is written.

        per_group, items: see `Launch`     sizes: (word, unit) each, as there
        n_words: how many words the block has, if more than are named
        """
        if self.faults.messages:
            self.faults.leave(self.text, self.w["fault"], self.target.pointer)
        self.text.line("ret void")
        numbered = [(self.words.index(word), unit) for word, unit in sizes]
        about = launch_line(self.name, per_group, items, numbered, n_words or len(self.words))
        self.module.add(self.name, self.verbs.definition(self.name, self.faults.entry()))
        return f"{about}\n{self.module.render()}"

    # -- loops ----------------------------------------------------------------------------------

    def variable(self, kind: str) -> str:
        """The address of a variable of a work item."""
        return self.entry.let(f"alloca {kind}", "var")

    def held(self, variable: str, dtype: DType) -> SsaValue:
        """The value of a variable."""
        return SsaValue(self.text.let(f"load {self.b.type_of(dtype)}, ptr {variable}"), dtype)

    def hold(self, value: SsaValue, variable: str) -> None:
        """Set a variable."""
        self.text.line(f"store {self.b.type_of(value.dtype)} {value.name}, ptr {variable}")

    def product_of(self, numbers: Iterable[str]) -> str:
        """The product of integers, computed at entry."""
        total = ""
        for number in numbers:
            total = self.entry.let(f"mul i64 {total}, {number}") if total else number
        return total or "1"

    @contextmanager
    def loop(self, first: str, last: str, step: str = "1") -> Iterator[str]:
        """A loop over first, first + step, ... < last. Yields the counter."""
        with self.text.counted(self.variable("i64"), first, last, step) as counter:
            yield counter

    @contextmanager
    def turns(self, count: str) -> Iterator[str]:
        """A loop over the turns of a work item that is alone. Yields the number of a turn."""
        first, step = self.verbs.numbered()
        with self.loop(first, count, step) as turn:
            yield turn

    @contextmanager
    def shared_turns(self, count: str) -> Iterator[str]:
        """A loop over the turns of a group. Yields the number of a turn."""
        with self.loop(self.verbs.number("group"), count, self.verbs.number("groups")) as turn:
            yield turn

    @contextmanager
    def shares(self, first: str, last: str) -> Iterator[str]:
        """A loop over those of first, first + 1, ... < last that fall to a work item of a group."""
        item = self.verbs.number("item")
        begin = item if first == "0" else self.text.let(f"add i64 {first}, {item}")
        with self.loop(begin, last, self.verbs.number("items")) as place:
            yield place

    def bisected(self, first: str, end: str, is_passed: Callable[[str], str]) -> str:
        """The first of the places first, ... < end that is not passed; `end` if all are.

        is_passed: gives an i1 for a place: True up to some place, and False from there on
        """
        text = self.text
        extent = text.let(f"sub i64 {end}, {first}")
        zeros = text.let(f"call i64 @llvm.ctlz.i64(i64 {extent}, i1 false)")
        low, high = self.variable("i64"), self.variable("i64")
        self.hold(SsaValue(first, int64), low)
        self.hold(SsaValue(end, int64), high)
        with self.loop("0", text.let(f"sub i64 64, {zeros}")):
            a, z = self.held(low, int64).name, self.held(high, int64).name
            with text.when(text.let(f"icmp slt i64 {a}, {z}")):
                both = text.let(f"add i64 {a}, {z}")
                middle = text.let(f"lshr i64 {both}, 1")
                passed = is_passed(middle)
                after = text.let(f"add i64 {middle}, 1")
                for variable, new, old in ((low, after, a), (high, z, middle)):
                    value = text.let(f"select i1 {passed}, i64 {new}, i64 {old}")
                    self.hold(SsaValue(value, int64), variable)
        return self.held(low, int64).name

    # -- places ---------------------------------------------------------------------------------

    def divided(self, number: str, by: str) -> tuple[str, str]:
        """The rest and the quotient of a division."""
        rest = self.text.let(f"urem i64 {number}, {by}")
        return rest, self.text.let(f"udiv i64 {number}, {by}")

    def parted(self, number: str, extents: Sequence[str]) -> list[str]:
        """The places along dims of these extents that a number stands for, in order of memory."""
        places = []
        for extent in reversed(extents[1:]):
            place, number = self.divided(number, extent)
            places.append(place)
        return [number, *reversed(places)]

    def place(self, *pairs: tuple[str, str]) -> str:
        """The sum of places times distances."""
        text, total = self.text, ""
        for place, apart in pairs:
            part = place if apart == "1" else text.let(f"mul i64 {place}, {apart}")
            total = text.let(f"add i64 {total}, {part}") if total else part
        return total or "0"

    def moved(self, base: str, element: str, *pairs: tuple[str, str]) -> str:
        """The address of an element: the sum of places times distances behind another."""
        place = self.place(*pairs)
        return self.text.let(f"getelementptr {element}, {self.target.pointer} {base}, i64 {place}")

    def element(self, base: str, dtype: DType, *pairs: tuple[str, str]) -> SsaValue:
        """An element in memory."""
        return self.b.load(self.moved(base, memory_type(dtype), *pairs), dtype)

    def put(self, value: SsaValue, base: str, *pairs: tuple[str, str]) -> None:
        """Write an element to memory."""
        self.b.store(value, self.moved(base, memory_type(value.dtype), *pairs))
