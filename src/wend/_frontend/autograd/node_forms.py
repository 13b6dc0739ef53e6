"""The nodes that PyTorch makes of an op, where they are not one node with an edge per operand.

An op gives them by a rule `grad_nodes(n, *params)`, with the parameters of the op's signature
(tensors as `Operand`s, absent ones as None) and a `Builder`:

    grad_nodes=lambda n, x, weight, bias: n.Addmm(bias, x, n.T(weight))

Rules are asked when somebody looks at the graph, never while recording.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from wend._engine.base.shapes import contiguous_strides, is_contiguous
from wend._engine.ops.views.reshapes import view_strides


class Operand:
    """A tensor among the arguments of the op.

    active: whether a gradient of the tensor is wanted   shape: None for a temporary
    """

    __slots__ = ("_region", "active", "id", "rank", "shape")

    def __init__(
        self, id: int, active: bool, rank: int, shape: tuple[int, ...] | None, region: Any
    ) -> None:
        self.id = id
        self.active = active
        self.rank = rank
        self.shape = shape
        self._region = region

    @property
    def strides(self) -> tuple[int, ...]:
        """The logical strides."""
        return strides_of(self._region, self.id)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._region.path.dtype_of(self.id)

    @property
    def contiguous(self) -> bool:
        """Whether PyTorch would have the elements in row-major order."""
        return self.shape is None or is_contiguous(self.shape, self.strides)

    @property
    def maker(self) -> tuple[Any, list[Operand], list[Any]] | None:
        """(op, operands, numbers) that made the tensor; None for leaves and parts of ops."""
        return self._region.maker(self.id)  # type: ignore[no-any-return]

    @property
    def edges(self) -> list[Any]:
        """The targets of the edges of the node that made the tensor."""
        return self._region.edges_of(self.id)  # type: ignore[no-any-return]


class Made:
    """A node: name and targets of edges."""

    __slots__ = ("edges", "name", "place")

    def __init__(self, name: str, edges: tuple[Any, ...], place: int) -> None:
        self.name: str = name
        self.edges: tuple[Any, ...] = edges
        self.place: int = place


class Result:
    """Result `number` of a node; `result[k]` is result k of the same node."""

    __slots__ = ("made", "number")

    def __init__(self, form: Made, number: int = 0) -> None:
        self.made = form
        self.number = number

    def __getitem__(self, number: int) -> Result:
        return Result(self.made, number)


class Elsewhere:
    """The result of a node of another op, the op at position `k`."""

    __slots__ = ("k", "result")

    def __init__(self, k: int, result: Result) -> None:
        self.k = k
        self.result = result


class Builder:
    """Makes nodes by name: `n.Sum1(x)` is a SumBackward1; None where no edge wants a gradient."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.count = 0

    def __getattr__(self, name: str) -> Callable[..., Result | None]:
        match = re.fullmatch(r"(.*?)(\d?)", name)
        assert match is not None
        return lambda *edges: self.node(f"{match[1]}Backward{match[2] or 0}", *edges)

    def node(self, name: str, *edges: object) -> Result | None:
        """A node of that very name."""
        wanted = [
            e
            if isinstance(e, (Result, Elsewhere)) or (isinstance(e, Operand) and e.active)
            else None
            for e in edges
        ]
        if not any(e is not None for e in wanted):
            return None
        form = Made(name, tuple(wanted), self.count)
        self.count += 1
        return Result(form)

    def laid(self, x: Any) -> Laid:
        """An operand with strides, to be followed through views."""
        shape = x.shape if x.shape is not None else (2,) * x.rank
        return Laid(self, x, shape, x.strides if x.shape is not None else contiguous_strides(shape))

    def made(self, edge: Any, shape: Sequence[int]) -> Laid:
        """A new result of that shape."""
        return Laid(self, edge, shape, contiguous_strides(shape))

    @staticmethod
    def is_tensor(x: Any) -> bool:
        """Whether a parameter is a tensor, and no number."""
        return isinstance(x, Operand)


