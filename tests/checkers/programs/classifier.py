"""Classes of points: a module, cross-entropy, minibatches, accuracy."""

from __future__ import annotations

import wend as torch
import wend.nn.functional as F
from wend import Tensor, nn


class Classifier(nn.Module):
    def __init__(self, features: int, classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.inner = nn.Linear(features, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.outer = nn.Linear(hidden, classes, bias=False)
        self.dropout = nn.Dropout(p=0.1)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.norm(self.inner(x)))
        return self.outer(self.dropout(h))


def accuracy(model: Classifier, x: Tensor, y: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(dim=1) == y).float().mean().item()
    model.train()
    return float(right)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(60, 4, device=device)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).to(torch.int64)
    model = Classifier(features=4, classes=3).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    total = 0.0
    for _ in range(3):
        for part in torch.randperm(len(x)).split(20):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x[part]), y[part], label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            total += loss.item() * len(part)
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"loss {total / 60:.3f}, accuracy {accuracy(model, x, y):.2f}, {count} parameters")


if __name__ == "__main__":
    main()
