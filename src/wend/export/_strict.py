"""JSON of files, taken apart with each type, count and bound checked: a file is data.

Each function returns what it was given, or raises FormatError that names the place in the file.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn, TypeAlias

from wend._engine.base.errors import FormatError

__all__ = [
    "Json",
    "check_depth",
    "damaged",
    "flag",
    "parsed",
    "row",
    "rows",
    "table",
    "text",
    "whole",
]

#: A value as JSON holds values.
Json: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any] | None

MOST_TEXT = 64_000_000  # characters of JSON
MOST_NESTED = 400  # lists in lists: readers of trees recurse
MOST_WHOLE = 1 << 31  # of ids, positions and counts


def damaged(what: str) -> FormatError:
    """The error of a file that cannot have been written by Wend."""
    return FormatError(f"export.load: the file is damaged: {what}")


def parsed(source: str) -> dict[str, Any]:
    """The table that a text of JSON holds.

    Raises FormatError for names that stand twice, and texts that are no JSON. The file's reader has
    counted brackets, which may take far more memory than their size.
    """
    if len(source) > MOST_TEXT:
        raise FormatError(f"export.load: the graph takes more than {MOST_TEXT // 10**6} MB of text")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            raise damaged("a name stands twice in a table")
        return entries

    def refuse(word: str) -> NoReturn:
        raise damaged(f"{word} is no number of JSON")

    try:
        document = json.loads(source, object_pairs_hook=unique, parse_constant=refuse)
    except RecursionError as error:
        raise damaged("lists lie too deep inside each other") from error
    except ValueError as error:
        raise damaged(f"its text is no JSON: {str(error)[:100]}") from error
    check_depth(document)
    return table(document, "the document")


def check_depth(x: Any) -> None:
    """Raise FormatError where containers nest more than MOST_NESTED deep."""
    level = [x]
    for _ in range(MOST_NESTED):
        inner: list[Any] = []
        for part in level:
            items = part.values() if type(part) is dict else part
            inner += [item for item in items if type(item) in (list, dict)]
        if not inner:
            return
        level = inner
    raise damaged(f"lists lie more than {MOST_NESTED} deep inside each other")


def short(x: Any) -> str:
    """A value in a message, cut off."""
    if type(x) in (list, dict):
        return f"a {'list' if type(x) is list else 'table'} of {len(x)}"
    if type(x) is int and x.bit_length() > 200:
        return f"an int of {x.bit_length()} bits"
    representation = repr(x)
    return representation if len(representation) <= 60 else f"{representation[:57]}..."


def whole(x: object, what: str, least: int = 0, most: int = MOST_WHOLE) -> int:
    """An int within bounds, both included."""
    if type(x) is not int or not least <= x <= most:
        raise damaged(f"{what} is {short(x)}")
    return x


def text(x: object, what: str) -> str:
    """A text."""
    if type(x) is not str:
        raise damaged(f"{what} is {short(x)}, and no text")
    return x


def flag(x: object, what: str) -> bool:
    """A bool."""
    if type(x) is not bool:
        raise damaged(f"{what} is {short(x)}, and no bool")
    return x


def rows(x: object, what: str) -> list[Any]:
    """A list of any length."""
    if type(x) is not list:
        raise damaged(f"{what} is {short(x)}, and no list")
    return x


def row(x: object, what: str, count: int) -> list[Any]:
    """A list of so many items."""
    if type(x) is not list or len(x) != count:
        raise damaged(f"{what} is {short(x)}, and no list of {count}")
    return x


def table(x: object, what: str) -> dict[str, Any]:
    """A table."""
    if type(x) is not dict:
        raise damaged(f"{what} is {short(x)}, and no table")
    return x


def numbered(x: object, what: str) -> dict[int, Any]:
    """A table whose names are whole numbers."""
    by_number: dict[int, Any] = {}
    for name, item in table(x, what).items():
        if not (name.isascii() and name.isdigit() and len(name) < 11) or str(int(name)) != name:
            raise damaged(f"{what} has the name {short(name)}, and no number")
        by_number[whole(int(name), what)] = item
    return by_number
