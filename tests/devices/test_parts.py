"""New paths of an accelerator as sequences of known parts: loops of ever other lengths."""

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend import nn
from wend._engine.runtime.devices import queue
from wend._engine.runtime.parts import parts
from wend.nn import functional as F

LENGTHS = [4, 9, 7, 12, 5, 10, 6, 11, 8, 13, 3, 15, 14]


def training(place, make=nn.GRUCell, optimizer=torch.optim.SGD):
    """(step, parameters): a loop over words, whose number differs from call to call."""
    torch.manual_seed(1)
    net = nn.ModuleList([nn.Embedding(20, 8), make(8, 12), nn.Linear(12, 3)]).to(place)
    update = optimizer(net.parameters(), 0.05)
    rng = np.random.default_rng(0)

    def step(length, shift=0):
        words = torch.from_numpy(rng.integers(0, 20, (length, 4)) + shift).to(place)
        labels = torch.from_numpy(rng.integers(0, 3, 4)).to(place)
        state = h = torch.zeros(4, 12, device=place)
        if make is nn.LSTMCell:
            state = h, torch.zeros(4, 12, device=place)
        for k in range(length):
            state = net[1](net[0](words[k]), state)
            h = state[0] if make is nn.LSTMCell else state
        loss = F.cross_entropy(net[2](h), labels)
        update.zero_grad()
        loss.backward()
        update.step()
        return loss.item()

    return step, list(net.parameters())


@pytest.mark.parametrize("make", [nn.RNNCell, nn.GRUCell, nn.LSTMCell], ids=lambda c: c.__name__)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam], ids=lambda c: c.__name__)
def test_new_lengths_run_known_parts(make, optimizer, accelerator):
    """Training is the host's, parameter by parameter; new lengths ask for no further kernels."""
    with own_trie():
        step, parameters = training(accelerator, make, optimizer)
        unit = queue.accelerator_at(accelerator)
        losses, functions = [], []
        before = unit.host_steps
        for length in LENGTHS:
            losses.append(step(length))
            functions.append(len(unit._facts))
        assert unit.host_steps == before
    with own_trie():
        same, expected = training("cpu", make, optimizer)
        np.testing.assert_allclose(losses, [same(length) for length in LENGTHS], rtol=1e-5)
    for p, q in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), q.detach().numpy(), atol=1e-6)
    assert functions[4] == functions[-1]


def test_reports_tell_of_parts(accelerator):
    with own_trie():
        step, _ = training(accelerator)
        for length in LENGTHS[:5]:
            step(length)
        rows = str(torch.debug.explain())
    assert "run by: part by part" in rows


def test_an_index_out_of_range_within_a_part_is_told(accelerator):
    """At the user's line; parameters stay as they were, and training goes on."""
    with own_trie():
        step, parameters = training(accelerator)
        losses = [step(length) for length in LENGTHS[:4]]
        before = [p.detach().cpu().numpy().copy() for p in parameters]
        with pytest.raises(IndexError, match=r"embedding: index .* out of bounds"):
            step(17, shift=20)
        for p, array in zip(parameters, before, strict=True):
            np.testing.assert_array_equal(p.detach().cpu().numpy(), array)
        losses += [step(length) for length in LENGTHS[4:8]]
    assert np.isfinite(losses).all()


def test_a_path_gets_a_plan_of_its_own_in_the_end(accelerator, monkeypatch):
    """Parts run a path that comes back until they have taken as long as its plan will."""
    with own_trie():
        step, _ = training(accelerator)
        for length in LENGTHS[:4]:
            step(length)
        unit = queue.accelerator_at(accelerator)
        known = len(unit._facts)
        for _ in range(6):
            step(LENGTHS[0])
        assert len(unit._facts) == known
        monkeypatch.setattr(parts, "TRANSLATING", 0.0)
        for _ in range(6):
            step(LENGTHS[0])
        assert len(unit._facts) > known
        assert step(LENGTHS[1]) > 0
