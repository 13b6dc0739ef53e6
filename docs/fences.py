"""Runs the code fences of pages, in order and in one namespace a page, and checks what they print.

    python docs/fences.py docs/index.md docs/howto/*.md

A `python` fence runs. A `pycon` fence is a doctest: it prints what it shows, and `...` stands for
anything. A fence below `<!-- not run: REASON -->` is left out. Errors name the line of the page.
"""

from __future__ import annotations

import doctest
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<mark>`{3,})(?P<language>[\w{}-]*)[^\n]*$", re.MULTILINE)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z", re.DOTALL)
LANGUAGES = ("python", "pycon")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Fence:
    """A piece of code on a page.

    line: the number of its first line     reason: why it is not run, or ""
    """

    language: str
    code: str
    line: int
    reason: str


def fences(text: str) -> Iterator[Fence]:
    """The fences of a page that are Python."""
    place = 0
    while begin := FENCE.search(text, place):
        end = re.compile(rf"^{begin['mark']}`*$", re.MULTILINE).search(text, begin.end())
        line = text.count("\n", 0, begin.start()) + 1
        if end is None:
            raise ValueError(f"the fence in line {line} is open")
        if begin["language"] in LANGUAGES:
            reason = NOT_RUN.search(text[: begin.start()])
            yield Fence(
                begin["language"],
                text[begin.end() + 1 : end.start()],
                line + 1,
                reason[1] if reason else "",
            )
        place = end.end()


def run_page(path: Path) -> int:
    """Run a page; returns how many fences ran. Raises what a fence raises, or DocTestFailure."""
    space: dict[str, Any] = {"__name__": "__main__"}
    text = path.read_text(encoding="utf-8")
    name = path.as_posix()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    ran = 0
    for fence in fences(text):
        if fence.reason:
            continue
        ran += 1
        if fence.language == "python":
            # Empty lines in front: a line's number is the one that it has on the page.
            exec(compile("\n" * (fence.line - 1) + fence.code, name, "exec"), space)
        else:
            test = doctest.DocTestParser().get_doctest(
                fence.code, space, name, name, fence.line - 1
            )
            runner = doctest.DebugRunner(verbose=False, optionflags=FLAGS)
            test.globs = space  # a test takes a copy: the next fence shall see what this one made
            runner.run(test, clear_globs=False)
    return ran


def main(paths: list[str]) -> int:
    """Run pages; returns the exit status."""
    for path in paths:
        try:
            print(f"{path}: {run_page(Path(path))} fences ran", flush=True)
        except doctest.DocTestFailure as failure:
            example, line = failure.example, failure.test.lineno + failure.example.lineno + 1
            print(f"{path}:{line}: {example.source}expected:\n{example.want}got:\n{failure.got}")
            return 1
        except doctest.UnexpectedException as failure:
            print(f"{path}:{failure.test.lineno + failure.example.lineno + 1}:")
            raise failure.exc_info[1] from None
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
