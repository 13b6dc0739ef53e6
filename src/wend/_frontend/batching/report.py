"""`wend.debug.batches()`: the groups that ran together, as text, as a table and as a picture."""

from __future__ import annotations

from html import escape

from wend._engine.base.errors import ArgumentError
from wend._engine.core import _hot
from wend._engine.runtime.batching.noted import NOTED, Noted
from wend._engine.runtime.batching.report import Flushed, Grouped, flushed
from wend._engine.runtime.report import counted
from wend._frontend.seeing.dot import box, digraph, frame
from wend._frontend.seeing.tables import html_table

__all__ = ["Batches", "batches"]


def batches(last: int = 1) -> Batches:
    """The groups made by the engine: computes pending values, and tells of the last flushes.

    last: how many flushes that ran by groups: those of `wend.batched`, and of structure that does
    not come back (`explain()` tells of structure with a plan of its own)

    Per group: the ops and the line of the first op; how many members ran together and on how many
    rows; which operands were gathered for that, in bytes; why an op ran by itself. Printing shows
    the text, `dot()` is a picture, notebooks show a table, `flushes` has the parts. Raises
    ArgumentError for last < 1.
    """
    if last < 1:
        raise ArgumentError(f"batches: last must be at least 1, not {last}")
    _hot.synchronize()
    return Batches([flushed(Noted(*row)) for row in list(NOTED)[-last:]])


class Batches:
    """The groups of some flushes; `flushes` has the parts."""

    def __init__(self, flushes: list[Flushed]) -> None:
        self.flushes = flushes

    def __str__(self) -> str:
        if not self.flushes:
            return "nothing has been computed by groups yet"
        lines = []
        for k, flush in enumerate(self.flushes):
            lines.append(f"flush {k + 1} of {len(self.flushes)}: {_head(flush)}")
            for group in flush.groups:
                lines.append(f"  {group.members:5d} x {_names(group)}  at {group.line}")
                lines.append(f"          {_how(group)}")
        return "\n".join(lines)

    __repr__ = __str__

    def dot(self) -> str:
        """A picture in the DOT language (`dot -Tsvg`): a node per group, arrows along the data.

        A frame per flush. Filled: ran together; dashed: alone or op by op. Arrows into a group
        leave out values from outside of the flush, such as parameters.
        """
        lines = ['node [shape=box, fontname="monospace"];']
        for k, flush in enumerate(self.flushes):
            inner = []
            for j, group in enumerate(flush.groups):
                label = f"{group.members} x {_names(group)}\n{_how(group)}\n{group.line}"
                style = "filled" if group.how in ("by rows", "stacked", "once") else "dashed"
                inner.append(box(f"g{k}_{j}", label, f"style={style}"))
                inner += [f"g{k}_{i} -> g{k}_{j};" for i in group.reads]
            lines.extend(frame(k, f"flush {k + 1}: {_head(flush)}", inner))
        return digraph("batches", lines)

    def _repr_html_(self) -> str:
        parts = ["<div>"]
        for k, flush in enumerate(self.flushes):
            parts.append(f"<p><b>flush {k + 1}</b>: {escape(_head(flush))}</p>")
            rows = [(str(g.members), _names(g), g.line, _how(g)) for g in flush.groups]
            parts.append(html_table(("members", "ops", "line", "how"), rows))
        return "".join([*parts, "</div>"])


def _head(flush: Flushed) -> str:
    text = f"{flush.n_ops} ops in {len(flush.groups)} groups, {flush.gathered} bytes gathered"
    return f"{text}; op by op: {flush.why}" if flush.why else text


def _names(group: Grouped) -> str:
    """The ops of a group; many are cut short."""
    names = group.ops
    if len(names) > 8:
        names = [*names[:7], f"and {len(names) - 7} more"]
    return ", ".join(names)


def _how(group: Grouped) -> str:
    text = f"{group.how}, {group.rows} rows" if group.how in ("by rows", "stacked") else group.how
    if group.gathered:
        shapes = ", ".join(str(shape) for shape, _ in group.gathered[:4])
        more = "" if len(group.gathered) <= 4 else ", ..."
        text += f"; gathered {shapes}{more}: {sum(n for _, n in group.gathered)} bytes"
    if group.shared:
        text += f"; {counted(group.shared, 'operand')} read in place"
    return f"{text}; {group.why}" if group.why else text
