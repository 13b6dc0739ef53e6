"""The kernels that an installation brings along as machine code.

`texts` has the large ones: LLVM takes about a second for each, which a short program would hardly
earn back. `_tools/ready_kernels.py` adds those of common programs, and makes them at the end of a
build; `llvm_ir/ready_objects.py` finds the outcome. A module is made for all processors of a level;
WEND_CPU names a lower one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wend._engine.base import dtypes
from wend._engine.compiler.kernels.attention.attention import AttentionVariant
from wend._engine.compiler.kernels.attention.backward import backward_text
from wend._engine.compiler.kernels.attention.forward import attend_text
from wend._engine.compiler.kernels.conv import forward as conv
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir import jit, ready_objects

#: Masks of attention, and whether a row looks at later keys: the usual combinations.
_MASKS = ((None, False), (None, True), (dtypes.bool_, False), (dtypes.float32, False))


def texts() -> Iterator[str]:
    """Yield the texts of the modules, for `jit.host()`."""
    for dtype in ("float32", "float64"):
        yield matmul.core_text(dtype)
    for name in ("convolve", "convolve_input", "convolve_weight"):
        yield conv.core_text(name, "float32")
    for (mask, is_causal), drops in itertools.product(_MASKS, (False, True)):
        form = AttentionVariant(dtypes.float32, mask, is_causal, drops)
        yield attend_text(form).text
        yield backward_text(form).text


class ReadyFile:
    """The file of a level, and the objects that are wanted in it, by digest."""

    def __init__(self, path: Path, level: str) -> None:
        self.path, self.level = path, level
        self.before = ready_objects.read_all(path)
        self.wanted: dict[bytes, bytes] = {}

    def add(self, text: str) -> bytes:
        """Return the object of a module for `jit.host()`, made for the level if need be."""
        triple = jit.host().triple
        digest = ready_objects.digest_of(text, triple, self.level)
        object_code = self.wanted.get(digest) or self.before.get(digest)
        if object_code is None:
            object_code = jit.machine_code(text, jit.Target(triple, self.level, ""))
        self.wanted[digest] = object_code
        return object_code


@contextmanager
def making(folder: Path) -> Iterator[ReadyFile | None]:
    """Keep the object of each module that is compiled within the `with` block in a folder's file.

    Objects of other texts leave the file at the end. Yields None for a processor below all levels.
    """
    host = jit.host()
    level = ready_objects.level_of(host.names)
    if not level:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = ReadyFile(ready_objects.path_of(folder, level), level)
    with jit.made_by(file.add):
        yield file
    if file.wanted != file.before:
        ready_objects.write_all(file.path, file.wanted)
