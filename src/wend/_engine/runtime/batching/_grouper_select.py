"""Chooses between the compiled and the uncompiled grouper; the latter gets its C helpers here."""

from __future__ import annotations

import operator
import sys
from types import ModuleType
from typing import Any

from wend._engine.core._select import compiled, load_plain
from wend._engine.runtime.native.memory import add32, add64, clear, copy


def behind(table: Any, n: int) -> Any:
    """The words of a table that begin n words behind its start."""
    return table[n:]


def fill(table: Any, n: int, number: int) -> None:
    """Write a number to the first n words of a table."""
    table[:n] = number


def role_at(values: list[Any], i: int, region: int) -> int:
    """`Grouper.role` of a value in a list that is of this region."""
    value = values[i]
    outside = 0 if region != -1 else 2 if value.leaf is None else 6
    return (1 if value.requires_grad else 0) + outside


def inner_child(nodes: list[Any], i: int, step: Any, region: Any, local: Any) -> bool:
    """Whether an op reads region i only, and is the node met last behind the region's node."""
    node = nodes[i].child
    return (
        node is not None
        and node.inner
        and node.prim is step.prim
        and node.n_in == step.n_in
        and node.grad == step.requires_grad
        and node.joins
        and all(
            region[at] == i and local[at] == ref
            for at, ref in zip(
                (step.i0, step.i1, step.i2)[: step.n_in],
                (node.ref0, node.ref1, node.ref2)[: step.n_in],
                strict=True,
            )
        )
    )


def to_child(nodes: list[Any], i: int) -> None:
    """Move on to that child."""
    nodes[i] = nodes[i].child


def select() -> ModuleType:
    """The sorter that this process uses, registered as `wend._engine.runtime.batching._grouper`."""
    name = "wend._engine.runtime.batching._grouper"
    stand_ins = {
        "copy": copy,
        "clear": clear,
        "add32": add32,
        "add64": add64,
        "ask_ahead": lambda items, i: 0,
        "put": list.__setitem__,
        "prim_of": lambda prim: prim,
        "type_of": lambda values, i: values[i].type,
        "role_at": role_at,
        "rows_at": lambda values, i: values[i].type.row[0],
        "was_seen": lambda seen, k, values, i: seen[k] is values[i].type,
        "table_of": lambda array: array,
        "behind": behind,
        "address": lambda table: table.ctypes.data,
        "fill": fill,
        "inner_child": inner_child,
        "values_of": lambda nodes, i: nodes[i].n_values,
        "to_child": to_child,
        **dict.fromkeys(("record_at", "value_at", "node_at", "type_at"), operator.getitem),
    }
    return sys.modules.get(name) or compiled(name) or load_plain(name, stand_ins)
