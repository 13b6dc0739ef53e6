"""The writer of ONNX graphs: applied ops become nodes, by the rules of the ops' classes.

A writer is a scope: the main graph, the body of an If or a Loop (which sees the values outside), or
a local function (which sees nothing outside). The questions of rules are described in
`ops/onnx_builder.py`; `emit` is for callers that have a list of applied ops.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.base.dtypes import DType, int64
from wend._engine.core._types import Program
from wend._engine.core.kinds import Size
from wend._engine.core.primitive import Primitive
from wend._engine.core.symbolic import (
    ARG,
    DIM,
    Guards,
    SymInt,
    SymNumber,
    args_in,
    evaluate,
    expr_of,
    hint_of,
)
from wend._engine.core.types import Spec
from wend.onnx.exporting import extents
from wend.onnx.exporting.elements import Elements
from wend.onnx.exporting.kernels import computed_in
from wend.onnx.exporting.protos import Protos, names_read, renamed, used_nodes
from wend.onnx.exporting.values import UnsupportedOperatorError, Value

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

__all__ = ["OPSETS", "GraphWriter"]

OPSETS = range(18, 25)
DOMAIN = "wend"  # of local functions


class Model:
    """The part that all scopes of a model share.

    leaves: the tensors whose dims are the leaves of extents     scalars: run-time numbers
    taken: names that the caller gives to inputs, outputs and tensors
    guards: the comparisons of extents on which the text of the model depends
    """

    def __init__(self, opset: int) -> None:
        if opset not in OPSETS:
            raise ValueError(
                f"onnx export: opset {opset} is not supported: choose one from {OPSETS[0]} to "
                f"{OPSETS[-1]}"
            )
        self.opset = opset
        self.protos = Protos()
        self.leaves: list[Value] = []
        self.scalars: list[Value] = []
        self.guards = Guards()
        self.names = 0
        self.taken: set[str] = set()
        self.functions: list[FunctionProto] = []

    def name(self, stem: str) -> str:
        """A name that nothing in the model has."""
        self.names += 1
        while f"{stem}_{self.names}" in self.taken:
            self.names += 1
        return f"{stem}_{self.names}"


class _Sizes:
    """Extents for all leaves, drawn at random: the same for the same seed, leaf and axis."""

    def __init__(self, seed: int, leaf: int = -1) -> None:
        self.seed = seed
        self.leaf = leaf

    def __getitem__(self, key: int) -> Any:
        if self.leaf < 0:
            return _Sizes(self.seed, key)
        most = 40 if self.seed % 2 else 4000
        return random.Random(f"{self.seed} {self.leaf} {key}").randint(16, most)


class GraphWriter:
    """A scope of an ONNX model that is being written.

    opset: version of the operators, 18 to 24     outer: the scope around, for `subgraph`
    """

    def __init__(self, opset: int = 21, *, outer: GraphWriter | None = None) -> None:
        self.outer = outer
        self.model: Model = Model(opset) if outer is None else outer.model
        self.home: GraphWriter = self if outer is None else outer.home  # where constants are kept
        self.inputs: list[Value] = []
        self.nodes: list[NodeProto] = []
        self.constants: list[
            NodeProto
        ] = []  # nodes: an importer would take initializers for weights
        self.initializers: dict[str, TensorProto] = {}
        self.function_name: str | None = None
        self.out: list[Spec] = []  # Specs of the results of the op whose rule runs
        self.op_name = ""
        self._known: dict[tuple[object, ...], Value] = {}

    @property
    def opset(self) -> int:
        """The version of the operators."""
        return self.model.opset

    @cached_property
    def elements(self) -> Elements:
        """The builder of elementwise ops (`ops/builder.py`), with ONNX nodes as instructions."""
        return Elements(self)

    # -- scopes and their inputs ------------------------------------------------------------

    def subgraph(self) -> GraphWriter:
        """A scope for the body of an If, Loop or Scan node, which sees the values of this scope."""
        return GraphWriter(outer=self)

    def function(self, name: str, inputs: Sequence[Value]) -> GraphWriter:
        """A scope for a local function, which sees nothing outside; `inputs` are examples."""
        body = GraphWriter(outer=self)
        body.outer, body.home, body.function_name = None, body, name
        for value in inputs:
            body.input(self.model.name("x"), value.dtype, value.shape or (), value.shape)
        return body

    def input(
        self, name: str, dtype: DType, shape: Sequence[Any], symbolic: Sequence[Any] | None = None
    ) -> Value:
        """An input of this scope.

        shape: example extents     symbolic: the axes whose extents are not fixed, or None for none;
        or a sequence of extents of which the `SymInt` are not fixed
        """
        value = Value(name, dtype, ())
        leaf = len(self.model.leaves)
        self.model.leaves.append(value)
        free: Any = () if symbolic is None else symbolic
        if isinstance(symbolic, (tuple, list)) and any(isinstance(n, SymInt) for n in symbolic):
            free = [axis for axis, n in enumerate(symbolic) if isinstance(n, SymInt)]
        value.shape = tuple(
            SymInt((DIM, leaf, axis), hint_of(n), self.model.guards) if axis in free else hint_of(n)
            for axis, n in enumerate(shape)
        )
        self.inputs.append(value)
        return value

    def initializer(self, name: str, array: np.ndarray[Any, Any]) -> Value:
        """A tensor that the model carries: a parameter or a buffer."""
        dtype = dtypes.from_numpy(array.dtype)
        self.home.initializers[name] = self.model.protos.tensor(name, array, dtype)
        return Value(name, dtype, tuple(array.shape))

    def measured(self, value: Value, hints: Sequence[int]) -> Value:
        """The same tensor with extents of its own: none follows from further extents."""
        leaf = len(self.model.leaves)
        shape = tuple(SymInt((DIM, leaf, a), n, self.model.guards) for a, n in enumerate(hints))
        self.model.leaves.append(value)
        return Value(value.name, value.dtype, shape)

    def scalar(self, value: Value, hint: Any) -> Any:
        """A tensor of an element as a run-time number, for args of ops: SymInt or SymNumber."""
        expr = (1, len(self.model.scalars))
        self.model.scalars.append(value)
        if value.dtype.category == dtypes.INT:
            return SymInt(expr, int(hint), self.model.guards)
        return SymNumber(expr, value.dtype.category, hint)

    # -- applied ops ------------------------------------------------------------------------

    def emit(
        self, prim: Primitive, program: Program, operands: Sequence[Value], args: Sequence[Any] = ()
    ) -> list[Value]:
        """Write an applied op; its results.

        args: numbers, `SymInt` or `SymNumber`
        Raises UnsupportedOperatorError, which names the op, the reason and the remedy.
        """
        outs = [
            Spec(tuple(extents.placed(e, operands, args) for e in row), dtype)
            for row, dtype in program.outs
        ]
        before = self.out, self.op_name
        # An op inside of a composite is named together with the op that the user called.
        self.out = outs
        self.op_name = f"{self.op_name}: {prim.name}" if self.op_name else prim.name
        try:
            result: Any = NotImplemented
            if prim.onnx is not None:
                result = prim.onnx(self, *prim.arrange(list(operands), list(args)))
            if result is NotImplemented:
                if program.graph is None:
                    raise self.unsupported("the op has no ONNX rule")
                result = self._body(program.graph, operands, args)
        finally:
            self.out, self.op_name = before
        values = [result] if isinstance(result, Value) else list(result)
        return [self._checked(prim, value, out) for value, out in zip(values, outs, strict=True)]

    def _body(self, graph: Any, operands: Sequence[Value], args: Sequence[Any]) -> list[Value]:
        values: list[Any] = [*operands, *[None] * (graph.size - len(operands))]
        for node in graph.nodes:
            numbers = [extents.placed(e, operands, args) for e in node.args]
            inputs = [values[i] for i in node.inputs]
            for i, value in zip(
                node.outputs, self.emit(node.prim, node.program, inputs, numbers), strict=True
            ):
                values[i] = value
        return [values[i] for i in graph.outputs]

    @staticmethod
    def _checked(prim: Primitive, value: Value, out: Spec) -> Value:
        if value.dtype is not out.dtype:
            raise TypeError(f"{prim!r}: the ONNX rule gave {value.dtype} instead of {out.dtype}")
        return Value(value.name, value.dtype, tuple(out.shape))

    def unsupported(self, reason: str, remedy: str = "") -> UnsupportedOperatorError:
        """The error of a rule that cannot say its op."""
        remedy = remedy or (
            "compute this part outside of the exported function, or write it in other ops"
        )
        return UnsupportedOperatorError(f"onnx export: {self.op_name}: {reason}; {remedy}")

    # -- nodes ------------------------------------------------------------------------------

    def computed_in(self, op: str, dtype: DType) -> DType | None:
        """The element type in which runtimes compute a node for operands of `dtype`."""
        return computed_in(op, dtype)

    def runs(self, op: str, dtype: DType) -> bool:
        """Whether runtimes compute a node in this element type, without casts."""
        return computed_in(op, dtype) is dtype

    def node(
        self,
        op: str,
        *inputs: Value | None,
        dtype: DType | None = None,
        outputs: int = 1,
        **attributes: Any,
    ) -> Any:
        """A node; its result, or a list of results if `outputs` is above 1.

        inputs: None for an optional input left out     dtype: of the first result, by default that
        of the first input; further results are int64
        Casts go around the node where runtimes have no kernel for the type of the first input.
        """
        first = inputs[0]
        assert first is not None
        input_dtype = first.dtype
        wide = computed_in(op, input_dtype)
        if wide is None:
            raise self.unsupported(f"there is no ONNX node {op} for {input_dtype}")
        result = dtype or input_dtype
        if wide is input_dtype:
            return self.raw_node(op, inputs, result, outputs=outputs, **attributes)
        cast = [
            self.cast(x, wide) if x is not None and x.dtype is input_dtype else x for x in inputs
        ]
        inner = wide if result is input_dtype else result
        output = self.raw_node(op, cast, inner, outputs=outputs, **attributes)
        if outputs == 1:
            return self.cast(output, result)
        return [self.cast(output[0], result), *output[1:]]

    def raw_node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        dtype: DType,
        *,
        outputs: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> Any:
        """A node as it is, without casts."""
        names = [self.model.name(op.lower()) for _ in range(outputs)]
        input_names = ["" if x is None else x.name for x in inputs]
        while input_names and not input_names[-1]:
            input_names.pop()
        self.nodes.append(self.model.protos.node(op, input_names, names, domain, attributes))
        types = [dtype] + [int64] * (outputs - 1)
        values = [Value(name, t) for name, t in zip(names, types, strict=True)]
        return values[0] if outputs == 1 else values

    def cast(self, x: Value, dtype: DType) -> Value:
        """x converted as C converts: floats are cut to ints through int64, and not 0 is True."""
        if x.dtype is dtype:
            return x
        if x.dtype.is_complex or dtype.is_complex:
            raise self.unsupported("ONNX operators take no complex numbers")
        if x.dtype.is_floating_point and dtype.category == dtypes.INT and dtype is not int64:
            x = self.raw_node("Cast", [x], int64, to=self.model.protos.code(int64))
        if x.dtype is dtype:
            return x
        value = self.raw_node("Cast", [x], dtype, to=self.model.protos.code(dtype))
        return Value(value.name, dtype, x.shape)

    def raw_cast(self, x: Value, name: str) -> Value:
        """x as a type of ONNX's, given by its name there; Wend's type stays the operand's."""
        to = getattr(self.model.protos.onnx.TensorProto, name)
        return self.raw_node("Cast", [x], x.dtype, to=to)  # type: ignore[no-any-return]

    def constant(self, value: Any, dtype: DType) -> Value:
        """A number or an array as a tensor of this type; ints wrap, as in C."""
        array = np.asarray(value)
        if dtype.category == dtypes.INT and array.dtype.kind in "iub":
            array = array.astype(np.int64)
        with np.errstate(all="ignore"):
            array = np.ascontiguousarray(array.astype(dtype.numpy)).reshape(array.shape)
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        key = ("constant", dtype.name, array.shape, digest)
        entry = self.home._known.get(key)
        if entry is None:
            name = self.model.name("constant")
            tensor = self.model.protos.tensor(name, array, dtype)
            node = self.model.protos.node("Constant", [], [name], "", {"value": tensor})
            self.home.constants.append(node)
            entry = self.home._known[key] = Value(name, dtype, tuple(array.shape))
        return entry

    def number(self, n: Any, dtype: DType) -> Value:
        """A number of an op's call as a 0-d tensor: Python's, or known at run time."""
        if isinstance(n, Value):
            return self.cast(n, dtype)
        if not isinstance(n, (SymInt, SymNumber)):
            return self.constant(n, dtype)
        expr = expr_of(n)
        if type(expr) is not tuple:
            return self.constant(expr, dtype)
        if expr[0] == ARG:
            return self.cast(self.model.scalars[expr[1]], dtype)
        is_float = isinstance(n, SymNumber) and n.category >= dtypes.FLOAT
        element = extents.write(self, expr, is_float)
        return self.cast(self.reshape(element, ()), dtype)

    # -- extents ----------------------------------------------------------------------------

    def sizes(self, sizes: Sequence[Any]) -> Value:
        """Ints and extents as a 1-D tensor of int64."""
        return extents.write_sizes(self, list(sizes))  # type: ignore[no-any-return]

    def size(self, n: Size) -> Value:
        """An int or an extent as a 0-d tensor of int64."""
        return self.number(n, int64)

    def fixed(self, n: Size) -> int | None:
        """The value of an int, or of an extent that is the same for all sizes; else None.

        Extents are sums, products, quotients and bounds of dims: those that agree at many sizes
        chosen at random are the same.
        """
        expr = expr_of(n)
        if type(expr) is not tuple:
            return int(expr)
        if args_in(expr):
            return None
        values = {evaluate(expr, dims, ()) for dims in map(_Sizes, range(24))}
        return int(values.pop()) if len(values) == 1 else None

    def shape_of(self, x: Value) -> Value:
        """The shape of x as a 1-D tensor of int64."""
        if x.shape is not None:
            return self.sizes(x.shape)
        return self.raw_node("Shape", [x], int64)  # type: ignore[no-any-return]

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """x in another shape; written without computing extents where 0 and -1 suffice."""
        wanted = tuple(shape)
        before = self._before(x, wanted)
        return before or self._noted(x, self._reshaped(x, wanted), wanted)

    def with_axes(self, op: str, x: Value, axes: Sequence[int], shape: Sequence[Any]) -> Value:
        """Unsqueeze or Squeeze of x, which gives this shape."""
        before = self._before(x, shape)
        return before or self._noted(x, self.node(op, x, self.sizes(axes)), shape)

    def _before(self, x: Value, shape: Sequence[Any]) -> Value | None:
        """The value of this shape that x was made of, if the elements are the same in order."""
        before = self.known(("reshaped", x.name))
        if before is None or [expr_of(n) for n in before.shape or ()] != list(map(expr_of, shape)):
            return None
        return before

    def _noted(self, x: Value, result: Value, shape: Sequence[Any]) -> Value:
        """The result of a node that has the elements of x in order."""
        if x.shape is not None and result.name != x.name:
            self.remember(("reshaped", result.name), self.known(("reshaped", x.name)) or x)
        return Value(result.name, x.dtype, tuple(shape))

    def _reshaped(self, x: Value, wanted: tuple[Any, ...]) -> Value:
        exprs = [expr_of(n) for n in wanted]
        own_exprs = None if x.shape is None else [expr_of(n) for n in x.shape]
        if own_exprs == exprs:
            return x
        if not any(hint_of(n) == 0 for n in wanted):
            short: list[int] = []
            for i, e in enumerate(exprs):
                if type(e) is not tuple:
                    short.append(e)
                elif own_exprs is not None and i < len(own_exprs) and own_exprs[i] == e:
                    short.append(0)
                else:
                    short.append(-1)
            if short.count(-1) == 1 or -1 not in short:
                target = self.constant(np.array(short, np.int64), int64)
                return self.raw_node("Reshape", [x, target], x.dtype)  # type: ignore[no-any-return]
        target = self.sizes(wanted)
        return self.raw_node(  # type: ignore[no-any-return]
            "Reshape", [x, target], x.dtype, allowzero=1
        )

    # -- parts that several rules need ------------------------------------------------------

    def shaped(self, x: Value, shape: Sequence[Any]) -> Value:
        """x, of which a rule knows the shape."""
        return Value(x.name, x.dtype, tuple(shape))

    def retyped(self, x: Value, dtype: DType) -> Value:
        """x, of which a rule knows the type."""
        return Value(x.name, dtype, x.shape)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """x with dim order[k] as dim k."""
        if tuple(order) == tuple(range(len(order))):
            return x
        value = self.raw_node("Transpose", [x], x.dtype, perm=list(order))
        shape = None if x.shape is None else tuple(x.shape[d] for d in order)
        return Value(value.name, x.dtype, shape)

    def expand(self, x: Value, shape: Sequence[Any]) -> Value:
        """x repeated to a shape; extents that are x's own need not be computed."""
        wanted = tuple(shape)
        own_exprs = [expr_of(n) for n in x.shape or ()]
        exprs = [expr_of(n) for n in wanted]
        if own_exprs == exprs and x.shape is not None:
            return x
        lead = len(wanted) - len(own_exprs)
        empty = any(hint_of(n) == 0 for n in wanted)
        target = [
            1 if i >= lead and own_exprs[i - lead] == exprs[i] and not empty else n
            for i, n in enumerate(wanted)
        ]
        return self.shaped(self.node("Expand", x, self.sizes(target)), wanted)

    def arange(self, count: Size) -> Value:
        """0, 1, ... count - 1 as int64."""
        value = self.node("Range", self.size(0), self.size(count), self.size(1))
        return self.shaped(value, (count,))

    def slice(self, x: Value, dim: int, start: Any, end: Any, step: Size) -> Value:
        """start:end:step along a dim, with Python's meaning; None for the ends."""
        whole = (start, end, step) == (-1, -(2**63), -1)
        before = self.known(("turned", x.name, dim)) if whole else None
        if before is not None:
            return before  # turned back
        bounds = (0 if start is None else start, 2**63 - 1 if end is None else end)
        first, last = (self.sizes((n,)) for n in bounds)
        part: Value = self.node("Slice", x, first, last, self.sizes((dim,)), self.sizes((step,)))
        if whole:
            self.remember(("turned", part.name, dim), x)
        return part

    def corner(self, x: Value, shape: Sequence[Any]) -> Value:
        """The first elements of x along each dim, as many as `shape` says."""
        if x.shape is not None and [expr_of(n) for n in x.shape] == [expr_of(n) for n in shape]:
            return x
        starts = self.sizes((0,) * len(shape))
        part = self.node("Slice", x, starts, self.sizes(shape), self.sizes(range(len(shape))))
        return self.shaped(part, shape)

    def scatter(self, x: Value, at: Value, src: Value, dim: int, how: str = "none") -> Value:
        """x with elements of src combined into it along a dim: none, add, mul, max or min."""
        wide = x.dtype
        if how != "none":
            wide = int64 if x.dtype is dtypes.bool_ else computed_in("ReduceSum", x.dtype) or wide
        operands = [self.cast(x, wide), at, self.cast(src, wide)]
        value = self.raw_node("ScatterElements", operands, wide, axis=dim, reduction=how)
        return self.shaped(self.cast(value, x.dtype), x.shape or ())

    def scan(
        self, step: Callable[..., Value], start: Value, sequences: Sequence[Value], dim: int
    ) -> Value:
        """y[i] = step(scope, y[i - 1], x[i], ...) along a dim, from `start`."""
        body = self.subgraph()
        name = self.model.name
        state = body.input(name("state"), start.dtype, self._row(sequences[0], dim), None)
        rows = []
        for x in sequences:
            shape = self._row(x, dim)
            rows.append(body.input(name("row"), x.dtype, shape, shape))
        state.shape = rows[0].shape
        fold = step(body, state, *rows)
        fold = Value(fold.name, fold.dtype, rows[0].shape)
        graph = body.graph([(name("fold"), fold), (name("y"), fold)], name("step"))
        n = len(sequences)
        outputs = self.raw_node(
            "Scan",
            [start, *sequences],
            start.dtype,
            outputs=2,
            body=graph,
            num_scan_inputs=n,
            scan_input_axes=[dim] * n,
            scan_output_axes=[dim],
        )
        return Value(outputs[1].name, start.dtype, sequences[0].shape)

    @staticmethod
    def _row(x: Value, dim: int) -> tuple[Any, ...]:
        assert x.shape is not None
        return (*x.shape[:dim], *x.shape[dim + 1 :])

    def known(self, key: tuple[object, ...]) -> Value | None:
        """The value that this scope, or a scope around, has remembered under a key."""
        scope: GraphWriter | None = self
        while scope is not None:
            value = scope._known.get(key)
            if value is not None:
                return value
            scope = scope.outer
        return None

    def remember(self, key: tuple[object, ...], value: Value) -> None:
        """Keep a value for `known`."""
        self._known[key] = value

    # -- the finished text ------------------------------------------------------------------

    def graph(self, outputs: Sequence[tuple[str, Value]], name: str = "graph") -> GraphProto:
        """The scope as a GraphProto, with these results under these names."""
        nodes, names = self._closed(outputs)
        protos = self.model.protos
        results = [
            protos.info(known, value) for known, (_, value) in zip(names, outputs, strict=True)
        ]
        inputs = [protos.info(value.name, value) for value in self.inputs]
        return protos.graph(name, nodes, inputs, results, list(self.initializers.values()))

    def _closed(self, outputs: Sequence[tuple[str, Value]]) -> tuple[list[NodeProto], list[str]]:
        """(nodes that the outputs depend on, names of the outputs), renamed as asked."""
        own = {name for node in (*self.constants, *self.nodes) for name in node.output}
        new: dict[str, str] = {}
        copies = []
        for name, value in outputs:
            if value.name in own and value.name not in new:
                new[value.name] = name
            else:
                source = new.get(value.name, value.name)
                copies.append(self.model.protos.node("Identity", [source], [name], "", {}))
        names = [name for name, _ in outputs]
        nodes = used_nodes([*renamed(self.nodes, new), *copies], names)
        place = {name: k for k, name in enumerate(names_read(nodes))}
        place.update({name: len(place) for name in names if name not in place})
        constants = [n for n in renamed(self.constants, new) if n.output[0] in place]
        return [*sorted(constants, key=lambda n: place[n.output[0]]), *nodes], names

    def close(self, outputs: Sequence[Value]) -> None:
        """End a local function with these results."""
        assert self.function_name is not None, "only a function is closed"
        names = [self.model.name("y") for _ in outputs]
        nodes, names = self._closed(list(zip(names, outputs, strict=True)))
        self.results = list(outputs)
        self.model.functions.append(
            self.model.protos.function(
                DOMAIN, self.function_name, [v.name for v in self.inputs], names, nodes, self.opset
            )
        )

    def call(self, function: GraphWriter, operands: Sequence[Value]) -> list[Value]:
        """A node that calls a closed function; its results, with extents of this scope."""
        assert function.function_name is not None
        outputs = self.raw_node(
            function.function_name,
            operands,
            function.results[0].dtype,
            outputs=len(function.results),
            domain=DOMAIN,
        )
        outputs = [outputs] if isinstance(outputs, Value) else outputs
        leaves = self.model.leaves
        at = {leaves.index(v): x for v, x in zip(function.inputs, operands, strict=True)}
        return [
            Value(y.name, r.dtype, tuple(extents.placed(expr_of(n), at, ()) for n in r.shape or ()))
            for y, r in zip(outputs, function.results, strict=True)
        ]

    def finish(self, outputs: Sequence[tuple[str, Value]], name: str = "main_graph") -> ModelProto:
        """The whole model, as a ModelProto."""
        assert self.outer is None and self.function_name is None, "only the main graph is a model"
        graph = self.graph(outputs, name)
        return self.model.protos.model(graph, self.opset, DOMAIN, self.model.functions)
