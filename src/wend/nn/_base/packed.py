"""Packed sequences, which recurrent layers take: `wend.nn.utils.rnn` makes them."""

from __future__ import annotations

from typing import Any, NamedTuple

from wend._frontend.toolkit import Tensor, ops


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences sorted by length, longest first, and stored step by step.

    data: (sum of lengths, ...)   batch_sizes: how many sequences reach each step
    sorted_indices: the order of the sequences in `data`; unsorted_indices: the inverse
    """

    __module__ = "wend.nn.utils.rnn"

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:  # (data, batch_sizes) as one argument
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise ValueError("batch_sizes is needed, or (data, batch_sizes) as one argument")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with `data.to(...)`."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return type(self)(data, *self[1:])

    def _with(self, data: Tensor) -> PackedSequence:
        return type(self)(data, *self[1:])

    def cpu(self) -> PackedSequence:
        """The same on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: object, **kwargs: object) -> PackedSequence:
        """The same on a CUDA device. Raises DeviceError if it is not there."""
        return self.to(*(args or ("cuda",)), **kwargs)

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        """The same in float16."""
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        """The same in int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """The same in int32."""
        return self._with(self.data.int())

    def short(self) -> PackedSequence:
        """The same in int16."""
        return self._with(self.data.short())

    def char(self) -> PackedSequence:
        """The same in int8."""
        return self._with(self.data.char())

    def byte(self) -> PackedSequence:
        """The same in uint8."""
        return self._with(self.data.byte())

    def pin_memory(self) -> PackedSequence:
        """The same with pinned data, if an accelerator is there."""
        return self._with(self.data.pin_memory())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    if permutation is None:
        return None
    return ops.argsort(permutation, 0)  # no op that writes into an operand: groups run it
