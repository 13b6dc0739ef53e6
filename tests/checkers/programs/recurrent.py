"""A language model: embeddings, an LSTM over padded and packed words, sampling."""

from __future__ import annotations

import wend as torch
import wend.nn.functional as F
from wend import Tensor, nn
from wend.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

State = tuple[Tensor, Tensor]


class LanguageModel(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.out = nn.Linear(width, words)
        self.out.weight = self.embedding.weight

    def forward(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        h, state = self.lstm(self.embedding(x), state)
        return self.out(h), state

    def encoded(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.embedding(x), lengths, batch_first=True, enforce_sorted=False
        )
        outputs, (hidden, _) = self.lstm(packed)
        padded, sizes = pad_packed_sequence(outputs, batch_first=True)
        assert padded.size(1) == int(sizes.max())
        return hidden[-1]


def sample(model: LanguageModel, first: int, count: int) -> list[int]:
    word = torch.tensor([[first]])
    state: State | None = None
    words = [first]
    with torch.no_grad():
        for _ in range(count):
            scores, state = model(word, state)
            word = torch.multinomial(F.softmax(scores[:, -1], dim=-1), num_samples=1)
            words.append(int(word.item()))
    return words


def main() -> None:
    torch.manual_seed(0)
    model = LanguageModel(words=11, width=8)
    x = torch.randint(1, 11, (3, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(3):
        scores, _ = model(x[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(model.encoded(x, torch.tensor([6, 4, 5])).shape, sample(model, 3, 5))
    cell = nn.GRUCell(8, 8)
    hidden = cell(torch.zeros(2, 8))
    print(hidden.mean().item())


if __name__ == "__main__":
    main()
