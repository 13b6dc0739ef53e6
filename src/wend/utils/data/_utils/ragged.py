"""Collating samples of unlike sizes: tensors that cannot be stacked become a nested tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wend._engine.base.errors import ShapeError
from wend._engine.core._hot import Tensor
from wend.utils.data._utils import seam
from wend.utils.data._utils.collate import FnMap, collate

__all__ = ["ragged"]


def ragged(batch: Sequence[Any]) -> Any:
    """Collate a list of samples as default_collate does, but tensors and arrays of unlike shapes.

    Those become a nested tensor (`wend.nested`), whose components are the samples; where all shapes
    of a field are equal, the field is stacked.  Raises ShapeError for samples of unlike ranks.

        DataLoader(data, batch_size=32, collate_fn=wend.utils.data.ragged)
    """
    return collate(batch, collate_fn_map={Tensor: _tensors, np.ndarray: _arrays})


def _tensors(samples: Sequence[Any], collate_fn_map: FnMap | None = None) -> Any:
    if len({tuple(sample.shape) for sample in samples}) == 1:
        return collate(samples)
    ranks = sorted({sample.dim() for sample in samples})
    if len(ranks) > 1:
        raise ShapeError(f"ragged: samples of {ranks} dims: they must have equally many")
    return seam.nested(samples)


def _arrays(samples: Sequence[np.ndarray], collate_fn_map: FnMap | None = None) -> Any:
    if any(sample.dtype.kind in "SUO" for sample in samples):
        return collate(samples)
    return _tensors([seam.from_array(np.array(sample)) for sample in samples])
