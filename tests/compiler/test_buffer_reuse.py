"""Results of nests in the memory of operands: where nothing reads these again, and only there."""

import numpy as np
import pytest
from test_pipeline import code_of, compared, normal

import wend as torch
import wend.nn.functional as F
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.pipeline import PASSES
from wend._engine.compiler.verifier import check


@pytest.fixture(autouse=True)
def at_once():
    """Plans are compiled before their first run, and checked; on a trie of their own."""
    with own_trie(), config.override(compile=True, wait=True, verify=True):
        yield


def shared(made):
    """(name of the op, of the one in whose memory its result lies) of all that have none."""
    names = {out: op.name for op in made.function.ops for out in op.outputs}
    return sorted((names[out], names[home]) for out, home in made.homes.items())


@pytest.mark.parametrize("rows", [1, 7, 70])
def test_a_softmax_and_its_gradient(rows):
    q, k, v = (normal(2, 3, rows, 16, seed=n).requires_grad_() for n in range(3))

    def run():
        q.grad = k.grad = v.grad = None
        y = torch.softmax(q @ k.transpose(2, 3) / 4, dim=3) @ v
        y.square().mean().backward()
        return [y, q.grad, k.grad, v.grad]

    compared(run)
    made, _ = code_of(run)
    assert len(made.homes) == 2


def test_a_chain_of_nests_stays_in_one_place():
    x = normal(9, 20)
    made, _ = code_of(lambda: F.softmax(F.softmax(x.cumsum(0), 1).sin().cumsum(1), 1).cumsum(0))
    assert shared(made) == [("mul", "cumsum"), ("sin", "cumsum")]
    compared(lambda: [F.softmax(F.softmax(x.cumsum(0), 1).sin().cumsum(1), 1).cumsum(0)])


def test_what_a_later_phase_reads_is_left_alone():
    """The nest stores sines while it looks for the greatest element, and reads all again."""
    x, w = normal(9, 70), normal(70, 8, seed=1)

    def run():
        h = x.cumsum(0)
        return [h.sin() @ w, F.softmax(h, 1) @ w]

    compared(run)
    made, _ = code_of(run)
    assert any({"sin", "amax", "mul"} <= {op.name for op in step.ops} for step in made.steps)
    assert shared(made) == [("mul", "cumsum")]


def test_what_a_later_step_reads_is_left_alone():
    """The sines are stored for a scan, and the nest behind the scan reads their operand again."""
    x = normal(9, 20)

    def run():
        h = x.cumsum(0)
        return [(h.sin().cumsum(1) * h).cumsum(0)]

    compared(run)
    made, _ = code_of(run)
    assert shared(made) == [("mul", "cumsum")]


def test_a_turned_operand_is_left_alone():
    x, w = normal(30, 20), normal(20, 30, seed=1)

    def run():
        h = x @ w
        return [(h.sin() + h.T.cos()).exp() @ w.T]

    compared(run)
    made, _ = code_of(run)
    assert shared(made) == [("exp", "sin")]


def test_checks_see_a_place_that_is_taken_too_early():
    x, w = normal(9, 20), normal(20, 30, seed=1)

    made, _ = code_of(lambda: F.softmax(x @ w, 1) @ w.T)
    check(PASSES[-1], made)
    for home in made.homes.values():
        size, first, _ = made.lifetimes[home]
        made.lifetimes[home] = size, first, first
    with pytest.raises(AssertionError, match="is not alive"):
        check(PASSES[-1], made)


def gradient_of_a_reshape():
    """Flat as it comes to a leaf, and added there to another one; read when all else is gone."""

    def drawn(seed, *shape):
        return torch.tensor(np.random.default_rng(seed).uniform(-2, 2, shape))

    x, y = (drawn(seed, 5, 3).requires_grad_() for seed in (3, 5))
    z = x + y
    assert abs(z.mean().item()) < 2
    flat = y.reshape(-1)
    tripled = z * 3
    signed = torch.copysign(flat + drawn(32, 15), flat + drawn(33, 15))
    loss = (tripled * tripled).mean() + (signed * signed).mean()
    loss.backward()
    return y


def test_what_is_handed_over_has_the_shape_of_the_result():
    found = {}
    for compiled in (True, False):
        with own_trie(), config.override(compile=compiled, verify=False):
            leaf = gradient_of_a_reshape()
            leaf.detach().numpy()
            found[compiled] = leaf.grad.numpy()
    assert found[True].shape == found[False].shape == (5, 3)
    np.testing.assert_allclose(found[True], found[False], rtol=1e-12, atol=1e-14)
