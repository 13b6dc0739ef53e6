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
    "item": "_Z12get_local_idj", "group": "_Z12get_group_idj", "items": "_Z14get_local_sizej",
}  # fmt: skip
_NVIDIA = {"item": "tid", "group": "ctaid", "items": "ntid"}
_KERNEL = """define {convention} void @{name}({pointer} %words, i64 %at) {{
begins:
  {group}
  %calls = getelementptr i8, {pointer} %words, i64 %at
  %guard = load {pointer}, {pointer} %calls, align 8
  %stop = load i64, {pointer} %guard, align 8
  %counts = getelementptr i64, {pointer} %calls, i64 1
  %count = load i64, {pointer} %counts, align 8
  %rows = getelementptr i64, {pointer} %calls, i64 2
  br label %look
look:
  %low = phi i64 [ 0, %begins ], [ %lower, %halve ]
  %high = phi i64 [ %count, %begins ], [ %higher, %halve ]
  %next = add i64 %low, 1
  %last = icmp sge i64 %next, %high
  br i1 %last, label %here, label %halve
halve:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %place = getelementptr [2 x i64], {pointer} %rows, i64 %middle
  %begin = load i64, {pointer} %place, align 8
  %later = icmp uge i64 %group, %begin
  %lower = select i1 %later, i64 %middle, i64 %low
  %higher = select i1 %later, i64 %high, i64 %middle
  br label %look
here:
  %row = getelementptr [2 x i64], {pointer} %rows, i64 %low
  %first = load i64, {pointer} %row, align 8
  %where = getelementptr i64, {pointer} %row, i64 1
  %offset = load i64, {pointer} %where, align 8
  %block = getelementptr i8, {pointer} %words, i64 %offset
  %after = getelementptr i64, {pointer} %row, i64 2
  %end = load i64, {pointer} %after, align 8
  %mine = sub i64 %group, %first
  %groups = sub i64 %end, %first
  %runs = icmp eq i64 %stop, 0
  br i1 %runs, label %run, label %done
run:
  call void @{name}.call({pointer} %block, i64 %mine, i64 %groups)
  br label %done
done:
  ret void
}}"""


def head(target: Target, name: str) -> str:
    """The head of the function that a kernel calls with an argument block of a call.

    group: the number of the group in its call     groups: the number of all groups of the call
    """
    parameters = f"{target.pointer} %block, i64 %group, i64 %groups"
    return f"define internal void @{name}.call({parameters}) alwaysinline {{"


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

    def definition(self, name: str, *more: str) -> str:
        """The whole kernel: the entry with `more` lines, then the text, which begins at %start."""
        lines = [head(self.target, name), self.entry.render(), *more]
        lines += ["  br label %start", "start:", self.text.render(), "}", self.kernel(name)]
        return "\n".join(lines)

    def kernel(self, name: str) -> str:
        """The kernel around a function of `head`: it finds the block of the group, by halving.

        A launch makes several calls of the function. `at` bytes behind the address `words` lies the
        address of a word, which is 0 if the calls are to be made. The number of calls follows. Then
        there are two words of each: the number of the first group, and where the block lies behind
        `words`. A last first group ends the row.
        """
        return _KERNEL.format(
            name=name,
            convention="ptx_kernel" if self.target.is_nvidia else "spir_kernel",
            pointer=self.target.pointer,
            group=self._call("group", "%group"),
        )

    def number(self, kind: str) -> str:
        """An i64, computed once.

        kind: "item", the number of the work item in the group; "group", the number of the group
            in its call; "items" of a group; or "groups" of the call
        """
        if kind in ("group", "groups"):
            return f"%{kind}"
        name = self._numbers.get(kind)
        if name is None:
            name = self._numbers[kind] = self.entry.fresh()
            self.entry.line(self._call(kind, name))
        return name

    def _call(self, kind: str, name: str) -> str:
        """The instructions that give a name to a number of the device."""
        if self.target.is_nvidia:
            word = f"llvm.nvvm.read.ptx.sreg.{_NVIDIA[kind]}.x"
            self.module.need(word, lambda module: f"declare i32 @{word}()")
            return f"{name}.short = call i32 @{word}()\n  {name} = zext i32 {name}.short to i64"
        word = _OPENCL[kind]
        self.module.need(word, lambda module: f"declare spir_func i64 @{word}(i32)")
        return f"{name} = call spir_func i64 @{word}(i32 0)"

    def numbered(self) -> tuple[str, str]:
        """The number of the work item among those of the call, and the number of all: i64s."""
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
        self.lines[0] = head(target, name)
        self._kernel = self.verbs.kernel(name)

    def text(self) -> str:
        """Return the function and its kernel."""
        return f"{super().text()}\n{self._kernel}"
