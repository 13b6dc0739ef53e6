"""dynamic_shapes by tensor, or by further examples: ShapesCollection and AdditionalInputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from wend._engine.base.errors import ArgumentError
from wend._engine.core._hot import Tensor
from wend.export._dims import Dim, Hint
from wend.nn.modules.module import Module
from wend.utils import _pytree

__all__ = ["AdditionalInputs", "ShapesCollection"]


def _named(
    mod: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None
) -> dict[str, Any]:
    """The arguments by name, as a call of `mod` binds them."""
    target = mod.forward if isinstance(mod, Module) else mod
    return dict(inspect.signature(target).bind(*args, **(kwargs or {})).arguments)


class ShapesCollection:
    """Dims by tensor, `shapes[x] = {0: Dim("batch")}`, where arguments lie deep in lists and dicts.

    Tensors without an entry have constant sizes.
    """

    def __init__(self) -> None:
        self._shapes: dict[int, Any] = {}
        self._held: list[Any] = []  # ids stay taken

    def __setitem__(self, t: Tensor, shape: object) -> None:
        if not isinstance(t, Tensor):
            raise AssertionError(f"ShapesCollection: a key is a tensor, not {type(t).__name__}")
        known = self._shapes.get(id(t))
        if known is not None and known != shape:
            raise AssertionError(f"ShapesCollection: the tensor has {known}, and got {shape}")
        self._shapes[id(t)] = shape
        self._held.append(t)

    def __getitem__(self, t: Tensor) -> Any:
        if id(t) not in self._shapes:
            self[t] = {}
        return self._shapes[id(t)]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(
        self, m: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """`dynamic_shapes` for `export(m, args, kwargs)`.

        Raises ArgumentError, a ValueError, where a tensor with an entry is not among the arguments.
        """
        seen = set()

        def entry(x: object) -> Any:
            if id(x) in self._shapes:
                seen.add(id(x))
                return self._shapes[id(x)]
            return None

        shapes: dict[str, Any] = _pytree.tree_map(entry, _named(m, args, kwargs))
        if len(seen) < len(self._shapes):
            raise ArgumentError(
                "ShapesCollection: some tensors with an entry are not among the arguments: give "
                "the tensors themselves, and register classes that hold them as pytree nodes"
            )
        return shapes


class ModuleMaker(Protocol):
    """An exported program."""

    def module(self) -> Module:
        """The program as a module."""


class AdditionalInputs:
    """Further examples: sizes that differ between examples may differ, all others are constants."""

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any] | None]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Take in a further example."""
        if type(args) is not tuple:
            raise AssertionError(f"AdditionalInputs: args is a tuple, not {type(args).__name__}")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(f"AdditionalInputs: kwargs is a dict or None, not {kwargs!r}")
        self._examples.append((args, kwargs))

    def dynamic_shapes(
        self, m: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """`dynamic_shapes` for `export(m, args, kwargs)`.

        Raises ArgumentError, a ValueError, where examples differ in more than sizes of tensors.
        """
        first = _named(m, args, kwargs)
        others = [_named(m, a, k) for a, k in self._examples]

        def merged(x: object, *rest: Any) -> tuple[Hint | None, ...] | None:
            if not isinstance(x, Tensor):
                if any(type(r) is not type(x) or r != x for r in rest):
                    raise ArgumentError(
                        f"AdditionalInputs: examples give {(x, *rest)} for an argument that is no "
                        "tensor: such arguments are constants of the graph"
                    )
                return None
            for r in rest:
                if not isinstance(r, Tensor) or r.dim() != x.dim():
                    raise ArgumentError("AdditionalInputs: examples differ in kind or rank")
            sizes = zip(*(t.shape for t in (x, *rest)), strict=True)
            return tuple(Dim.DYNAMIC if len(set(s)) > 1 else None for s in sizes)

        shapes: dict[str, Any] = _pytree.tree_map(merged, first, *others)
        return shapes

    def verify(self, ep: ModuleMaker) -> None:
        """Run a program on each example. Raises as the program does where one does not fit."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))
