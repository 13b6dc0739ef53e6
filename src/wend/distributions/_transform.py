"""Transforms in general, their inverses, and transforms made of transforms."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from copy import copy
from functools import reduce
from operator import add
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend._engine.base.shapes import Size
from wend._engine.core._hot import Tensor
from wend._engine.core.primitive import ops
from wend._engine.ops.placing import full_beside
from wend.distributions import constraints
from wend.distributions._formulas import attribute
from wend.distributions.constraints import Constraint
from wend.distributions.utils import lazy_property, sum_rightmost

__all__ = [
    "CatTransform",
    "ComposeTransform",
    "IndependentTransform",
    "PlainTransform",
    "ReshapeTransform",
    "StackTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A function with an inverse, up to the choice where several values are mapped to the same.

    domain, codomain: where it maps from and to   bijective: whether the inverse is exact
    cache_size: 1 keeps the last pair of values, so that `t.inv(t(x))` is x itself; else 0

    A member defines `_call`, `_inverse` and `log_abs_det_jacobian`.
    """

    bijective: Any = False
    domain: Constraint
    codomain: Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(f"cache_size must be 0 or 1, not {cache_size!r}")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_inv"] = None
        return state

    @property
    def event_dim(self) -> int:
        """How many last dims belong together, where both regions agree. Else use their own."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ArgumentError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse, for which `t.inv.inv is t`."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = self._new_inverse()
            self._inv = weakref.ref(inverse)
        return inverse

    def _new_inverse(self) -> Transform:
        """A new inverse."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 or -1: whether a function of single numbers rises or falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same function with such a cache."""
        return self if self._cache_size == cache_size else self._with_cache(cache_size)

    def _with_cache(self, cache_size: int) -> Transform:
        """A copy with such a cache."""
        other = copy(self)
        other._cache_size = cache_size
        other._cached_x_y = (None, None)
        return other

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if not self._cache_size:
            return self._call(x)
        old_x, old_y = self._cached_x_y
        if x is old_x:
            return old_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """x of y."""
        if not self._cache_size:
            return self._inverse(y)
        old_x, old_y = self._cached_x_y
        if y is old_y:
            return old_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx| at x, of which y is the result."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of the result for an x of this shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of x for a result of this shape."""
        return shape


class PlainTransform(Transform):
    """Base: a function without parameters, which equals any of its class."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)


def region(doc: str, formula: Callable[[Any], Constraint], **facts: Any) -> Any:
    """A region that a transform knows once it has its parameters, as a property."""
    formula.__doc__ = doc
    return constraints.dependent_property(formula, **facts)


class _InverseTransform(Transform):
    """The inverse of a transform, which keeps the cache."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Transform = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    domain = region(
        "Where the transform maps to.", lambda self: self._inv.codomain, is_discrete=False
    )
    codomain = region(
        "Where the transform maps from.", lambda self: self._inv.domain, is_discrete=False
    )
    bijective = attribute("_inv.bijective", "As the transform.")
    sign = attribute("_inv.sign")

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)


# -- transforms of transforms ----------------------------------------------------------------------


