"""Writes an explored graph as an ONNX model: branches as If, loops as Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base.dtypes import DType, bool_, float64, int64
from wend._engine.core import _hot
from wend._engine.core.symbolic import (
    ARG,
    DIM,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    NEG,
    Expr,
    SymInt,
    SymNumber,
    apply_binary,
    expr_of,
    hint_of,
    make,
)
from wend._engine.transforms.exploring import text
from wend._engine.transforms.exploring.carried import items_of
from wend._engine.transforms.exploring.numbers import ids_of
from wend._engine.transforms.exploring.program import (
    Apply,
    Compute,
    Draw,
    Info,
    ReadNumber,
    StaticGraph,
    number_category,
)
from wend._engine.transforms.exploring.running import pattern_of
from wend._engine.transforms.exploring.simplify import made_by
from wend._engine.transforms.exploring.structure import (
    END,
    Bind,
    Branch,
    Check,
    Nested,
    Outcome,
    Repeat,
    structured,
    writes_of,
)
from wend._engine.transforms.exploring.turns import rolled
from wend.onnx.exporting import checks, loops
from wend.onnx.exporting.scopes import Scope
from wend.onnx.exporting.values import Value
from wend.onnx.exporting.writer import GraphWriter

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

__all__ = ["ProgramWriter"]

_COMPARISONS = {
    EQ: "Equal",
    NE: "Equal",
    LT: "Less",
    LE: "LessOrEqual",
    GT: "Greater",
    GE: "GreaterOrEqual",
}
_NESTED = (Bind, Branch, Check, Repeat)
_NUMBERS = (bool_, int64, float64, float64)  # dtypes of numbers, by category


class ProgramWriter:
    """Writes a program.

    names: of the inputs, in order     outputs: names of the results     dims: names of free dims,
    by (input, axis)
    keeps_names: whether initializers have the names of parameters
    """

    def __init__(
        self,
        program: StaticGraph,
        opset: int,
        names: Sequence[str],
        outputs: Sequence[str],
        dims: dict[tuple[int, int], str],
    ) -> None:
        self.program = rolled(program)
        self.region = structured(self.program)
        self.writer = GraphWriter(opset)
        self.names = list(names)
        self.outputs = list(outputs)
        self.dims = dims
        self.numbers: dict[int, Any] = {}  # by id(), the SymInt or SymNumber of a 0-d tensor
        self.captured = {c.id: c for c in program.captured}
        self.initializers: dict[int | str, Value] = {}
        self.made = {
            i: x for x in items_of(self.region) if not isinstance(x, _NESTED) for i in made_by(x)
        }
        self.renamed = {
            name: value
            for x in items_of(self.region)
            if isinstance(x, Bind)
            for name, value in zip(x.names, x.values, strict=True)
        }
        self.stays: dict[int, int] = {}  # params of loops that were written -> their only value
        self.carried = {p for x in items_of(self.region) if isinstance(x, Repeat) for p in x.params}
        self.outputs += [f"output_{k}" for k in range(len(outputs), self.n_outputs)]
        self.writer.model.taken.update(names, self.outputs, (c.name for c in program.captured))

    def model(self) -> ModelProto:
        """The ModelProto."""
        scope = Scope(self.writer, {})
        fixed, guards = checks.fixed_and_open(self.program)
        for place, number in enumerate(self.program.inputs):
            info = self.program.info[number]
            assert info.extents is not None
            free = [a for a, e in enumerate(info.extents) if type(e) is tuple and e not in fixed]
            scope.values[number] = self.writer.input(
                self.names[place], info.dtype, info.hint, free or None
            )
        for (op, a, b), (outcome, site) in guards.items():
            self.check(scope, Check(("compare", op, a, b), outcome, site))
        self.write(scope, self.region)
        results = self.region.outcome.values.get(END)
        if results is None:
            raise self.writer.unsupported("the function always ends in an error")
        values = [self.value(scope, i) for i in results if i is not None]
        assert len(values) == len(results)
        outputs = list(zip(self.outputs, checks.checked(scope, values), strict=False))
        model = self.writer.finish(outputs, self.program.name)
        self.name_dims(model)
        return model

    @property
    def n_outputs(self) -> int:
        """The number of results, and of new values of buffers."""
        return len(self.region.outcome.values.get(END, ()))

    @property
    def n_results(self) -> int:
        """The number of results, without new values of buffers."""
        return self.n_outputs - len(writes_of(self.program))

    def name_dims(self, model: ModelProto) -> None:
        """Give free dims of inputs the names that the caller wants."""
        place = {number: k for k, number in enumerate(self.program.inputs)}
        new = {}
        leaves = self.writer.model.leaves
        for (number, axis), name in self.dims.items():
            value_name = self.names[place[number]]
            leaf = next(i for i, v in enumerate(leaves) if v.name == value_name)
            new[f"d{leaf}_{axis}"] = name
        for info in [*model.graph.input, *model.graph.output]:
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param in new:
                    dim.dim_param = new[dim.dim_param]

    # -- values and numbers -----------------------------------------------------------------

    def value(self, scope: Scope, i: int) -> Value:
        """The tensor of an id; parameters and buffers become initializers when first used."""
        tensor = scope.values.get(i)
        if tensor is not None:
            return tensor
        known = self.initializers.get(i)
        if known is None:
            captured = self.captured[i]
            array = _hot.ensure(_hot.refreshed(captured.tensor))
            if captured.kind == "constant":
                known = self.writer.constant(array, self.program.info[i].dtype)
            else:
                known = self.writer.initializer(captured.name, array)
            self.initializers[i] = known
        return known

    def initializer(self, name: str, array: np.ndarray[Any, Any]) -> Value:
        """A tensor made of parameters, under a name of its own."""
        known = self.initializers.get(name)
        if known is None:
            self.writer.model.taken.add(name)
            known = self.initializers[name] = self.writer.initializer(name, array)
        return known

    def meant(self, i: int) -> int:
        """The first name of a value."""
        while True:
            known = self.stays if i in self.carried else self.renamed
            if i not in known:
                return i
            i = known[i]

    @staticmethod
    def is_asked(item: Apply) -> bool:
        """Whether an op has args that are known at run time."""
        return any(type(e) is tuple for e in item.args)

    def number(self, scope: Scope, expr: Expr, category: int = 1) -> Any:
        """An expression as a number for the writer: Python's, a SymInt or a SymNumber."""
        placed_expr, hint = self.placed(scope, expr)
        if type(placed_expr) is not tuple:
            return placed_expr
        guards = self.writer.model.guards
        if category >= 2:
            return SymNumber(placed_expr, category, hint)
        return SymInt(placed_expr, int(hint), guards)

    def placed(self, scope: Scope, expr: Expr) -> tuple[Expr, Any]:
        """(expression over the writer's leaves, hint)."""
        if type(expr) is not tuple:
            return expr, expr
        op = expr[0]
        if op == DIM:
            shape = self.value(scope, expr[1]).shape
            assert shape is not None
            extent = shape[expr[2]]
            return expr_of(extent), hint_of(extent)
        if op == ARG:
            number = self.scalar(scope.values[expr[1]], self.program.info[expr[1]])
            return expr_of(number), hint_of(number)
        a, x = self.placed(scope, expr[1])
        if op == NEG:
            return make(NEG, a, 0), -x
        b, y = self.placed(scope, expr[2])
        return make(op, a, b), apply_binary(op, x, y)

    def scalar(self, value: Value, info: Info) -> Any:
        """The number of a 0-d tensor."""
        number = self.numbers.get(id(value))
        if number is None:
            hint = info.hint[0] if info.hint else 2
            number = self.writer.scalar(value, hint)
            self.numbers[id(value)] = number
            self.numbers[-id(value)] = value  # so that the id stays taken
        return number

    def tensor_of(self, scope: Scope, expr: Expr, dtype: DType) -> Value:
        """An expression as a 0-d tensor."""
        category = min(dtype.category, 2)
        return scope.writer.number(self.number(scope, expr, category), dtype)

    def named(self, scope: Scope, i: int, value: Value) -> Value:
        """A value under an id: with the extents that the program knows for the id, or its own."""
        info = self.program.info[i]
        if info.extents is None:
            return Value(value.name, value.dtype, ())
        fresh = self.writer.measured(value, info.hint)
        assert fresh.shape is not None
        shape = []
        for axis, e in enumerate(info.extents):
            own = type(e) is tuple and any(k == i for k in ids_of(e))
            known = not own and all(k in scope.values or k in self.captured for k in ids_of(e))
            extent_of_value = None if value.shape is None else value.shape[axis]
            own_extent = fresh.shape[axis] if extent_of_value is None else extent_of_value
            shape.append(self.number(scope, e) if known else own_extent)
        return Value(value.name, value.dtype, tuple(shape))

    # -- statements -------------------------------------------------------------------------

    def write(self, scope: Scope, region: Nested) -> None:
        """The items of a region."""
        for item in region.items:
            if isinstance(item, Apply):
                self.apply(scope, item)
            elif isinstance(item, ReadNumber):
                self.read(scope, item)
            elif isinstance(item, Compute):
                dtype = self.dtype(item.output)
                scope.values[item.output] = self.tensor_of(scope, item.expr, dtype)
            elif isinstance(item, Draw):
                for i in (item.seed, item.offset):
                    scope.values[i] = scope.writer.constant(0, int64)
            elif isinstance(item, Bind):
                values = [self.value(scope, i) for i in item.values]
                for name, value in zip(item.names, values, strict=True):
                    scope.values[name] = self.named(scope, name, value)
            elif isinstance(item, Branch):
                self.branch(scope, item)
            elif isinstance(item, Check):
                self.check(scope, item)
            else:
                loops.write(self, scope, item)

    def apply(self, scope: Scope, item: Apply) -> None:
        """An op."""
        prim = item.prim
        args = []
        for k, e in enumerate(item.args):
            category = 1 if prim.size_mask[k] else prim.categories[k]
            args.append(self.number(scope, e, category))
        operands = [self.value(scope, i) for i in item.inputs]
        written = len(scope.writer.nodes)
        results = scope.writer.emit(prim, pattern_of(self.program, item), operands, args)
        if item.site.module:  # viewers group nodes by the parts of their names
            for node in scope.writer.nodes[written:]:
                node.name = "/".join(["", *item.site.module.split("."), node.output[0]])
        for i, result in zip(item.outputs, results, strict=True):
            # The pattern of the op holds for some sizes alone; the program's extents for all.
            shape = [self.number(scope, e) for e in self.program.info[i].extents or ()]
            scope.values[i] = Value(result.name, result.dtype, tuple(shape))

    def read(self, scope: Scope, item: ReadNumber) -> None:
        """A number read from a tensor of a single element."""
        writer = scope.writer
        x = self.value(scope, item.value)
        dtype = _NUMBERS[x.dtype.category]
        scope.values[item.output] = writer.cast(writer.reshape(x, ()), dtype)

    def condition(self, scope: Scope, question: tuple[Any, ...]) -> Value:
        """A question as a 0-d bool."""
        writer = scope.writer
        if question[0] == "value":
            x = self.value(scope, question[1])
            return writer.cast(writer.reshape(x, ()), bool_)
        if question[0] == "target":
            op, left, right, dtype = EQ, (ARG, question[1]), question[2], int64
        else:
            _, op, left, right = question
            category = max(number_category(e, self.program.info) for e in (left, right))
            dtype = float64 if category >= 2 else int64
        a, b = self.tensor_of(scope, left, dtype), self.tensor_of(scope, right, dtype)
        comparison: Value = writer.raw_node(_COMPARISONS[op], [a, b], bool_)
        if op == NE:
            comparison = writer.raw_node("Not", [comparison], bool_)
        return Value(comparison.name, bool_, ())

    def check(self, scope: Scope, item: Check) -> None:
        """A condition without which the graph has no results."""
        condition = self.condition(scope, item.question)
        if not item.goes_on:
            condition = scope.writer.raw_node("Not", [condition], bool_)
        scope.checks.append((condition, text.place(item.site)))

    def branch(self, scope: Scope, item: Branch) -> None:
        """An If node."""
        condition = self.condition(scope, item.question)
        graphs = []
        for region in (item.on_true, item.on_false):
            inner = scope.inner()
            self.write(inner, region)
            graphs.append(self.graph(inner, region.outcome, item.outcome, "branch"))
        ids = self.ids(item.outcome)
        if not ids:
            return
        values = self.outputs_of(
            scope,
            "If",
            [condition],
            [self.dtype(i) for i in ids],
            then_branch=graphs[0],
            else_branch=graphs[1],
        )
        for i, value in zip(ids, values, strict=True):
            scope.values[i] = self.named(scope, i, value)

    def ids(self, outcome: Outcome) -> list[int]:
        """The ids that a statement makes."""
        output_ids = [i for row in outcome.values.values() for i in row if i is not None]
        if outcome.selector[0] == "id":
            output_ids.append(outcome.selector[1])
        return output_ids

    def dtype(self, i: int) -> DType:
        """The element type of an id."""
        info = self.program.info[i]
        return _NUMBERS[info.dtype] if info.extents is None else info.dtype

    def outputs_of(
        self,
        scope: Scope,
        op: str,
        inputs: Sequence[Value | None],
        dtypes: Sequence[DType],
        **attributes: Any,
    ) -> list[Value]:
        """The results of a node, in these element types."""
        count = len(dtypes)
        output = scope.writer.raw_node(op, inputs, dtypes[0], outputs=count, **attributes)
        values = [output] if count == 1 else output
        return [Value(v.name, t) for v, t in zip(values, dtypes, strict=True)]

    def results(self, scope: Scope, inner: Outcome, outer: Outcome) -> list[Value]:
        """The values that a region gives for the ids of the statement around."""
        values = []
        for target, row in outer.values.items():
            mine = inner.values.get(target) or (None,) * len(row)
            for i, k in zip(mine, row, strict=True):
                if k is not None:
                    values.append(self.nothing(k) if i is None else self.value(scope, i))
        if outer.selector[0] == "id":
            values.append(self.selected(scope, inner))
        return values

    def selected(self, scope: Scope, outcome: Outcome) -> Value:
        """The number of the target that a region leads to."""
        if outcome.selector[0] == "id":
            return scope.values[outcome.selector[1]]
        return scope.writer.constant(outcome.only, int64)

    def nothing(self, i: int) -> Value:
        """A value that nobody reads."""
        info = self.program.info[i]
        if info.extents is None:
            return self.writer.constant(0, self.dtype(i))
        return self.writer.constant(np.zeros([1] * len(info.extents)), info.dtype)

    def graph(self, scope: Scope, inner: Outcome, outer: Outcome, name: str) -> GraphProto:
        """The graph of a region."""
        return self.closed(scope, self.results(scope, inner, outer), name)

    def closed(self, scope: Scope, values: list[Value], name: str) -> GraphProto:
        """A graph with these results, of any sizes."""
        named = self.writer.model.name
        results = []
        for value in checks.checked(scope, values):
            assert value.shape is not None, value
            results.append((named("result"), Value(value.name, value.dtype, (None,) * value.rank)))
        return scope.writer.graph(results, named(name))
