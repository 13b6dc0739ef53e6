"""Compare the lines that watched ops show with tracebacks of the same ops.

    python tests/debugging/provenance.py [--json FILE] [--steps N] SCRIPT [ARGUMENTS ...]

The script runs three times, with `torch` meaning Wend: watched; with a mode that keeps a traceback
of each call; and watched again, on paths that are known by then. Ops meet by their place in the
sequence of all flushes. A line counts once, however often it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from types import FunctionType
from typing import Any

import wend
from wend._engine.core import _hot
from wend._engine.core._types import LeafPrimitive
from wend._engine.core.provenance import Site
from wend.debug._watch import Watch, watching
from wend.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from wend.overrides import TorchFunctionMode

PACKAGE = str(Path(wend.__file__).parent) + os.sep
Place = tuple[str, int]
Program = Callable[[], Any]


@dataclass
class Comparison:
    """ops: compared     lines: places of the user's that agree     wrong: (op, shown, traceback)

    unasked: ops that no call led to, by name and line
    uneven: flushes that the runs do not share
    """

    ops: int = 0
    lines: set[Place] = field(default_factory=set)
    wrong: list[tuple[str, Place, Place]] = field(default_factory=list)
    unasked: set[tuple[str, Place]] = field(default_factory=set)
    uneven: int = 0


def user_place() -> Place:
    """File and line of the innermost frame of the traceback that is not in the package."""
    for frame in reversed(traceback.extract_stack()):
        inside = frame.filename.startswith((PACKAGE, "<frozen")) or frame.filename == __file__
        if not inside:
            return os.path.realpath(frame.filename), frame.lineno or 0
    return "", 0


class Tracebacks(TorchFunctionMode):
    """Keeps from which op of which trace on the user's line is which."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, list[tuple[int, Place]]] = {}
        self.outer: Place = ("", 0)

    def note(self) -> None:
        """The ops from here on belong to the line that is running."""
        trace = _hot.current_trace()
        self.rows.setdefault(trace.serial, []).append((len(trace.states), user_place()))

    def over(self) -> None:
        """The ops from here on belong to no call: to the step of an optimizer, or to no line."""
        trace = _hot.current_trace()
        self.rows.setdefault(trace.serial, []).append((len(trace.states), self.outer))

    def begin_step(self, *_: Any) -> None:
        """The ops from here on are those of an optimizer."""
        self.outer = user_place()
        self.over()

    def end_step(self, *_: Any) -> None:
        """The step has ended."""
        self.outer = ("", 0)
        self.over()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = _hot.current_trace().serial
        self.note()
        place = self.rows[before][-1][1]
        hooks = func is wend.Tensor.backward and not isinstance(func, FunctionType)
        outer = self.outer
        try:
            if not hooks:
                return func(*args, **(kwargs or {}))
            self.outer = place
            with self:  # hooks of the user's ask as well
                return func(*args, **(kwargs or {}))
        finally:
            self.outer = outer
            after = _hot.current_trace()
            if after.serial != before:  # a flush came between: the rest is of the same call
                self.rows.setdefault(after.serial, []).append((0, place))
            self.over()

    def at(self, serial: int, position: int) -> Place:
        """The line of an op."""
        rows = self.rows.get(serial, [])
        k = bisect_right(rows, position, key=itemgetter(0))
        return rows[k - 1][1] if k else ("", 0)


def _inside_the_package(function: Any) -> None:
    """Let a function count as the package's, so that lines are looked for further out."""
    function.__code__ = function.__code__.replace(co_filename=PACKAGE + "provenance.py")


for _function in vars(Tracebacks).values():
    if isinstance(_function, FunctionType):
        _inside_the_package(_function)


def steps(seen: Watch) -> Iterator[list[tuple[str, int, int, Place]]]:
    """Per flush: name, serial of the trace, position, and line shown of each op."""
    for flush in seen.flushes:
        rows = []
        for k, state in enumerate(flush.path.states):
            if isinstance(state.prim, LeafPrimitive):
                continue
            code, lasti = flush.sites.get(k, (state.code, state.lasti))
            shown = _shown(code, lasti)
            name = "backward" if state.is_step else state.prim.name
            rows.append((name, flush.serial, k, shown))
        yield rows


def _shown(code: Any, lasti: int) -> Place:
    return ("", 0) if code is None else (os.path.realpath(code.co_filename), Site(code, lasti).line)


class Enough(BaseException):
    """Raised in the place of a further step of training."""


def stopped(program: Program, steps: int) -> Program:
    """A program that ends after so many steps of optimizers; 0: at its own end."""

    def run() -> None:
        done = 0

        def count(*_: Any) -> None:
            nonlocal done
            done += 1
            if done == steps:
                raise Enough

        hook = register_optimizer_step_post_hook(count)
        try:
            program()
        except Enough:
            pass
        finally:
            hook.remove()

    return run


def compare(program: Program, steps_each: int = 0) -> Comparison:
    """The comparison for a program, which must take the same path in each run.

    steps_each: a run ends after so many steps of optimizers; 0: at its own end
    """
    found = Comparison()
    program = stopped(program, steps_each)
    with watching() as fresh:
        program()
    with watching() as asked, Tracebacks() as tracebacks:
        begin = register_optimizer_step_pre_hook(tracebacks.begin_step)
        end = register_optimizer_step_post_hook(tracebacks.end_step)
        program()
        begin.remove()
        end.remove()
    with watching() as known:
        program()
    theirs = list(steps(asked))
    for watched in (fresh, known):
        ours = list(steps(watched))
        found.uneven += abs(len(ours) - len(theirs))
        for mine, other in zip(ours, theirs, strict=False):
            if [row[0] for row in mine] != [row[0] for row in other]:
                found.uneven += 1
                continue
            for (name, _, _, shown), (_, serial, k, _) in zip(mine, other, strict=True):
                expected = tracebacks.at(serial, k)
                if not expected[0]:
                    found.unasked.add((name, shown))
                    continue
                found.ops += 1
                if shown == expected:
                    found.lines.add(shown)
                else:
                    found.wrong.append((name, shown, expected))
    return found


def script(path: str, arguments: list[str]) -> Program:
    """A script as a program, with `torch` meaning Wend."""
    wend._tools.alias.install()

    def program() -> None:
        sys.argv = [path, *arguments]
        sys.path.insert(0, str(Path(path).resolve().parent))
        try:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(sys.stderr):
                runpy.run_path(path, run_name="__main__")
        finally:
            sys.path.pop(0)

    return program


def main() -> None:
    """Compare for the script that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="write the counts here")
    parser.add_argument("--steps", type=int, default=0, help="steps of optimizers; 0: all")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    found = compare(script(given.script, given.arguments), given.steps)
    print(
        f"{given.script}: {found.ops} ops, {len(found.lines)} lines agree, {len(found.wrong)} ops "
        f"differ, {len(found.unasked)} unasked, {found.uneven} flushes uneven"
    )
    for name, shown, expected in sorted(set(found.wrong)):
        print(f"  {name}: shown {shown[0]}:{shown[1]}, traceback {expected[0]}:{expected[1]}")
    for name, shown in sorted(found.unasked):
        print(f"  unasked: {name} {shown[0]}:{shown[1]}")
    if given.json:
        counts = {
            "ops": found.ops,
            "lines": sorted(found.lines),
            "wrong": sorted(set(found.wrong)),
            "uneven": found.uneven,
        }
        Path(given.json).write_text(json.dumps(counts))


if __name__ == "__main__":
    import wend._tools.alias

    main()
