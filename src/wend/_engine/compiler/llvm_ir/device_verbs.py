"""The instructions that differ between accelerators: numbers of work items, barriers, memory.

A kernel runs as many *work items*, in *groups* that share memory and can wait for each other. By
OpenCL's names; NVIDIA's are threads and blocks. All accelerators have the same address spaces: 1
for operands and results, 3 for the memory of a group, and 0 for variables of a work item.
"""

from __future__ import annotations

from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.llvm_ir.text import Module, Text

#: Names of OpenCL's functions in SPIR-V, and of NVIDIA's special registers.
_OPENCL = {
    "item": "_Z12get_local_idj", "group": "_Z12get_group_idj",
    "items": "_Z14get_local_sizej", "groups": "_Z14get_num_groupsj",
}  # fmt: skip
_NVIDIA = {"item": "tid", "group": "ctaid", "items": "ntid", "groups": "nctaid"}


class DeviceVerbs:
    """Writes the instructions that differ between accelerators.

    text: where instructions go     entry: where those of the beginning go
    module: where declarations go
    """

    def __init__(self, target: Target, text: Text, entry: Text, module: Module) -> None:
        self.target = target
        self.text = text
        self.entry = entry
        self.module = module
        self._numbers: dict[str, str] = {}

    def kernel(self, name: str) -> str:
        """The head of a kernel's definition: the block is `at` bytes behind the address `words`."""
        convention = "ptx_kernel" if self.target.is_nvidia else "spir_kernel"
        return f"define {convention} void @{name}(ptr addrspace(1) %words, i64 %at)"

    def block(self) -> str:
        """The instruction that finds the argument block, as %block."""
        return "  %block = getelementptr i8, ptr addrspace(1) %words, i64 %at"

    def definition(self, name: str, *more: str) -> str:
        """The whole kernel: the entry with `more` lines, then the text, which begins at %start."""
        lines = [f"{self.kernel(name)} {{", self.block(), self.entry.render(), *more]
        return "\n".join([*lines, "  br label %start", "start:", self.text.render(), "}"])

    def number(self, kind: str) -> str:
        """An i64, computed once.

        kind: "item", the number of the work item in the group; "group", the number of the group;
            "items" of a group; or "groups"
        """
        name = self._numbers.get(kind)
        if name is None:
            name = self._numbers[kind] = self._number(kind)
        return name

    def _number(self, kind: str) -> str:
        if self.target.is_nvidia:
            word = f"llvm.nvvm.read.ptx.sreg.{_NVIDIA[kind]}.x"
            self.module.need(word, lambda module: f"declare i32 @{word}()")
            short = self.entry.let(f"call i32 @{word}()")
            return self.entry.let(f"zext i32 {short} to i64")
        word = _OPENCL[kind]
        self.module.need(word, lambda module: f"declare spir_func i64 @{word}(i32)")
        return self.entry.let(f"call spir_func i64 @{word}(i32 0)")

    def numbered(self) -> tuple[str, str]:
        """The number of the work item among those of all groups, and the number of all: i64s."""
        total = self.entry.let(f"mul i64 {self.number('groups')}, {self.number('items')}")
        first = self.entry.let(f"mul i64 {self.number('group')}, {self.number('items')}")
        return self.entry.let(f"add i64 {first}, {self.number('item')}"), total

    def barrier(self, everywhere: bool = False) -> None:
        """Wait for all work items of the group, and for their writes to the memory of the group.

        everywhere: also for their writes to operands and results
        """
        if self.target.is_nvidia:
            word = "llvm.nvvm.barrier0"
            self.module.need(word, lambda module: f"declare void @{word}() convergent")
            self.text.line(f"call void @{word}()")
            return
        word = "_Z7barrierj"
        self.module.need(word, lambda module: f"declare spir_func void @{word}(i32) convergent")
        self.text.line(f"call spir_func void @{word}(i32 {3 if everywhere else 1})")

    def shared(self, name: str, kind: str, count: int) -> str:
        """The name of an array in the memory of the group."""
        definition = f"@{name} = internal addrspace(3) global [{count} x {kind}] poison"
        self.module.need(name, lambda module: definition)
        return f"@{name}"


class DeviceRoutine(Routine):
    """A kernel in the making, as a function of the processor is: the argument block is %block.

    verbs: for what accelerators call by different names
    """

    def __init__(self, name: str, target: Target, module: Module) -> None:
        super().__init__(name, [])
        self.pointer = target.pointer
        self.verbs = DeviceVerbs(target, self, self, module)
        self.lines[0] = f"{self.verbs.kernel(name)} {{"
        self.lines.append(self.verbs.block())
