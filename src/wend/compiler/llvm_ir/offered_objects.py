"""Machine code that files of sessions have brought along, for a kind of processor.

Opening a file imports this and no more of the compiler.
"""

from __future__ import annotations

import weakref
import zlib

__all__ = ["Offer", "offered"]


class Offer:
    """Machine code that a file has brought along, offered as long as somebody has the offer.

    objects: compressed objects by the key of `llvm_ir.jit`, which holds text, processor and version
    taken: the keys of the objects that were used
    """

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.taken: set[str] = set()
        _offers.add(self)


_offers: weakref.WeakSet[Offer] = weakref.WeakSet()


def offered(key: str) -> bytes | None:
    """Return the object that is offered under a key, or None."""
    for offer in list(_offers):
        if key in offer.objects:
            offer.taken.add(key)
            return zlib.decompress(offer.objects[key])
    return None
