"""A net over trees: recursion, dicts of tensors, batches of examples of unlike shape."""

from __future__ import annotations

from dataclasses import dataclass, field

import wend as torch
from wend import Tensor, nn


@dataclass
class Tree:
    word: int
    children: list[Tree] = field(default_factory=list)

    def size(self) -> int:
        return 1 + sum(child.size() for child in self.children)


class TreeNet(nn.Module):
    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.join = nn.Bilinear(width, width, width)
        self.score = nn.Linear(width, 2)

    def encode(self, tree: Tree) -> Tensor:
        state = self.words(torch.tensor(tree.word))
        for child in tree.children:
            state = torch.tanh(self.join(state, self.encode(child)))
        return state

    def forward(self, tree: Tree) -> Tensor:
        return self.score(self.encode(tree))


def grown(depth: int, word: int = 0) -> Tree:
    if depth == 0:
        return Tree(word)
    return Tree(word, [grown(depth - 1, word + 1), grown(depth - 1, word + 2)])


def main() -> None:
    torch.manual_seed(0)
    model = TreeNet(words=10, width=6)
    trees = [grown(depth) for depth in (0, 1, 2, 3)]
    labels = torch.tensor([tree.size() % 2 for tree in trees])
    optimizer = torch.optim.Adam(model.parameters())
    criterion = nn.CrossEntropyLoss(weight=torch.ones(2))
    losses: list[float] = []
    for _ in range(3):
        scores = torch.stack(torch.batched(model)(trees))
        loss = criterion(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(losses[0] > losses[-1], model(trees[2]).argmax().item() in (0, 1))
    best = max(trees, key=lambda tree: model(tree)[0].item())
    print(best.size())


if __name__ == "__main__":
    main()
