"""Makes a failing program small: drops lines, blocks, results and runs while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from compare import Differs, check
from programs import Program


def smallest(found: Differs) -> Differs:
    """The difference shown by a smaller program, where one shows it."""
    smaller = found

    def fails(program: Program) -> bool:
        nonlocal smaller
        try:
            check(program)
        except Differs as differs:
            if differs.kind == found.kind:
                smaller = differs
                return True
        except Exception:  # what is left is no program any more
            pass
        return False

    reduced(found.program, fails)
    return smaller


def reduced(program: Program, fails: Callable[[Program], bool], most: int = 250) -> Program:
    """A smaller program that fails too; `most` bounds how many are tried.

    A line that others need cannot go: both libraries would raise NameError, which is no failure.
    """
    at = tried = since = 0  # since: so many failed to fail after the last that did
    candidates = list(_smaller(program))
    while since < len(candidates) and tried < most:
        candidate = candidates[at % len(candidates)]
        tried += 1
        if _is_python(candidate) and fails(candidate):
            # What was tried before is hardly worth another try now: go on at the same place.
            program, since = candidate, 0
            candidates = list(_smaller(program))
        else:
            at, since = at + 1, since + 1
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest things first."""
    for i in reversed(range(len(program.runs))):
        if len(program.runs) > 1:
            yield _without(program, runs=program.runs[:i] + program.runs[i + 1 :])
    if program.apart or program.forced:
        yield _without(program, apart=False, forced=False)
    if program.apart and program.forced:
        yield _without(program, apart=False)
        yield _without(program, forced=False)
    for i in reversed(range(len(program.lines))):
        end = _end(program.lines, i)
        if program.lines[i].strip() == "try:":  # what is tried, without what catches its errors
            after = _end(program.lines, end)
            tried = [line[4:] for line in program.lines[i + 1 : end]]
            yield _without(program, lines=program.lines[:i] + program.lines[after:])
            yield _without(program, lines=program.lines[:i] + tried + program.lines[after:])
        yield _without(program, lines=program.lines[:i] + program.lines[end:])
        if end > i + 1:  # the block without its head
            inner = [line[4:] for line in program.lines[i + 1 : end]]
            yield _without(program, lines=program.lines[:i] + inner + program.lines[end:])
    for i in range(len(program.kept)):
        yield _without(program, kept=program.kept[:i] + program.kept[i + 1 :])


def _without(program: Program, **changes: object) -> Program:
    return replace(program, _compiled=None, **changes)  # type: ignore[arg-type]


def _end(lines: list[str], i: int) -> int:
    """The line after the block that a line begins."""
    end = i + 1
    while end < len(lines) and _depth(lines[end]) > _depth(lines[i]):
        end += 1
    return end


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_python(program: Program) -> bool:
    try:
        compile(program.source, "<reduced>", "exec")
    except SyntaxError:
        return False
    return True
