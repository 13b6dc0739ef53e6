"""The entry point of ahead-of-time compilation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.base.records import Record
from wend._engine.compiler.aot import library_text
from wend._engine.compiler.aot.graph_code import GraphCode
from wend._engine.compiler.aot.linking import c_compiler, link
from wend._engine.compiler.aot.pattern_code import KernelSymbols, type_code
from wend._engine.compiler.aot.recorded_path import RecordedGraph
from wend._engine.compiler.aot.targets import goal_of
from wend._engine.compiler.llvm_ir import jit
from wend._engine.core._hot import Tensor
from wend._engine.core.provenance import Site
from wend._engine.transforms.exploring.program import Give, StaticGraph
from wend._engine.transforms.exploring.recording import ExploreError
from wend._engine.transforms.exploring.running import holds
from wend._frontend.autograd.grad_modes import no_grad
from wend._frontend.progress import ProgressLine
from wend._frontend.static.explored import explored
from wend.aot._pieces import record_graph
from wend.aot._refusals import refuse
from wend.aot._weights import LibraryWeights
from wend.serialization.safetensors import save_file

__all__ = ["Compiled", "compile"]

#: Numbers of elements that each dim is tried with, besides those of the examples.
FEW = (1, 2, 3)
#: By guards and fixed extents: (graph, the shapes of inputs of each example).
_Graphs = dict[Any, tuple[StaticGraph, list[list[tuple[int, ...]]]]]
#: The functions of a library, behind its name.
_EXPORTS = "new new_from_memory run error release free allocate deallocate".split()


class Compiled(Record):
    """The files of a library.

    library: the shared library (`lib*.so`), or the module of WebAssembly (`.wasm`)
    header: the C header
    weights: the safetensors file of parameters, buffers and captured tensors
    source, kernels: the C file and the object of kernels, of which the library was made; a program
        may be linked with these instead
    package: the file by which pkg-config, CMake and Meson find library and header
    """

    library: Path
    header: Path
    weights: Path
    source: Path
    kernels: Path
    package: Path


def compile(
    function: Callable[..., Any],
    example_inputs: Any,
    target: str | None = None,
    *,
    directory: str | os.PathLike[str] = ".",
    name: str = "model",
    compiler: str | None = None,
) -> Compiled:
    """Make a library that computes the results of `function`, for inputs of all sizes.

    function: a module or function of tensors that returns tensors or numbers
    example_inputs: a tensor, or a tuple of tensors; or a list of such tuples, of sizes for which
        the function does not do the same ops
    target: "x86-64", "x86-64-v2" to "x86-64-v4", "aarch64" or "wasm32"; None: this processor
    directory: where the files go
    name: begins the files' and functions' names
    compiler: the command of the C compiler; None: cc, or that of the `ziglang` package

    The function is explored: branches and loops on values stay branches and loops. Comparisons of
    sizes hold for the library: it refuses inputs with different outcomes. The first dims of all
    examples are tried as 1 too, as a batch of 1 is often another pattern.

    Raises CompileError for functions without a static graph, for ops without kernels, and where no
    C compiler is found.
    """
    if not name.isidentifier() or not name.isascii():
        raise ArgumentError(f"aot.compile: name {name!r} cannot begin names in C")
    goal = goal_of(target)
    command = c_compiler(goal, compiler)
    weights = LibraryWeights()
    graphs = _record_all(function, _examples(example_inputs), weights)
    gives = _gives(graphs[0].program)
    symbols = KernelSymbols()
    with jit.writing_for(goal.target):
        codes = [GraphCode(k, graph, weights.rows, symbols) for k, graph in enumerate(graphs)]
        text = library_text.source(name, codes, weights.rows, symbols, len(gives))
    with ProgressLine("aot.compile", "kernels", len(symbols.modules)) as line:
        code = jit.linkable_code(symbols.modules, goal.target, line.tell)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    library = f"{name}.wasm" if goal.target.is_wasm else f"lib{name}{goal.suffix}"
    endings = (".h", ".safetensors", ".c", ".o", ".pc")
    compiled = Compiled(folder / library, *[folder / f"{name}{ending}" for ending in endings])
    purpose = _purpose(graphs[0].program, gives)
    compiled.header.write_text(library_text.header(name, purpose), encoding="utf-8")
    compiled.source.write_text(text, encoding="utf-8")
    compiled.kernels.write_bytes(code)
    exports = [f"{name}_{part}" for part in _EXPORTS]
    link(command, goal, [compiled.source, compiled.kernels], compiled.library, exports)
    compiled.package.write_text(library_text.package(name), encoding="utf-8")
    save_file(weights.tensors, compiled.weights)
    return compiled


def _examples(examples: Any) -> list[tuple[Tensor, ...]]:
    """Return the examples as tuples. Raises ArgumentTypeError for anything but tensors."""
    rows = examples if isinstance(examples, list) else [examples]
    tuples = [row if isinstance(row, tuple) else (row,) for row in rows]
    if not tuples or not all(isinstance(x, Tensor) for row in tuples for x in row):
        raise ArgumentTypeError(
            "aot.compile: example_inputs is to be a tensor, a tuple of tensors, or a list of tuples"
        )
    kinds = [[(x.dtype, x.dim()) for x in row] for row in tuples]
    if any(kind != kinds[0] for kind in kinds):
        raise ArgumentError("aot.compile: all examples need the same dtypes and numbers of dims")
    return tuples


def _record_all(
    function: Any, examples: Sequence[tuple[Tensor, ...]], weights: LibraryWeights
) -> list[RecordedGraph]:
    """Return a recorded graph for each way that the sizes of the examples take."""
    graphs: _Graphs = {}
    for row in examples:
        _note(graphs, _explored(function, row), [tuple(x.shape) for x in row])
    for row in examples:
        if row and all(x.dim() and x.shape[0] > 1 for x in row):
            _note_single(graphs, function, row)
    return [
        record_graph(program, weights, [*sizes, *[s for s in more if s not in sizes]])
        for program, sizes in graphs.values()
        for more in [[*program.tried, *_few(program, sizes[0])]]
    ]


def _few(program: StaticGraph, shapes: list[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Return shapes in which a dim has few elements: a short list may go a way of its own."""
    extents = [program.info[i].extents or () for i in program.inputs]
    dims = dict.fromkeys(e for row in extents for e in row if type(e) is not int)
    candidates = [
        [
            tuple([n if e == dim else m for e, m in zip(row, shape, strict=False)])
            for row, shape in zip(extents, shapes, strict=True)
        ]
        for dim in dims
        for n in FEW
    ]
    return [few for few in candidates if holds(program, few)]


