"""The ragged type: a list of tensors of equal rank, used as a tensor.

The *components* are the examples; dim 0 numbers them.  Any dim after it may be ragged (of a
different size in each component).  An op treats a nested tensor as it treats each component, with
all dims counted from the nested tensor's own; `dispatch` says how.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wend._engine.base.errors import ArgumentError, GraphError, ShapeError
from wend._engine.base.shapes import Size, normalize_dim
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._frontend.creation import tensor
from wend._frontend.formats import strided

__all__ = ["NestedTensor", "Packed", "RaggedSize", "nest"]

Flags = tuple[bool, ...]
NO_VALUE = (
    "a nested tensor has no dense value: take its components with unbind(), its elements with "
    "values(), or torch.nested.to_padded_tensor"
)


class RaggedSize:
    """The extent of a ragged dim: a different extent in each component."""

    def __init__(self, dim: int, lengths: tuple[int, ...]) -> None:
        self.dim = dim
        self.lengths = lengths

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and other.lengths == self.lengths

    def __hash__(self) -> int:
        return hash(self.lengths)

    def __index__(self) -> int:
        raise ShapeError(
            f"size: dim {self.dim} of a nested tensor is ragged, of sizes {list(self.lengths)}"
        )

    def __repr__(self) -> str:
        return f"j{self.dim}"


class RaggedShape(Size):
    """A shape in which some extents may be RaggedSizes."""

    __slots__ = ()

    def __getitem__(self, index: Any, /) -> Any:
        item = tuple.__getitem__(self, index)
        return tuple.__new__(RaggedShape, item) if isinstance(index, slice) else item


class Packed:
    """The components in a row: component i is values[begins[i]:ends[i]] along `dim`.

    dim: which of the components' dims is ragged     compact: without gaps, and in order
    """

    __slots__ = ("begins", "compact", "dim", "ends", "values")

    def __init__(self, values: Tensor, begins: list[int], ends: list[int], dim: int) -> None:
        self.values: Tensor = values
        self.begins: list[int] = begins
        self.ends: list[int] = ends
        self.dim: int = dim
        total = int(values.shape[dim])
        self.compact: bool = begins == [0, *ends[:-1]] and (ends[-1] if ends else 0) == total

    def with_values(self, values: Tensor) -> Packed:
        """New values, cut in the same way."""
        return Packed(values, self.begins, self.ends, self.dim)

    def parts(self) -> list[Tensor]:
        """The components."""
        lengths = [end - begin for begin, end in zip(self.begins, self.ends, strict=True)]
        if self.compact and lengths:
            return list(self.values.split(lengths, self.dim))
        return [
            ops.narrow(self.values, self.dim, begin, length)
            for begin, length in zip(self.begins, lengths, strict=True)
        ]


class NestedTensor(Tensor):
    """Tensors of equal rank and dtype, and of unlike sizes, as a whole; see `wend.nested`."""

    _parts: tuple[Tensor, ...] | None
    _packed: Packed | None
    _ragged: Flags
    _count: int
    to_padded_tensor: Any  # set in `creation`

    # -- components -------------------------------------------------------------------------

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The components."""
        if self._parts is None:
            assert self._packed is not None
            self._parts = tuple(self._packed.parts())
        return self._parts

    @property
    def ragged(self) -> Flags:
        """Which of the components' dims are ragged."""
        return self._ragged

    def packed(self) -> Packed | None:
        """The components in a row; None if several dims are ragged."""
        if self._packed is None and sum(self._ragged) == 1 and self._count:
            dim = self._ragged.index(True)
            ends, at = [], 0
            for part in self.parts:
                at += int(part.shape[dim])
                ends.append(at)
            begins = [0, *ends[:-1]]
            self._packed = Packed(ops.cat(list(self.parts), dim), begins, ends, dim)
        return self._packed

    def forget_packed(self) -> None:
        """Drop the packed values: the components have been written to, and hold the truth."""
        self._parts = self.parts
        self._packed = None

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The components."""
        if normalize_dim(dim, self.dim(), "unbind") != 0:
            raise ArgumentError("unbind: a nested tensor can be taken apart along dim 0 only")
        return self.parts

    def values(self) -> Tensor:
        """The components in a row along the ragged dim.

        Raises ShapeError if several dims are ragged.
        """
        return self._one_ragged("values").values

    def offsets(self) -> Tensor:
        """The begin of each component in values(), and the end of the last: (B + 1,)."""
        packed = self._one_ragged("offsets")
        return tensor([*packed.begins, packed.ends[-1] if packed.ends else 0])

    def lengths(self) -> Tensor | None:
        """The components' sizes, where values() has gaps between components; else None."""
        packed = self._one_ragged("lengths")
        if packed.compact:
            return None
        return tensor([e - b for b, e in zip(packed.begins, packed.ends, strict=True)])

    def _one_ragged(self, name: str) -> Packed:
        packed = self.packed()
        if packed is None:
            raise ShapeError(
                f"{name}: {sum(self._ragged)} dims of this nested tensor are ragged, and its "
                "components cannot lie behind one another; use unbind()"
            )
        return packed

    # -- facts about a tensor ---------------------------------------------------------------

    def dim(self) -> int:
        """Number of dims: the dims of a component, and a dim for the components."""
        return len(self._ragged) + 1

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return self.dim()

    @property
    def shape(self) -> Any:
        """(number of components, ...); a ragged dim's extent is a RaggedSize."""
        sizes: list[Any] = [self._count]
        for k, is_ragged in enumerate(self._ragged):
            if is_ragged:
                sizes.append(RaggedSize(k + 1, tuple([int(p.shape[k]) for p in self.parts])))
            else:
                sizes.append(int(self.parts[0].shape[k]))
        return tuple.__new__(RaggedShape, sizes)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or an extent.  Raises ShapeError for a ragged dim."""
        if dim is None:
            return self.shape
        extent = self.shape[normalize_dim(dim, self.dim(), "size")]
        return extent.__index__() if isinstance(extent, RaggedSize) else extent

    def numel(self) -> int:
        """Number of elements of all components."""
        return sum(int(part.numel()) for part in self.parts)

    nelement = numel

    @property
    def is_nested(self) -> bool:
        """True."""
        return True

    @property
    def layout(self) -> Any:
        """torch.jagged or torch.strided, as given at creation."""
        return self.__dict__.get("_layout_name", strided)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether nothing lies between the components."""
        return self._packed is None or self._packed.compact

    def contiguous(self, memory_format: Any = None) -> NestedTensor:
        """A nested tensor of which nothing lies between the components."""
        return self if self.is_contiguous() else nest(self.parts, self)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.parts)

    def __getitem__(self, key: Any) -> Any:
        """nt[i]: a component.  nt[a:b]: some of them.  nt[:, ...]: the rest of the key, of each."""
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if first is Ellipsis:
            return nest([part[key] for part in self.parts], self)
        if isinstance(first, slice):
            chosen: Sequence[Tensor] = self.parts[first]
            return nest([part[rest] if rest else part for part in chosen], self)
        if isinstance(first, int) or (isinstance(first, Tensor) and first.dim() == 0):
            at = int(first)
            if not -self._count <= at < self._count:
                raise IndexError(f"index {at} is out of bounds for {self._count} components")
            part = self.parts[at]
            return part[rest] if rest else part
        raise ArgumentError(
            "getitem: the first index of a nested tensor is an int or a slice, not a "
            f"{type(first).__name__}"
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        """nt[i] = x: write into component i."""
        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if not isinstance(first, int):
            raise ArgumentError("setitem: write into one component of a nested tensor at a time")
        part = self.parts[first]
        part[rest if rest else Ellipsis] = value

    def __repr__(self) -> str:
        sizes = ", ".join(str(n) for n in self.shape)
        grad = ", requires_grad=True" if self.requires_grad else ""
        inside = ",\n".join("  " + repr(part).replace("\n", "\n  ") for part in self.parts)
        return f"nested_tensor([\n{inside}\n], size=({sizes}){grad})"

    def tolist(self) -> list[Any]:
        """The components' values, as nested lists."""
        return [part.tolist() for part in self.parts]

    def item(self) -> Any:
        """The value of the only element.  Raises RuntimeError if there are more, or none."""
        if self.numel() != 1:
            raise GraphError("item: a nested tensor with one element is needed")
        return next(part for part in self.parts if part.numel()).item()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, ([p.detach() for p in self.parts], self._ragged, self.requires_grad)

    # -- gradients --------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether any component requires grad."""
        return any(part.requires_grad for part in self._sources())

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> NestedTensor:
        """Make the components leaves that require grad, or not."""
        for part in self._sources():
            part.requires_grad_(requires_grad)
        if self._packed is not None:
            self._parts = None  # to be cut anew out of packed values that require grad now
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no component has a history."""
        return all(part.is_leaf for part in self._sources())

    @property
    def grad(self) -> Any:
        """The gradients of the components, nested; None if no component has a gradient."""
        if self._packed is not None and self._packed.values.is_leaf:
            g = self._packed.values.grad
            return None if g is None else nest_packed(self._packed.with_values(g), self)
        grads = [part.grad for part in self.parts]
        if all(g is None for g in grads):
            return None
        filled = [
            ops.zeros_like(p) if g is None else g for g, p in zip(grads, self.parts, strict=True)
        ]
        return nest(filled, self)

    @grad.setter
    def grad(self, value: Any) -> None:
        for source in self._sources():
            source.grad = None
        if value is not None:
            for part, g in zip(self.parts, value.parts, strict=True):
                part.grad = g

    def _sources(self) -> Sequence[Tensor]:
        """The tensors that this nested tensor is made of."""
        if self._packed is not None and (self._parts is None or self._packed.values.is_leaf):
            return [self._packed.values]
        return self.parts


def _restored(parts: list[Tensor], ragged: Flags, requires_grad: bool) -> NestedTensor:
    nested = _without_parts(len(parts), ragged, parts[0] if parts else ops.zeros(0))
    nested._parts = tuple(parts)
    return nested.requires_grad_() if requires_grad else nested


def _without_parts(count: int, ragged: Flags, like: Tensor) -> NestedTensor:
    """A nested tensor without components so far."""
    handle: NestedTensor = _hot.native_new(NestedTensor)
    type_ = _types.intern_type((0,), like.dtype, like.device)
    value = _hot.symbolic_value(type_, -1, 0)
    value.error = GraphError(NO_VALUE)
    handle.value = value
    handle._parts = handle._packed = None
    handle._ragged = ragged
    handle._count = count
    return handle


def nest(parts: Sequence[Tensor], like: NestedTensor | None = None) -> NestedTensor:
    """The tensors as a nested tensor.  Raises ShapeError unless all ranks are equal.

    Dims of unlike sizes are ragged; if there are none, the first dim, or the ragged dims of `like`.
    """
    if not parts:
        nested = _without_parts(0, (True,) if like is None else like._ragged, ops.zeros(0))
        nested._parts = ()
        return nested
    ranks = {part.dim() for part in parts}
    if len(ranks) > 1:
        raise ShapeError(
            f"nested_tensor: the components have {sorted(ranks)} dims: they must have equally many"
        )
    (rank,) = ranks
    first = tuple(parts[0].shape)
    ragged = tuple([any(part.shape[k] != first[k] for part in parts) for k in range(rank)])
    if True not in ragged:
        ragged = _supposed(rank, like)
    nested = _without_parts(len(parts), ragged, parts[0])
    nested._parts = tuple(parts)
    if like is not None and "_layout_name" in like.__dict__:
        nested.__dict__["_layout_name"] = like.__dict__["_layout_name"]
    return nested


def _supposed(rank: int, like: NestedTensor | None) -> Flags:
    """Which dims of components of equal size are ragged."""
    if like is not None and len(like._ragged) == rank:
        return like._ragged
    return tuple([k == 0 for k in range(rank)])


def nest_packed(packed: Packed, like: NestedTensor | None = None) -> NestedTensor:
    """Components that lie in a row as a nested tensor."""
    rank = packed.values.dim()
    nested = _without_parts(
        len(packed.begins), tuple([k == packed.dim for k in range(rank)]), packed.values
    )
    nested._packed = packed
    if like is not None and "_layout_name" in like.__dict__:
        nested.__dict__["_layout_name"] = like.__dict__["_layout_name"]
    return nested
