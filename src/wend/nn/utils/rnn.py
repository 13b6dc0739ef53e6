"""Sequences of unlike lengths in a tensor: padded, or packed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from wend._frontend.toolkit import Tensor, full_beside, int64, ops, tensor
from wend.nn._base.packed import PackedSequence, invert_permutation

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack (T, N, ...), or (N, T, ...) with batch_first; sequence n is its first lengths[n] steps.

    enforce_sorted: the lengths fall already. Raises RuntimeError if they do not.
    """
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    sorted_indices = None
    if not enforce_sorted:
        order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        sizes = [sizes[i] for i in order]
        sorted_indices = tensor(order, dtype=int64)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    elif any(a < b for a, b in pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    sequence = input.transpose(0, 1) if batch_first else input
    _check_lengths(sizes, sequence)
    batch_sizes = [sum(1 for n in sizes if n > t) for t in range(sizes[0])]
    if batch_sizes[0] == batch_sizes[-1]:
        data = sequence[: sizes[0]].flatten(0, 1)
    else:
        steps = [sequence[t, :count] for t, count in enumerate(batch_sizes)]
        data = ops.cat(steps, 0)
    return PackedSequence(data, tensor(batch_sizes, dtype=int64), sorted_indices, None)


def _check_lengths(sizes: list[int], sequence: Tensor) -> None:
    if sequence.shape[1] != len(sizes):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={sequence.shape[1]})"
        )
    if not sizes or sizes[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if sizes[0] > sequence.shape[0]:
        raise RuntimeError(
            f"Expected the longest of `lengths` to be at most the {sequence.shape[0]} steps of the "
            f"input, but got {sizes[0]}"
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(padded (T, N, ...), or (N, T, ...) with batch_first; lengths): undoes the packing."""
    data, batch_sizes, _, unsorted_indices = sequence
    sizes = batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    lengths = [sum(1 for count in sizes if count > n) for n in range(sizes[0])]
    starts = [0]
    for count in sizes:
        starts.append(starts[-1] + count)
    width = sizes[0]
    # A single gather: every place of the result is a row of the data, or the row of padding after
    # it.
    rows = [
        starts[t] + n if t < len(sizes) and n < sizes[t] else starts[-1]
        for t in range(steps)
        for n in range(width)
    ]
    padding = ops.full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    table = ops.cat([data, padding], 0)
    padded = table.index_select(0, tensor(rows, dtype=int64))
    padded = padded.reshape(steps, width, *data.shape[1:])
    counts = tensor(lengths, dtype=int64)
    if batch_first:
        padded = padded.transpose(0, 1)
    if unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted_indices)
        counts = counts[unsorted_indices]
    return padded, counts


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (T_n, ...) as a tensor (T, N, ...), or (N, T, ...) with batch_first."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side must be one of ['left', 'right'], got {padding_side}")
    parts = list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    longest = max(part.shape[0] for part in parts)
    rows = []
    for part in parts:
        missing = longest - part.shape[0]
        if missing:
            fill = full_beside(part, (missing, *part.shape[1:]), padding_value)
            part = ops.cat([part, fill] if padding_side == "right" else [fill, part], 0)
        rows.append(part)
    return ops.stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences (T_n, ...) of a padded tensor."""
    batch: Any = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    sizes = lengths.tolist()
    return [sequence[:size] for sequence, size in zip(batch.unbind(0), sizes, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (T_n, ...)."""
    lengths = tensor([sequence.shape[0] for sequence in sequences], dtype=int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (T_n, ...) of a packed tensor."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