class ComposeTransform(Transform):
    """The parts in order."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:  # type: ignore[override]
        """The first part's, of as many dims as the parts need together."""
        if not self.parts:
            return constraints.real
        pairs = [(part.domain.event_dim, part.codomain.event_dim) for part in reversed(self.parts)]
        return _widened(self.parts[0].domain, pairs)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The last part's, of as many dims as the parts need together."""
        if not self.parts:
            return constraints.real
        pairs = [(part.codomain.event_dim, part.domain.event_dim) for part in self.parts]
        return _widened(self.parts[-1].codomain, pairs)

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:  # type: ignore[override]
        """The product of the parts' signs."""
        product: Any = 1
        for part in self.parts:
            product = product * part.sign
        return product

    def _new_inverse(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._inv = weakref.ref(self)
        return inverse

    def _with_cache(self, cache_size: int) -> Transform:
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = None
        dims = self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            term = part.log_abs_det_jacobian(before, after)
            term = sum_rightmost(term, dims - part.domain.event_dim)
            total = term if total is None else total + term
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


def _widened(region: Constraint, pairs: list[tuple[int, int]]) -> Constraint:
    """A region, of more dims if the parts need more: dims towards the region, and away from it."""
    needed = pairs[0][1]
    for near, far in pairs:
        needed = max(needed + near - far, near)
    more = needed - region.event_dim
    return constraints.independent(region, more) if more > 0 else region


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch dims count as dims of the event."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform: Transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def _with_cache(self, cache_size: int) -> Transform:
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:  # type: ignore[override]
        """The base's, of more dims."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:  # type: ignore[override]
        """The base's, of more dims."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective = attribute("base_transform.bijective", "As the base.")
    sign = attribute("base_transform.sign")

    def _call(self, x: Tensor) -> Tensor:
        _check_dims(x, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        _check_dims(y, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        result = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)


def _check_dims(value: Tensor, least: int) -> None:
    if value.dim() < least:
        raise ArgumentError(f"Too few dimensions on input: {value.dim()}, needed are {least}")


class _OfSlices(Transform):
    """Base: transforms of slices along the dim `dim`, which a member cuts and joins."""

    transforms: list[Transform]
    dim: int
    _joined: Callable[..., Tensor]
    _slices: Callable[[Tensor], list[Tensor]]
    _beside: Any  # the region of values that lie in regions side by side

    domain = region(
        "The parts' domains side by side.",
        lambda self: self._beside([t.domain for t in self.transforms]),
    )
    codomain = region(
        "The parts' codomains side by side.",
        lambda self: self._beside([t.codomain for t in self.transforms]),
    )

    def _call(self, x: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(x), strict=True)
        return self._joined([t(part) for t, part in parts], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(y), strict=True)
        return self._joined([t.inv(part) for t, part in parts], self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)


def _check_extent(name: str, x: Tensor, dim: int, extent: int) -> None:
    """Raise ArgumentError unless a dim of a tensor is so long."""
    if not -x.dim() <= dim < x.dim() or x.size(dim) != extent:
        raise ArgumentError(
            f"{name}: dim {dim} of a tensor of shape {tuple(x.shape)} is not {extent} long"
        )


class CatTransform(_OfSlices):
    """Transforms of slices along a dim, `lengths` of each (1 if not given)."""

    _joined = staticmethod(ops.cat)

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.lengths: list[int] = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ArgumentError(
                f"CatTransform: {len(self.lengths)} lengths do not fit {len(self.transforms)} "
                "transforms"
            )
        self.dim = dim

    @lazy_property
    def event_dim(self) -> int:  # type: ignore[override]
        """The most of the parts."""
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """How long the dim is."""
        return sum(self.lengths)

    def _with_cache(self, cache_size: int) -> Transform:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _beside(self, regions: list[Any]) -> Constraint:
        return constraints.cat(regions, self.dim, self.lengths)

    def _slices(self, x: Tensor) -> list[Tensor]:
        _check_extent("CatTransform", x, self.dim, self.length)
        return list(ops.split(x, self.lengths, self.dim))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, a, b in zip(self.transforms, self._slices(x), self._slices(y), strict=True):
            term = t.log_abs_det_jacobian(a, b)
            terms.append(sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        return ops.cat(terms, dim) if dim < 0 else reduce(add, terms)


class StackTransform(_OfSlices):
    """Transforms of the slices along a dim."""

    _joined = staticmethod(ops.stack)

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq]
        self.dim = dim

    def _with_cache(self, cache_size: int) -> Transform:
        return StackTransform(self.transforms, self.dim, cache_size)

    def _beside(self, regions: list[Any]) -> Constraint:
        return constraints.stack(regions, self.dim)

    def _slices(self, z: Tensor) -> list[Tensor]:
        _check_extent("StackTransform", z, self.dim, len(self.transforms))
        return [ops.select(z, self.dim, i) for i in range(z.size(self.dim))]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return ops.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)


class ReshapeTransform(Transform):
    """The last dims in another shape of as many elements."""

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape: Size = Size(in_shape)
        self.out_shape: Size = Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ArgumentError(
                f"ReshapeTransform: in_shape {tuple(self.in_shape)} and out_shape "
                f"{tuple(self.out_shape)} have different numbers of elements"
            )
        super().__init__(cache_size=cache_size)

    domain = region(
        "Numbers in the shape before.",
        lambda self: constraints.independent(constraints.real, len(self.in_shape)),
    )
    codomain = region(
        "Numbers in the shape after.",
        lambda self: constraints.independent(constraints.real, len(self.out_shape)),
    )

    def _batch(self, value: Tensor, shape: Size) -> tuple[int, ...]:
        return tuple(value.shape[: value.dim() - len(shape)])

    def _call(self, x: Tensor) -> Tensor:
        return ops.reshape(x, (*self._batch(x, self.in_shape), *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.reshape(y, (*self._batch(y, self.out_shape), *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return full_beside(x, self._batch(x, self.in_shape), 0.0)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _exchanged(shape, self.out_shape, self.in_shape)


def _exchanged(shape: Sequence[int], old: Size, new: Size) -> Size:
    """The shape whose last dims, which must be `old`, are `new`."""
    cut = len(shape) - len(old)
    if cut < 0:
        raise ArgumentError("Too few dimensions on input")
    if tuple(shape[cut:]) != tuple(old):
        raise ArgumentError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(old)}")
    return Size((*shape[:cut], *new))
