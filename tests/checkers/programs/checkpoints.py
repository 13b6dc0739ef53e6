"""State dicts, checkpoints in files and in memory, schedules of learning rates."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import wend as torch
from wend import nn
from wend.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR


class Trainer:
    def __init__(self, model: nn.Module, steps: int) -> None:
        self.model = model
        decayed = [p for p in model.parameters() if p.dim() > 1]
        others = [p for p in model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.Adam(
            [{"params": decayed, "weight_decay": 1e-2}, {"params": others}],
            lr=1e-2,
            betas=(0.9, 0.99),
        )
        warm = LinearLR(self.optimizer, start_factor=0.1, total_iters=2)
        cosine = CosineAnnealingLR(self.optimizer, T_max=steps)
        self.schedule = SequentialLR(self.optimizer, [warm, cosine], milestones=[2])
        self.step = 0

    def run(self, count: int) -> float:
        loss = torch.zeros(())
        for _ in range(count):
            self.optimizer.zero_grad()
            loss = self.model(torch.ones(2, 3)).square().mean()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
        return loss.item()

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "step": self.step,
        }

    def restore(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        missing = self.model.load_state_dict(state["model"], strict=True)
        assert not missing.missing_keys and not missing.unexpected_keys
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]


def main() -> None:
    trainer = Trainer(nn.Linear(3, 2), steps=10)
    trainer.run(3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(trainer.state(), path)
        again = Trainer(nn.Linear(3, 2), steps=10)
        again.restore(path)
    print(again.run(1) == trainer.run(1), again.schedule.get_last_lr()[0])
    buffer = io.BytesIO()
    torch.save({"x": torch.arange(3)}, buffer)
    buffer.seek(0)
    print(torch.load(buffer)["x"].tolist())
    plain = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=1.0)
    schedule = LambdaLR(plain, lr_lambda=lambda epoch: 0.5**epoch)
    plain.step()
    schedule.step()
    print(plain.param_groups[0]["lr"])


if __name__ == "__main__":
    main()
