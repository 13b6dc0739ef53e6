"""The text of an archive: checked token by token, then parsed as the subset of Python that it is.

The grammar has no operators: arithmetic is written as calls, such as `torch.add(x, 1)`. So a text
with operators, with keywords of Python's beyond the few, or with deep brackets is refused before
Python's parser sees the text. Nothing is ever compiled or executed by Python.
"""

from __future__ import annotations

import ast
import re

from wend._engine.base.errors import FormatError

__all__ = ["parse"]

MOST_CHARACTERS = 16 << 20
DEEPEST_BRACKETS = 60
DEEPEST_BLOCKS = 60
LONGEST_PATH = 64  # names joined by dots

TOKEN = re.compile(
    r"""(?P<space>[ \t\f]+|\\?\r?\n|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[+-]\d+\.?\d*(?:[eE][+-]?\d+)?j|j)?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<arrow>->)
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<mark>[,:.=*-])
    """,
    re.VERBOSE,
)
#: Keywords of Python's that no archive has.
FOREIGN = frozenset(
    "and assert async await del except finally from global is lambda nonlocal not or raise "
    "try yield break continue".split()
)


def parse(text: str, file: str) -> ast.Module:
    """The syntax tree of a file of an archive.  Raises FormatError, with the line."""
    if len(text) > MOST_CHARACTERS:
        raise FormatError(f"torch.jit.load: {file}: the code has {len(text)} characters")
    _check_tokens(text, file)
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        raise FormatError(
            f"torch.jit.load: {file}, line {line}: the code is no TorchScript"
        ) from error


def _check_tokens(text: str, file: str) -> None:
    """Raise FormatError for a token outside of the grammar, and for deep brackets and blocks."""
    at, depth, dots, end = 0, 0, 0, len(text)

    def refuse(what: str) -> FormatError:
        line = text.count("\n", 0, at) + 1
        return FormatError(f"torch.jit.load: {file}, line {line}: {what}, no TorchScript")

    while at < end:
        match = TOKEN.match(text, at)
        if match is None:
            raise refuse(f"the character {text[at]!r}")
        kind, token = match.lastgroup, match.group()
        if kind == "open":
            depth += 1
            if depth > DEEPEST_BRACKETS:
                raise refuse(f"brackets nest more than {DEEPEST_BRACKETS} deep")
        elif kind == "close":
            depth -= 1
        elif kind == "name" and token in FOREIGN:
            raise refuse(f"the keyword {token!r}")
        if token == ".":
            dots += 1
            if dots > LONGEST_PATH:
                raise refuse("a name of too many parts")
        elif kind not in ("name", "space"):
            dots = 0
        elif token == "\n":
            dots = 0
            if not depth:
                blank = re.compile(r" *").match(text, match.end())
                if blank is not None and blank.end() - blank.start() > 2 * DEEPEST_BLOCKS:
                    raise refuse(f"blocks nest more than {DEEPEST_BLOCKS} deep")
        at = match.end()
