"""What a hand is: independent choices of how to write a program, drawn by a seed."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass

#: How parameters are held, how a row is got at, where words become vectors, how loops are written,
#: and which data comes.
CHOICES: dict[str, tuple[str, ...]] = {
    "parameters": ("tensors", "modules", "cells"),
    "reach": ("slice", "tensor", "int", "unbind", "views", "tolist", "iterate", "split"),
    "embed": ("sentence", "word"),
    "loops": ("comprehension", "recursion", "explicit"),
    "data": ("new", "repeated", "shuffled"),
}


@dataclass(frozen=True)
class Hand:
    """One way to write a program; each field is one of CHOICES."""

    parameters: str
    reach: str
    embed: str
    loops: str
    data: str

    def __str__(self) -> str:
        return " ".join(value for key, value in asdict(self).items() if key != "data")


def draw(seed: int, program: str, count: int) -> list[Hand]:
    """Return so many hands; each choice comes as often as the others of its kind, within one."""
    rng = random.Random(f"{seed} {program}")
    columns = {}
    for name, options in CHOICES.items():
        column: list[str] = []
        while len(column) < count:
            column += rng.sample(options, len(options))
        columns[name] = column[:count]
    return [Hand(*(columns[name][k] for name in CHOICES)) for k in range(count)]
