"""Another random program each step, 40 ops on 8 x 8, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from common import alone

#: Of two tensors; some do not use the second.
# fmt: off
OPS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum,
    lambda a, b: torch.tanh(a), lambda a, b: torch.sigmoid(a), lambda a, b: torch.sin(a),
    lambda a, b: a * 0.5, lambda a, b: 1 - a, lambda a, b: a.T,
    lambda a, b: torch.where(a > b, a, b), lambda a, b: torch.tanh(a @ b),
]
# fmt: on


class RandomProgramsWorkload:
    """No program comes twice; the result of each op is used by a later one, or summed."""

    steps = 200
    warm_up = 400
    scale = 1.0  # of the elements: some of the losses are 0, and in others rounding errors remain

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.x, self.y = (
            torch.from_numpy(rng.normal(size=(8, 8)).astype(np.float32)).requires_grad_()
            for _ in range(2)
        )
        self.random = np.random.default_rng(0)

    def weights(self) -> dict[str, torch.Tensor]:
        return {"x": self.x, "y": self.y}

    def outcome(self) -> list[float]:
        """What the last step left besides its loss: gradients, zeros for none."""
        found: list[float] = []
        for tensor in (self.x, self.y):
            gradient = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            found += gradient.flatten().tolist()
        return found

    def compute(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        values, unused = [x, y], [0, 1]
        for k, i, j in self.random.integers(1 << 30, size=(40, 3)).tolist():
            first = unused.pop(i % len(unused))
            second = j % len(values)
            if second in unused:
                unused.remove(second)
            unused.append(len(values))
            values.append(OPS[k % len(OPS)](values[first], values[second]))
        return torch.stack([values[i].sum() for i in unused]).sum()

    def step(self) -> float:
        self.x.grad = self.y.grad = None
        loss = self.compute(self.x, self.y)
        loss.backward()
        return loss.item()


if __name__ == "__main__":
    alone(RandomProgramsWorkload())
