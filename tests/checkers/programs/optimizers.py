"""Optimizers of several kinds, groups, closures, gradient accumulation, mixed precision."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import wend as torch
from wend import Tensor, nn, optim

Make = Callable[[Iterable[Tensor]], optim.Optimizer]

MAKERS: dict[str, Make] = {
    "sgd": lambda params: optim.SGD(params, lr=0.05, momentum=0.9),
    "adam": lambda params: optim.Adam(params, lr=0.01, amsgrad=True),
    "adamw": lambda params: optim.AdamW(params, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda params: optim.RMSprop(params, lr=0.01, alpha=0.9),
    "adagrad": lambda params: optim.Adagrad(params, lr=0.1),
    "nadam": lambda params: optim.NAdam(params, lr=0.01),
}


def train(make: Make, steps: int, accumulate: int = 2) -> float:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    criterion = nn.MSELoss(reduction="mean")
    loss = torch.tensor(0.0)
    for step in range(steps):
        x = torch.randn(4, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            loss = criterion(model(x).squeeze(-1), x.sum(dim=1)) / accumulate
        scaler.scale(loss).backward()
        if (step + 1) % accumulate == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return loss.item()


def by_closure() -> float:
    w = torch.zeros(2, requires_grad=True)
    optimizer = optim.LBFGS([w], lr=1, max_iter=5, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (w - torch.tensor([1.0, 2.0])).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return w.sum().item()


def main() -> None:
    for name, make in MAKERS.items():
        print(name, round(train(make, 4), 3))
    print(by_closure())
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 0.5})
    for group in optimizer.param_groups:
        group["lr"] *= 0.1
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", patience=0)
    plateau.step(1.0)
    averaged = optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    print(len(optimizer.param_groups), averaged(torch.ones(1, 2)).shape)


if __name__ == "__main__":
    main()
