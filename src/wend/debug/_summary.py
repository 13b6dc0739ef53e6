"""`wend.summary()`: the modules of a model with shapes, parameters, operations and bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core._hot import Tensor
from wend._frontend.creation import zeros
from wend._frontend.seeing.tables import Html, html_table, text_table
from wend.debug._recorded import Call, record
from wend.nn.modules.module import Module

__all__ = ["ModelSummary", "SummaryRow", "summary"]

#: The columns, by name: heading, and the text of a row.
COLUMNS: dict[str, tuple[str, Any]] = {
    "input_size": ("input", lambda row: _sizes(row.input_size)),
    "output_size": ("output", lambda row: _sizes(row.output_size)),
    "num_params": ("parameters", lambda row: _shared(row, f"{row.params:,}")),
    "trainable": ("trainable", lambda row: _shared(row, f"{row.trainable:,}")),
    "mult_adds": ("mult-adds", lambda row: f"{row.mult_adds:,}"),
    "flops": ("flops", lambda row: f"{row.flops:,}"),
    "bytes": ("output bytes", lambda row: f"{row.output_bytes:,}"),
}


@dataclass
class SummaryRow:
    """A module as it was called.

    name: dotted, "" for the model     times: equal modules in a row, which share this row
    params: of the module with all parts; if `times` > 1, of each
    flops: two for each of `mult_adds`, and one for each element of further ops
    shared: whether the module's parameters belong to a row above as well
    """

    name: str
    kind: str
    depth: int
    input_size: list[tuple[int, ...]]
    output_size: list[tuple[int, ...]]
    params: int
    trainable: int
    flops: int
    mult_adds: int
    output_bytes: int
    shared: bool = False
    times: int = 1
    rows: list[SummaryRow] = field(default_factory=list)

    def same_as(self, row: SummaryRow) -> bool:
        """Whether another row tells the same, but for the name."""
        return (
            (self.kind, self.params, self.trainable, self.flops, self.shared)
            == (row.kind, row.params, row.trainable, row.flops, row.shared)
            and (self.input_size, self.output_size) == (row.input_size, row.output_size)
            and len(self.rows) == len(row.rows)
            and all(a.times == b.times and a.same_as(b) for a, b in zip(self.rows, row.rows))
        )


class ModelSummary:
    """The rows of a model as a tree, and totals; iterating gives all rows, outer ones first.

    total_params, trainable_params: each parameter counts once
    flops, mult_adds: of the whole call
    param_bytes, buffer_bytes, input_bytes: as stored
    output_bytes: of the results of all modules without parts
    computed: whether the forward pass asked for values, and so was computed
    """

    def __init__(self, model: Module, root: SummaryRow, depth: int, columns: Sequence[str]) -> None:
        self.root = root
        self.depth = depth
        self.columns: tuple[str, ...] = tuple(columns)
        parameters = list(model.parameters())
        self.total_params: int = sum([p.numel() for p in parameters])
        self.trainable_params: int = sum([p.numel() for p in parameters if p.requires_grad])
        self.param_bytes: int = sum([p.numel() * p.element_size() for p in parameters])
        self.buffer_bytes: int = sum([b.numel() * b.element_size() for b in model.buffers()])
        self.flops, self.mult_adds = root.flops, root.mult_adds
        self.input_bytes = 0
        self.output_bytes: int = _leaf_bytes(root)
        self.computed = False

    def __iter__(self) -> Iterator[SummaryRow]:
        stack = [self.root]
        while stack:
            row = stack.pop()
            yield row
            stack += reversed(row.rows)

    def __len__(self) -> int:
        return sum([1 for _ in self])

    def _table(self) -> list[list[str]]:
        heads = ["module", *(COLUMNS[name][0] for name in self.columns)]
        table = [heads]
        for row in self:
            if row.depth <= self.depth:
                name = f"{row.name.rsplit('.', 1)[-1]}: {row.kind}" if row.name else row.kind
                times = f" x {row.times}" if row.times > 1 else ""
                first = "  " * row.depth + name + times
                table.append([first, *(COLUMNS[c][1](row) for c in self.columns)])
        return table

    def _totals(self) -> list[str]:
        frozen = self.total_params - self.trainable_params
        lines = [
            f"parameters: {self.total_params:,} ({self.trainable_params:,} trainable, "
            f"{frozen:,} frozen)",
            f"mult-adds: {self.mult_adds:,}; flops: {self.flops:,}",
            f"bytes: input {self.input_bytes:,}, outputs {self.output_bytes:,}, parameters "
            f"{self.param_bytes:,}, buffers {self.buffer_bytes:,}",
        ]
        if self.computed:
            lines.append("the forward pass asked for values, and was computed")
        return lines

    def __str__(self) -> str:
        table = self._table()
        head, *lines = text_table(table, range(1, len(table[0])))
        rule = "-" * max(len(line) for line in (head, *lines))
        return "\n".join([head, rule, *lines, rule, *self._totals()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads, *rows = self._table()
        for row in rows:
            name = row[0].lstrip()
            style = f"text-align:left;padding-left:{1 + (len(row[0]) - len(name)) / 2}em"
            row[0] = Html(f'<div style="{style}">{escape(name)}</div>')
        totals = "<br>".join(map(escape, self._totals()))
        return f"{html_table(heads, rows)}<p>{totals}</p>"


def summary(
    model: Module,
    *inputs: Any,
    input_size: Any = None,
    depth: int = 3,
    columns: Sequence[str] = ("output_size", "num_params", "mult_adds"),
    dtypes: Any = None,
    mode: str = "eval",
    verbose: int | None = None,
    **kwargs: Any,
) -> ModelSummary:
    """The modules of a model as a tree: shapes, parameters, operations, bytes.

    The forward pass is recorded and not computed, unless the model asks for values.

    inputs, kwargs: the arguments of the call; their values count only where the model asks
    input_size: in place of inputs, a shape or a list of shapes     dtypes: of these, in order
    depth: levels of parts that are printed
    columns: of "input_size", "output_size", "num_params", "trainable", "mult_adds", "flops",
        "bytes"
    mode: "eval", "train" or "same", for the time of the call
    verbose: 1 prints, 0 does not; None prints where the outcome of a line is not shown anyway, as
        notebooks and the interactive prompt do

    Raises ArgumentTypeError for a model that is no module, ArgumentError for unknown columns or
    modes, and for both inputs and input_size, or neither.
    """
    if not isinstance(model, Module):
        raise ArgumentTypeError(f"summary: takes a module, not a {type(model).__name__}")
    for name in columns:
        if name not in COLUMNS:
            raise ArgumentError(f"summary: columns: {name!r} is none of {', '.join(COLUMNS)}")
    if mode not in ("eval", "train", "same"):
        raise ArgumentError(f"summary: mode={mode!r} is none of eval, train, same")
    if (input_size is None) == (not inputs and not kwargs):
        raise ArgumentError("summary: takes either example inputs or input_size")
    modes = [(part, part.training) for part in model.modules()]
    try:
        if mode != "same":
            model.train(mode == "train")
        recorded, arguments = record(
            model, lambda: inputs if input_size is None else _made(input_size, dtypes), kwargs
        )
    finally:
        for part, training in modes:
            part.training = training
    names = {id(part): name for name, part in model.named_modules()}
    seen: set[int] = set()
    root = _row(recorded.calls[0], names, 0, seen)
    table = ModelSummary(model, root, depth, columns)
    table.computed = recorded.computed
    tensors = [x for x in (*arguments, *kwargs.values()) if isinstance(x, Tensor)]
    table.input_bytes = sum([x.numel() * x.element_size() for x in tensors])
    if not hasattr(sys, "ps1") if verbose is None else verbose:
        print(table)
    return table


def _made(input_size: Any, dtypes: Any) -> tuple[Any, ...]:
    """Inputs of these sizes, recorded and not computed."""
    sizes = [input_size] if all(isinstance(n, int) for n in input_size) else list(input_size)
    types = list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes] * len(sizes)
    if len(types) != len(sizes):
        raise ArgumentError(f"summary: {len(types)} dtypes for {len(sizes)} sizes")
    return tuple([zeros(tuple(n), dtype=t) for n, t in zip(sizes, types, strict=True)])


def _row(call: Call, names: dict[int, str], depth: int, seen: set[int]) -> SummaryRow:
    """The row of a call, with the rows of calls inside; equal neighbours are joined."""
    module = call.module
    parameters = list(module.parameters())
    shared = bool(parameters) and all(id(p) in seen for p in parameters)
    row = SummaryRow(
        names.get(id(module), "?"), type(module).__name__, depth, call.inputs, call.outputs,
        sum([p.numel() for p in parameters]),
        sum([p.numel() for p in parameters if p.requires_grad]),
        call.flops, call.macs, call.bytes_out, shared,
    )  # fmt: skip
    for inner in call.calls:
        inner_row = _row(inner, names, depth + 1, seen)
        if row.rows and row.rows[-1].same_as(inner_row):
            row.rows[-1].times += 1
        else:
            row.rows.append(inner_row)
    seen.update([id(p) for p in parameters])
    return row


def _leaf_bytes(row: SummaryRow) -> int:
    """Bytes of the results of modules without parts."""
    inner = sum([_leaf_bytes(part) for part in row.rows])
    return row.times * (inner if row.rows else row.output_bytes)


def _sizes(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join([str(list(shape)) for shape in shapes])


def _shared(row: SummaryRow, text: str) -> str:
    return f"{text} (shared)" if row.shared else text
