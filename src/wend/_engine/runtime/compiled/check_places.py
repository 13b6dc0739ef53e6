"""WEND_VERIFY=1: blocks of the arena lie apart while both are in use.

The rounds in which a block is used follow from the steps that touch its values. Lifetimes that the
code notes, and that places were found by, are not asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.compiler.verifier import check_places, memory_of
from wend._engine.runtime.compiled.argument_layout import ArgumentLayout


def check_places_of(skeleton: ArgumentLayout, words: np.ndarray) -> None:
    """Raise AssertionError if two blocks of a bound plan share memory in the same round.

    words: the words of the bound plan
    """
    used, numbers = rounds_of_blocks(skeleton), words.tolist()
    blocks = []
    for name, number in skeleton.at.items():
        if name in used and number < len(skeleton.wanted):
            place, size = numbers[skeleton.n_terms + number], numbers[skeleton.wanted[number]]
            blocks.append((name, place, size, used[name]))
    check_places(blocks)


def rounds_of_steps(skeleton: ArgumentLayout) -> dict[int, list[int]]:
    """Return the rounds in which each step runs, counted from the rounds themselves."""
    rounds: dict[int, list[int]] = {}
    n = step = 0
    while step < len(skeleton.code.steps):
        stretch = skeleton.rounds.get(step)
        if stretch is None:
            rounds[step] = [n]
            n += 1
        else:
            for one in stretch:
                for k, _ in one:
                    rounds.setdefault(k, []).append(n)
                n += 1
        step = max(rounds) + 1
    return rounds


def rounds_of_blocks(skeleton: ArgumentLayout) -> dict[Any, set[int]]:
    """Return the rounds in which each block is used: blocks of values, and pieces of kernels."""
    code, steps = skeleton.code, rounds_of_steps(skeleton)
    rounds: dict[Any, set[int]] = {}
    for k, step in enumerate(code.steps):
        for i in set().union(*memory_of(code.function, step)):
            home = code.homes.get(i, i)
            if home in code.lifetimes:
                rounds.setdefault(home, set()).update(steps[k])
    for k, schedule in skeleton.schedules.items():
        for j in range(len(schedule.private)):
            rounds.setdefault((k, j), set()).update(steps[k])
    for together in skeleton.together:
        for k in together:
            rounds.setdefault((together[0], 0), set()).update(steps[k])
    return rounds
