"""Machine code that a session's file has brought along, for that session alone.

Opening a file imports this and no more of the compiler.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Mapping
from typing import Any

from wend._engine.compiler.llvm_ir.user_key import signature

_PURPOSE = "kernel of a session"


def signatures_of(objects: Mapping[str, bytes], key: bytes) -> list[str]:
    """Return the signatures of compressed objects by a user's key, in order."""
    return [signature(key, _PURPOSE, name, packed) for name, packed in objects.items()]


class Offer:
    """Machine code that a file has brought along, for the plans of one session.

    objects: compressed objects by the key of `llvm_ir.jit`, which holds text, processor and version
    taken: the keys of the objects that were used
    libraries: the linked objects by key, as long as plans of the session have them
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.taken: set[str] = set()
        self.libraries: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    def find(self, key: str) -> bytes | None:
        """Return the object that is offered under a key, or None."""
        packed = self.objects.get(key)
        if packed is None:
            return None
        self.taken.add(key)
        return zlib.decompress(packed)
