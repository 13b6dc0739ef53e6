"""Makes a library of C text and objects, by the system's C compiler or that of `ziglang`."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wend._engine.base.errors import CompileError
from wend._engine.compiler.aot.targets import Goal

_FLAGS: Final = ("-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections")


def c_compiler(goal: Goal, command: str | None = None) -> list[str]:
    """Return the command of a C compiler that makes libraries for a processor.

    command: the command that the user asks for

    Raises CompileError if there is none.
    """
    if command is not None:
        return shlex.split(command)
    if goal.here and (path := shutil.which("cc")):
        return [path]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", goal.zig]
    need = "install a C compiler as cc, or" if goal.here else "run"
    raise CompileError(
        f"aot.compile: no C compiler for {goal.name} was found; {need} `pip install ziglang`, "
        "or name the command of one with compiler="
    )


def link(
    command: Sequence[str], goal: Goal, inputs: Sequence[Path], out: Path, exports: Sequence[str]
) -> None:
    """Write a shared library, or a module of WebAssembly.

    command: a C compiler
    inputs: C files and objects
    exports: the functions that callers see

    Raises CompileError with what the compiler says.
    """
    if goal.target.is_wasm:
        kind = ["-mexec-model=reactor", "-Wl,--strip-all"]
        kind += [f"-Wl,--export={name}" for name in exports]
    else:
        kind = ["-shared", f"-Wl,-soname,{out.name}", "-Wl,--gc-sections", "-s"]
    words = [*command, *_FLAGS, *kind, "-o", out, *inputs, "-lm"]
    process = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if process.returncode:
        raise CompileError(f"aot.compile: {command[0]} fails:\n{process.stderr[-2000:]}")
