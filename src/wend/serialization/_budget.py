"""Costs of reading a pickle: bounds that grow with the pickle's own size, never faster.

A few bytes of a pickle can ask for much. A single byte makes an empty set of 216 bytes. Five bytes
build a set of a list that was built before, or hash a tuple that contains itself twice at each of
sixty levels. All of this is charged to a `Budget` in advance: memory made, bytes copied, parts of
keys visited, keys compared with a key. So time is bounded as memory is, without a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wend.serialization._errors import CheckpointError

__all__ = ["Budget", "check_nesting"]

MAX_NESTING = 2000  # containers inside each other in the result
MAX_KEY_PARTS = 10_000  # items in a tuple used as a key, with the items of tuples inside
MAX_KEY_DEPTH = 200  # tuples inside each other in a key: hashing recurses in C

PER_ITEM = 9  # bytes of a list's or tuple's item, with room to grow
PER_COPIED = 8  # of a text or of bytes: those that a pickle holds are copied once or twice
PER_VISIT = 32  # of an item that is looked at: the time, as bytes that could be copied meanwhile
PER_ENTRY = 120  # bytes of a dict's or set's entry in a table that has just grown
PER_PART = 64  # of a key, the time as well
#: Smaller ints are their own hash: no two collide.
OWN_HASH = (1 << 61) - 1


class Budget:
    """Bounds the result of a pickle, and the work for the result, by the pickle's own size.

    Honest files stay below 66 times their size.
    """

    BASE = 32 << 20
    PER_BYTE = 96

    def __init__(self, size: int) -> None:
        self.left = self.BASE + self.PER_BYTE * size
        self._hashes: dict[Any, int] = {}  # (container, hash) -> keys

    def charge(self, cost: int) -> None:
        """Take `cost` bytes off the budget. Raises CheckpointError if too little is left."""
        self.left -= cost
        if self.left < 0:
            raise CheckpointError(
                "load: the pickle builds far more objects than its size accounts for; "
                "it looks made to exhaust memory"
            )

    def weigh(self, value: object, depth: int) -> None:
        """Charge the copies of a function that takes `value` apart, `depth` containers deep."""
        if isinstance(value, (str, bytes, bytearray)):
            self.charge(PER_COPIED * len(value))
        elif isinstance(value, int):
            self.charge(value.bit_length() >> 3)
        elif isinstance(value, dict):
            self.charge(PER_ENTRY * len(value))
            self._weigh_items(value.values(), depth)
        elif isinstance(value, (set, frozenset)):
            self.charge(PER_ENTRY * len(value))
            self._weigh_items(value, depth)
        elif isinstance(value, (list, tuple)):
            self.charge(PER_ITEM * len(value))
            self._weigh_items(value, depth)

    def _weigh_items(self, items: Iterable[Any], depth: int) -> None:
        if depth > 1:
            for item in items:
                self.charge(PER_VISIT)
                self.weigh(item, depth - 1)

    def check_keys(self, keys: Iterable[Any], container: int | None = None) -> None:
        """Charge entries of a dict or set; raises CheckpointError for keys that hash forever.

        container: the id of a container that has keys already; None: these are all keys.
        """
        hashes: dict[Any, int] = {} if container is None else self._hashes
        for key in keys:
            self.charge(PER_ENTRY)
            kind = type(key)
            if kind is str or kind is bytes:
                self.charge(len(key) >> 4)  # equal keys are compared; the hash is kept
            elif kind is not int or not -OWN_HASH < key < OWN_HASH:
                self._check_parts(key)
                place = (container, hash(key))
                same = hashes[place] = hashes.get(place, 0) + 1
                self.charge(PER_ENTRY + PER_PART * same)

    def _check_parts(self, key: object) -> None:
        """Charge the parts that hashing and comparing a key visits.

        Tuples keep no hash: (a, a) where a is (b, b), sixty times over, has 2**60 parts. A
        frozenset keeps its hash, but two equal frozensets are compared part by part.
        """
        level, left = [key], MAX_KEY_PARTS
        for _ in range(MAX_KEY_DEPTH):
            inner: list[Any] = []
            for part in level:
                if isinstance(part, (tuple, frozenset)):
                    left -= 1 + len(part)
                    if left < 0:
                        raise CheckpointError(
                            "load: the pickle uses a tuple of enormous size as a key"
                        )
                    inner += part
                elif isinstance(part, int):
                    self.charge(part.bit_length() >> 6)
                elif isinstance(part, (str, bytes)):
                    self.charge(len(part) >> 4)
            self.charge(PER_PART * len(level))
            if not inner:
                return
            level = inner
        raise CheckpointError(
            f"load: the pickle uses a tuple of enormous depth as a key, more than {MAX_KEY_DEPTH}"
        )


def check_nesting(root: object) -> None:
    """Raises CheckpointError if lists, tuples or dicts nest deeper than MAX_NESTING.

    A cycle counts once: a container seen before is not entered again.
    """
    seen: set[int] = set()
    level = [root]
    for _ in range(MAX_NESTING):
        inner: list[Any] = []
        for container in level:
            if id(container) not in seen:
                seen.add(id(container))
                inner += _inside(container)
        if not inner:
            return
        level = inner
    raise CheckpointError(f"load: containers nest more than {MAX_NESTING} deep")


def _inside(container: object) -> list[Any]:
    if isinstance(container, dict):
        items = [*container.keys(), *container.values()]
    elif isinstance(container, (list, tuple, set, frozenset)):
        items = list(container)
    else:
        return []
    return [item for item in items if isinstance(item, (dict, list, tuple, set, frozenset))]
