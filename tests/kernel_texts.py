"""A pytest plugin: writes a hash of each kernel text that the tests compile, to compare two trees.

PYTHONPATH=tests KERNEL_TEXTS=before.txt python -m pytest -p kernel_texts --hypothesis-seed=0 \
    tests/compiler

Moving and renaming code must change no generated instruction: the files of the tree before and
after are equal then (`diff before.txt after.txt`). Texts of processes that tests start are not
seen.
"""

import hashlib
import os
from pathlib import Path

from wend._engine.compiler.llvm_ir import jit

_HASHES: set[str] = set()


def pytest_sessionstart(session):
    """Note each text on its way to LLVM, whether its machine code is on disk or not."""
    compile_module = jit.compile_module

    def noted(text, *given, **named):
        _HASHES.add(hashlib.sha256(text.encode()).hexdigest())
        return compile_module(text, *given, **named)

    jit.compile_module = noted


def pytest_sessionfinish(session):
    """Write the hashes, sorted."""
    jit.drain(60.0)
    path = Path(os.environ.get("KERNEL_TEXTS", "kernel-texts.txt"))
    path.write_text("".join(f"{found}\n" for found in sorted(_HASHES)))
