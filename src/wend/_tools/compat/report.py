"""The command `wend compat`: reads a program, prints the names that are missing or differ."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from wend._tools.compat import differences, files, lookup, reading

USAGE: Final = """\
usage: wend compat [--json] SCRIPT|FOLDER|PACKAGE

Reads a program without running it, and tells by file and line which names of PyTorch's it uses
that Wend lacks (exit status 1), or that differ on purpose. Names that the program asks for with
hasattr, or imports where it catches the error, are counted, not told.
"""


@dataclass(frozen=True)
class Finding:
    """A use of a name, and the fault or difference."""

    file: str
    line: int
    name: str
    text: str
    reason: str = ""  # why Wend leaves the name out, where this is on purpose


@dataclass(frozen=True)
class Answer:
    """All that was found in a program."""

    files: int
    names: int
    missing: list[Finding]
    guarded: list[Finding]
    differs: list[Finding]
    unread: list[Finding]


def examine(target: str) -> Answer:
    """Read a program. Raises files.UnknownTarget."""
    answer = Answer(0, 0, [], [], [], [])
    n_files, names = 0, set()
    for source in files.sources(target):
        n_files += 1
        file = _short(source.path)
        if source.tree is None:
            answer.unread.append(Finding(file, 0, "", source.fault))
            continue
        told = set()
        for use in reading.uses(source.tree):
            names.add(use.name)
            text, reason = _fault(use), differences.scope_reason(use.name)
            kind = answer.guarded if use.guarded else answer.missing
            if not text and (text := _difference(use)):
                kind, reason = answer.differs, text
            if text and (use.line, text) not in told:
                told.add((use.line, text))
                kind.append(Finding(file, use.line, use.name, text, reason))
    return Answer(
        n_files, len(names), answer.missing, answer.guarded, answer.differs, answer.unread
    )


def _fault(use: reading.Use) -> str:
    """Return why a use fails, or an empty text; where a name is missing, its calls say nothing."""
    if use.positional is None:
        return lookup.fault(use.name)
    return lookup.unknown_keywords(use.name, use.keywords)


def _difference(use: reading.Use) -> str:
    """Return how Wend differs where the use is a call that meets a difference."""
    difference = differences.ON_PURPOSE.get(use.name)
    if difference is None or use.positional is None:
        return ""
    return difference.reason if difference.concerns(use.positional, use.keywords) else ""


def _short(path: Path) -> str:
    """A path below the current folder is told from there."""
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown


def text(answer: Answer) -> str:
    """Return the findings as lines, and a last line with the numbers."""
    lines = [
        f"{f.file}:{f.line}: {f.text}{f' ({f.reason})' * bool(f.reason)}" for f in answer.missing
    ]
    lines += [f"{f.file}:{f.line}: {f.name} differs: {f.text}" for f in answer.differs]
    lines += [f"{f.file}: cannot be read: {f.text}" for f in answer.unread]
    lacking = len({f.name for f in answer.missing})
    numbers = [
        f"{answer.files} file{'s' * (answer.files != 1)}",
        f"{answer.names} names of torch",
        f"{lacking} missing",
        f"{len({f.name for f in answer.guarded})} missing but guarded",
        f"{len({f.name for f in answer.differs})} that differ",
    ]
    return "\n".join([*lines, ", ".join(numbers)])


def main(arguments: Sequence[str]) -> int:
    """Run the command: 1 where something is missing, 2 for a wrong call or an unreadable file."""
    words = list(arguments)
    if words and words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    as_json = "--json" in words
    targets = [word for word in words if word != "--json"]
    if len(targets) != 1 or targets[0].startswith("-"):
        fault = f"there is no option {targets[0]!r}" if targets[:1] else "a program is needed"
        fault = "one program at a time" if len(targets) > 1 else fault
        print(f"wend compat: {fault}\n{USAGE}", end="", file=sys.stderr)
        return 2
    try:
        answer = examine(targets[0])
    except files.UnknownTarget as error:
        # The command line is wrong: said on standard error, exit status 2.
        print(f"wend compat: {error}", file=sys.stderr)
        return 2
    print(json.dumps(asdict(answer), indent=1) if as_json else text(answer))
    return 1 if answer.missing else 2 if answer.unread else 0
