"""A value that is detached on its way to a loss keeps its own graph, as PyTorch's does.

Groups run such flushes; the value and what is made of its data may be of the same structure.
"""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.base import config
from wend._engine.runtime.batching import signatures

WORDS, ROWS, WIDTH, STEPS = 20, 5, 4, 8


class Chain(nn.Module):
    """A recurrent net, a word at a time."""

    def __init__(self, rng):
        super().__init__()
        self.of_word, self.of_state = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, 3)
        for p in self.parameters():
            p.data = torch.tensor(rng.normal(size=tuple(p.shape)) * 0.4)

    def forward(self, words):
        h = torch.zeros(ROWS, WIDTH, dtype=torch.float64)
        for x in words:
            h = torch.tanh(self.of_word(x) + self.of_state(h))
        return self.output(h)


def pass_plainly(loss, made, critic):
    loss.backward()
    wish = -critic(made).mean()
    wish.backward()
    return wish


def pass_after_a_read(loss, made, critic):
    loss.item()
    return pass_plainly(loss, made, critic)


def pass_after_a_read_of_what_is_detached(loss, made, critic):
    made.sum().item()
    return pass_plainly(loss, made, critic)


def pass_once_both_are_recorded(loss, made, critic):
    wish = -critic(made).mean()
    loss.backward()
    wish.backward()
    return wish


def pass_once_both_are_computed(loss, made, critic):
    wish = -critic(made).mean()
    wish.item()
    loss.backward()
    wish.backward()
    return wish


def pass_in_the_other_order(loss, made, critic):
    wish = -critic(made).mean()
    wish.backward()
    loss.backward()
    return wish


WAYS = [
    pass_plainly,
    pass_after_a_read,
    pass_after_a_read_of_what_is_detached,
    pass_once_both_are_recorded,
    pass_once_both_are_computed,
    pass_in_the_other_order,
]


def trained(way, words):
    """Losses and weights of a generator and its critic."""
    rng = np.random.default_rng(0)
    maker, critic = Chain(rng), Chain(rng)
    parameters = [*maker.parameters(), *critic.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    found = []
    for k in range(STEPS):
        data = torch.tensor(rng.normal(size=(words + k % 2, ROWS, WIDTH)))
        optimizer.zero_grad()
        made = data + maker(data).sum() * 0.01
        loss = critic(made.detach()).mean() - critic(data).mean()
        wish = way(loss, made, critic)
        optimizer.step()
        found += [loss.item(), wish.item()]
    return found + [p.detach().numpy().tolist() for p in parameters]


@pytest.mark.parametrize("words", [6, WORDS])
@pytest.mark.parametrize("way", WAYS)
def test_a_generator_and_its_critic(way, words):
    with own_trie(), config.override(autobatch=False, compile=False):
        expected = trained(way, words)
    signatures.BOOK.clear()
    with own_trie():
        found = trained(way, words)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("read_first", [False, True], ids=["at once", "later"])
@pytest.mark.parametrize("freed", [False, True])
def test_two_heads_in_a_region_have_passes_of_their_own(read_first, freed):
    """A sum keeps nothing for its backward pass; a product does, and is used up by the first."""
    size = (4, 4) if freed else (1, 4)
    w, b, c = (torch.tensor(np.full(s, 0.5), requires_grad=True) for s in (size, (4,), (4,)))

    def heads(x):
        y = x @ w if freed else x + w
        return torch.tanh(y + b), torch.sigmoid(y + c)

    with own_trie(sealed=True):
        found = [heads(torch.tensor(np.full((1, 4), 0.1 * k))) for k in range(5)]
        losses = [torch.cat(column).sum() for column in zip(*found, strict=True)]
        if read_first:
            losses[0].item()
        losses[0].backward()
        assert c.grad is None
        first = w.grad.clone()
        if freed:
            with pytest.raises(RuntimeError, match="a second time"):
                losses[1].backward()
            return
        losses[1].backward()
    x = np.arange(5)[:, None] * 0.1 + np.full((1, 4), 0.5)
    one, two = 1 - np.tanh(x + 0.5) ** 2, 1 / (1 + np.exp(-x - 0.5))
    np.testing.assert_allclose(first.numpy(), one.sum(0, keepdims=True))
    two = two * (1 - two)
    np.testing.assert_allclose(c.grad.numpy(), two.sum(0))
    np.testing.assert_allclose(w.grad.numpy(), (one + two).sum(0, keepdims=True))


@pytest.mark.parametrize("way", WAYS[:2])
def test_a_graph_that_is_used_up_is_still_refused(way):
    """Of the loss, that is: its second pass would go through what the first one has freed."""
    rng = np.random.default_rng(1)
    maker, critic = Chain(rng), Chain(rng)
    for _ in range(5):
        data = torch.tensor(rng.normal(size=(WORDS, ROWS, WIDTH)))
        made = data + maker(data).sum() * 0.01
        loss = critic(made.detach()).mean()
        wish = way(loss, made, critic)
        for value in (loss, wish):
            with pytest.raises(RuntimeError, match="a second time"):
                value.backward()
