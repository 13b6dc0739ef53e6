"""The files of TensorBoard's projector: vectors, labels, pictures, and a list of these."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from wend._engine.base.errors import ArgumentError
from wend.utils.tensorboard._convert_np import as_bytes, make_grid
from wend.utils.tensorboard.summary import png

LARGEST = 8192  # pixels of a side of the picture that TensorBoard loads


def write_labels(folder: Path, labels: list[Any], header: list[str] | None) -> None:
    """Write a label, or several columns of labels under a header, for each vector."""
    if header and any(len(row) != len(header) for row in labels):
        raise ArgumentError(
            f"add_embedding: metadata_header has {len(header)} columns, metadata has others"
        )
    rows = [header, *labels] if header else [[label] for label in labels]
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    (folder / "metadata.tsv").write_text(text, encoding="utf-8")


def write_pictures(folder: Path, images: Any) -> None:
    """Write (N, C, S, S) pictures as a square of squares, row by row."""
    n, _, height, width = images.shape
    if height != width:
        raise ArgumentError(f"add_embedding: label_img has pictures of {height} by {width} pixels")
    columns = math.ceil(math.sqrt(n))
    if columns * width > LARGEST:
        raise ArgumentError(
            f"add_embedding: {n} pictures of {width} pixels do not fit into {LARGEST} pixels"
        )
    grid = make_grid(images, columns)
    whole = as_bytes(grid)
    square = whole.repeat(1, axis=0)
    side = columns * width
    square = _padded(square, side)
    (folder / "sprite.png").write_bytes(png(square))


def _padded(picture: Any, side: int) -> Any:
    """A picture with empty rows below, so that it is a square."""
    import numpy as np

    return np.pad(picture, ((0, side - picture.shape[0]), (0, 0), (0, 0)))


def write_vectors(folder: Path, rows: Any) -> None:
    """Write a vector a line."""
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows.tolist())
    (folder / "tensors.tsv").write_text(text, encoding="utf-8")


def entry(name: str, below: str, size: int | None, labelled: bool) -> str:
    """Return the lines that tell the projector of an embedding.

    below: the folder of its files     size: pixels of a side of its pictures, if there are any
    """
    lines = ["embeddings {", f"  tensor_name: {json.dumps(name)}"]
    lines.append(f"  tensor_path: {json.dumps(below + '/tensors.tsv')}")
    if labelled:
        lines.append(f"  metadata_path: {json.dumps(below + '/metadata.tsv')}")
    if size is not None:
        lines += ["  sprite {", f"    image_path: {json.dumps(below + '/sprite.png')}"]
        lines += [f"    single_image_dim: {size}"] * 2 + ["  }"]
    return "\n".join([*lines, "}", ""])
