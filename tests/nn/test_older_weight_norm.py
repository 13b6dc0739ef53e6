"""State dicts of `nn.utils.weight_norm` load into `parametrizations.weight_norm`, as in PyTorch."""

import pickle
import warnings

import pytest

import wend

torch = pytest.importorskip("torch")


def layers(t, kind, older):
    utils = t.nn.utils
    wrap = utils.weight_norm if older else utils.parametrizations.weight_norm
    t.manual_seed(int(older))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "conv along dim 1":
            return wrap(t.nn.Conv1d(2, 3, 3), dim=1)
        if kind == "two weights":
            return wrap(wrap(t.nn.LSTM(2, 3), "weight_ih_l0"), "weight_hh_l0")
        return t.nn.Sequential(wrap(t.nn.Linear(2, 3)), t.nn.Linear(3, 2))


@pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
@pytest.mark.parametrize("kind", ["linear", "conv along dim 1", "two weights"])
def test_older_checkpoints_load(t, kind):
    older, newer = layers(t, kind, True), layers(t, kind, False)
    state = older.state_dict()
    before = list(state)
    found = newer.load_state_dict(state)
    assert not found.missing_keys
    assert not found.unexpected_keys
    assert list(state) == before
    x = t.ones(2, 2, 5) if kind.startswith("conv") else t.ones(4, 2)
    ours, theirs = newer(x), older(x)
    if kind == "two weights":
        ours, theirs = ours[0], theirs[0]
    assert t.allclose(ours, theirs)
    again = newer.load_state_dict(newer.state_dict())
    assert not again.missing_keys


def test_a_layer_with_the_hook_is_copied():
    layer = wend.nn.utils.parametrizations.weight_norm(wend.nn.Linear(2, 3))
    hooks = layer._load_state_dict_pre_hooks
    made = pickle.loads(pickle.dumps(list(hooks.values())))
    assert len(made) == 1
