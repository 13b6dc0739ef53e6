"""A GRU cell over 40 to 80 steps: width 64, batch 8, a loss at each step."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from written.held import Layers
from written.program import Program

WIDTH, BATCH = 64, 8


class UnrolledGru(Program):
    """Inputs (steps, 8, 64) -> mean square of all states."""

    LAYERS: ClassVar[Layers] = {"cell": ("gru", WIDTH, WIDTH)}

    def batch(self, rng: np.random.Generator) -> Any:
        return rng.normal(size=(rng.integers(40, 81), BATCH, WIDTH)).astype(np.float32)

    def loss(self, batch: Any) -> torch.Tensor:
        def cell(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return self.held.gru("cell", x.squeeze(0), h)

        states = self.scan(cell, self.rows(batch), torch.zeros(BATCH, WIDTH))
        if self.hand.loops == "explicit":
            loss = torch.zeros(())
            for h in states:
                loss = loss + h.pow(2).mean()
            return loss / len(states)
        return sum((h**2).mean() for h in states) / len(states)
