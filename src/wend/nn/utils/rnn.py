"""Sequences of unlike lengths in a tensor: padded, or packed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
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


_TOO_SHORT = (
    "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
)


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
    order = _order(sizes, enforce_sorted)
    _check_lengths(sizes, input.transpose(0, 1) if batch_first else input)
    step, apart = (1, input.shape[1]) if batch_first else (input.shape[1], 1)
    starts = [n * apart for n in range(len(sizes))]
    return _packed(input.flatten(0, 1), sizes, starts, step, order)


def _order(sizes: list[int], enforce_sorted: bool) -> list[int] | None:
    """The order of the sequences, the longest first; None if this is theirs.

    Raises RuntimeError for another order, if it is enforced.
    """
    if not enforce_sorted:
        return sorted(range(len(sizes)), key=lambda i: -sizes[i])
    if any(a < b for a, b in pairwise(sizes)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    return None


def _packed(
    rows: Tensor, sizes: list[int], starts: list[int], step: int, order: list[int] | None
) -> PackedSequence:
    """Pack sequences of these lengths: step t of sequence n is the row starts[n] + t * step."""
    if order is not None:
        sizes, starts = [sizes[i] for i in order], [starts[i] for i in order]
    batch_sizes = _batch_sizes(sizes)
    # A single gather, whatever the lengths.
    places = [t * step + n for t, count in enumerate(batch_sizes) for n in starts[:count]]
    data = rows.index_select(0, tensor(places, dtype=int64, device=rows.device))
    sorted_indices = None if order is None else tensor(order, dtype=int64, device=rows.device)
    return PackedSequence(data, tensor(batch_sizes, dtype=int64), sorted_indices, None)


def _batch_sizes(sizes: list[int]) -> list[int]:
    """How many sequences reach each step. sizes: the lengths, the longest first"""
    counts: list[int] = []
    for reached in range(len(sizes), 0, -1):
        counts += [reached] * (sizes[reached - 1] - len(counts))
    return counts


def _check_lengths(sizes: list[int], sequence: Tensor) -> None:
    if sequence.shape[1] != len(sizes):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={sequence.shape[1]})"
        )
    if min(sizes, default=0) <= 0:
        raise RuntimeError(_TOO_SHORT)
    if max(sizes) > sequence.shape[0]:
        raise RuntimeError(
            f"Expected the longest of `lengths` to be at most the {sequence.shape[0]} steps of the "
            f"input, but got {max(sizes)}"
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
    padding = full_beside(data, (1, *data.shape[1:]), padding_value)
    table = ops.cat([data, padding], 0)
    padded = table.index_select(0, tensor(rows, dtype=int64, device=table.device))
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
    parts = list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    sizes = [part.shape[0] for part in parts]
    order = _order(sizes, enforce_sorted)
    if min(sizes) == 0:
        raise RuntimeError(_TOO_SHORT)
    starts = [0, *accumulate(sizes)][:-1]
    return _packed(ops.cat(parts, 0), sizes, starts, 1, order)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (T_n, ...) of a packed tensor."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
