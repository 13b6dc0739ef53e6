"""Lazy modules pickled, saved and copied before their first input."""

import copy
import io
import pickle

import pytest

import wend as torch
from wend import nn


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = {
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "copy": copy.deepcopy,
    "save": saved,
}
MODULES = {
    "linear": (lambda: nn.LazyLinear(3), (2, 4), nn.Linear),
    "conv": (lambda: nn.LazyConv2d(3, 2), (2, 4, 5, 5), nn.Conv2d),
    "norm": (lambda: nn.LazyBatchNorm1d(), (2, 4), nn.BatchNorm1d),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODULES)
def test_lazy_modules_are_copied_with_their_hooks(name, way):
    make, shape, becomes = MODULES[name]
    module = nn.Sequential(make(), nn.ReLU())
    made = WAYS[way](module)
    assert repr(made) == repr(module)
    for each, width in ((made, 4), (module, 6)):  # each of its own width: nothing is shared
        x = torch.ones(shape[0], width, *shape[2:])
        first, second = each(x), each(x)
        assert first.shape == second.shape
        assert type(each[0]) is becomes
        assert not each[0]._forward_pre_hooks
        assert not each[0]._load_state_dict_pre_hooks
        assert "_initialize_hook" not in vars(each[0])


@pytest.mark.parametrize("way", WAYS)
def test_a_handle_kept_in_a_module_removes_the_hook_of_the_copy(way):
    module = nn.Linear(2, 2)
    module.handle = module.register_forward_hook(_twice)
    made = WAYS[way](module)
    x = torch.ones(1, 2)
    assert torch.equal(made(x), module(x))
    made.handle.remove()
    assert not made._forward_hooks
    assert len(module._forward_hooks) == 1
    assert torch.equal(made(x) * 2, module(x))


def _twice(module, given, result):
    return result * 2
