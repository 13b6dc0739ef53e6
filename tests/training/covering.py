"""Covering arrays: few combinations of choices in which all values of any two (or more) meet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence

CANDIDATES = {2: 12}  # combinations made up for each one that is taken: else one
Meeting = tuple[tuple[int, int], ...]  # (choice, value) of some choices, in order
Row = dict[str, str]


def covering(
    choices: Mapping[str, Sequence[str]],
    strength: int = 2,
    allowed: Callable[[Row], bool] | None = None,
    plain: bool = True,
) -> list[Row]:
    """Combinations that cover all values of any `strength` choices together; always the same.

    allowed: tells combinations that may be made; a meeting that is in none of them is left out
    plain: whether values that bring nothing are the first of their choice; else any value is drawn

    Each one begins with a meeting that is missing, gives the other choices, in random order, the
    value by which most missing meetings come about, and is the best of some made so.
    """
    names = list(choices)
    counts = [len(choices[name]) for name in names]
    missing = _meetings(counts, strength)
    draw = random.Random(0)
    rows = []

    def named(row: Sequence[int]) -> Row:
        return {name: choices[name][value] for name, value in zip(names, row, strict=True)}

    while missing:
        start = next(iter(missing))
        tries = range(CANDIDATES.get(strength, 1))
        made = [_combination(start, counts, missing, strength, draw, plain) for _ in tries]
        if allowed is not None:
            made = [row for row in made if allowed(named(row))]
            made = made or [row for row in _all_with(start, counts) if allowed(named(row))]
            if not made:
                missing.pop(start)
                continue
        best = max(made, key=lambda row: sum(m in missing for m in _of(row, strength)))
        for meeting in _of(best, strength):
            missing.pop(meeting, None)
        rows.append(named(best))
    return rows


def _all_with(start: Meeting, counts: Sequence[int]) -> list[list[int]]:
    """All combinations with a meeting."""
    fixed = dict(start)
    values = [[fixed[i]] if i in fixed else range(n) for i, n in enumerate(counts)]
    return [list(row) for row in itertools.product(*values)]


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
    plain: bool,
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
        best = [value for value, gain in enumerate(gains) if gain == max(gains)]
        row[i] = best[0] if plain else draw.choice(best)
    return [row[i] for i in range(len(counts))]
