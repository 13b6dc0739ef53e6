"""The files of TensorBoard's projector: vectors, labels, pictures, and a list of these.

tensorboardX writes the files, but for the pictures, which need no Pillow here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wend._engine.base.errors import ArgumentError
from wend.utils.tensorboard._convert_np import Array, as_bytes, make_grid
from wend.utils.tensorboard._library import library
from wend.utils.tensorboard.summary import png

LARGEST = 8192  # pixels of a side of the picture that TensorBoard loads


def write_labels(folder: Path, labels: list[Any], header: list[str] | None) -> None:
    """Write a label, or several columns of labels under a header, for each vector."""
    if header and any(len(row) != len(header) for row in labels):
        raise ArgumentError(
            f"add_embedding: metadata_header has {len(header)} columns, metadata has others"
        )
    library("embedding").make_tsv(labels, str(folder), header)


def write_pictures(folder: Path, images: Array) -> None:
    """Write (N, C, S, S) pictures as a square of squares, row by row."""
    n, _, height, width = images.shape
    if height != width:
        raise ArgumentError(f"add_embedding: label_img has pictures of {height} by {width} pixels")
    side = math.ceil(math.sqrt(n)) * width
    if side > LARGEST:
        raise ArgumentError(
            f"add_embedding: {n} pictures of {width} pixels do not fit into {LARGEST} pixels"
        )
    grid = as_bytes(make_grid(images, side // width))
    square = np.pad(grid, ((0, side - len(grid)), (0, 0), (0, 0)))  # with empty rows below
    (folder / "sprite.png").write_bytes(png(square))


def write_vectors(folder: Path, rows: Array) -> None:
    """Write a vector a line."""
    library("embedding").make_mat(rows, str(folder))


def write_entry(
    folder: Path,
    below: str,
    tag: str,
    step: int,
    labels: Sequence[Any] | None,
    images: Array | None,
) -> None:
    """Tell the projector of an embedding, whose files are in the folder `below`."""
    escaped = json.dumps(tag)[1:-1]  # the entry holds the tag between quotes
    library("embedding").append_pbtxt(labels, images, str(folder), below, step, escaped)
