"""Values that Python reads in the middle of a step, and elements that are chosen or written."""

from __future__ import annotations

from typing import Any

from steps.common import CLASSES, ROWS, WIDTH, Chain, Step, feature, of_states, training

import wend as torch
from wend.nn import functional as F


@feature
def nothing_more() -> Step:
    return training()


@of_states
def item_of_each_state(h: Any) -> Any:
    return h if h.sum().item() > 0 else h * 0.8


@of_states
def branch_on_a_comparison(h: Any) -> Any:
    return h * 0.5 if (h.abs() > 0.99).any() else h


@of_states
def array_of_each_state(h: Any) -> Any:
    return h + float(h.detach().numpy().mean()) * 0.1


@of_states
def list_of_elements(h: Any) -> Any:
    return h + sum(h[0].tolist()) * 0.001


@of_states
def loop_over_elements(h: Any) -> Any:
    total = 0.0
    for element in h[0, :4]:
        total = total + element * element
    return h + total * 0.01


@of_states
def elements_by_mask(h: Any) -> Any:
    return h + h[h < 0].mean() * 0.01


@of_states
def write_by_mask(h: Any) -> Any:
    h = h.clone()
    h[h < -0.5] = -0.5
    return h


@of_states
def masked_fill(h: Any) -> Any:
    return h.masked_fill(h > 0.8, 0.8)


@of_states
def count_of_nonzeros(h: Any) -> Any:
    return h * (1 + h[:, 1].relu().nonzero().shape[0] * 0.01)


@of_states
def rows_by_tensor(h: Any) -> Any:
    return h[torch.tensor([2, 3, 0, 1])]


@of_states
def rows_by_list(h: Any) -> Any:
    return h[[3, 2, 1, 0]]


@of_states
def elements_by_two_tensors(h: Any) -> Any:
    return h + h[torch.arange(ROWS), torch.tensor([1, 5, 9, 13])][:, None] * 0.1


@of_states
def gather_along_rows(h: Any) -> Any:
    return h.gather(1, (torch.arange(WIDTH) * 3 % WIDTH).expand(ROWS, WIDTH))


@of_states
def scatter_add_along_rows(h: Any) -> Any:
    index = (torch.arange(WIDTH) // 2).expand(ROWS, WIDTH)
    return torch.zeros_like(h).scatter_add(1, index, h)


@of_states
def index_add_of_rows(h: Any) -> Any:
    return h.index_add(0, torch.tensor([1, 1]), h[2:] * 0.1)


@of_states
def index_put_that_adds(h: Any) -> Any:
    return h.index_put((torch.tensor([0, 0]),), h[1:3] * 0.1, accumulate=True)


@of_states
def write_of_a_slice(h: Any) -> Any:
    h = h.clone()
    h[:, 3:6] = 0.25
    return h


@of_states
def flips_and_rolls(h: Any) -> Any:
    return h.roll(1, 1).flip(0)


@of_states
def strided_view(h: Any) -> Any:
    return h + h.contiguous().as_strided((ROWS, WIDTH), (1, 1)) * 0.01


@of_states
def choice_by_condition(h: Any) -> Any:
    return torch.where(h > 0, h, 0.1 * h)


@feature
def states_written_into_a_buffer() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        h, states = torch.zeros(ROWS, WIDTH), torch.empty(len(words), ROWS, WIDTH)
        for k, x in enumerate(words):
            h = net.next(h, x)
            states[k] = h
        return F.cross_entropy(net.output(states.amax(0)), classes)

    return training(loss=loss)


@feature
def memory_that_grows() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        h, memory = torch.zeros(ROWS, WIDTH), []
        for x in words:
            h = net.next(h, x)
            memory.append(h)
            past = torch.stack(memory, 1)
            weights = (past @ h[:, :, None]).softmax(1)
            h = h + (weights * past).sum(1)
        return F.cross_entropy(net.output(h), classes)

    return training(loss=loss)


@feature
def tensor_that_grows() -> Step:
    def loss(net: Any, words: Any, classes: Any) -> Any:
        h, past = torch.zeros(ROWS, WIDTH), torch.zeros(ROWS, 0, WIDTH)
        for x in words:
            h = net.next(h, x)
            past = torch.cat([past, h[:, None]], 1)
        return F.cross_entropy(net.output(past.mean(1)), classes)

    return training(loss=loss)


@feature
def experts_by_mask() -> Step:
    experts = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def change(net: Any, h: Any) -> Any:
        chosen, out = h[:, :3].argmax(1), torch.zeros_like(h)
        for k, expert in enumerate(net.part):
            mine = chosen == k
            if mine.any():
                out[mine] = torch.tanh(expert(h[mine]))
        return out

    return training(Chain(change, experts))


@feature
def decoding_one_by_one() -> Step:
    net = Chain()

    def step() -> Any:
        said, h = [], torch.zeros(1, WIDTH)
        with torch.no_grad():
            for _ in range(4):
                h = net.next(h, torch.full((1, WIDTH), 0.1 * len(said)))
                said.append(int(net.output(h).argmax()) % CLASSES)
        return sum(said)

    return step
