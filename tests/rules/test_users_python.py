"""Rule: users' Python always runs. What a module or function does besides its ops is done."""

from __future__ import annotations

import wend as torch


class Counting(torch.nn.Module):
    """Counts its calls, keeps a list, and branches on sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        return x * 2.0 if x.shape[0] % 2 else x + 2.0


class Replayed(Counting):
    """Without the rule: the ops of the first call are recorded again, and nothing else is done."""

    def __init__(self) -> None:
        super().__init__()
        self.path = None

    def forward(self, x):
        if self.path is None:
            y = super().forward(x)
            (step,) = [s for s in y.value.trace.states if s.prim.name in ("mul", "add")]
            name = step.prim.name
            self.path = lambda x: getattr(x, name)(2.0)
            return y
        return self.path(x)


LENGTHS = (1, 2, 3, 2, 1)


def calls(module):
    """The program: results, calls counted, sizes seen."""
    found = [module(torch.full((n,), 3.0)).tolist() for n in LENGTHS]
    return found, module.calls, module.seen


def test_users_python_runs_in_every_call():
    """Disabled by hand: a module that replays what its first call recorded.

    The counter and the list stay behind, and the other branch is never taken.
    """
    right = [[6.0] * n if n % 2 else [5.0] * n for n in LENGTHS]
    for _ in range(3):
        assert calls(Counting()) == (right, 5, list(LENGTHS))
    found, count, seen = calls(Replayed())
    assert found == [[6.0] * n for n in LENGTHS]
    assert (count, seen) == (1, [1])


def test_functions_in_a_known_backward_pass_run_every_time():
    ran = []

    class Doubled(torch.autograd.Function):
        """A user's function: its two halves are Python, and are called in each pass."""

        @staticmethod
        def forward(ctx, x):
            ran.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append("backward")
            return g * 2 * len(ran)

    gradients = []
    for _ in range(4):
        x = torch.tensor([1.0], requires_grad=True)
        Doubled.apply(x).sum().backward()
        gradients.append(x.grad.item())
    assert ran == ["forward", "backward"] * 4
    assert gradients == [2.0 * 2 * k for k in (1, 2, 3, 4)]