def _note(graphs: _Graphs, program: StaticGraph, sizes: list[tuple[int, ...]]) -> None:
    """Add a graph, or, where there is such a graph, the sizes of an example."""
    guards = tuple([(*key, outcome) for key, (outcome, _) in program.guards.items()])
    fixed = tuple(
        [
            tuple([e if type(e) is int else None for e in program.info[i].extents or ()])
            for i in program.inputs
        ]
    )
    graphs.setdefault((guards, fixed), (program, []))[1].append(sizes)


def _note_single(graphs: _Graphs, function: Any, row: tuple[Tensor, ...]) -> None:
    """Add the sizes of a batch of one: these often mean another way, or another pattern."""
    sizes = [(1, *x.shape[1:]) for x in row]
    for program, rows in graphs.values():
        if holds(program, sizes):
            rows.append(sizes)
            return
    free: list[tuple[int | None, ...]] = [
        (None, *[n if n > 1 else None for n in x.shape[1:]]) for x in row
    ]
    try:
        program = _explored(function, tuple([x[:1] for x in row]), free)
    except Exception:  # the function is not for a batch of 1
        return
    _note(graphs, program, sizes)


def _explored(
    function: Any,
    row: tuple[Tensor, ...],
    free: list[tuple[int | None, ...]] | None = None,
) -> StaticGraph:
    """Return the explored graph. Raises CompileError where there is none."""
    with no_grad():
        try:
            return explored(function, row, free=free)
        except ExploreError as fault:
            site = fault.site if isinstance(fault.site, Site) else None
            raise refuse(str(fault.args[0]).removeprefix("explore: "), site) from fault


def _gives(program: StaticGraph) -> tuple[tuple[str, Any], ...]:
    """Return the results. Raises ArgumentTypeError for anything but tensors and numbers."""
    endings = [s.end.leaves for _, _, s in program.stretches() if isinstance(s.end, Give)]
    for leaves in endings:
        for kind, x in leaves:
            if kind == "constant" and type(x) not in (bool, int, float):
                raise ArgumentTypeError(
                    f"aot.compile: the function returns a {type(x).__name__}; return tensors or "
                    "numbers, or tuples, lists and dicts of these"
                )
    if not endings:
        raise refuse("the function returns nothing for these inputs, and only raises")
    return endings[0]


def _purpose(program: StaticGraph, gives: Sequence[tuple[str, Any]]) -> str:
    """Return lines about inputs and outputs, for the header."""
    lines = [_described(program, f"input {k}", i) for k, i in enumerate(program.inputs)]
    for k, (kind, x) in enumerate(gives):
        if kind == "value":
            lines.append(_described(program, f"output {k}", x))
        else:
            lines.append(f"   output {k}: a number")
    return "\n".join(lines)


def _described(program: StaticGraph, name: str, i: int) -> str:
    info = program.info[i]
    type_code(info.dtype)  # inputs and outputs have types that headers have
    shape = ", ".join(map(str, info.hint))
    return f"   {name}: {info.dtype.name}, {len(info.hint)} dims, as ({shape})"
