"""The page of a graph: a single HTML file that folds, searches and colours, without a server."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

from wend._engine.core.provenance import shown_name
from wend._frontend.seeing.folding import Folding, fold
from wend._frontend.seeing.op_graph import PHASES, OpGraph, OpNode

__all__ = ["page_of"]

#: Boxes of a page at first.
FIRST_BOXES = 60
#: Longest line of source and longest text of numbers that a page keeps, in characters.
LONGEST_TEXT = 400
#: Characters that could end a script or start a tag, as JSON escapes.
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def page_of(graph: OpGraph) -> str:
    """One self-contained HTML file that shows a graph.

    Nothing is loaded from elsewhere: the page's content security policy forbids loading.
    """
    style, layout, script = asset("page.css"), asset("layout.js"), asset("page.js")
    data = json.dumps(data_of(graph), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A lone surrogate has no UTF-8.
    data = data.translate(ESCAPES).encode("utf-8", "replace").decode("utf-8")
    scripts = " ".join(digest(text) for text in (layout, script))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src {digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    title = html.escape(graph.title or "graph").encode("utf-8", "replace").decode("utf-8")
    parts = {"policy": policy, "style": style}
    parts |= {"layout": layout, "script": script, "title": title, "data": data}
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], asset("page.html"))


def asset(name: str) -> str:
    return resources.files("wend._frontend.seeing").joinpath("assets", name).read_text("utf-8")


def digest(text: str) -> str:
    """The source of a policy that allows exactly one inline text."""
    checksum = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(checksum).decode('ascii')}'"


class Table:
    """Rows by number, each kept once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.numbers: dict[Any, int] = {}

    def number(self, key: object, row: Callable[[], Any] | None = None) -> int:
        index = self.numbers.get(key)
        if index is None:
            index = self.numbers[key] = len(self.rows)
            self.rows.append(key if row is None else row())
        return index


def data_of(graph: OpGraph) -> dict[str, Any]:
    """The columns of a page: short ones, with tables for all texts.

    A column whose values are all equal is that value. `inputs` has the distance from each op
    back to the operands; `arity` says how many there are.
    """
    folding = fold(graph)
    texts, places, types = Table(), Table(), Table()
    nodes = graph.nodes

    def place(node: OpNode) -> int:
        key = (node.file, node.line, node.function)
        return places.number(key, lambda: [*map_text(texts, key), texts.number(clip(node.source))])

    def column(value: Callable[[OpNode], Any]) -> Any:
        return packed([value(node) for node in nodes])

    return {
        "title": graph.title,
        "count": len(nodes),
        "op": column(lambda node: texts.number(node.op)),
        "type": column(
            lambda node: types.number(
                node.type_text, lambda: [texts.number(node.dtype), texts.number(node.type_text)]
            )
        ),
        "place": column(place),
        "phase": packed([PHASES.index(phase) for phase in folding.phases]),
        "home": packed([home.index for home in folding.homes]),
        "arity": column(lambda node: len(node.inputs)),
        "inputs": [node.id - i for node in nodes for i in node.inputs],
        "bytes": column(lambda node: node.nbytes),
        "results": column(lambda node: node.results),
        "name": column(lambda node: texts.number(node.name)),
        "numbers": column(lambda node: texts.number(clip(node.numbers))),
        "partner": column(lambda node: -1 if node.partner is None else node.partner),
        "kernel": column(lambda node: node.kernel),
        "group": column(lambda node: node.group),
        "members": column(lambda node: node.members),
        "where": column(lambda node: texts.number(node.where)),
        "host": column(lambda node: texts.number(clip(node.on_host))),
        "branch": column(lambda node: texts.number(clip(node.branch))),
        "flops": column(lambda node: node.flops),
        "ns": column(lambda node: node.ns),
        "values": {node.id: plain(node.values) for node in nodes if node.values},
        "outputs": list(graph.outputs),
        "parameters": sorted(folding.parameters),
        "folds": columns_of_folds(folding, texts),
        "types": types.rows,
        "places": places.rows,
        "texts": texts.rows,
    }


def columns_of_folds(folding: Folding, texts: Table) -> dict[str, Any]:
    folds = folding.folds
    keys = Table()
    return {
        "count": len(folds),
        "parent": packed([-1 if x.parent is None else x.parent.index for x in folds]),
        "kind": packed([texts.number(x.kind) for x in folds]),
        "label": packed([texts.number(x.label) for x in folds]),
        "class": packed([texts.number(x.class_name) for x in folds]),
        "path": packed([texts.number(x.path) for x in folds]),
        "phase": packed([PHASES.index(x.phase) for x in folds]),
        "times": packed([x.times for x in folds]),
        "asked": packed([x.asked for x in folds]),
        "key": packed([keys.number(x.key) for x in folds]),
        "opened": sorted(folding.opened(FIRST_BOXES)),
    }


def packed(values: list[Any]) -> Any:
    """A column; the value alone if all are equal."""
    first = values[0] if values else None
    return first if all(value == first for value in values) else values


def map_text(texts: Table, key: tuple[str, int, str]) -> list[int]:
    file, line, function = key
    return [texts.number(shown_name(file)), line, texts.number(function)]


def clip(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def plain(value: Any) -> Any:
    """A value as JSON has it; NaN and infinity as text, other objects by `str`."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    try:
        number = float(value)
    except (TypeError, ValueError):
        # A summary of values may hold any object: one that is no number is shown by its text.
        return str(value)
    return number if math.isfinite(number) else str(number)
