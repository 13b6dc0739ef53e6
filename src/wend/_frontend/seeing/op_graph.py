"""`OpGraph`: the ops of a step as an ordinary object, to iterate, search, edit and compare."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._types import PrimitiveBase
from wend._engine.core.provenance import shown_name
from wend._frontend.seeing.tables import text_table

__all__ = ["PARTS", "Call", "Edit", "OpGraph", "OpNode"]

#: The parts of a step, in order.
PHASES = ("forward", "backward", "update")


@dataclass
class OpNode:
    """An op of a step, or a tensor that comes from outside.

    id: place in the step, counted from 0          op: name of the op; "input" for a leaf
    inputs: ids of the operands, in order
    phase: "forward", "backward" or "update"
    module: dotted path of the module that was called, or ""     module_class: the class
    file, line, function: the user's line
    shape, dtype, nbytes: of the (first) result
    results: number of results
    name: the name of a parameter, buffer or argument, for leaves; of a merged value
    numbers: numbers that the op was called with, as text
    partner: the id of the forward op whose gradient a backward op computes
    kernel: number of the kernel that computes the op
    group: number of the group of like regions that ran together     members: how many these were
    branch: the answer under which a static graph computes the op, as text
    device: of the (first) result
    on_host: why the processor computed an op of an accelerator; "" if it did not
    flops: operations     ns: time in nanoseconds; None where not known
    values: a summary of the result's values, if kept
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
    members: int | None = None
    branch: str = ""
    device: str = "cpu"
    on_host: str = ""
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
        return f"{shown_name(self.file)}:{self.line} in {self.function}" if self.file else ""

    @property
    def source(self) -> str:
        """The text of the user's line, if the file can be read."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    @property
    def type_text(self) -> str:
        """Dtype and shape, as in "float32[2, 3]"."""
        return type_text(self.dtype, self.shape)

    @property
    def where(self) -> str:
        """The device, as in "xpu:0"; "host for xpu:0" where the processor computed the op."""
        return f"host for {self.device}" if self.on_host else self.device

    @property
    def placed_text(self) -> str:
        """Dtype and shape, and the place unless that is the CPU."""
        return self.type_text if self.where == "cpu" else f"{self.type_text} {self.where}"


def dtype_name(dtype: object) -> str:
    """The name of a dtype, as nodes have the name."""
    return str(dtype).split(".")[-1]


def type_text(dtype: str, shape: Iterable[int]) -> str:
    """A dtype and a shape as a text."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


@dataclass
class Call:
    """The call of an op, to be made again.

    operands: (id of the node, number of the result) of each operand
    """

    prim: PrimitiveBase
    args: list[Any]
    mode: Any
    operands: list[tuple[int, int]]


#: Functions of graphs that need more than the graph, by name, entered by other modules.
PARTS: dict[str, Callable[..., Any]] = {}

#: Lines of a table that `str` shows; `table(None)` shows all.
SHOWN = 60


