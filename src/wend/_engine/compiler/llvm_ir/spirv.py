"""Asks for SPIR-V: see `spirv_server`, which says why another process makes it."""

from __future__ import annotations

import atexit
import importlib.util
import re
import struct
import subprocess
import sys
from pathlib import Path

from wend._engine.base.errors import CompileError
from wend._engine.base.forking import at_fork
from wend._engine.compiler.llvm_ir.spirv_server import NUMBER

_LOW = (1 << 64) - 1
_server: subprocess.Popen[bytes] | None = None


def _begin() -> subprocess.Popen[bytes]:
    """Begin the process."""
    llvmlite = importlib.util.find_spec("llvmlite")
    assert llvmlite is not None and llvmlite.origin is not None
    script = Path(__file__).with_name("spirv_server.py")
    return subprocess.Popen(
        [sys.executable, "-I", str(script), str(Path(llvmlite.origin).parents[1])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def end() -> None:
    """End the process; another question begins a new process."""
    global _server
    if _server is not None:
        _server.communicate()
        _server = None


def _forget() -> None:
    global _server
    _server = None  # the parent's


atexit.register(end)
at_fork(lambda: None, lambda: None, _forget)


def in_pairs(text: str) -> str:
    """Return a module with pairs of 64 bits in place of 128, which SPIR-V lacks: complex128."""

    def constant(bits: int) -> str:
        low, high = bits & _LOW, bits >> 64 & _LOW
        return f"<i64 {low}, i64 {high}>"

    def typed(match: re.Match[str]) -> str:
        return f"i128 {constant(int(match[1]))}"

    def carried(line: re.Match[str]) -> str:
        return re.sub(r"\[ (-?\d+),", lambda m: f"[ {constant(int(m[1]))},", line[0])

    text = re.sub(r"(?<![\w.])i128 (-?\d+)\b", typed, text)
    text = re.sub(r"^.*= phi i128 .*$", carried, text, flags=re.MULTILINE)
    return re.sub(r"(?<![\w.])i128\b", "<2 x i64>", text)


def spirv_of(text: str) -> bytes:
    """Return a module of LLVM as SPIR-V; calls come one after the other. Raises CompileError."""
    global _server
    try:
        if _server is None or _server.poll() is not None:
            _server = _begin()
        assert _server.stdin is not None and _server.stdout is not None
        request = text.encode()
        _server.stdin.write(NUMBER.pack(len(request)) + request)
        _server.stdin.flush()
        answer = _server.stdout.read(*NUMBER.unpack(_server.stdout.read(NUMBER.size)))
    except (OSError, struct.error) as fault:
        if _server is not None:
            _server.kill()
            end()
        raise CompileError(f"spirv_of: no process translates to SPIR-V: {fault}") from fault
    if answer[:1] != b"\1":
        raise CompileError(f"spirv_of: LLVM makes no SPIR-V of a module: {answer[1:].decode()}")
    return answer[1:]
