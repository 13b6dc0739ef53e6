"""A data set of records, a loader with a collate function of its own, splits and samplers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import wend as torch
from wend import Tensor
from wend.nn.utils.rnn import pad_sequence
from wend.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Record(NamedTuple):
    words: Tensor
    label: int


class Records(Dataset[Record]):
    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(1)
        lengths = torch.randint(2, 6, (count,), generator=generator).tolist()
        self.rows = [torch.randint(0, 9, (n,), generator=generator) for n in lengths]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Record:
        words = self.rows[index]
        return Record(words, int(words.sum().item()) % 2)


class Numbers(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(7)


def padded(records: list[Record]) -> tuple[Tensor, Tensor, list[int]]:
    words = pad_sequence([r.words for r in records], batch_first=True, padding_value=0)
    return words, torch.tensor([r.label for r in records]), [len(r.words) for r in records]


def main() -> None:
    train, test = random_split(Records(20), [15, 5], torch.Generator().manual_seed(2))
    loader = DataLoader(train, batch_size=4, shuffle=True, collate_fn=padded, drop_last=False)
    for words, labels, lengths in loader:
        assert words.shape[0] == labels.shape[0] == len(lengths)
    print(len(loader), len(test), test[0].label)

    weights = [1.0, 2.0, 3.0]
    pairs = TensorDataset(torch.eye(3), torch.arange(3))
    sampler = WeightedRandomSampler(weights, num_samples=6, replacement=True)
    for x, y in DataLoader(pairs, batch_size=2, sampler=sampler):
        print(tuple(x.shape), y.tolist())
    print([batch.sum().item() for batch in DataLoader(Numbers(), batch_size=3)])


if __name__ == "__main__":
    main()
