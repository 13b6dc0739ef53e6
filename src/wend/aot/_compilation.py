"""The entry point of ahead-of-time compilation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wend.aot._recording import LibraryWeights, record
from wend.base.errors import ArgumentError, ArgumentTypeError
from wend.base.records import Record
from wend.compiler.aot import library_text
from wend.compiler.aot.linking import c_compiler, link
from wend.compiler.aot.pattern_code import DTYPES, KernelSymbols, PatternCode
from wend.compiler.aot.recorded_path import RecordedPath
from wend.compiler.aot.targets import goal_of
from wend.compiler.llvm_ir import jit
from wend.core._hot import Tensor
from wend.nn.modules.module import Module
from wend.serialization.safetensors import save_file

__all__ = ["Compiled", "compile"]

#: The functions of a library, behind its name.
_EXPORTS = "new new_from_memory run error release free allocate deallocate".split()


class Compiled(Record):
    """The files of a library.

    library: the shared library (`.so`), or the module of WebAssembly (`.wasm`)
    header: the C header
    weights: the safetensors file of parameters, buffers and captured tensors
    source, kernels: the C file and the object of kernels, of which the library was made; a program
        may be linked with these instead
    """

    library: Path
    header: Path
    weights: Path
    source: Path
    kernels: Path


def compile(
    function: Callable[..., Any],
    example_inputs: Any,
    target: str | None = None,
    *,
    directory: str | os.PathLike[str] = ".",
    name: str = "model",
    compiler: str | None = None,
) -> Compiled:
    """Make a library that computes what `function` does, for inputs of all sizes.

    function: a module or function of tensors that returns tensors
    example_inputs: a tensor, or a tuple of tensors; or a list of such tuples, of sizes for which
        the function does not do the same ops
    target: "x86-64", "x86-64-v2" to "x86-64-v4", "aarch64" or "wasm32"; None: this processor
    directory: where the files go
    name: begins the files' and functions' names
    compiler: the command of the C compiler; None: cc, or that of the `ziglang` package

    The function runs with symbolic sizes, and nothing is computed. Comparisons of sizes hold for
    the library: it refuses inputs with different outcomes. The first dims of all examples
    are tried as 1 too, as a batch of 1 is often another pattern.

    Raises CompileError for functions that need values while they run, for ops without kernels, and
    where no C compiler is found.
    """
    if not name.isidentifier() or not name.isascii():
        raise ArgumentError(f"aot.compile: name {name!r} cannot begin names in C")
    goal = goal_of(target)
    command = c_compiler(goal, compiler)
    weights = LibraryWeights(_named(function))
    paths = _record_all(function, _examples(example_inputs), weights)
    symbols = KernelSymbols()
    with jit.writing_for(goal.target):
        patterns = [PatternCode(k, path, weights.rows, symbols) for k, path in enumerate(paths)]
        text = library_text.source(name, patterns, weights.rows, symbols)
    code = jit.linkable_code(symbols.modules, goal.target)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    endings = (goal.suffix, ".h", ".safetensors", ".c", ".o")
    made = Compiled(*[folder / f"{name}{ending}" for ending in endings])
    made.header.write_text(library_text.header(name, _purpose(paths[0])), encoding="utf-8")
    made.source.write_text(text, encoding="utf-8")
    made.kernels.write_bytes(code)
    exports = [f"{name}_{part}" for part in _EXPORTS]
    link(command, goal, [made.source, made.kernels], made.library, exports)
    save_file(weights.tensors, made.weights)
    return made


def _named(function: Any) -> dict[str, Tensor]:
    """Return parameters and buffers by name."""
    if not isinstance(function, Module):
        return {}
    return {**dict(function.named_parameters()), **dict(function.named_buffers())}


def _examples(given: Any) -> list[tuple[Tensor, ...]]:
    """Return the examples as tuples. Raises ArgumentTypeError for anything but tensors."""
    rows = given if isinstance(given, list) else [given]
    found = [row if isinstance(row, tuple) else (row,) for row in rows]
    if not found or not all(isinstance(x, Tensor) for row in found for x in row):
        raise ArgumentTypeError(
            "aot.compile: example_inputs is to be a tensor, a tuple of tensors, or a list of tuples"
        )
    kinds = [[(x.dtype, x.dim()) for x in row] for row in found]
    if any(kind != kinds[0] for kind in kinds):
        raise ArgumentError("aot.compile: all examples need the same dtypes and numbers of dims")
    return found


def _record_all(
    function: Any, examples: Sequence[tuple[Tensor, ...]], weights: LibraryWeights
) -> list[RecordedPath]:
    """Return a path for each pattern of sizes among the examples."""
    paths = [record(function, row, weights) for row in examples]
    for row in examples:
        if row and all(x.dim() and x.shape[0] > 1 for x in row):
            try:
                paths.append(record(function, [x[:1] for x in row], weights))
            except Exception:  # the function is not for a batch of 1
                continue
    return list({path.guards: path for path in reversed(paths)}.values())[::-1]


def _purpose(path: RecordedPath) -> str:
    """Return lines about inputs and outputs, for the header."""
    lines = []
    for kind, ids in (("input", path.inputs), ("output", path.outputs)):
        for k, i in enumerate(ids):
            type_ = path.types[i]
            assert type_.dtype.name in DTYPES
            shape = ", ".join(map(str, type_.shape))
            lines.append(
                f"   {kind} {k}: {type_.dtype.name}, {len(type_.shape)} dims, as ({shape})"
            )
    return "\n".join(lines)
