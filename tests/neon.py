"""A pytest plugin: generate code as for a 64-bit Arm processor, and compile it for one.

PYTHONPATH=tests python -m pytest -p neon tests/compiler

Each kernel is written for 32 registers of 16 bytes, and LLVM makes Arm's machine code of it, which
is looked at but does not run here. Code that runs is made of the same text for this processor: the
results of the tests are those of loops, tiles and masks as Arm has them.
"""

import re
import struct
from functools import cache

import llvmlite.binding as binding

from wend._engine.compiler.llvm_ir import jit

#: The names and features that LLVM gives a Neoverse N1.
ARM = jit.Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+fp-armv8,+fullfp16,+lse,+neon")
#: Functions of the C library, which every process has.
PRESENT = frozenset({"memcpy", "memmove", "memset"})
_MACHINE = 183  # a 64-bit Arm's number in an ELF file
_SYMBOLS, _CODE = 2, 4  # kinds of sections: the table of symbols; the flag of what is executed

#: Objects for Arm that were looked at, in bytes of code.
looked_at: list[int] = []


def sections(found):
    """[(kind, flags, offset, size)] of an ELF file's sections."""
    start, size, count = (
        *struct.unpack_from("<Q", found, 40),
        *struct.unpack_from("<HH", found, 58),
    )
    fields = (struct.unpack_from("<IIQQQQ", found, start + k * size) for k in range(count))
    return [(kind, flags, offset, length) for _, kind, flags, _, offset, length in fields]


def undefined(found):
    """Names of an ELF file that others have to define."""
    parts = sections(found)
    missing = set()
    for k, (kind, _, offset, size) in enumerate(parts):
        if kind == _SYMBOLS:
            link = struct.unpack_from(
                "<I", found, struct.unpack_from("<Q", found, 40)[0] + 64 * k + 40
            )
            strings = parts[link[0]][2]
            for place in range(offset + 24, offset + size, 24):
                name, _, _, section = struct.unpack_from("<IBBH", found, place)
                if section == 0:
                    end = found.index(b"\0", strings + name)
                    missing.add(found[strings + name : end].decode())
    return missing


def look_at(text, found, here):
    """Check an object for Arm. here: the object of the same text for this processor."""
    named = set(re.findall(r"@(llvm\.(?:x86|aarch64)[\w.]*)", text))
    assert not named, f"instructions of some processors only: {sorted(named)}"
    assert struct.unpack_from("<H", found, 18) == (_MACHINE,)
    code = sum(size for _, flags, _, size in sections(found) if flags & _CODE)
    assert code > 0, "no code"
    assert struct.unpack_from("<H", here, 18) != (_MACHINE,)
    more = undefined(found) - undefined(here) - PRESENT
    assert not more, f"functions that a process may not have: {sorted(more)}"
    looked_at.append(code)


def pretend():
    """Let the host be an Arm processor, whose code is made, and this one's code run."""
    here = jit.host()
    if not here.triple.startswith("x86_64") or not here.has("avx2"):
        return  # Arm's own tests are about its code; older processors have no halves to run it with
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.get_host_cpu_features = lambda: {
        word[1:]: word[0] == "+" for word in ARM.features.split(",")
    }
    binding.get_host_cpu_name = lambda: ARM.cpu
    binding.get_process_triple = lambda: ARM.triple
    jit.host.cache_clear()
    assert jit.host() == ARM and (ARM.vector_bytes, ARM.registers) == (16, 32)
    translate, words = jit._translate, jit._words

    def translated(text, target):
        if target != ARM:
            return translate(text, target)
        runs = translate(text, here)
        look_at(text, translate(text, ARM), runs)
        return runs

    linker = cache(lambda: binding.create_lljit_compiler(jit._machine(here)))
    # Objects are kept on disk apart from those that an Arm processor would run.
    jit._words = lambda target: ("as for Arm", *words(target))
    jit._translate, jit._linker = translated, linker


pretend()
