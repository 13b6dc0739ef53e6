"""The boxes of a folded graph, with captions, and the edges between boxes."""

from __future__ import annotations

from dataclasses import dataclass, field

from wend._engine.core.provenance import shown_name
from wend._frontend.seeing.folding import Fold, Folding
from wend._frontend.seeing.op_graph import OpNode

__all__ = ["Caption", "View", "caption", "hint", "printable", "view", "view_of"]

#: Longest text of a caption, in characters.
LONGEST_CAPTION = 30
#: The mark of an op of an accelerator that the processor computed.
HOST_MARK = "host"


@dataclass
class View:
    """Boxes and edges of a folded graph.

    boxes: ops and folded folds           links: (from, to) -> number of edges, within a phase
    opened: the indices of unfolded folds
    labels: of links: the answer of a question, which leads to a region; the name of a value that
        a loop carries
    turns: links from ops that are later, which lead back to the beginning of a loop
    """

    folding: Folding
    opened: set[int]
    boxes: list[OpNode | Fold]
    links: dict[tuple[int, int], int]
    labels: dict[tuple[int, int], str] = field(default_factory=dict)
    turns: set[tuple[int, int]] = field(default_factory=set)

    def number(self, item: OpNode | Fold) -> int:
        """The number of a box in `links`: the id of an op, or a number after all ids."""
        return len(self.folding.graph) + item.index if isinstance(item, Fold) else item.id

    def shown(self, item: Fold) -> list[OpNode | Fold]:
        """Items of an unfolded fold, without parameters."""
        return [x for x in item.items if self.folding.is_shown(x)]


def view(folding: Folding, most: int) -> View:
    """The boxes of a graph, unfolded as far as `most` boxes allow."""
    return view_of(folding, folding.opened(most))


def view_of(folding: Folding, opened: set[int]) -> View:
    """The boxes of a graph with these folds unfolded, by index."""
    nodes = folding.graph.nodes
    result, phases = View(folding, opened, [], {}), folding.phases
    stands: dict[int, Fold | None] = {}
    for item in folding.folds:  # parents first
        above = stands[item.parent.index] if item.parent else None
        stands[item.index] = above or (None if item.index in opened else item)
        if stands[item.index] is None:
            result.boxes.extend(x for x in result.shown(item) if isinstance(x, OpNode))
        elif stands[item.index] is item and folding.is_shown(item):
            result.boxes.append(item)
    numbers = []
    for node in nodes:
        shown = stands[folding.homes[node.id].index] or node
        numbers.append(result.number(shown) if folding.is_shown(shown) else -1)
    for node in nodes:
        for i in node.inputs:
            pair = numbers[i], numbers[node.id]
            if phases[i] == phases[node.id] and pair[0] != pair[1] and min(pair) >= 0:
                result.links[pair] = result.links.get(pair, 0) + 1
                if i > node.id:
                    result.turns.add(pair)
                    if pair[1] == node.id:
                        result.labels[pair] = node.name or "next turn"
    for item in folding.folds:
        if item.kind == "branch" and stands[item.index] in (None, item):
            start = numbers[item.asked]
            if start == item.asked and phases[start] == item.phase:
                pair = start, result.number(item)
                result.links[pair] = 1
                result.labels[pair] = item.label
    return result


@dataclass
class Caption:
    """Two lines of a box, and a mark such as "× 12" or "host"."""

    head: str
    below: str
    mark: str = ""


def caption(item: OpNode | Fold) -> Caption:
    if isinstance(item, OpNode):
        head = (item.name or "input") if item.is_leaf else item.op
        if item.op == "merge":
            head = f"{item.op} {item.name}".strip()
        where = "" if item.device == "cpu" else f" · {item.device}"
        mark = HOST_MARK if item.on_host else ""
        return Caption(clipped(head), clipped(item.type_text) + where, mark)
    ops = sum(not op.is_leaf for op in item.ops())
    size = f"{ops} op{'s' if ops != 1 else ''}"
    if item.kind in ("region", "branch"):
        return Caption(clipped(item.label), size)
    if item.kind == "part":
        return Caption(clipped(item.label), clipped(item.class_name))
    named = item.class_name not in ("", item.label)
    below = f"{clipped(item.label)} · {size}" if named else size
    mark = f"× {item.times}" if item.kind == "repeat" else ""
    return Caption(clipped(item.class_name or item.label), below, mark)


def hint(item: OpNode | Fold) -> str:
    """The lines that a pointer over a box shows."""
    if isinstance(item, OpNode):
        where = f"{shown_name(item.file)}:{item.line}" if item.file else ""
        host = f"on the host: {item.on_host}" if item.on_host else ""
        rows = [f"{item.op} {item.name}".strip(), item.placed_text, host, item.module, where]
        rows.append(item.source)
        return printable("\n".join(row for row in rows if row))
    ops = [op for op in item.ops() if not op.is_leaf]
    rows = [item.path, item.class_name, item.label, f"{len(ops)} ops"]
    rows.append(f"{sum(op.nbytes for op in ops):,} bytes")
    times = [op.ns for op in ops if op.ns is not None]
    if times:
        rows.append(f"{sum(times) / 1e3:,.1f} µs")
    return printable("\n".join(dict.fromkeys(row for row in rows if row)))


def printable(text: str) -> str:
    """A text without the characters that XML and UTF-8 have not."""
    kept = (c if c >= " " or c in "\n\t" else "\ufffd" for c in text)
    text = "".join(kept).encode("utf-8", "replace").decode("utf-8")
    return text.replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def clipped(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= LONGEST_CAPTION else text[: LONGEST_CAPTION - 1] + "…"
