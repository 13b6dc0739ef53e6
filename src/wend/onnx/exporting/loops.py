"""Loops of an explored graph as Loop nodes, or as LSTM, GRU and RNN where these say the same.

A Loop carries the values that change.  A count of the turns is the node's own; values that stay
are read from outside; a list to which each turn appends is a scan output.
"""

from __future__ import annotations

from collections.abc import Sequence

from wend._engine.base.dtypes import bool_, int64
from wend._engine.core.symbolic import DIM, MAX, make
from wend._engine.transforms.exploring.carried import Carried, carried
from wend._engine.transforms.exploring.simplify import asked
from wend._engine.transforms.exploring.structure import Nested, Repeat
from wend.onnx.exporting import recurrent
from wend.onnx.exporting.scopes import Scope, StatementWriter
from wend.onnx.exporting.values import Value

__all__ = ["write"]


def write(w: StatementWriter, scope: Scope, item: Repeat) -> None:
    """The nodes of a loop.

    w: the ProgramWriter     scope: the graph around
    """
    if item.outcome is not None:
        _write_left_inside(w, scope, item)
        return
    if item.body.outcome.values.get(item.point) is None:
        raise w.writer.unsupported("a loop always ends in an error")
    plan = carried(item, w.made)
    layer = recurrent.layer_of(w, item, plan)
    if layer is None:
        _write_plain(w, scope, item, plan)
    else:
        rows, ends = recurrent.write(w, scope, item, layer)
        for k in plan.lists:
            _take_list(w, scope, item, k, rows)
        for k, end in zip(layer.states, ends, strict=True):
            scope.values[item.outputs[k]] = w.named(scope, item.outputs[k], end)
    _finish(w, scope, item, plan)


def _inputs(w: StatementWriter, inner: Scope, ids: Sequence[int]) -> tuple[Value, Value]:
    """(number of the turn, condition): the inputs of a body, which are followed by the ids."""
    name = w.writer.model.name
    turn = inner.writer.input(name("turn"), int64, ())
    goes_on = inner.writer.input(name("goes_on"), bool_, ())
    for i in ids:
        info = w.program.info[i]
        rank = 0 if info.extents is None else len(info.extents)
        state = inner.writer.input(name("carried"), w.dtype(i), (None,) * rank)
        inner.values[i] = w.named(inner, i, state)
    return turn, goes_on


def _write_plain(w: StatementWriter, scope: Scope, item: Repeat, plan: Carried) -> None:
    """A Loop that is left by the question alone."""
    moving = plan.moving
    for p, first in plan.first.items():
        scope.values[p] = w.named(scope, p, w.value(scope, first))
    inner = scope.inner()
    turn, goes_on = _inputs(w, inner, [item.params[k] for k in moving])
    for k in plan.counts:
        inner.values[item.params[k]] = turn
    for k, twin in plan.twins.items():
        if twin not in plan.lists and item.params[k] not in plan.first:
            inner.values[item.params[k]] = inner.values[item.params[twin]]
    joins = {id(join) for join, _ in plan.lists.values()}
    body = Nested([x for x in item.body.items if id(x) not in joins], item.body.outcome)
    limit = condition = None
    if plan.bound is None:
        condition = _asked(w, scope, item, item.start)
        w.write(inner, body)
        again = _asked(w, inner, item, plan.row)
    else:
        limit = w.tensor_of(scope, plan.bound, int64)
        w.write(inner, body)
        again = goes_on
    new = [w.value(inner, plan.row[k]) for k in moving]
    rows = [w.value(inner, part) for _, part in plan.lists.values()]
    graph = w.closed(inner, [again, *new, *rows], "body")
    if not moving and not rows:
        return
    start = [w.value(scope, item.start[k]) for k in moving]
    if condition is None and not start:  # the node must have two inputs
        condition = scope.writer.constant(True, bool_)
    values = w.outputs_of(
        scope, "Loop", [limit, condition, *start], [*[v.dtype for v in (*start, *rows)]], body=graph
    )
    for k, value in zip(moving, values):
        scope.values[item.outputs[k]] = w.named(scope, item.outputs[k], value)
    for k, value in zip(plan.lists, values[len(moving) :], strict=True):
        bound = plan.bound
        if type(bound) is tuple and bound[0] == DIM:  # as many rows as turns
            rank = len(w.program.info[item.outputs[k]].extents)
            value.shape = (w.number(scope, bound), *[None] * (rank - 1))
        _take_list(w, scope, item, k, value)


def _take_list(w: StatementWriter, scope: Scope, item: Repeat, k: int, rows: Value) -> None:
    """Note a list after a loop: the items from before, and the rows of all turns."""
    first, i = w.program.info[item.start[k]], item.outputs[k]
    if first.extents[0] != 0:
        before = w.value(scope, item.start[k])
        rows = scope.writer.node("Concat", before, rows, axis=0)
    scope.values[i] = w.named(scope, i, rows)


def _finish(w: StatementWriter, scope: Scope, item: Repeat, plan: Carried) -> None:
    """Note the last values of the params that a loop does not carry."""
    w.stays.update(plan.first)
    for k in plan.same:
        i = item.outputs[k]
        scope.values[i] = w.named(scope, i, w.value(scope, item.start[k]))
    for k in plan.counts:
        scope.values[item.outputs[k]] = w.tensor_of(scope, make(MAX, plan.bound, 0), int64)
    for k, twin in plan.twins.items():
        scope.values[item.outputs[k]] = scope.values[item.outputs[twin]]


def _asked(w: StatementWriter, scope: Scope, item: Repeat, values: Sequence[int]) -> Value:
    """Whether a loop goes on, with these values of the params."""
    assert item.question is not None
    asking = type(scope)(scope.writer, scope.values)
    read = set(asked(item.question))
    for p, i in zip(item.params, values, strict=True):
        if p in read:
            asking.values[p] = w.named(asking, p, w.value(scope, i))
    condition: Value = w.condition(asking, item.question)
    if not item.goes_on:
        condition = Value(scope.writer.raw_node("Not", [condition], bool_).name, bool_, ())
    return condition


def _write_left_inside(w: StatementWriter, scope: Scope, item: Repeat) -> None:
    """A Loop whose body says where the program goes on, and with which values."""
    assert item.outcome is not None
    start = [w.value(scope, i) for i in item.start]
    extra = w.ids(item.outcome)
    first = [w.nothing(i) for i in extra]
    inner = scope.inner()
    _inputs(w, inner, [*item.params, *extra])
    condition = scope.writer.constant(True, bool_)
    w.write(inner, item.body)
    outcome = item.body.outcome
    row = outcome.values.get(item.point) or (None,) * len(item.params)
    new = [
        inner.values[p] if i is None else w.value(inner, i)
        for p, i in zip(item.params, row, strict=True)
    ]
    new += w.results(inner, outcome, item.outcome)
    same = inner.writer.constant(item.point, int64)
    again = inner.writer.raw_node("Equal", [w.selected(inner, outcome), same], bool_)
    body = w.closed(inner, [Value(again.name, bool_, ()), *new], "body")
    ids = [*item.outputs, *extra]
    inputs = [None, condition, *start, *first]
    values = w.outputs_of(scope, "Loop", inputs, [w.dtype(i) for i in ids], body=body)
    for i, value in zip(ids, values, strict=True):
        scope.values[i] = w.named(scope, i, value)
