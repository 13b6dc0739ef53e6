"""A small library above the framework: protocols, generics, callbacks, metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Protocol, TypeVar

import wend as torch
from wend import Tensor, nn
from wend.optim import Optimizer
from wend.optim.lr_scheduler import LRScheduler, StepLR
from wend.utils.data import DataLoader, TensorDataset

Batch = TypeVar("Batch")
M = TypeVar("M", bound=nn.Module)


class Loss(Protocol):
    def __call__(self, output: Tensor, target: Tensor, /) -> Tensor: ...


class Callback(Protocol):
    def end(self, epoch: int, metrics: Mapping[str, float]) -> None: ...


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.lines.append(f"{epoch}: " + ", ".join(f"{k} {v:.2f}" for k, v in metrics.items()))


class Trainer(Generic[M]):
    def __init__(
        self,
        model: M,
        optimizer: Optimizer,
        loss: Loss,
        schedule: LRScheduler | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.schedule, self.callbacks = schedule, list(callbacks)

    def fit(self, batches: Iterable[tuple[Tensor, Tensor]], epochs: int) -> M:
        for epoch in range(epochs):
            total, count = torch.zeros(()), 0
            for x, y in batches:
                loss = self.loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.detach() * len(x)
                count += x.shape[0]
            if self.schedule is not None:
                self.schedule.step()
            for callback in self.callbacks:
                callback.end(epoch, {"loss": (total / count).item()})
        return self.model


def first(batches: Iterable[Batch]) -> Batch:
    return next(iter(batches))


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 2)
    rows = TensorDataset(x, (x @ torch.tensor([[2.0], [-1.0]])) + 0.5)
    loader: DataLoader[tuple[Tensor, ...]] = DataLoader(rows, batch_size=8)
    model = nn.Sequential(nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log = Log()
    schedule = StepLR(optimizer, step_size=1, gamma=0.5)
    trainer = Trainer(model, optimizer, nn.MSELoss(), schedule, [log])
    fitted = trainer.fit(((a, b) for a, b in loader), epochs=2)
    print(log.lines, fitted(x).shape, len(first(loader)))
    smooth: Loss = nn.functional.smooth_l1_loss
    print(smooth(torch.zeros(2), torch.ones(2)).item())


if __name__ == "__main__":
    main()
