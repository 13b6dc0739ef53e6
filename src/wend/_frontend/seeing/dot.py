"""A graph as DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from wend._frontend.seeing.folding import Fold, fold
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.visible import View, caption, hint, printable, view

__all__ = ["dot_of"]

#: Most boxes of a text in DOT: Graphviz takes minutes for larger ones.
MOST_BOXES = 400
COLOURS = {"forward": "#e0ecfb", "backward": "#fbeadf", "update": "#e0f8ea"}


def dot_of(graph: OpGraph, most: int = MOST_BOXES) -> str:
    """A graph as a text in DOT, with a cluster for each phase and each unfolded module.

    most: number of boxes; modules stay folded where there would be more.
    """
    seen = view(fold(graph), most)
    lines = [
        f"digraph {quoted(graph.title or 'graph')} {{",
        '  graph [compound=true, fontname="sans-serif", rankdir=TB];',
        '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];',
        '  edge [color="#8793a2", arrowsize=0.6];',
    ]
    for root in seen.folding.roots:
        lines.extend(cluster(seen, root, "  "))
    for (start, end), count in seen.links.items():
        lines.append(f"  n{start} -> n{end}{f' [penwidth={min(count, 4)}]' if count > 1 else ''};")
    return "\n".join([*lines, "}", ""])


def cluster(seen: View, item: Fold, indent: str) -> Iterator[str]:
    """The lines of an unfolded fold."""
    text = (
        f"{item.label}: {item.class_name}"
        if item.class_name not in ("", item.label)
        else item.label
    )
    yield f"{indent}subgraph cluster_{item.index} {{"
    yield f'{indent}  label={quoted(text)}; color="#b9c3d0"; style=rounded; fontsize=11;'
    for inner in seen.shown(item):
        if isinstance(inner, Fold) and inner.index in seen.opened:
            yield from cluster(seen, inner, indent + "  ")
        else:
            yield f"{indent}  {box(seen, inner, item.phase)}"
    yield f"{indent}}}"


def box(seen: View, item: OpNode | Fold, phase: str) -> str:
    texts = caption(item)
    label = quoted(f"{texts.head} {texts.mark}".strip() + f"\n{texts.below}")
    shape = ""
    if isinstance(item, OpNode) and item.is_leaf:
        shape = ", shape=ellipse, style=filled"
    elif isinstance(item, Fold):
        shape = ", peripheries=2" if item.kind == "repeat" else ", penwidth=1.6"
    fill = f'fillcolor="{COLOURS[phase]}"'
    return f"n{seen.number(item)} [label={label}, tooltip={quoted(hint(item))}, {fill}{shape}];"


def quoted(text: str) -> str:
    r"""A text between quotes, as DOT reads it: `\n` is a new line, `\\` a backslash.

    Graphviz reads HTML entities in labels, so that `&` has to be such an entity.
    """
    text = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
    return '"' + text.replace("\n", "\\n") + '"'
