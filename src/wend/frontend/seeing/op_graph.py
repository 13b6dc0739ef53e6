"""`OpGraph`: the ops of a step as an ordinary object, to iterate, search, edit and compare."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OpGraph", "OpNode"]

#: The parts of a step, in order.
PHASES = ("forward", "backward", "update")


@dataclass
class OpNode:
    """An op of a step, or a tensor that comes from outside.

    id: place in the step, counted from 0          op: name of the op; "input" for a leaf
    inputs: ids of the operands, in order
    phase: "forward", "backward" or "update"
    module: dotted path of the module that was called, or ""     module_class: its class
    file, line, function: the user's line
    shape, dtype, nbytes: of the result (the first one, if there are several)
    results: number of results
    name: the name of a parameter, buffer or argument, for leaves
    numbers: numbers that the op was called with, as text
    partner: the id of the forward op whose gradient a backward op computes
    kernel: number of the kernel that computes the op     group: number of its group of like regions
    flops: operations     ns: time in nanoseconds; None where not known
    values: a summary of the result's values, if it was kept
    """

    id: int
    op: str
    inputs: tuple[int, ...] = ()
    phase: str = "forward"
    module: str = ""
    module_class: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    nbytes: int = 0
    results: int = 1
    name: str = ""
    numbers: str = ""
    partner: int | None = None
    kernel: int | None = None
    group: int | None = None
    flops: int | None = None
    ns: int | None = None
    values: dict[str, Any] | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor comes from outside: a parameter, an input, a constant."""
        return self.op == "input"

    @property
    def place(self) -> str:
        """ "file:line in function", or "" where no line is known."""
        return f"{self.file}:{self.line} in {self.function}" if self.file else ""

    @property
    def source(self) -> str:
        """The text of the user's line, if the file can be read."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def type_text(self) -> str:
        """Dtype and shape, as in "float32[2, 3]"."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass
class OpGraph:
    """The graph of a step, of a tensor's history, or of a module's forward pass.

    title: the subject, in a few words
    nodes: in the order of recording; the id of a node is its place in this list
    modules: dotted path -> name of the class, of each module that was called
    outputs: ids of the results that the step was made for
    """

    title: str
    nodes: list[OpNode] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    outputs: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[OpNode]:
        return iter(self.nodes)

    def __getitem__(self, index: int) -> OpNode:
        return self.nodes[index]
