"""`GradBucket`: the gradients that a communication hook is to reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wend._engine.base import dtypes
from wend._engine.core import _hot, _types
from wend._engine.core._hot import Tensor
from wend.distributed._replicas.buckets import Bucket

__all__ = ["GradBucket"]


class GradBucket:
    """The gradients of a bucket in a row, as a communication hook gets them."""

    def __init__(
        self, bucket: Bucket, flat: np.ndarray, parameters: Sequence[Any], last: bool
    ) -> None:
        self._bucket, self._parameters, self._last = bucket, parameters, last
        device = _hot.value_of(parameters[bucket.places[0].number]).type.device
        type_ = _types.intern_type((bucket.size,), dtypes.from_numpy(bucket.dtype), device)
        self._buffer: Tensor = _hot.wrap(_hot.held(type_, flat))

    def index(self) -> int:
        """The number of the bucket in this round; buckets come in this order."""
        return self._bucket.index

    def buffer(self) -> Tensor:
        """All gradients as a flat tensor, not averaged."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Put another tensor in the place of the flat tensor."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients, as views of the flat tensor."""
        return [
            self._buffer[place.begin : place.end].view(self._parameters[place.number].shape)
            for place in self._bucket.places
        ]

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of the gradients."""
        return [self._parameters[place.number] for place in self._bucket.places]

    def is_last(self) -> bool:
        """Whether this is the last bucket of the round."""
        return self._last
