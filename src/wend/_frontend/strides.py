"""Logical strides: where PyTorch would keep the elements of a handle."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from wend._engine.base.shapes import contiguous_strides
from wend._engine.core import _types
from wend._engine.core._hot import Alias, Tensor
from wend._engine.core._types import TensorType
from wend._engine.core.symbolic import hint_of
from wend._engine.ops.views.family import Rescaled

Layout = tuple[tuple[int, ...], int]

MOST_KEPT = 4096  # layouts, and whether each allows a view


def layout_of(handle: Tensor) -> Layout:
    """(strides in elements, offset) of a tensor, as PyTorch would have them."""
    if handle._layout is not None:
        return handle._layout  # type: ignore[no-any-return]
    alias = handle.alias
    if alias is None or alias.base is None:
        return _dense(concrete(handle.value.type)), 0
    return _laid_out(alias)


def _laid_out(alias: Alias) -> Layout:
    """The layout of a view; each view of a chain keeps its layout: a long chain is linear."""
    root = alias.base
    type_, root_layout = concrete(root.value.type), root._layout
    new = []
    while alias is not None and alias.prim is not None:
        kept = alias.layout
        if kept is not None and kept[0] is type_ and kept[1] is root_layout:
            strides, offset, here = kept[2]
            break
        new.append(alias)
        alias = alias.outer
    else:
        (strides, offset), here = layout_of(root), type_
    for alias in reversed(new):
        args = tuple(map(hint_of, alias.args)) if alias.args is not None else ()
        view_layout = _through(alias.prim, args, here, strides, offset)
        strides, offset, here = view_layout
        alias.layout = (type_, root_layout, view_layout)
    return strides, offset


def concrete(type_: TensorType) -> TensorType:
    """The type with the extents that stand for symbols while a function is being explored."""
    if type_.kind is not None:
        return type_
    return _types.intern_type(tuple(map(hint_of, type_.shape)), type_.dtype, type_.device)


@lru_cache(MOST_KEPT)
def _dense(type_: TensorType) -> tuple[int, ...]:
    return contiguous_strides(type_.shape)


@lru_cache(MOST_KEPT)
def _through(prim: Any, args: Any, type_: Any, strides: Any, offset: int) -> tuple[Any, ...]:
    if isinstance(prim, Rescaled):
        return *prim.rescaled(type_.dtype, strides, offset), prim.typed([type_], [])[1][0]
    arranged = prim.arrange([None], list(args))[1:]
    derived = prim.strides(tuple(type_.shape), strides, *arranged)
    out = prim.typed([type_], list(args))[1][0]
    if derived is None:
        return tuple(contiguous_strides(out.shape)), 0, out
    return tuple(derived[0]), offset + derived[1], out


def strides_on(alias: Alias, type_: TensorType, strides: tuple[int, ...]) -> Layout | None:
    """(strides in elements, offset) of a view whose base has `strides`; None if this is no view
    then."""
    offset, type_ = 0, concrete(type_)
    for prim, args in alias.chain:
        args = tuple(map(hint_of, args))
        if not isinstance(prim, Rescaled):
            arranged = prim.arrange([None], list(args))[1:]
            if prim.strides(tuple(type_.shape), strides, *arranged) is None:
                return None
        strides, offset, type_ = _through(prim, args, type_, strides, offset)
    return strides, offset


#: Views whose elements may be several elements' memory at once.
_REPEATING = frozenset(("expand", "expand_to", "unfold", "as_strided"))


def may_repeat(alias: Alias | None) -> bool:
    """Whether some op of a view's chain may show an element of its operand at several places."""
    while alias is not None and alias.prim is not None:
        if alias.prim.name in _REPEATING:
            return True
        alias = alias.outer
    return False


def repeats(handle: Tensor, alike: bool = False) -> bool:
    """Whether an element of memory is shown at several places of a handle.

    alike: whether a dim of the handle shows nothing but the same elements (`expand`)
    """
    alias = handle.alias
    if alias is None or alias.base is None or not may_repeat(alias):
        return False
    strides, _ = layout_of(handle)
    shape = tuple(handle.shape)
    if alike:
        return 0 not in shape and any(s == 0 and n > 1 for s, n in zip(strides, shape, strict=True))
    return overlaps(shape, strides)


def overlaps(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether memory of these strides may show an element at several places."""
    if 0 in shape:
        return False
    last = 0
    for step, extent in sorted(zip(strides, shape, strict=True)):
        if extent > 1:
            if step <= last:
                return True
            last += (extent - 1) * step
    return False