def form_of(
    prim: Any, operands: list[Operand], args: list[Any], count: int
) -> list[Operand | Result | None] | None:
    """The source of each of the op's `count` results; None for an op that is a plain node."""
    # In a backward step sizes and numbers may be expressions; rules ask whether they are numbers.
    numbers = [0 if isinstance(a, tuple) else a for a in args]
    tensors = iter(prim.arrange(operands, numbers))
    params = [prim.attrs[p.name] if p.is_attr else next(tensors) for p in prim.params]
    sources = type(prim).grad_nodes(Builder(prim), *params)
    if sources is None:
        return None
    if isinstance(sources, (tuple, list)):
        return [*sources, *[None] * (count - len(sources))]
    if isinstance(sources, Result):
        return [sources[k] for k in range(count)]
    return [sources]


def strides_of(region: Any, i: int) -> tuple[int, ...]:
    """The strides that a value has in PyTorch, by the views that lead to the value."""
    shape = tuple(region.value_type(i).shape)
    maker = region.maker(i)
    if maker is not None and maker[0].facts.view and maker[0].strides is not None:
        prim, operands, args = maker
        source = operands[0]
        if source.shape is not None:
            derived = prim.strides(
                source.shape, strides_of(region, source.id), *prim.arrange([None], args)[1:]
            )
            if derived is not None:
                return tuple(derived[0])
    return tuple(contiguous_strides(shape))


class Laid:
    """A tensor on the way through views, and the nodes that PyTorch makes of the views."""

    __slots__ = ("edge", "n", "shape", "strides")

    def __init__(self, n: Builder, edge: Any, shape: Sequence[int], strides: Sequence[int]) -> None:
        self.n = n
        self.edge = edge
        self.shape = tuple(shape)
        self.strides = tuple(strides)

    @property
    def active(self) -> bool:
        """Whether a gradient of the tensor is wanted."""
        return isinstance(self.edge, Result) or (self.edge is not None and self.edge.active)

    def through(self, make: Callable[..., Any]) -> Laid:
        """The tensor after an elementwise op."""
        return Laid(self.n, make(self.edge), self.shape, self.strides)

    def permute(self, dims: Sequence[int], name: str = "Permute") -> Laid:
        """The dims in another order."""
        shape, strides = [self.shape[d] for d in dims], [self.strides[d] for d in dims]
        return Laid(self.n, getattr(self.n, name)(self.edge), shape, strides)

    def transpose(self) -> Laid:
        """The last two dims exchanged."""
        rank = len(self.shape)
        return self.permute(
            (*range(rank - 2), rank - 1, rank - 2), "T" if rank == 2 else "Transpose"
        )

    def expand(self, shape: Sequence[int]) -> Laid:
        """Repeated to a shape."""
        lead = len(shape) - len(self.shape)
        own = [0] * lead + [
            0 if n != m else s
            for n, m, s in zip(self.shape, shape[lead:], self.strides, strict=True)
        ]
        return Laid(self.n, self.n.Expand(self.edge), shape, own)

    def diagonal(self, i: int, j: int) -> Laid:
        """The diagonal of two dims, at the place of the first."""
        kept = [d for d in range(len(self.shape)) if d not in (i, j)]
        shape = [*(self.shape[d] for d in kept), self.shape[i]]
        strides = [*(self.strides[d] for d in kept), self.strides[i] + self.strides[j]]
        order = [*range(len(kept))]
        order.insert(i, len(kept))
        return Laid(self.n, self.n.Diagonal(self.edge), shape, strides).permute(order)

    def unsqueeze(self, dim: int) -> Laid:
        """A dim of extent 1 put in."""
        shape, strides = [*self.shape], [*self.strides]
        strides.insert(dim, shape[dim] * strides[dim] if dim < len(shape) else 1)
        shape.insert(dim, 1)
        return Laid(self.n, self.n.Unsqueeze(self.edge), shape, strides)

    def reshape(self, shape: Sequence[int]) -> Laid:
        """A new shape: a view where the strides allow a view."""
        n, strides = self.n, view_strides(self.shape, self.strides, tuple(shape))
        if is_contiguous(self.shape, self.strides):
            edge = n.View(self.edge)
        elif strides is not None:
            edge = n.ReshapeAlias(self.edge)
        else:
            edge = n.UnsafeView(n.Clone(self.edge))
        return Laid(n, edge, shape, strides or contiguous_strides(shape))
