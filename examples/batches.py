"""Images in batches: equal sizes stack, unlike sizes are named, buckets keep sizes together.

1. n images of [1, 3, 255, 255] become one batch of [n, 1, 3, 255, 255].
2. Images of unlike sizes in one batch are an error. Wend's names the samples, their shapes, and
   what to do about it.
3. ``BucketBatchSampler`` fills each batch with samples of one key, here the image's size. It is
   Wend's own; under PyTorch this part prints a notice and is left out.

    python examples/batches.py     # PyTorch
    wend run examples/batches.py   # Wend
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from common import options, report
from torch.utils.data import DataLoader, Dataset

try:
    from torch.utils.data import BucketBatchSampler
except ImportError:
    BucketBatchSampler = None


class Images(Dataset):
    """Pictures of the given sizes; sample i is ([1, 3, height, width], i)."""

    def __init__(self, sizes: list[tuple[int, int]]) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        height, width = self.sizes[index]
        rows = torch.arange(height, dtype=torch.float32).reshape(1, 1, height, 1)
        columns = torch.arange(width, dtype=torch.float32).reshape(1, 1, 1, width)
        channels = torch.arange(1, 4, dtype=torch.float32).reshape(1, 3, 1, 1)
        return torch.sin(rows * 0.1 + columns * 0.05 * channels + index), index


def equal_sizes(count: int) -> dict[str, Any]:
    """Stack images of one size, by hand and by a loader."""
    images = Images([(255, 255)] * count)
    stacked = torch.stack([images[i][0] for i in range(count)])
    (loaded, labels), *rest = DataLoader(images, batch_size=count)
    assert not rest and torch.equal(stacked, loaded)
    print(f"{count} images of [1, 3, 255, 255] -> {list(loaded.shape)}")
    return {"shape": list(loaded.shape), "mean": loaded.mean().item(), "labels": labels.tolist()}


def unlike_sizes() -> str:
    """Try to batch two unlike images; return the error's text."""
    try:
        next(iter(DataLoader(Images([(150, 150), (150, 150), (300, 200)]), batch_size=3)))
    except RuntimeError as error:
        print(f"images of unlike sizes:\n{error}")
        return str(error)
    raise AssertionError("unlike sizes went into one batch")


def buckets(count: int, batch_size: int, seed: int) -> list[list[int]] | None:
    """Batch two sizes of images by size; return the shapes of the batches."""
    if BucketBatchSampler is None:
        print("bucketing: this torch has no BucketBatchSampler; run with Wend to see it")
        return None
    sizes = [(300, 200) if i % 3 == 0 else (150, 150) for i in range(count)]
    images = Images(sizes)
    order = torch.Generator().manual_seed(seed)
    sampler = BucketBatchSampler(
        images, batch_size, key=images.sizes, shuffle=True, generator=order
    )
    shapes, seen = [], Counter()
    for batch, labels in DataLoader(images, batch_sampler=sampler):
        shapes.append(list(batch.shape))
        seen.update(labels.tolist())
        print(f"a bucket: {list(batch.shape)}, images {labels.tolist()}")
    assert seen == Counter(range(count)), "each image once"
    return shapes


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the three parts; return shapes, numbers and the error's text."""
    parser = options(__doc__)
    parser.add_argument("--limit", type=int, default=8, help="number of images")
    parser.add_argument("--batch-size", type=int, default=3, help="largest batch of a bucket")
    args = parser.parse_args(argv)
    metrics = {
        "equal": equal_sizes(args.limit),
        "error": unlike_sizes(),
        "buckets": buckets(args.limit, args.batch_size, args.seed),
    }
    return report(metrics, args)


if __name__ == "__main__":
    main()
