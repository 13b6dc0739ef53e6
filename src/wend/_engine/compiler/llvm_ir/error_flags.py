"""How a kernel reports failed requirements.

A rule that can fail (`require`) marks the lanes that failed.  `Faults` collects the failures over
all loops of a kernel, and the kernel leaves the failures in a word of its argument block: bit i is
set if `faults.messages[i]` is to be raised.  The caller of the kernel clears the word before and
reads the word after the kernel.
"""

from __future__ import annotations

from wend._engine.base.errors import CompileError
from wend._engine.compiler.llvm_ir.text import Text
from wend._engine.compiler.llvm_ir.values import vector_type


class Faults:
    """Which requirements of a kernel failed, in registers while its loops run.

    `entry` returns lines for the kernel's first block; `leave` goes before the kernel's return.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []
        self._slots: dict[tuple[str, int], str] = {}

    def slot(self, message: str, lanes: int) -> str:
        """Return the name of the slot that keeps the lanes that failed."""
        if message not in self.messages:
            if len(self.messages) == 64:
                raise CompileError("a kernel can fail in 64 ways at most")
            self.messages.append(message)
        return self._slots.setdefault((message, lanes), f"%fault{len(self._slots)}")

    def entry(self) -> str:
        """Return the lines that make the slots, complete once all loops are written."""
        lines = []
        for (_, lanes), name in self._slots.items():
            kind = vector_type("i1", lanes)
            zero = "false" if lanes == 1 else "zeroinitializer"
            lines += [f"  {name} = alloca {kind}", f"  store {kind} {zero}, ptr {name}"]
        return "\n".join(lines)

    def leave(self, text: Text, word: str, pointer: str = "ptr") -> None:
        """Add the failures to the 64-bit word at the address `word`; threads may share it.

        pointer: LLVM's type of the address
        """
        total = ""
        for (message, lanes), name in self._slots.items():
            failed = text.let(f"load {vector_type('i1', lanes)}, ptr {name}")
            if lanes > 1:
                kind = f"<{lanes} x i1>"
                failed = text.let(f"call i1 @llvm.vector.reduce.or.v{lanes}i1({kind} {failed})")
            bit = text.let(f"zext i1 {failed} to i64")
            bit = text.let(f"shl i64 {bit}, {self.messages.index(message)}")
            total = text.let(f"or i64 {total}, {bit}") if total else bit
        if total:
            text.let(f"atomicrmw or {pointer} {word}, i64 {total} monotonic")
