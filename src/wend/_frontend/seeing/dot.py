"""A graph as DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wend._frontend.seeing.folding import Fold, fold
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.visible import View, caption, hint, printable, view

__all__ = ["box", "digraph", "dot_of", "frame"]

#: Most boxes of a text in DOT: Graphviz takes minutes for larger ones.
MOST_BOXES = 400
COLOURS = {"forward": "#e0ecfb", "backward": "#fbeadf", "update": "#e0f8ea"}


def dot_of(graph: OpGraph, most: int = MOST_BOXES) -> str:
    """A graph as a text in DOT, with a cluster for each phase and each unfolded module.

    most: number of boxes; modules stay folded where there would be more.
    """
    seen = view(fold(graph), most)
    lines = [
        'graph [compound=true, fontname="sans-serif", rankdir=TB];',
        'node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];',
        'edge [color="#8793a2", arrowsize=0.6];',
    ]
    for root in seen.folding.roots:
        lines.extend(frame_of(seen, root))
    for (start, end), count in seen.links.items():
        looks = [f"penwidth={min(count, 4)}"] if count > 1 else []
        if word := seen.labels.get((start, end)):
            looks.append(f"label={quoted(word)}")
        if end - len(graph) in seen.opened:  # an answer leads to a frame
            inside = seen.folding.folds[end - len(graph)]
            end = first_box(seen, inside)
            looks.append(f"lhead=cluster_{inside.index}")
        look = f" [{', '.join(looks)}]" if looks else ""
        lines.append(f"n{start} -> n{end}{look};")
    return digraph(quoted(graph.title or "graph"), lines) + "\n"


def frame_of(seen: View, item: Fold) -> Iterator[str]:
    """The lines of an unfolded fold."""
    text = (
        f"{item.label}: {item.class_name}"
        if item.class_name not in ("", item.label)
        else item.label
    )
    lines: list[str] = []
    for inner in seen.shown(item):
        if isinstance(inner, Fold) and inner.index in seen.opened:
            lines.extend(frame_of(seen, inner))
        else:
            lines.append(box_of(seen, inner, item.phase))
    return frame(item.index, text, lines, ' color="#b9c3d0"; style=rounded; fontsize=11;')


def first_box(seen: View, item: Fold) -> int:
    """The number of the first box in an unfolded fold."""
    inner = seen.shown(item)[0]
    while isinstance(inner, Fold) and inner.index in seen.opened:
        inner = seen.shown(inner)[0]
    return seen.number(inner)


def box_of(seen: View, item: OpNode | Fold, phase: str) -> str:
    texts = caption(item)
    label = f"{texts.head} {texts.mark}".strip() + f"\n{texts.below}"
    shape = ""
    if isinstance(item, OpNode) and item.is_leaf:
        shape = ", shape=ellipse, style=filled"
    elif isinstance(item, Fold):
        shape = ", peripheries=2" if item.kind == "repeat" else ", penwidth=1.6"
    fill = f'fillcolor="{COLOURS[phase]}"'
    look = f"tooltip={quoted(hint(item))}, {fill}{shape}"
    return box(f"n{seen.number(item)}", label, look)


def digraph(name: str, lines: Iterable[str]) -> str:
    """A graph in DOT.  name: a word, or `quoted`"""
    return "\n".join([f"digraph {name} {{", *[f"  {line}" for line in lines], "}"])


def frame(number: int, label: str, lines: Iterable[str], look: str = "") -> Iterator[str]:
    """The lines of a frame around boxes, edges and frames."""
    yield f"subgraph cluster_{number} {{"
    yield f"  label={quoted(label)};{look}"
    for line in lines:
        yield f"  {line}"
    yield "}"


def box(name: str, label: str, look: str) -> str:
    """The line of a box."""
    return f"{name} [label={quoted(label)}, {look}];"


def quoted(text: str) -> str:
    r"""A text between quotes, as DOT reads it: `\n` is a new line, `\\` a backslash.

    Graphviz reads HTML entities in labels, so that `&` has to be such an entity.
    """
    text = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return '"' + text.replace("\n", "\\n") + '"'
