"""From a list of samples to a batch.

Samples are trees of dicts, tuples and lists with tensors, arrays, numbers and text as leaves. A
batch has the same structure with stacked tensors as leaves. Where leaves do not stack, the error
names the field, the samples and the shapes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentTypeError, ShapeError, WendError
from wend._engine.core._hot import Tensor
from wend.utils.data._utils import seam

NAME = "default_collate"
FnMap = Mapping[Any, Callable[..., Any]]

# For programs that extend PyTorch's table: the types below need no entry here.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {}


class UnlikeSamples(ShapeError):
    """Samples of a batch that do not fit together.

    groups: (a shape or length, the positions in the batch of the samples with it).
    """

    def __init__(self, fault: str, groups: list[tuple[str, list[int]]], remedy: str) -> None:
        self.fault, self.groups, self.remedy = fault, groups, remedy
        super().__init__("\n".join([fault, *self._lines(None), f"  {remedy}"]))

    def _lines(self, indices: Sequence[Any] | None) -> list[str]:
        return [f"  {what}: {_listed(positions, indices)}" for what, positions in self.groups]

    def with_indices(self, indices: Sequence[Any]) -> UnlikeSamples:
        """Return the error with the samples' indices in the data set beside their positions."""
        named = UnlikeSamples(self.fault, self.groups, self.remedy)
        named.args = ("\n".join([self.fault, *self._lines(indices), f"  {self.remedy}"]),)
        return named

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"args": self.args}
        return UnlikeSamples, (self.fault, self.groups, self.remedy), state


