"""Sums of products of the same form: a single product of all operands side by side.

x1 @ y1 + x2 @ y2 = [x1 x2] @ [y1; y2]. A net that uses a weight in each time step adds a product
to the gradient of the weight in each step. Such a product goes through the whole gradient, which
may be far larger than its operands. Side by side, the operands of many steps make a single product,
which writes the gradient once. The first sizes of the path decide whether the copies of the
operands cost less than the sums that are saved.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from wend._engine.base import dtypes
from wend._engine.base.devices import CPU
from wend._engine.compiler.ir.loops import Function
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, add
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.core import _types
from wend._engine.core.graph import Node
from wend._engine.core.primitive import ops
from wend._engine.ops.contract import Contract
from wend._engine.ops.elementwise.arithmetic import Add
from wend._engine.ops.views.family import View as ViewOp

#: Rows that are summed in a product of operands side by side. More rows would not make the sums of
#: products fewer by much, and all operands of a product are in memory at once.
MOST_ROWS = 512


class _Term(NamedTuple):
    """A term of a sum that is a product, perhaps behind views.

    contract: position of the product's node
    views: positions of the nodes of views, in order
    """

    contract: int
    views: tuple[int, ...]

    @property
    def last(self) -> int:
        """The position of the node whose result is the term."""
        return self.views[-1] if self.views else self.contract


class _Sum(NamedTuple):
    """A tree of additions.

    root: position of the last addition
    inner: positions of all other additions
    terms: the values that are added
    """

    root: int
    inner: list[int]
    terms: list[int]


def join_products(low: Lowering) -> list[Node]:
    """Return the nodes of a lowering, with products of a sum joined where they have the same form.

    A position below is a place in the list of nodes as it was before.
    """
    joining = _Joining(low)
    for tree in joining.sums():
        joining.join(tree)
    if not joining.instead:
        return low.nodes
    return [node for k, own in enumerate(low.nodes) for node in joining.instead.get(k, (own,))]


class _Joining:
    """The state of a pass over the nodes of a lowering."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.function: Function = low.function
        self.nodes = low.nodes
        self.places = {o: k for k, node in enumerate(self.nodes) for o in node.outputs}
        self.instead: dict[int, list[Node]] = {}  # nodes that replace the node of a position

    # -- sums -------------------------------------------------------------------------------

    def sums(self) -> list[_Sum]:
        """Return the trees of additions."""
        trees = []
        inside: set[int] = set()
        for k in reversed(range(len(self.nodes))):
            if k in inside or not self.adds(k):
                continue
            terms: list[int] = []
            inner: list[int] = []
            left = [*self.nodes[k].inputs]
            while left:
                i = left.pop()
                at = self.places.get(i, -1)
                if at >= 0 and self.is_inner(i) and self.adds(at):
                    inner.append(at)
                    left += self.nodes[at].inputs
                else:
                    terms.append(i)
            inside.update(inner)
            trees.append(_Sum(k, inner, terms[::-1]))
        return trees

    def adds(self, k: int) -> bool:
        """Whether a node adds two tensors of floats of the same shape."""
        node = self.nodes[k]
        if not isinstance(node.prim, Add) or len(node.inputs) != 2:
            return False
        out = node.outputs[0]
        dtype, shape = self.low.path.dtype_of(out), self.function.shape(out)
        return dtype in (dtypes.float32, dtypes.float64) and all(
            self.low.path.dtype_of(i) is dtype and self.function.shape(i) == shape
            for i in node.inputs
        )

    def is_inner(self, i: int) -> bool:
        """Whether a value is read once, and is not a result of the path."""
        return i not in self.low.needed and len(self.low.consumers[i]) == 1

    # -- terms ------------------------------------------------------------------------------

    def product(self, i: int) -> _Term | None:
        """Return a term of a sum as a product behind views, or None."""
        views: list[int] = []
        while i in self.places and self.is_inner(i):
            at = self.places[i]
            node = self.nodes[at]
            if isinstance(node.prim, Contract):
                return _Term(at, tuple(views[::-1])) if node.prim.sum_x else None
            if not isinstance(node.prim, ViewOp) or len(node.inputs) != 1 or node.args:
                return None
            views.append(at)
            i = node.inputs[0]
        return None

    def operands(self, term: _Term) -> list[tuple[Poly, ...]]:
        """Return the extents of both operands of a product."""
        return [self.function.shape(i) for i in self.nodes[term.contract].inputs]

    def summed(self, term: _Term) -> tuple[int, int]:
        """Return the dim of each operand along which operands are put side by side."""
        prim: Any = self.nodes[term.contract].prim
        _, sum_x, _, _, sum_y, _ = prim.layout(*map(len, self.operands(term)))
        return sum_x[0], sum_y[0]

    def form(self, term: _Term) -> Any:
        """Return a key that is the same for products that can be joined."""
        kept = [
            (*shape[:d], ZERO, *shape[d + 1 :])
            for shape, d in zip(self.operands(term), self.summed(term), strict=True)
        ]
        shown = [self.nodes[k] for k in term.views]
        return (
            self.nodes[term.contract].prim,
            *kept,
            *[(node.prim, self.function.shape(node.outputs[0])) for node in shown],
        )

    def pays(self, terms: list[_Term]) -> bool:
        """Whether copies of all operands are smaller than half of the sums that are saved."""
        size = self.low.sizes
        copied = sum(prod(map(size, shape)) for term in terms for shape in self.operands(term))
        result = self.function.shape(self.nodes[terms[0].contract].outputs[0])
        return 2 * copied < (len(terms) - 1) * prod(map(size, result))

    def chunks(self, terms: list[_Term]) -> list[list[_Term]]:
        """Return products in order, so many together as have `MOST_ROWS` summed rows."""
        chunks: list[list[_Term]] = [[]]
        rows = 0
        for term in terms:
            more = self.low.sizes(self.operands(term)[0][self.summed(term)[0]])
            if chunks[-1] and rows + more > MOST_ROWS:
                chunks.append([])
                rows = 0
            chunks[-1].append(term)
            rows += more
        return chunks

    # -- joined products --------------------------------------------------------------------

    def join(self, tree: _Sum) -> None:
        """Join the products of a sum where it pays."""
        forms: dict[Any, list[_Term]] = {}
        single = []
        for i in tree.terms:
            term = self.product(i)
            if term is None:
                single.append(i)
            else:
                forms.setdefault(self.form(term), []).append(term)
        joined: list[list[_Term]] = []
        for terms in forms.values():
            terms.sort()
            for chunk in self.chunks(terms) if self.pays(terms) else [[term] for term in terms]:
                if len(chunk) > 1:
                    joined.append(chunk)
                else:
                    single.append(self.nodes[chunk[0].last].outputs[0])
        if joined:
            self.replace(tree, sorted(joined, key=lambda chunk: chunk[-1].last), single)

    def replace(self, tree: _Sum, joined: list[list[_Term]], single: list[int]) -> None:
        """Compute a sum from joined products, and from terms that stay."""
        root = self.nodes[tree.root]
        for at in (tree.root, *tree.inner):
            self.instead[at] = []
        for chunk in joined:
            self.join_chunk(chunk)
        values = [(self.nodes[chunk[-1].last].outputs[0], chunk[-1].last) for chunk in joined]
        values += [(i, tree.root) for i in single]
        (total, at), *rest = values
        if not rest:  # the product is the sum
            (last,) = self.instead.get(at, (self.nodes[at],))[-1:]
            self.instead[at] = [
                *self.instead.get(at, ())[:-1],
                _like(last, last.inputs, root.outputs),
            ]
        for k, (value, at) in enumerate(rest, 1):
            out = root.outputs[0]
            if k < len(rest):
                out = self.fresh(self.function.shape(out), out)
            self.behind(at).append(_like(root, (total, value), (out,)))
            total = out

    def behind(self, at: int) -> list[Node]:
        """Return the nodes that replace the node of a position, at the end of which to add more."""
        return self.instead.setdefault(at, [self.nodes[at]])

    def join_chunk(self, terms: list[_Term]) -> None:
        """Let the last of several products be the product of all operands side by side."""
        last = terms.pop()
        for term in terms:
            for at in (term.contract, *term.views):
                self.instead[at] = []
        terms.append(last)
        product = self.nodes[last.contract]
        parts: list[Node] = []
        for k, d in enumerate(self.summed(last)):
            values = [self.nodes[term.contract].inputs[k] for term in terms]
            parts.append(self.side_by_side(values, d))
        operands = tuple([part.outputs[0] for part in parts])
        self.instead[last.contract] = [*parts, _like(product, operands, product.outputs)]

    def side_by_side(self, values: list[int], d: int) -> Node:
        """Return a node that puts values in a row along dim d."""
        shapes = [self.function.shape(i) for i in values]
        rows = ZERO
        for shape in shapes:
            rows = add(rows, shape[d])
        out = self.fresh((*shapes[0][:d], rows, *shapes[0][d + 1 :]), values[0])
        self.low.joined.add(out)
        prim = ops.cat.primitive.of((("L", len(values)),), dim=d)
        type_ = _types.intern_type((2,) * len(shapes[0]), self.low.path.dtype_of(values[0]), CPU)
        program = prim.typed([type_] * len(values), [])[0]
        return Node(prim, program, tuple(values), (out,), (), False)

    def fresh(self, shape: tuple[Poly, ...], like: int) -> int:
        """Return a new value of this shape, of the dtype of another value."""
        return self.function.fresh(shape, self.low.path.dtype_of(like))


def _like(node: Node, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Node:
    """Return a node of the same op with other operands and results."""
    return Node(node.prim, node.program, inputs, outputs, node.args, node.grad, node.source)
