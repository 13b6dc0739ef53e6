"""Backward passes of fibers whose ops were computed together: each example has its own pass."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.runtime.fibers import lanes


@pytest.fixture(autouse=True, params=["lanes", "merged"])
def together(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Paths are lanes at once, or never."""
    monkeypatch.setattr(lanes, "PASSED", 0 if request.param == "lanes" else 1 << 30)
    with torch.autobatch(True), own_trie():
        yield


Example = Callable[[torch.Tensor, int], Any]
WIDTH = 3


class Program:
    """Examples of a tanh network, in two turns, which end in `finish(loss, x, number)`."""

    def __init__(self, n: int, finish: Callable[[torch.Tensor, torch.Tensor, int], Any]) -> None:
        rng = np.random.default_rng(4)
        self.weight = torch.tensor(rng.normal(size=(WIDTH, WIDTH)), requires_grad=True)
        self.xs = [torch.tensor(rng.normal(size=WIDTH), requires_grad=True) for _ in range(n)]
        self.finish = finish
        self.rough: set[int] = set()  # examples with a logarithm
        self.depth: dict[int, int] = {}  # layers of the examples; 1 if nothing is said

    def example(self, x: torch.Tensor, k: int) -> list[Any]:
        h = x
        for _ in range(self.depth.get(k, 1)):
            h = torch.tanh(self.weight @ h)
        if h.sum().item() > 1e9:
            h = -h
        h = torch.tanh(self.weight @ h)
        if k in self.rough:
            h = (h * h + 0.3).log()
        loss = (h * h).sum()
        assert loss.item() == loss.item()
        found = self.finish(loss, x, k)
        return [found, x.grad]

    def run(self, in_turns: bool) -> list[Any]:
        """Return all results and gradients, of the weight too."""
        self.weight.grad = None
        for x in self.xs:
            x.grad = None
        rows = enumerate(self.xs)
        if in_turns:
            found = torch.batched(self.example)(self.xs, range(len(self.xs)))
        else:
            found = [self.example(x, k) for k, x in rows]
        return [*[part for row in found for part in row], self.weight.grad]

    def check(self) -> None:
        """In turns, the same comes out as one by one, three times."""
        for _ in range(3):
            pairs = list(zip(self.run(True), self.run(False), strict=True))
            for found, expected in pairs:
                if isinstance(expected, torch.Tensor):
                    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)
                else:
                    assert found == expected


def backward(loss: torch.Tensor, x: torch.Tensor, k: int) -> None:
    loss.backward()


@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_group_of_the_last_examples_alone(first: int) -> None:
    """A derivative that may be infinite makes the pass need nodes after other passes have run."""
    program = Program(5, backward)
    program.rough = set(range(first, 5))
    program.depth = {1: 2, 3: 3}
    program.check()


def test_some_examples_ask_for_gradients_of_gradients() -> None:
    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        if k % 2 == 0:
            return loss.backward()
        (g,) = torch.autograd.grad(loss, [x], create_graph=True)
        (g * g).sum().backward()
        return g.detach()

    Program(6, finish).check()


def test_some_examples_have_hooks_or_certain_inputs() -> None:
    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        if k == 2:
            loss.register_hook(lambda g: 3 * g)
        if k == 3:
            return loss.backward(inputs=[x])
        if k == 4:
            return torch.autograd.grad(loss, [x])[0]
        return loss.backward()

    Program(7, finish).check()


def test_a_second_pass_of_an_example_is_refused_by_name() -> None:
    """Also after the pass of another example has needed nodes."""

    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        if k == 1:
            return torch.autograd.grad(loss, [x])[0]
        loss.backward(retain_graph=k == 4)
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error).partition(" or to read")[0]
        return "no error"

    program = Program(5, finish)
    program.check()
    found = program.run(True)[0:10:2]
    assert [f for f in found if isinstance(f, str)] == [
        *["backward: trying to go backward through the graph a second time,"] * 3,
        "no error",
    ]


def test_gradients_of_a_pass_that_waits_belong_to_this_pass() -> None:
    """Passes take turns as well: where a hook reads a value, the next example goes on."""

    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        seen = []

        def look(g: torch.Tensor) -> None:
            seen.append(round((g * 2).sum().item(), 9))

        y = loss * 2
        y.register_hook(look)
        assert y.item() == y.item()
        both = [y, loss.exp()]
        if k == 1:
            return torch.autograd.grad(both, [x], [loss, loss])[0]
        torch.autograd.backward(both, [loss * k, loss])
        return seen

    Program(4, finish).check()


def test_a_failed_pass_leaves_no_gradients_behind() -> None:
    """A hook fails once; the pass that is tried again gives each gradient once."""

    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        failed = []

        def fail(g: torch.Tensor) -> None:
            if k == 2 and not failed:
                failed.append(1)
                raise ValueError("once")

        y = loss + 0
        y.register_hook(fail)
        assert y.item() == y.item()
        try:
            y.backward(retain_graph=True)
        except ValueError:
            y.backward()
        return len(failed)

    Program(4, finish).check()


def test_no_gradients_through_what_a_part_without_gradients_computes() -> None:
    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        with torch.no_grad():
            scale = x.abs().max() + loss
        y = (x / (1 + scale)).sum() + loss
        if y.item() > 0:
            y = y * 0.9
        with torch.no_grad():
            scale = y.exp()
        y = y / scale + (y * y.detach())
        assert y.item() == y.item()
        y.backward()
        return y.detach()

    Program(4, finish).check()


def test_a_pass_of_some_examples_counts_these_anew() -> None:
    """Members of a group are indexed by their numbers among those that run."""

    def finish(loss: torch.Tensor, x: torch.Tensor, k: int) -> Any:
        y = x[torch.tensor([k % WIDTH, 0])] * loss
        y = y * float(y.detach().abs().mean())
        z = torch.gather(y, 0, torch.tensor([1, 0, k % 2]))
        assert z.sum().item() == z.sum().item()
        z.index_select(0, torch.tensor([2, k % 3])).sum().backward()
        return z.detach()

    Program(5, finish).check()


def test_fibers_that_wait_in_a_step_keep_no_handles_of_later_steps() -> None:
    Program(4, backward).check()
    x = torch.ones(3, requires_grad=True)
    view = x.view(3)
    with torch.no_grad():
        x[0] = 3  # the view derives its value anew
    assert view.sum().item() == 5
    seen = weakref.ref(view)
    del view
    gc.collect()
    assert seen() is None
