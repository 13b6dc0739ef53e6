"""torch.func.vmap: a function of an example, called once for all examples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from wend._engine.base import random_state, tree
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.base.random_state import RandomState
from wend._engine.base.shapes import normalize_dim
from wend._engine.base.tracebacks import short_errors
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.transforms.batch import with_batch_axis
from wend._engine.transforms.levels import DRAWS, RANDOMNESS, ValueNeeded, run_mapped
from wend._frontend.batching.batched import run_calls, streams
from wend.nested.tensor import nest

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")

DIFFERS = "vmap({name}): out_dims has None for a result that differs from example to example"


class _NoNumbers(RandomState):
    """The stream of a mapped function that must not draw."""

    def reserve(self, count: int) -> tuple[int, int]:
        """Raises GraphError."""
        raise GraphError(DRAWS.format(name="the function"))


def vmap(
    func: Callable[P, R],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[P, R]:
    """func over a dim of its tensor arguments: y[i] = func(x[i]) for all i, in one pass.

    in_dims: per argument (or per leaf of nested arguments) the dim to map over, or None
    out_dims: per result where the mapped dim goes; None for a result that is the same for all
    randomness: 'error', 'different' or 'same' random numbers for the examples
    chunk_size: at most so many examples at a time

    func runs once, on tensors that stand for an example each.  If func asks for the value of such a
    tensor (`if a.sum() > 0:`), func begins again for each example, by `wend.batched`. Changes to
    Python objects before that point happen again; so they do for each component of a nested tensor.
    Results of unlike shapes make a nested tensor.

    Raises ArgumentError where dims and arguments do not fit.
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
    reads = False  # whether func is known to ask for values

    @functools.wraps(func, updated=())
    @short_errors
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise ArgumentError(f"vmap: {name} got no arguments to map over")
        nonlocal reads
        call = _Call(name, func, args, kwargs, in_dims, out_dims, randomness)
        if not reads and not call.is_ragged:
            stream = random_state.current()
            before = stream.get_state()
            try:
                return call.by_level(chunk_size)
            except ValueNeeded as error:
                if not error.mine:
                    raise
            reads = True
            stream.set_state(before)
        return call.by_fibers(chunk_size)

    return mapped


