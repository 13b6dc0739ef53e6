"""Looking inside: print, a breakpoint, hooks, an error in the forward pass, a NaN and its line.

Everything is ordinary Python, in the middle of an ordinary model. The breakpoint is a real one: by
default a short script is typed into the debugger, so that the example runs by itself; with
``--interactive`` you type.

    python examples/debug.py       # PyTorch
    wend run examples/debug.py     # Wend
"""

from __future__ import annotations

import io
import pdb
import traceback
import warnings
from typing import Any

import torch
from common import options, report, same_start
from torch import nn

TYPED = "p list(h.shape)\np round(h.sum().item(), 4)\ncontinue\n"


class Model(nn.Module):
    """Two linear layers with everything to look at in between: (n, 4) -> (n, 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(4, 8)
        self.leave = nn.Linear(8, 2)
        self.debugger: pdb.Pdb | None = None
        self.printing = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.enter(x))
        if self.printing:
            print("in the middle of forward:", h[0, :3])
        if self.debugger is not None:
            self.debugger.set_trace()
        return self.leave(h)


def printed(model: Model, x: torch.Tensor) -> list[list[float]]:
    """Print a value in the middle of the forward pass; return the output."""
    model.printing = True
    y = model(x)
    model.printing = False
    return y.tolist()


def stopped(model: Model, x: torch.Tensor, interactive: bool) -> str:
    """Stop in the middle of the forward pass; return what the debugger said."""
    said = io.StringIO()
    if interactive:
        model.debugger = pdb.Pdb()
    else:
        model.debugger = pdb.Pdb(stdin=io.StringIO(TYPED), stdout=said, nosigint=True, readrc=False)
    model(x)
    model.debugger = None
    print("the debugger, in the middle of forward:")
    print("".join(f"  {line}\n" for line in said.getvalue().splitlines()), end="")
    return said.getvalue()


def hooked(model: Model, x: torch.Tensor) -> list[str]:
    """Watch layers and gradients by hooks; return what happened, in order."""
    seen = []
    handles = [
        module.register_forward_hook(
            lambda module, inputs, output, name=name: seen.append(
                f"forward {name} {list(inputs[0].shape)} -> {list(output.shape)}"
            )
        )
        for name, module in model.named_children()
    ]
    handles.append(
        model.leave.register_full_backward_hook(
            lambda module, entering, leaving: seen.append(f"backward {list(leaving[0].shape)}")
        )
    )
    y = model(x)
    y.register_hook(lambda g: seen.append(f"gradient of y, sum {g.sum().item():.3f}"))
    y.sum().backward()
    for handle in handles:
        handle.remove()
    model(x)  # removed hooks are silent
    print("hooks:", *seen, sep="\n  ")
    return seen


def failed(model: Model) -> dict[str, str]:
    """Send a wrong shape through the model; return the error's type, text and user line."""
    try:
        model(torch.ones(3, 5))
    except RuntimeError as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
        line = frames[-1].line or ""
        print(f"an error in forward:\n  {error}\n  raised under: {line}")
        return {"type": "RuntimeError", "text": str(error), "line": line}
    raise AssertionError("a wrong shape went through")


def root_of(x: torch.Tensor) -> torch.Tensor:
    """Return sqrt(x) * 0 where x is 0: its gradient there is inf * 0."""
    return torch.sqrt(x) * x


def not_a_number() -> dict[str, Any]:
    """Find where a NaN in the gradients comes from; return the error's text and its line."""
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    root_of(x).sum().backward()
    gradient = x.grad
    assert gradient[1].isnan()
    print("a NaN in the gradient:", gradient)
    x.grad = None
    told = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with torch.autograd.detect_anomaly():
                root_of(x).sum().backward()
        except RuntimeError as error:
            told = str(error)
    # PyTorch puts the forward lines into a warning, Wend into the error.
    lines = "\n".join([told, *(str(warning.message) for warning in caught)])
    print(f"anomaly mode: {told}")
    print(f"  names the line in root_of: {'root_of' in lines}")
    return {"text": told, "named": "root_of" in lines, "gradient": gradient[:1].tolist()}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the five parts; return what each of them saw."""
    parser = options(__doc__)
    parser.add_argument("--interactive", action="store_true", help="type into the debugger")
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    model = Model()
    same_start(model, args)
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 10
    metrics = {
        "printed": printed(model, x),
        "debugger": stopped(model, x, args.interactive),
        "hooks": hooked(model, x),
        "error": failed(model),
        "nan": not_a_number(),
    }
    return report(metrics, args)


if __name__ == "__main__":
    main()
