"""A Python ``if`` decides the graph.

``f`` doubles its input where the sum is positive, and else subtracts 2. One input of each kind goes
through it; outputs and gradients are printed before and after ``backward``.

    python examples/branch.py      # PyTorch
    wend run examples/branch.py    # Wend
"""

from __future__ import annotations

from typing import Any

import torch
from common import options, report


def f(x: torch.Tensor) -> torch.Tensor:
    """Return 2 * x if the sum of x is positive, and x - 2 if not."""
    if x.sum() > 0:
        return x * 2
    return x - 2


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Send one input down each branch; return outputs and gradients as lists."""
    args = options(__doc__).parse_args(argv)
    inputs = {
        "positive": torch.tensor([1.0, 2.0, -0.5], requires_grad=True),
        "negative": torch.tensor([-1.0, 0.25, -3.0], requires_grad=True),
    }
    metrics: dict[str, Any] = {}
    for name, x in inputs.items():
        y = f(x)
        print(f"{name}: x = {x.tolist()}")
        print(f"  f(x) = {y}")
        print(f"  gradient before backward: {x.grad}")
        assert x.grad is None
        y.sum().backward()
        print(f"  gradient after backward:  {x.grad}")
        metrics[name] = {"output": y.tolist(), "gradient": x.grad.tolist()}
    return report(metrics, args)


if __name__ == "__main__":
    main()