class _Call:
    """A call of a mapped function: leaves, mapped dims, and the form of the results."""

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
        self.is_ragged = False  # whether a nested tensor is mapped over
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
            if x.is_nested and dim == 0:
                self.is_ragged = True
            sizes.append(int(x.shape[dim]))
        if not sizes:
            raise ArgumentError(f"vmap({self.name}): in_dims maps over no argument at all")
        if len(set(sizes)) > 1:
            raise ArgumentError(
                f"vmap({self.name}): the mapped dims have unlike sizes {sizes}: they must agree"
            )
        return sizes[0]

    def chunks(self, chunk_size: int | None) -> list[tuple[int, int]]:
        """Where chunks of the examples start and stop; an empty chunk, if there are no examples."""
        step = chunk_size or max(self.size, 1)
        starts = range(0, max(self.size, 1), step)
        return [(start, min(start + step, self.size)) for start in starts]

    def by_level(self, chunk_size: int | None) -> Any:
        """The results, from a run of the function for each chunk of the examples."""
        parts = [self.run(start, stop) for start, stop in self.chunks(chunk_size)]
        return parts[0] if len(parts) == 1 else self.joined(parts)

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
            arguments = list(leaves)
            for k, x in zip(positions, tensors, strict=True):
                arguments[k] = x
            return self.outputs(arguments)

        tensors = [leaves[k] for k in positions]
        results = run_mapped(once, tensors, [True] * len(tensors), stop - start, self.randomness)
        placed = [
            self._placed(x, is_batched, dim, stop - start)
            for (x, is_batched), dim in zip(results, self.result_dims, strict=True)
        ]
        return tree.unflatten(self.result, placed)

    def outputs(self, leaves: list[Any]) -> list[Tensor]:
        """The tensors that the function returns for these leaves of the arguments."""
        result = self.func(*tree.unflatten(self.structure, leaves), **self.kwargs)
        outs, self.result = tree.flatten(result)
        self.result_dims = spread(self.out_dims, result, f"vmap({self.name}): out_dims")
        for x in outs:
            if not isinstance(x, Tensor):
                raise ArgumentError(
                    f"vmap({self.name}): the function must return tensors only, and it returned "
                    f"a {type(x).__name__}"
                )
        return outs

    # -- example by example -----------------------------------------------------------------

    def by_fibers(self, chunk_size: int | None) -> Any:
        """The results, from a run of the function per example."""
        if self.size == 0:
            raise ArgumentError(
                f"vmap({self.name}): without examples a function that reads values cannot be mapped"
            )
        columns = [
            [x] * self.size if dim is None else x.unbind(dim)
            for x, dim in zip(self.leaves, self.dims, strict=True)
        ]
        calls = [functools.partial(self._example, list(row)) for row in zip(*columns, strict=True)]
        own = self._streams()
        rows: list[list[Tensor]] = []
        structure: Any = None
        for start, stop in self.chunks(chunk_size):
            for outs, own_structure in run_calls(self.func, calls[start:stop], own[start:stop]):
                structure = structure or own_structure
                if own_structure != structure:
                    raise ArgumentError(
                        f"vmap({self.name}): the function returned {structure} for one example "
                        f"and {own_structure} for another: they must be alike to be stacked"
                    )
                rows.append(outs)
        pairs = zip(zip(*rows, strict=True), self.result_dims, strict=True)
        return tree.unflatten(
            structure, [self._stacked(list(column), dim) for column, dim in pairs]
        )

    def _example(self, leaves: list[Any]) -> tuple[list[Tensor], Any]:
        outs = self.outputs(leaves)
        return outs, self.result

    def _streams(self) -> list[RandomState]:
        """The streams that the examples draw random numbers from."""
        if self.randomness == "error":
            return [_NoNumbers()] * self.size
        own = streams(self.size)
        return own if self.randomness == "different" else [own[0].clone() for _ in own]

    def _stacked(self, column: list[Tensor], dim: int | None) -> Tensor:
        """A result of all examples as a tensor."""
        first = column[0]
        if dim is None:
            if any(x is not first and not bool((x == first).all()) for x in column):
                raise ArgumentError(DIFFERS.format(name=self.name))
            return first
        if len({tuple(x.shape) for x in column}) > 1:
            if dim != 0:
                raise ArgumentError(
                    f"vmap({self.name}): results of unlike shapes make a nested tensor, whose dim "
                    f"for the examples is 0, and out_dims has {dim}"
                )
            return nest(column)
        return self._placed(ops.stack(column), True, dim, self.size)

    def _placed(self, x: Tensor, is_batched: bool, dim: int | None, size: int) -> Tensor:
        """A result with the mapped dim where `dim` says."""
        if dim is None:
            if is_batched:
                raise ArgumentError(DIFFERS.format(name=self.name))
            return x
        x = with_batch_axis(x, is_batched, size)
        at = normalize_dim(dim, x.dim(), "vmap: out_dims")
        return ops.movedim(x, 0, at) if at else x  # type: ignore[no-any-return]

    def joined(self, parts: list[Any]) -> Any:
        """The results of all chunks, joined."""
        columns = zip(*[tree.leaves(part) for part in parts], strict=True)
        whole = [
            column[0] if dim is None else ops.cat(list(column), dim)
            for column, dim in zip(columns, self.result_dims, strict=True)
        ]
        return tree.unflatten(self.result, whole)


def spread(dims: Any, node: Any, what: str) -> list[int | None]:
    """A dim per leaf of `node`, from dims that are given for whole branches.

    Raises ArgumentError where dims and `node` do not fit.
    """
    if dims is None or type(dims) is int:
        return [dims] * len(tree.leaves(node))
    children, structure = tree.flatten(node, is_leaf=lambda part: part is not node)
    branch_dims, _ = tree.flatten(dims, is_leaf=lambda part: part is not dims)
    if structure.kind is None and not isinstance(dims, (list, tuple, dict)):
        raise ArgumentTypeError(f"{what}: a dim is an int or None, not {type(dims).__name__}")
    if isinstance(node, dict) and isinstance(dims, dict) and set(node) == set(dims):
        branch_dims = [dims[key] for key in node]
    elif structure.kind is None or not _alike(node, dims) or len(children) != len(branch_dims):
        raise ArgumentError(f"{what} {dims!r} do not fit the structure {tree.flatten(node)[1]}")
    return [dim for part, child in zip(branch_dims, children) for dim in spread(part, child, what)]


def _alike(node: Any, dims: Any) -> bool:
    """Whether dims stand for the parts of this node: the same kind, or both sequences."""
    sequences = (list, tuple)
    return type(node) is type(dims) or (isinstance(node, sequences) and isinstance(dims, sequences))
