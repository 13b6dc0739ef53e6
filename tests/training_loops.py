"""Training loops of ten kinds, each told as actions whose every cut must leave a whole state.

All of them are deterministic and see the same data in each turn: the state of a loop is a function
of how many steps it has made, so that an interrupted run can be compared with one that was not.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wend as torch
from wend import nn
from wend.nn import functional as F

Action = Callable[[], None]


def data(seed: int, *shape: int) -> Any:
    """Numbers that are the same in each run."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


class Loop:
    """One kind of training: `turn` gives the actions of one step, in order.

    parameters and the optimizer's state change in the last action, gradients in `backward`, buffers
    in `forward`
    """

    def __init__(self) -> None:
        torch.manual_seed(0)
        with torch.random.fork_rng():
            self.model = self.make().double()
        for k, p in enumerate(self.model.parameters()):
            with torch.no_grad():
                p.copy_(0.3 * data(100 + k, *p.shape))
        self.optimizer = self.optimize()

    def make(self) -> Any:
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))

    def optimize(self) -> Any:
        return torch.optim.Adam(self.model.parameters(), lr=0.05)

    def loss(self) -> Any:
        return self.model(data(1, 5, 4)).pow(2).mean()

    def turn(self) -> Iterator[tuple[str, Action]]:
        found: list[Any] = []
        yield "forward", lambda: found.append(self.loss())
        yield "zero", lambda: self.optimizer.zero_grad()
        yield "backward", lambda: found[0].backward()
        yield "step", lambda: self.optimizer.step()

    def weights(self) -> list[Any]:
        """What a step changes: parameters, and all that the optimizer keeps for them."""
        found = [p.detach().numpy().copy() for p in self.model.parameters()]
        state = self.optimizer.state
        for p in self.model.parameters():
            for key in sorted(state.get(p, ())):
                x = state[p][key]
                if x is not None:
                    found.append(x.detach().numpy().copy() if torch.is_tensor(x) else np.array(x))
        return found

    def buffers(self) -> list[Any]:
        """What a forward pass changes."""
        return [b.numpy().copy() for b in self.model.buffers()]

    def gradients(self) -> list[Any]:
        """What a backward pass changes; None for a parameter without."""
        grads = [p.grad for p in self.model.parameters()]
        return [None if g is None else g.numpy().copy() for g in grads]


class Mlp(Loop):
    """Adam on a perceptron."""


class Momentum(Loop):
    """SGD whose momenta begin with the first step; several groups."""

    def optimize(self) -> Any:
        first, second = self.model[0].parameters(), self.model[2].parameters()
        groups = [{"params": list(first)}, {"params": list(second), "lr": 0.02}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)


class Cell(Loop):
    """A recurrent cell over sequences whose lengths never come back: off the trie."""

    def __init__(self) -> None:
        self.turns = 0
        super().__init__()

    def make(self) -> Any:
        return nn.RNNCell(3, 4)

    def loss(self) -> Any:
        # The words behind the first four are zeros with which the loss has nothing to do.
        self.turns += 1
        h, words, total = torch.zeros(1, 4).double(), data(2, 40, 1, 3), 0.0
        for k in range(4 + self.turns % 30):
            h = self.model(words[k], h)
            if k < 4:
                total = total + h.pow(2).sum()
            else:
                total = total + 0.0 * h.sum()
        return total

    def optimize(self) -> Any:
        return torch.optim.AdamW(self.model.parameters(), lr=0.05, amsgrad=True)


class Norm(Loop):
    """Batch norm, whose buffers move in the forward pass."""

    def make(self) -> Any:
        return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


class Inplace(Loop):
    """Views, and writes in place, in a forward pass and in a step by hand."""

    def loss(self) -> Any:
        x = data(3, 6, 4).clone()
        x[1:3].mul_(2.0)
        y = self.model(x)
        y[0] = 0.5
        return (y.t()[1] ** 2).sum() + y.mean()

    def turn(self) -> Iterator[tuple[str, Action]]:
        *before, _ = super().turn()
        yield from before

        def step() -> None:
            self.optimizer.step()

        yield "step", step

    def optimize(self) -> Any:
        return ByHand(self.model.parameters(), {"lr": 0.05})


class ByHand(torch.optim.Optimizer):
    """A user's own optimizer, with writes to parts of its state."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["n"] = 0
                    state["means"] = torch.zeros(2, *p.shape).double()
                state["n"] += 1
                state["means"][0].mul_(0.9).add_(p.grad, alpha=0.1)
                state["means"][1].mul_(0.9).addcmul_(p.grad, p.grad, value=0.1)
                p.addcdiv_(state["means"][0], state["means"][1].sqrt() + 0.1, value=-group["lr"])


class Hooks(Loop):
    """Hooks of tensors, leaves and modules, which change gradients and read values."""

    def __init__(self) -> None:
        super().__init__()
        self.model[0].weight.register_hook(lambda g: g * 2)
        self.model[0].register_full_backward_hook(lambda m, gi, go: None)

    def loss(self) -> Any:
        y = self.model(data(1, 5, 4))
        y.register_hook(lambda g: g * (1.0 if float(g.sum()) > -1e9 else 0.0))
        return y.pow(2).mean()


class Retain(Loop):
    """Two backward passes over one graph that is kept."""

    def turn(self) -> Iterator[tuple[str, Action]]:
        found: list[Any] = []
        yield "forward", lambda: found.append(self.loss())
        yield "zero", lambda: self.optimizer.zero_grad()
        yield "backward", lambda: found[0].backward(retain_graph=True)
        yield "backward", lambda: found[0].backward()
        yield "step", lambda: self.optimizer.step()


class Fibers(Loop):
    """Examples as fibers, which ask for values."""

    def loss(self) -> Any:
        def one(x: Any) -> Any:
            y = self.model(x)
            if float(y.sum()) > 1e9:
                y = y * 2
            return y.pow(2).sum()

        rows = data(4, 6, 1, 4)
        return torch.stack(torch.batched(one)([rows[k] for k in range(6)])).mean()


class Square(torch.autograd.Function):
    """x ** 2, by users' code."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Custom(Loop):
    """A function of the user's own, between two layers."""

    def loss(self) -> Any:
        first, _, second = self.model
        return second(Square.apply(first(data(1, 5, 4)))).pow(2).mean()


class Checkpoint(Loop):
    """Recomputation, and a learning rate that a scheduler changes."""

    def loss(self) -> Any:
        run = torch.utils.checkpoint.checkpoint
        return run(self.model, data(1, 5, 4), use_reentrant=False).pow(2).mean()

    def optimize(self) -> Any:
        return torch.optim.RMSprop(self.model.parameters(), lr=0.01, momentum=0.5)


class Accumulation(Loop):
    """Gradients of two batches are added up, and clipped."""

    def turn(self) -> Iterator[tuple[str, Action]]:
        found: list[Any] = []
        yield "zero", lambda: self.optimizer.zero_grad(set_to_none=False)
        yield "forward", lambda: found.append(F.mse_loss(self.model(data(5, 5, 4)), data(6, 5, 2)))
        yield "backward", lambda: found[0].backward()
        yield "forward", lambda: found.append(self.loss())
        yield "backward", lambda: found[1].backward()
        yield "step", lambda: self.optimizer.step()


LOOPS = (
    Mlp, Momentum, Cell, Norm, Inplace, Hooks, Retain, Fibers, Custom, Checkpoint, Accumulation,
)  # fmt: skip
