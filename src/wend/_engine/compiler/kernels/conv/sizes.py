"""The sizes of a convolution: the words that decide among its variants.

A size is an `Int`: of the function that computes the convolution, or known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from wend._engine.compiler.kernels.matmul.microkernel import TileConfig
from wend._engine.compiler.kernels.matmul.packing import SOURCES
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.integers import Bool, Int
from wend._engine.compiler.llvm_ir.variants import Variant, variants_of

# The most filters and channels of a group: with more, matrix products are quicker.
_FILTERS, _CHANNELS = 3, 4


def is_small(filters: Int, channels: Int) -> Bool:
    """Whether groups of so many filters and channels make tiles that are mostly empty."""
    return (filters <= _FILTERS) & (channels <= _CHANNELS)


class ConvolutionSizes:
    """The words of an argument block, see `conv.forward`: sizes[name].

    shape, dtype: the tiles, and the operands' dtype
    f: the function that is written, or None
    """

    def __init__(
        self, shape: TileConfig, dtype: str, words: Mapping[str, Int], f: Routine | None = None
    ) -> None:
        self.shape, self.dtype, self.words, self._f = shape, dtype, words, f

    @staticmethod
    def in_code(
        f: Routine, shape: TileConfig, dtype: str, a: Mapping[str, str]
    ) -> ConvolutionSizes:
        """The words that a function has loaded."""
        return ConvolutionSizes(shape, dtype, {name: Int(x, f) for name, x in a.items()}, f)

    @staticmethod
    def known(
        shape: TileConfig, dtype: str, names: Iterable[str], **numbers: int
    ) -> ConvolutionSizes:
        """The words `names` of a convolution known beforehand; missing ones are 0."""
        words = {name: Int(numbers.get(name, 0)) for name in names}
        return ConvolutionSizes(shape, dtype, words)

    @property
    def f(self) -> Routine:
        """The function that is written."""
        assert self._f is not None
        return self._f

    def __getitem__(self, name: str) -> Int:
        return self.words[name]

    def __contains__(self, name: str) -> bool:
        return name in self.words

    def but(self, words: Mapping[str, Int]) -> ConvolutionSizes:
        """The same with changed words."""
        return ConvolutionSizes(self.shape, self.dtype, {**self.words, **words}, self._f)

    @property
    def widened(self) -> bool:
        """Whether elements of the operands are narrower than sums, so that packing widens them."""
        return SOURCES[self.dtype][0] != self.shape.element

    @property
    def never(self) -> Bool:
        """The condition that does not hold."""
        return Bool(False) if self._f is None else Bool("false", self._f)

    @property
    def pools(self) -> bool:
        """Whether the words have a pooling: the library then has squares of 4 x 4."""
        return "pool" in self.words

    def tell_pooled(self, may: bool) -> None:
        """Write the call that notes whether a convolution pools, see `winograd.pool`.

        may: whether the variant that computes the convolution is able to pool
        """
        self.f.line(f"call void @tell_pooled(ptr %args, i1 {Bool(may)})")

    @cached_property
    def small(self) -> Bool:
        """Whether groups are so small that products of tiles would be mostly empty."""
        return is_small(self["filters"], self["channels"])


def write_variant(variant: type[Variant], c: ConvolutionSizes) -> None:
    """Write the code of a variant: where it applies, it computes all, and the function ends."""
    if variant.exists(c):
        with c.f.when(variant.applies(c)):
            variant.emit(c)
            c.f.leave_when("true")


def write_variants(family: str, c: ConvolutionSizes) -> None:
    """Write the code of a family's variants, of which the first that applies computes all."""
    for variant in variants_of(family):
        write_variant(variant, c)


def first_variant(family: str, c: ConvolutionSizes) -> str:
    """The name of the first variant that applies to known sizes; "" for none."""
    asked = (variant for variant in variants_of(family) if variant.exists(c))
    return next((variant.__name__ for variant in asked if variant.applies(c)), "")
