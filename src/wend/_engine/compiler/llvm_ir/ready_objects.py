"""Machine code that comes with an installation, made when Wend was built.

Kernels that are the same in most programs need not be compiled by each user: products,
convolutions, attention. `compiler/ready_made.py` says which, and makes them. A file holds the
compressed object of one module, for all processors of a level. The file's name is a digest of the
module's text: after a change to the generator the file is not found, and the module is compiled.

The files lie in the package, beside the compiled core, and are trusted as the core is.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "ready"

_AVX2: Final = frozenset({"avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})
#: LLVM's names of levels of processors, highest first, and the features of a level.
_LEVELS: Final = {
    "x86-64-v4": _AVX2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": _AVX2,
}


def level_of(features: Iterable[str]) -> str:
    """Return the highest level whose processors have no more than these features; "" for none.

    features: names, without signs
    """
    there = frozenset(features)
    return next((level for level, needed in _LEVELS.items() if needed <= there), "")


def is_above_avx2(features: Iterable[str]) -> bool:
    """Return whether a processor with these features has a level above that of AVX2."""
    return level_of(features) not in ("", "x86-64-v3")


def has(text: str, triple: str, features: Iterable[str]) -> bool:
    """Return whether there is an object of a module for a processor with these features."""
    return _file_of(text, triple, features) in _names()


def find(text: str, triple: str, features: Iterable[str]) -> bytes | None:
    """Return the object of a module for a processor with these features, or None."""
    name = _file_of(text, triple, features)
    # A file of the installation may be gone or cut short: the kernel is compiled then.
    return read(FOLDER / name) if name in _names() else None


def read(path: Path) -> bytes | None:
    """Return the object in a file; None if there is none."""
    try:
        return zlib.decompress(path.read_bytes())
    except (OSError, zlib.error):  # the caller makes the object
        return None


def keep(path: Path, object_code: bytes) -> None:
    """Write an object into a file, at once or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(zlib.compress(object_code, 9))
    unfinished.replace(path)


def name_of(text: str, triple: str, level: str) -> str:
    """Return the name of the file for a module and a level."""
    digest = hashlib.sha256(f"{triple}\0{level}\0{text}".encode()).hexdigest()
    return f"{level}-{digest[:32]}.z"


def _file_of(text: str, triple: str, features: Iterable[str]) -> str:
    """Return the name that an object would have; "" for a processor below all levels."""
    level = level_of(features) if _names() else ""
    return name_of(text, triple, level) if level else ""


@cache
def _names() -> frozenset[str]:
    return frozenset(os.listdir(FOLDER)) if FOLDER.is_dir() else frozenset()