class MissingField(WendError, KeyError):
    """A sample lacks a key that the first sample of the batch has."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError's own would show the text's repr


def _listed(positions: Sequence[int], indices: Sequence[Any] | None) -> str:
    """Write out 'sample 2' or 'samples 0, 1 (dataset[4], dataset[9])', at most a few."""
    shown = positions[:6]
    more = f" and {len(positions) - 6} more" if len(positions) > 6 else ""
    text = f"{'sample' if len(positions) == 1 else 'samples'} {', '.join(map(str, shown))}{more}"
    if indices is not None:
        text += f" ({', '.join(f'dataset[{indices[i]}]' for i in shown)}{', ...' if more else ''})"
    return text


def _grouped(values: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """Return which positions hold which value, in order of first appearance."""
    groups: dict[str, list[int]] = {}
    for position, value in enumerate(values):
        groups.setdefault(str(value), []).append(position)
    return list(groups.items())


def _at(field: str) -> str:
    return f" at {field}" if field else ""


# --- leaves --------------------------------------------------------------------


def check_shapes(shapes: Sequence[tuple[int, ...]], field: str = "") -> None:
    """Raise UnlikeSamples, with every shape and its samples, unless all shapes are equal."""
    if any(shape != shapes[0] for shape in shapes):
        raise UnlikeSamples(
            f"{NAME}: samples of unlike shapes cannot be stacked{_at(field)}",
            _grouped([tuple(shape) for shape in shapes]),
            "make one nested tensor of them with DataLoader(collate_fn=wend.utils.data.ragged), or "
            "batches of one shape with wend.utils.data.BucketBatchSampler; or crop, resize or pad "
            "in the data set; or keep samples apart with DataLoader(collate_fn=list)",
        )


def _stack_tensors(batch: Sequence[Tensor], field: str) -> Tensor:
    check_shapes([tuple(sample.shape) for sample in batch], field)
    plain = all(type(sample) is type(batch[0]) for sample in batch)
    uniform = all(sample.dtype == batch[0].dtype for sample in batch)
    if not (plain and uniform) or any(sample.requires_grad for sample in batch):
        return seam.stack(batch)
    # A single array instead of an op with a leaf for each sample: the program's path stays short.
    return seam.from_array(np.stack([seam.to_array(sample) for sample in batch]))


def _stack_arrays(batch: Sequence[np.ndarray], field: str) -> Tensor:
    for position, sample in enumerate(batch):
        if not isinstance(sample, np.ndarray) or sample.dtype.kind in "SUO":
            raise _unfit(sample, position, field)
    check_shapes([sample.shape for sample in batch], field)
    if all(sample.dtype == batch[0].dtype for sample in batch):
        return seam.from_array(np.stack(batch))
    return seam.stack([seam.from_array(np.ascontiguousarray(sample)) for sample in batch])


def _numbers(batch: Sequence[Any], field: str) -> Tensor:
    if set(map(type, batch)) == {float}:
        return seam.from_array(np.array(batch))
    for position, sample in enumerate(batch):
        if not isinstance(sample, (int, float, np.number, np.bool_)):
            raise _unfit(sample, position, field)
    if isinstance(batch[0], np.generic):
        return seam.from_array(np.array(batch))
    return seam.tensor(batch, "float64" if isinstance(batch[0], float) else None)


def _unfit(sample: object, position: int, field: str) -> ArgumentTypeError:
    kind = f"{type(sample).__module__}.{type(sample).__qualname__}".removeprefix("builtins.")
    if isinstance(sample, np.ndarray):
        kind = f"numpy.ndarray of dtype {sample.dtype}"
    return ArgumentTypeError(
        f"{NAME}: sample {position}{_at(field)} is of type {kind}; a batch is made of tensors, "
        "arrays, numbers, text, dicts, tuples and lists of these, alike in all samples; pass "
        "DataLoader(collate_fn=...) for anything else"
    )


# --- structure -----------------------------------------------------------------


def collate(batch: Sequence[Any], *, collate_fn_map: FnMap | None = None, _field: str = "") -> Any:
    """Collate a list of samples into a batch.

    collate_fn_map: from a type, or a tuple of types, to ``fn(samples, collate_fn_map=...)``, which
    collates samples of that type; all further types are handled as in ``default_collate``.
    """
    if len(batch) == 0:
        raise ArgumentTypeError(f"{NAME}: a batch of no samples has no structure")
    first = batch[0]
    own = _chosen(first, collate_fn_map)
    if own is not None:
        return own(batch, collate_fn_map=collate_fn_map)
    if seam.is_tensor(first):
        _same_kind(batch, seam.is_tensor, _field)
        return _stack_tensors(batch, _field)
    if isinstance(first, np.ndarray):
        return _stack_arrays(batch, _field)
    if isinstance(first, (np.number, np.bool_, int, float)):
        return _numbers(batch, _field)
    if isinstance(first, (str, bytes)):
        return batch if isinstance(batch, (list, tuple)) else list(batch)
    if isinstance(first, Mapping):
        return _mappings(batch, collate_fn_map, _field)
    if isinstance(first, Sequence):
        return _sequences(batch, collate_fn_map, _field)
    raise _unfit(first, 0, _field)


def _chosen(sample: object, collate_fn_map: FnMap | None) -> Callable[..., Any] | None:
    if not collate_fn_map:
        return None
    if type(sample) in collate_fn_map:
        return collate_fn_map[type(sample)]
    for kind, function in collate_fn_map.items():
        if isinstance(sample, kind):
            return function
    return None


def _same_kind(batch: Sequence[Any], is_kind: Callable[[Any], bool], field: str) -> None:
    for position, sample in enumerate(batch):
        if not is_kind(sample):
            raise _unfit(sample, position, field)


def _mappings(batch: Sequence[Any], collate_fn_map: FnMap | None, field: str) -> Any:
    first = batch[0]
    _same_kind(batch, lambda sample: isinstance(sample, Mapping), field)
    for position, sample in enumerate(batch):
        for key in first:
            if key not in sample:
                raise MissingField(
                    f"{NAME}: sample {position}{_at(field)} has no key {key!r}, "
                    f"which sample 0 has; its keys are {list(sample)}"
                )
    collated = {
        key: collate(
            [sample[key] for sample in batch],
            collate_fn_map=collate_fn_map,
            _field=f"{field}[{key!r}]",
        )
        for key in first
    }
    try:
        if isinstance(first, MutableMapping):
            like = copy.copy(first)  # keeps attributes of a subclass besides its entries
            like.update(collated)
            return like
        return type(first)(collated)
    except TypeError:  # a subclass that cannot be made this way
        return collated


def _sequences(batch: Sequence[Any], collate_fn_map: FnMap | None, field: str) -> Any:
    first = batch[0]
    _same_kind(batch, lambda s: isinstance(s, Sequence) and not isinstance(s, (str, bytes)), field)
    lengths = [len(sample) for sample in batch]
    if any(length != lengths[0] for length in lengths):
        raise UnlikeSamples(
            f"{NAME}: sequences of unlike lengths cannot be collated{_at(field)}",
            [(f"length {length}", positions) for length, positions in _grouped(lengths)],
            "make batches of one length with wend.utils.data.BucketBatchSampler; or pad in the "
            "data set; or keep samples apart with DataLoader(collate_fn=list)",
        )
    names = getattr(first, "_fields", None)  # a namedtuple
    columns = [
        collate(
            column,
            collate_fn_map=collate_fn_map,
            _field=f"{field}.{names[i]}" if names else f"{field}[{i}]",
        )
        for i, column in enumerate(zip(*batch))
    ]
    return _as_sequence(first, columns)


def _as_sequence(like: Any, values: list[Any]) -> Sequence[Any]:
    """Return the values in a sequence of the same type; in a list for a tuple, as in PyTorch."""
    if isinstance(like, tuple):
        return type(like)(*values) if hasattr(like, "_fields") else values
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(like)(values)
    except TypeError:  # a range, an array of numbers
        return values


def default_collate(batch: Sequence[Any]) -> Any:
    """Collate a list of samples: tensors, arrays and numbers are stacked along a new first dim.

    tensor, array     ->  tensor (n, ...)
    int, bool, float  ->  tensor (n,) of int64, bool, float64
    text, bytes       ->  list
    dict, namedtuple  ->  the same with collated values
    tuple, list       ->  list with collated entries

    Raises UnlikeSamples (a ShapeError and RuntimeError) for shapes or lengths that differ, naming
    field, samples and shapes; ArgumentTypeError (a TypeError) for other types; MissingField (a
    KeyError) for a key that is not in every sample.
    """
    return collate(batch)


def default_convert(data: Any) -> Any:
    """Turn the arrays and NumPy numbers in a sample into tensors; the rest stays."""
    if seam.is_tensor(data) or isinstance(data, (str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else seam.alias(np.asarray(data))
    if isinstance(data, Mapping):
        converted = {key: default_convert(value) for key, value in data.items()}
        try:
            if isinstance(data, MutableMapping):
                like = copy.copy(data)
                like.update(converted)
                return like
            return type(data)(converted)  # type: ignore[call-arg]
        except TypeError:  # As for the two above
            return converted
    if isinstance(data, Sequence):
        return _as_sequence(data, [default_convert(value) for value in data])
    return data
