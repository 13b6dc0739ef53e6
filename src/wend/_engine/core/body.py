"""Graphs as single ops: off the trie they stand for a composite, or for a gradient rule.

A composite is a single node instead of a node per primitive in it. So there are several times fewer
nodes to expand, to differentiate, to sort into groups, and a group runs the whole body at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wend._engine.base.dtypes import DType
from wend._engine.core import _types
from wend._engine.core._types import Program
from wend._engine.core.graph import Graph, Node
from wend._engine.core.op_facts import TorchCall
from wend._engine.core.primitive import Composite, Primitive
from wend._engine.core.symbolic import ARG, Expr


class Body(Composite, abstract=True):
    """A graph as an op.  The op returns all outputs of the graph; there are no size rules."""

    torch = TorchCall(grad_name="BodyBackward0")

    def __init__(self, name: str, graph: Graph) -> None:
        self.name = name  # type: ignore[misc]
        self.attrs = {}
        self.graph = graph
        self.setup(("T",) * graph.n_inputs, False, False, True)
        #: Whether each op of the graph has a batching rule, so that many bodies can run as one.
        self.batches = all(node.prim.batch is not None for node in graph.nodes)

    def result_wrap(self) -> type[list[Any]]:  # type: ignore[override]
        """Always a list."""
        return list


class Total(Composite, abstract=True):
    """The sum of any number of tensors of the same type."""

    name = "total"
    torch = TorchCall(grad_name="TotalBackward0")

    def __init__(self) -> None:
        self.attrs = {}
        self.setup(("T",), False, False, True)


class Bundle:
    """A graph as a `Body`, and how a node with the body is made of the graph's operands.

    inputs: which inputs of the graph the body reads
    outputs: ids, in the graph, of the results
    exprs: the body's run-time args, over the graph's extents and args; the first `n_args` args of
    the graph come before them
    """

    __slots__ = ("exprs", "inputs", "outputs", "prim", "program")

    def __init__(
        self,
        name: str,
        nodes: list[Node],
        inputs: Sequence[int],
        outputs: Sequence[int],
        dtypes: Sequence[Any],
        rows: tuple[Any, ...],
        make: type[Body] = Body,
        n_args: int = 0,
    ) -> None:
        names = {i: k for k, i in enumerate(inputs)}
        exprs: dict[str, tuple[int, Expr]] = {}
        for k in range(n_args):
            _placed((ARG, k), exprs)
        n = len(inputs)
        moved = []
        for node in nodes:
            for o in node.outputs:
                names[o] = n
                n += 1
            moved.append(
                Node(
                    node.prim,
                    node.program,
                    tuple([names[i] for i in node.inputs]),
                    tuple([names[o] for o in node.outputs]),
                    tuple([_placed(e, exprs) for e in node.args]),
                    node.grad,
                )
            )
        graph = Graph(len(inputs), moved, [names[o] for o in outputs], {})
        self.prim = make(name, graph)
        self.program = body_program(self.prim, dtypes, rows)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.exprs = tuple([expr for _, expr in exprs.values()][n_args:])


def _placed(expr: Expr, exprs: dict[str, tuple[int, Expr]]) -> Expr:
    """The run-time arg that stands for an expression."""
    if type(expr) is not tuple:
        return expr
    # By the text: 2 and 2.0 are equal, and not the same.
    return (ARG, exprs.setdefault(repr(expr), (len(exprs), expr))[0])


def body_program(prim: Primitive, dtypes: Iterable[Any], rows: tuple[Any, ...]) -> Program:
    """The pattern of an op of this module.

    dtypes: dtypes of the operands
    rows: (extents, dtype) of each result
    """
    from wend._engine.base.devices import CPU

    program = Program(prim, (), rows)
    program.sample_types = [_types.intern_type((), dtype, CPU) for dtype in dtypes]
    program.many = True
    return program


_TOTALS: dict[Any, Program] = {}


def total_program(dtype: DType) -> Program:
    """The pattern of a sum of several tensors of this dtype."""
    program = _TOTALS.get(dtype)
    if program is None:
        program = _TOTALS[dtype] = body_program(Total(), (dtype,), (((), dtype),))
    return program
