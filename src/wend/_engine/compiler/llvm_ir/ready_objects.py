"""Machine code that comes with an installation, made when Wend was built.

Kernels that are the same in most programs need not be compiled by each user: products,
convolutions, attention. `compiler/ready_made.py` says which, and makes them. A file holds the
compressed objects of all modules for the processors of a level, behind an index: files of their own
would take up twice as much of a disk. The index names a module by a digest of its text: after a
change to the generator the digest is not found, and the module is compiled.

    bytes     of a file
    8         MAGIC
    4         count of objects
    24 each   digest of the text (16), bytes of the compressed object (8); sorted by digest
    ...       the compressed objects, in the order of the index

Numbers begin with their lowest byte. The files lie in the package, beside the compiled core, and
are trusted as the core is.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent.parent / "ready"
MAGIC: Final = b"WENDRK01"
_HEAD, _ROW = struct.Struct("<8sI"), struct.Struct("<16sQ")

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
    level = level_of(features)
    return digest_of(text, triple, level) in index_of(path_of(FOLDER, level))


def find(text: str, triple: str, features: Iterable[str]) -> bytes | None:
    """Return the object of a module for a processor with these features, or None."""
    level = level_of(features)
    path = path_of(FOLDER, level)
    place = index_of(path).get(digest_of(text, triple, level))
    return None if place is None else _read(path, *place)


def path_of(folder: Path, level: str) -> Path:
    """Return the file of a level."""
    return folder / f"{level}.kernels"


def digest_of(text: str, triple: str, level: str) -> bytes:
    """Return the name of a module in the index of a level's file."""
    return hashlib.sha256(f"{triple}\0{level}\0{text}".encode()).digest()[:16]


@cache
def index_of(path: Path) -> Mapping[bytes, tuple[int, int]]:
    """Return the places of a file's objects by digest: (first byte, bytes).

    Empty if there is no such file, or if it is another one.
    """
    try:
        with path.open("rb") as file:
            magic, count = _HEAD.unpack(file.read(_HEAD.size))
            rows = list(_ROW.iter_unpack(file.read(_ROW.size * count)))
    except (OSError, struct.error):  # absent or cut short: kernels are compiled
        return {}
    if magic != MAGIC or len(rows) != count:
        return {}
    places, at = {}, _HEAD.size + _ROW.size * count
    for digest, size in rows:
        places[digest] = at, size
        at += size
    return places


def read_all(path: Path) -> dict[bytes, bytes]:
    """Return the objects of a file by digest, without those that cannot be read."""
    index_of.cache_clear()
    objects = {digest: _read(path, *place) for digest, place in index_of(path).items()}
    return {digest: code for digest, code in objects.items() if code is not None}


def write_all(path: Path, objects: Mapping[bytes, bytes]) -> None:
    """Write the objects of a level into a file, at once or not at all."""
    rows = {digest: zlib.compress(objects[digest], 9) for digest in sorted(objects)}
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        file.write(_HEAD.pack(MAGIC, len(rows)))
        file.writelines(_ROW.pack(digest, len(row)) for digest, row in rows.items())
        file.writelines(rows.values())
    unfinished.replace(path)
    index_of.cache_clear()


def _read(path: Path, start: int, size: int) -> bytes | None:
    """Return an object of a file; None where the file is gone or cut short by now."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return zlib.decompress(file.read(size))
    except (OSError, zlib.error):  # the caller makes the object
        return None
