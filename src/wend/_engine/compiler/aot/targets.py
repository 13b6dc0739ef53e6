"""The processors that libraries are made for, by name."""

from __future__ import annotations

from typing import Final

from wend._engine.base.errors import ArgumentError, NotAvailable
from wend._engine.base.records import Record
from wend._engine.base.system import system
from wend._engine.compiler.llvm_ir import jit

_LINUX: Final = "x86_64-unknown-linux-gnu"
_V2: Final = "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3: Final = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4: Final = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"
#: By name: the processor in LLVM's words.
_TARGETS: Final = {
    "x86-64": jit.Target(_LINUX, "x86-64", "+sse2"),
    "x86-64-v2": jit.Target(_LINUX, "x86-64-v2", _V2),
    "x86-64-v3": jit.Target(_LINUX, "x86-64-v3", _V3),
    "x86-64-v4": jit.Target(_LINUX, "x86-64-v4", _V4),
    "aarch64": jit.Target("aarch64-unknown-linux-gnu", "generic", "+fp-armv8,+neon"),
    "wasm32": jit.Target(
        "wasm32-unknown-wasi", "generic", "+bulk-memory,+mutable-globals,+sign-ext,+simd128"
    ),
}


class Goal(Record):
    """A kind of processor that a library is made for.

    name: as the user gives it
    target: the processor in LLVM's words
    zig: the name of the system for the linker of the `ziglang` package
    here: whether the compiler of this system makes such libraries
    suffix: the ending of the library's file
    """

    name: str
    target: jit.Target
    zig: str
    here: bool
    suffix: str


def goal_of(name: str | None) -> Goal:
    """Return the processor of this name; None for the processor of this machine.

    Raises ArgumentError for an unknown name, NotAvailable for None on another system than Linux.
    """
    here = jit.host()
    if name is None and not system.links_libraries:
        raise NotAvailable(
            f"aot.compile: no libraries are made for {system.name} yet; name the processor of a "
            f"Linux machine: target='x86-64-v3', or 'wasm32'"
        )
    if name is None:
        target, name = here, here.triple.partition("-")[0]
    elif name in _TARGETS:
        target = _TARGETS[name]
    else:
        known = ", ".join(_TARGETS)
        raise ArgumentError(f"aot.compile: target {name!r} is none of {known}; None: this machine")
    if target.is_wasm:
        return Goal(name, target, "wasm32-wasi", False, ".wasm")
    kind = target.triple.partition("-")[0]
    same = kind == here.triple.partition("-")[0]
    return Goal(name, target, f"{kind}-linux-gnu.2.28", same, ".so")
