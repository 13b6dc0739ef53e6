"""Covering arrays: few combinations of choices in which all values of any two (or more) meet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

CANDIDATES = {2: 12}  # combinations made up for each one that is taken: else one
Meeting = tuple[tuple[int, int], ...]  # (choice, value) of some choices, in order


def covering(choices: Mapping[str, Sequence[str]], strength: int = 2) -> list[dict[str, str]]:
    """Combinations that cover all values of any `strength` choices together; always the same.

    Each one begins with a meeting that is missing, gives the other choices, in random order, the
    value by which most missing meetings come about, and is the best of some made so. Values that
    bring nothing are the first of their choice.
    """
    names = list(choices)
    counts = [len(choices[name]) for name in names]
    missing = _meetings(counts, strength)
    draw = random.Random(0)
    rows = []
    while missing:
        start = next(iter(missing))
        tries = range(CANDIDATES.get(strength, 1))
        made = [_combination(start, counts, missing, strength, draw) for _ in tries]
        best = max(made, key=lambda row: sum(m in missing for m in _of(row, strength)))
        for meeting in _of(best, strength):
            missing.pop(meeting, None)
        rows.append({name: choices[name][value] for name, value in zip(names, best, strict=True)})
    return rows


def _meetings(counts: Sequence[int], strength: int) -> dict[Meeting, None]:
    """All that has to be covered, in a fixed order."""
    found: dict[Meeting, None] = {}
    for chosen in itertools.combinations(range(len(counts)), strength):
        for values in itertools.product(*(range(counts[i]) for i in chosen)):
            found[tuple(zip(chosen, values, strict=True))] = None
    return found


def _of(row: Sequence[int], strength: int) -> list[Meeting]:
    return list(itertools.combinations(enumerate(row), strength))


def _combination(
    start: Meeting,
    counts: Sequence[int],
    missing: Mapping[Meeting, None],
    strength: int,
    draw: random.Random,
) -> list[int]:
    row = dict(start)
    rest = [i for i in range(len(counts)) if i not in row]
    draw.shuffle(rest)
    for i in rest:
        others = [
            (tuple(m for m in other if m[0] < i), tuple(m for m in other if m[0] > i))
            for other in itertools.combinations(sorted(row.items()), strength - 1)
        ]
        gains = [
            sum((*before, (i, value), *after) in missing for before, after in others)
            for value in range(counts[i])
        ]
        row[i] = gains.index(max(gains))
    return [row[i] for i in range(len(counts))]
