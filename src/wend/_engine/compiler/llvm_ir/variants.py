"""The table of variants: the ways in which a kernel computes something, and when each applies.

    @variant("product", after="DotProducts")
    class Transposed(Variant):
        '''In few words: when it applies.'''

        def applies(sizes): ...             # a condition, in code or known now
        def emit(self, f, ...): ...         # the code

A family's variants are asked in the order of the table, so none names a place in the table: each
names the variant before. `wend.debug.variants()` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from wend._engine.compiler.llvm_ir.integers import Bool


class Variant:
    """A way to compute something. The first line of the docstring says when the way applies."""

    @staticmethod
    def applies(sizes: Any) -> Bool:
        """Whether this variant applies to these sizes. The same text, in code or known now."""
        raise NotImplementedError

    @staticmethod
    def exists(sizes: Any) -> bool:
        """Whether the processor has this variant, for the dtype."""
        return True

    @staticmethod
    def emit(site: Any) -> None:
        """Write the code."""
        raise NotImplementedError


V = TypeVar("V", bound=type[Variant])

#: family -> the name of the variant before -> variant
_AFTER: dict[str, dict[str, type[Variant]]] = {}


def variant(family: str, *, after: str = "") -> Callable[[V], V]:
    """Register a class as a variant of a family.

    after: the name of the variant before in the table; "" for the first variant

    Raises ValueError if another variant has that place.
    """

    def register(cls: V) -> V:
        places = _AFTER.setdefault(family, {})
        if after in places:
            raise ValueError(f"variant: {places[after].__name__} is after {after!r} already")
        places[after] = cls
        return cls

    return register


def families() -> list[str]:
    """The families that have variants."""
    return list(_AFTER)


def variants_of(family: str) -> list[type[Variant]]:
    """The variants of a family, in the order of the table.

    Raises ValueError if a variant comes after a missing variant.
    """
    places, variants, name = _AFTER[family], list[type[Variant]](), ""
    while name in places:
        variants.append(places[name])
        name = variants[-1].__name__
    if len(variants) < len(places):
        lost = sorted(cls.__name__ for cls in places.values() if cls not in variants)
        raise ValueError(f"variants_of: {', '.join(lost)} of {family} come after none of it")
    return variants
