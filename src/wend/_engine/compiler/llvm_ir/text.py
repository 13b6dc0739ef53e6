"""Containers of generated code: the lines of a function, and the functions of a module.

Names come from counters, so that a kernel always has the same text: the text is the key under which
machine code is kept. LLVM declares its own intrinsics; nothing else is declared here unless asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from wend._engine.compiler.llvm_ir.integers import Bool


class Text:
    """The lines of a function's body, and a source of unique names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def fresh(self, hint: str = "") -> str:
        """A new local name: %v7, or %hint7."""
        self._count += 1
        return f"%{hint or 'v'}{self._count}"

    def line(self, text: str) -> None:
        """Append an instruction that gives no value."""
        self.lines.append(f"  {text}")

    def let(self, instruction: str, hint: str = "") -> str:
        """Append an instruction. Returns the name of the result."""
        self._count += 1
        name = f"%{hint or 'v'}{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def label(self, name: str) -> None:
        """Begin a block; `name` comes from `fresh`, or is chosen by the caller (%entry)."""
        self.lines.append(f"{name.removeprefix('%')}:")

    @contextmanager
    def when(self, condition: str | Bool) -> Iterator[None]:
        """A block for code that runs only if the condition holds."""
        number = self.fresh()[1:]
        self.line(f"br i1 {condition}, label %then.{number}, label %next.{number}")
        self.label(f"then.{number}")
        yield
        self.line(f"br label %next.{number}")
        self.label(f"next.{number}")

    @contextmanager
    def counted(self, counter: str, first: str, last: str, step: str = "1") -> Iterator[str]:
        """A loop over first, first + step, ... < last, around code written inside the `with`.

        counter: the address of a variable for the loop
        Yields the value of the counter.
        """
        self.line(f"store i64 {first}, ptr {counter}")
        head, inside, done = (self.fresh(n) for n in ("head", "body", "done"))
        self.line(f"br label {head}")
        self.label(head)
        i = self.let(f"load i64, ptr {counter}")
        more = self.let(f"icmp slt i64 {i}, {last}")
        self.line(f"br i1 {more}, label {inside}, label {done}")
        self.label(inside)
        yield i
        following = self.let(f"add i64 {i}, {step}")
        self.line(f"store i64 {following}, ptr {counter}")
        self.line(f"br label {head}")
        self.label(done)

    def render(self) -> str:
        """The lines as text."""
        return "\n".join(self.lines)


class Module:
    """Functions, globals and declarations, each once, in the order of need."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}

    def add(self, name: str, text: str) -> None:
        """Append a definition under its name; the name must be new."""
        if name in self._parts:
            raise ValueError(f"{name} is there already")
        self._parts[name] = text

    def need(self, name: str, make: Callable[[Module], str]) -> str:
        """Return the name; make(this module) makes a missing definition."""
        if name not in self._parts:
            self._parts[name] = ""  # a definition that needs itself ends here
            self._parts[name] = make(self)
        return name

    def include(self, parts: Iterable[tuple[str, str]]) -> None:
        """Append definitions that are not there yet: (name, text)."""
        for name, text in parts:
            self._parts.setdefault(name, text)

    def parts(self) -> list[tuple[str, str]]:
        """All definitions: (name, text)."""
        return list(self._parts.items())

    def render(self) -> str:
        """The module in LLVM's textual language."""
        return "\n\n".join(self._parts.values()) + "\n"
