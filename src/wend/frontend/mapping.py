"""torch.func.vmap: a function of one example, called once for all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wend.base import tree
from wend.base.errors import ArgumentError, ArgumentTypeError
from wend.base.shapes import normalize_dim
from wend.core._hot import Tensor
from wend.core.primitive import ops
from wend.transforms.batch import with_batch_axis
from wend.transforms.levels import RANDOMNESS, run_mapped

__all__ = ["vmap"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """func over a dim of its tensor arguments: y[i] = func(x[i]) for all i, in one pass.

    in_dims: per argument (or per leaf of nested arguments) the dim to map over, or None
    out_dims: per result where the mapped dim goes; None for a result that is the same for all
    randomness: 'error', 'different' or 'same' random numbers for the examples
    chunk_size: at most so many examples at a time

    func runs once, on tensors that stand for one example each.  Reading their values raises
    GraphError.  Raises ArgumentError where dims and arguments do not fit.
    """
    if randomness not in RANDOMNESS:
        raise ArgumentError(
            f"vmap: randomness is 'error', 'different' or 'same', not {randomness!r}"
        )
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(f"vmap: chunk_size must be positive, and is {chunk_size}")
    if type(in_dims) not in (int, tuple, list, dict):
        raise ArgumentError(
            f"vmap: in_dims is an int or a tuple like the arguments, not {type(in_dims).__name__}"
        )
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise ArgumentError(f"vmap: {name} got no arguments to map over")
        call = _Call(name, func, args, kwargs, in_dims, out_dims, randomness)
        if chunk_size is None or call.size <= chunk_size:
            return call.run(0, call.size)
        parts = [
            call.run(start, min(start + chunk_size, call.size))
            for start in range(0, call.size, chunk_size)
        ]
        return call.joined(parts)

    return mapped


class _Call:
    """One call of a mapped function: its leaves, their dims, what becomes of the results."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        in_dims: Any,
        out_dims: Any,
        randomness: str,
    ) -> None:
        self.name = name
        self.func = func
        self.kwargs = kwargs
        self.out_dims = out_dims
        self.randomness = randomness
        self.leaves, self.structure = tree.flatten(args)
        dims = tuple(in_dims) if type(in_dims) is list else in_dims
        self.dims = spread(dims, args, f"vmap({name}): in_dims")
        self.size = self._check()
        self.result: Any = None
        self.result_dims: list[int | None] = []

    def _check(self) -> int:
        """Normalise the dims; the number of examples."""
        sizes = []
        for k, (x, dim) in enumerate(zip(self.leaves, self.dims, strict=True)):
            if dim is None:
                continue
            if not isinstance(x, Tensor):
                raise ArgumentError(
                    f"vmap({self.name}): in_dims has {dim} for an argument of type "
                    f"{type(x).__name__}: only tensors can be mapped over; give None for it"
                )
            if x.dim() == 0 or not -x.dim() <= dim < x.dim():
                raise ArgumentError(
                    f"vmap({self.name}): in_dims has {dim} for a tensor of {x.dim()} dims"
                )
            self.dims[k] = dim = dim % x.dim()
            sizes.append(int(x.shape[dim]))
        if not sizes:
            raise ArgumentError(f"vmap({self.name}): in_dims maps over no argument at all")
        if len(set(sizes)) > 1:
            raise ArgumentError(
                f"vmap({self.name}): the mapped dims have unlike sizes {sizes}: they must agree"
            )
        return sizes[0]

    def run(self, start: int, stop: int) -> Any:
        """The results for examples start..stop."""
        leaves, flags = [], []
        for x, dim in zip(self.leaves, self.dims, strict=True):
            flags.append(dim is not None)
            if dim is not None:
                if (start, stop) != (0, self.size):
                    x = ops.narrow(x, dim, start, stop - start)
                x = ops.movedim(x, dim, 0) if dim else x
            leaves.append(x)
        positions = [k for k, flag in enumerate(flags) if flag]

        def once(*tensors: Tensor) -> list[Tensor]:
            given = list(leaves)
            for k, x in zip(positions, tensors, strict=True):
                given[k] = x
            result = self.func(*tree.unflatten(self.structure, given), **self.kwargs)
            outs, self.result = tree.flatten(result)
            self.result_dims = spread(self.out_dims, result, f"vmap({self.name}): out_dims")
            for x in outs:
                if not isinstance(x, Tensor):
                    raise ArgumentError(
                        f"vmap({self.name}): the function must return tensors only, and it "
                        f"returned a {type(x).__name__}"
                    )
            return outs

        tensors = [leaves[k] for k in positions]
        found = run_mapped(once, tensors, [True] * len(tensors), stop - start, self.randomness)
        placed = [
            self._placed(x, is_batched, dim, stop - start)
            for (x, is_batched), dim in zip(found, self.result_dims, strict=True)
        ]
        return tree.unflatten(self.result, placed)

    def _placed(self, x: Tensor, is_batched: bool, dim: int | None, size: int) -> Tensor:
        """A result with the mapped dim where it is asked for."""
        if dim is None:
            if is_batched:
                raise ArgumentError(
                    f"vmap({self.name}): out_dims has None for a result that differs from example "
                    "to example"
                )
            return x
        x = with_batch_axis(x, is_batched, size)
        at = normalize_dim(dim, x.dim(), "vmap: out_dims")
        return ops.movedim(x, 0, at) if at else x  # type: ignore[no-any-return]

    def joined(self, parts: list[Any]) -> Any:
        """The results of all chunks as one."""
        columns = zip(*[tree.leaves(part) for part in parts], strict=True)
        whole = [
            column[0] if dim is None else ops.cat(list(column), dim)
            for column, dim in zip(columns, self.result_dims, strict=True)
        ]
        return tree.unflatten(self.result, whole)


def spread(dims: Any, node: Any, what: str) -> list[int | None]:
    """One dim per leaf of `node`, from dims that are given for whole branches.

    Raises ArgumentError where the two do not fit.
    """
    if dims is None or type(dims) is int:
        return [dims] * len(tree.leaves(node))
    children, structure = tree.flatten(node, is_leaf=lambda part: part is not node)
    given, _ = tree.flatten(dims, is_leaf=lambda part: part is not dims)
    if structure.kind is None and not isinstance(dims, (list, tuple, dict)):
        raise ArgumentTypeError(f"{what}: a dim is an int or None, not {type(dims).__name__}")
    if isinstance(node, dict) and isinstance(dims, dict) and set(node) == set(dims):
        given = [dims[key] for key in node]
    elif structure.kind is None or not _alike(node, dims) or len(children) != len(given):
        raise ArgumentError(f"{what} {dims!r} do not fit the structure {tree.flatten(node)[1]}")
    return [dim for part, child in zip(given, children) for dim in spread(part, child, what)]


def _alike(node: Any, dims: Any) -> bool:
    """Whether dims stand for the parts of this node: the same kind, or both sequences."""
    sequences = (list, tuple)
    return type(node) is type(dims) or (isinstance(node, sequences) and isinstance(dims, sequences))