@dataclass
class OpGraph:
    """The graph of a step, of a tensor's history, or of a module's forward pass.

    title: the subject, in a few words
    nodes: in the order of recording; ids are places in this list
    modules: dotted path -> name of the class, of each module that was called
    outputs: ids of the results that the step was made for
    places: number of the result per output, where nodes have several

    Iterate over the nodes, index by id, `find` nodes, `save` a page, `run` the graph, or edit it
    (`replace`, `probe`, `drop`) and run that.
    """

    title: str
    nodes: list[OpNode] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    outputs: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict, repr=False)
    leaves: dict[int, Any] = field(default_factory=dict, repr=False)
    edits: dict[int, Edit] = field(default_factory=dict, repr=False)
    #: Runs the static graph of a function explored, with the edits.
    runner: Callable[[OpGraph, dict[str | int, Any]], list[Any]] | None = field(
        default=None, repr=False
    )

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[OpNode]:
        return iter(self.nodes)

    def __getitem__(self, index: int) -> OpNode:
        return self.nodes[index]

    # -- looking ------------------------------------------------------------------------------

    def find(
        self,
        op: str | None = None,
        *,
        module: str | None = None,
        phase: str | None = None,
        line: int | None = None,
        name: str | None = None,
        where: Callable[[OpNode], Any] | None = None,
    ) -> list[OpNode]:
        """The nodes that fit all that is given.

        op, name: as in the node     module: a path; the parts of the module count as well
        line: number of the user's line     where: a function of a node

        Raises ArgumentError for a phase that there is not.
        """
        if phase is not None and phase not in PHASES:
            raise ArgumentError(f"find: expected phase to be in {PHASES}, got {phase!r}")
        return [
            node
            for node in self.nodes
            if (op is None or node.op == op)
            and (module is None or f"{node.module}.".startswith(f"{module}."))
            and (phase is None or node.phase == phase)
            and (line is None or node.line == line)
            and (name is None or node.name == name)
            and (where is None or where(node))
        ]

    def users(self, node: OpNode | int) -> list[OpNode]:
        """The nodes that read a node's results."""
        i = node if isinstance(node, int) else node.id
        return [user for user in self.nodes if i in user.inputs]

    def counts(self) -> dict[str, int]:
        """How often each op occurs, most frequent first."""
        return dict(Counter(node.op for node in self.nodes if not node.is_leaf).most_common())

    def part(self, nodes: Iterable[OpNode], title: str | None = None) -> OpGraph:
        """A graph of these nodes alone; operands from outside become leaves."""
        chosen = sorted({node.id for node in nodes})
        inside = set(chosen)
        outside = sorted({i for k in chosen for i in self.nodes[k].inputs} - inside)
        order = sorted([*chosen, *outside])
        names = {old: new for new, old in enumerate(order)}
        subgraph = OpGraph(title or f"part of {self.title}", modules=self.modules)
        for old in order:
            node = self.nodes[old]
            if old not in inside and not node.is_leaf:
                node = replace(node, op="input", inputs=(), name=node.name or f"%{old}")
            partner = None if node.partner is None else names.get(node.partner)
            inputs = tuple(names[i] for i in node.inputs)
            subgraph.nodes.append(replace(node, id=names[old], inputs=inputs, partner=partner))
        subgraph.outputs = [names[i] for i in self.outputs if i in names]
        return subgraph

    # -- text and pictures --------------------------------------------------------------------

    def table(self, limit: int | None = SHOWN) -> str:
        """A line per op.  limit: number of lines, None for all; the middle is left out"""
        rows = [self._row(node) for node in self.nodes if not node.is_leaf]
        hidden = 0 if limit is None else max(0, len(rows) - limit)
        if hidden:
            first = (len(rows) - hidden) // 2
            rows[first : first + hidden] = [("", f"... {hidden} more", *[""] * 4)]
        rows.insert(0, ("id", "op", "result", "operands", "module", "line"))
        return "\n".join([self._head(), *text_table(rows)])

    def _head(self) -> str:
        ops = [node for node in self.nodes if not node.is_leaf]
        phases = Counter(node.phase for node in ops)
        parts = ", ".join(f"{phases[p]} {p}" for p in PHASES if phases[p])
        leaves = len(self.nodes) - len(ops)
        return f"{self.title}: {len(ops)} ops ({parts or 'none'}), {leaves} tensors from outside"

    def _row(self, node: OpNode) -> tuple[str, ...]:
        called = f"{node.op}({node.numbers})" if node.numbers else node.op
        if node.phase != "forward":
            called = f"{node.phase}: {called}"
        inputs = [self.nodes[i] for i in node.inputs]
        operands = " ".join((x.is_leaf and x.name) or f"%{x.id}" for x in inputs)
        name = Path(shown_name(node.file)).name
        place = f"{name}:{node.line} in {node.function}" if node.file else ""
        if node.branch:
            place = f"{place} {{{node.branch}}}".strip()
        return (f"%{node.id}", called, node.placed_text, operands, node.module, place)

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        text: str = PARTS[".svg"](self)
        return text

    def save(self, path: str | PathLike[str]) -> None:
        """Write a page (".html"), a picture (".svg"), Graphviz's text (".dot") or a table (".txt").

        The page needs no network, and no other file: it folds by module, searches and colours.

        Raises ArgumentError for another ending.
        """
        file = Path(path)
        writer = PARTS.get(file.suffix)
        if writer is None:
            known = ", ".join(name for name in PARTS if name.startswith("."))
            raise ArgumentError(f"save: expected a name that ends in {known}, got {file.name!r}")
        file.write_text(writer(self), encoding="utf-8")

    # -- running and editing --------------------------------------------------------------------

    def replace(self, node: OpNode | int, function: Callable[..., Any]) -> None:
        """Have `function(*operands)` in place of a forward op when the graph is run.

        The result must have the shape and dtype that the op's has.

        Raises ArgumentError for a node that is not a forward op with a single result.
        """
        self._edit("replace", node, function)

    def probe(self, node: OpNode | int, function: Callable[[Any], Any]) -> None:
        """Call `function(result)` whenever the node is run; what the call returns is dropped.

        Raises ArgumentError for a node that cannot be run.
        """
        self._edit("probe", node, function)

    def drop(self, node: OpNode | int, operand: int = 0) -> None:
        """Have an operand in place of an op's result, so that the op is left out.

        Raises ArgumentError for an operand that there is not, or of another shape or dtype.
        """
        target = self._runnable("drop", node)
        if not 0 <= operand < len(target.inputs):
            raise ArgumentError(
                f"drop: %{target.id} ({target.op}) has {len(target.inputs)} operands; there is no "
                f"operand {operand}"
            )
        kept = self.nodes[self.calls[target.id].operands[operand][0]]
        if (kept.shape, kept.dtype) != (target.shape, target.dtype) or target.results != 1:
            raise ArgumentError(
                f"drop: %{target.id} ({target.op}) gives {target.type_text}, its operand {operand} "
                f"is {kept.type_text}: nothing that reads the result could take it. Replace the "
                "op by a function instead"
            )
        self.edits[target.id] = Edit("drop", None, operand)

    def restore(self) -> None:
        """Take all edits back."""
        self.edits.clear()

    def _edit(self, kind: str, node: OpNode | int, function: Callable[..., Any]) -> None:
        target = self._runnable(kind, node, leaves=kind == "probe")
        if not callable(function):
            raise ArgumentTypeError(f"{kind}: expected a function, got {function!r}")
        if kind == "replace" and target.results != 1:
            raise ArgumentError(
                f"replace: %{target.id} ({target.op}) has {target.results} results; replace the "
                "ops that read these"
            )
        self.edits[target.id] = Edit(kind, function)

    def _runnable(self, what: str, node: OpNode | int, leaves: bool = False) -> OpNode:
        i = node if isinstance(node, int) else node.id
        if not 0 <= i < len(self.nodes):
            raise ArgumentError(f"{what}: the graph has no node %{i}: it has {len(self.nodes)}")
        target = self.nodes[i]
        if i not in self.calls and not (leaves and target.is_leaf):
            raise ArgumentError(
                f"{what}: %{i} ({target.op}, {target.phase}) cannot be run by itself: only ops of "
                "the forward pass can"
            )
        return target

    def run(self, values: dict[str | int, Any] | None = None) -> list[Any]:
        """Run the forward ops again, with the edits; return a tensor per entry of `outputs`.

        values: tensors in place of leaves, by name or by id, of the same shape and dtype

        The graph of a function explored runs for all sizes that its guards allow; tensors for all
        inputs must be given.

        Raises ArgumentError for a leaf that there is not, or another shape; GraphError where an
        edit does not fit: the node, and the line.
        """
        results: list[Any] = (self.runner or PARTS["run"])(self, values or {})
        return results


@dataclass
class Edit:
    """A change of a node: "replace", "probe" or "drop"."""

    kind: str
    function: Callable[..., Any] | None
    operand: int = 0
