"""Layers and optimizers through files: state dicts by default, whole objects with trust."""

from __future__ import annotations

import io

import numpy as np
import pytest

import wend
from wend.serialization import UnsafeName, get_unsafe_globals_in_checkpoint, safe_globals

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def deterministic():
    """Only then are results equal to the last bit: elsewhere a weight may be packed by now."""
    wend.use_deterministic_algorithms(True)
    yield
    wend.use_deterministic_algorithms(False)


def through(obj, save, load, **options):
    buffer = io.BytesIO()
    save(obj, buffer)
    buffer.seek(0)
    return load(buffer, **options)


def network(library):
    nn = library.nn
    return nn.Sequential(
        nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4),
        nn.LayerNorm(4), nn.Dropout(0.5), nn.Linear(4, 2),
    )  # fmt: skip


def outputs(model, library):
    model.eval()
    values = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 2, 6)
    return np.array(model(library.from_numpy(values.copy())).tolist())


def test_state_dicts_both_ways():
    ours, theirs = network(wend), network(torch)
    theirs.load_state_dict(through(ours.state_dict(), wend.save, torch.load, weights_only=True))
    np.testing.assert_allclose(outputs(ours, wend), outputs(theirs, torch), rtol=1e-4, atol=1e-6)
    other = network(wend)
    other.load_state_dict(through(theirs.state_dict(), torch.save, wend.load))
    np.testing.assert_array_equal(outputs(ours, wend), outputs(other, wend))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_optimizer_state_both_ways(name):
    def stepped(library):
        library.manual_seed(0)
        model = network(library)
        optimizer = getattr(library.optim, name)(model.parameters(), lr=0.01)
        step(library, model, optimizer)
        return model, optimizer

    def step(library, model, optimizer):
        optimizer.zero_grad()
        model(library.ones(2, 2, 6)).sum().backward()
        optimizer.step()

    (ours, our_optimizer), (theirs, their_optimizer) = stepped(wend), stepped(torch)
    state = through(our_optimizer.state_dict(), wend.save, torch.load, weights_only=True)
    their_optimizer.load_state_dict(state)
    step(torch, theirs, their_optimizer)
    our_optimizer.load_state_dict(through(their_optimizer.state_dict(), torch.save, wend.load))
    step(wend, ours, our_optimizer)


def test_whole_modules_need_trust():
    model = network(wend)
    with pytest.raises(UnsafeName, match=r"torch\.nn"):
        through(model, wend.save, wend.load)
    again = through(model, wend.save, wend.load, weights_only=False)
    assert type(again) is type(model)
    np.testing.assert_array_equal(outputs(again, wend), outputs(model, wend))


def test_classes_can_be_declared_safe():
    layer = wend.nn.Linear(2, 3)
    with safe_globals([wend.nn.Linear]):
        again = through(layer, wend.save, wend.load)
    assert again.weight.tolist() == layer.weight.tolist()


def test_whole_modules_of_pytorch_become_ours():
    theirs = network(torch)
    ours = through(theirs, torch.save, wend.load, weights_only=False)
    assert isinstance(ours, wend.nn.Sequential) and isinstance(ours[4], wend.nn.Linear)
    np.testing.assert_allclose(outputs(ours, wend), outputs(theirs, torch), rtol=1e-4, atol=1e-6)


def test_whole_modules_of_ours_become_pytorchs():
    ours = network(wend)
    theirs = through(ours, wend.save, torch.load, weights_only=False)
    assert isinstance(theirs, torch.nn.Sequential)
    np.testing.assert_allclose(outputs(ours, wend), outputs(theirs, torch), rtol=1e-4, atol=1e-6)


class Tagger(wend.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = wend.nn.Embedding(5, 4)
        self.cell = wend.nn.LSTM(4, 3)
        self.scale = wend.nn.Parameter(wend.ones(1))
        self.register_buffer("steps", wend.tensor(0))
        self.tied = self.scale

    def forward(self, x):
        return self.cell(self.embedding(x))[0] * self.scale


def test_a_module_of_the_users():
    model = Tagger()
    again = through(model, wend.save, wend.load, weights_only=False)
    words = wend.tensor([0, 3, 1])
    assert again(words).tolist() == model(words).tolist()
    assert again.tied is again.scale and again.steps.item() == 0
    assert [name for name, _ in again.named_parameters()] == [
        name for name, _ in model.named_parameters()
    ]


def test_a_training_checkpoint_resumes(tmp_path):
    model = network(wend)
    optimizer = wend.optim.Adam(model.parameters(), lr=0.01)
    generator = wend.get_rng_state()
    path = tmp_path / "checkpoint.pt"
    model(wend.ones(2, 2, 6)).sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": generator,
        "epoch": 1,
    }  # fmt: skip
    wend.save(checkpoint, path)
    read = wend.load(path)
    other = network(wend)
    other.load_state_dict(read["model"])
    resumed = wend.optim.Adam(other.parameters(), lr=0.5)
    resumed.load_state_dict(read["optimizer"])
    wend.set_rng_state(read["rng"])
    assert resumed.param_groups[0]["lr"] == 0.01 and read["epoch"] == 1
    for a, b in ((model, optimizer), (other, resumed)):
        a.eval()
        b.zero_grad()
        a(wend.ones(2, 2, 6)).sum().backward()
        b.step()
    assert outputs(model, wend).tolist() == outputs(other, wend).tolist()


def test_files_name_nothing_that_only_wend_has():
    buffer = io.BytesIO()
    wend.save([network(wend), wend.nn.LSTM(2, 3), wend.nn.MultiheadAttention(4, 2)], buffer)
    buffer.seek(0)
    names = get_unsafe_globals_in_checkpoint(buffer)
    assert names and all(name.startswith("torch.") for name in names)
    buffer.seek(0)
    assert set(names) == set(torch.serialization.get_unsafe_globals_in_checkpoint(buffer))


def test_functions_go_by_the_names_of_pytorch():
    functional = wend.nn.functional
    for function, twin in (
        (functional.relu, torch.nn.functional.relu),
        (functional.softmax, torch.nn.functional.softmax),
        (wend.atan2, torch.atan2),
    ):
        assert through(function, wend.save, torch.load, weights_only=False) is twin
        assert through(function, wend.save, wend.load, weights_only=False) is function
        with pytest.raises(UnsafeName, match=function.__name__):
            through(function, wend.save, wend.load)
        with safe_globals([function]):
            assert through(function, wend.save, wend.load) is function
    written = torch.nn.functional.relu
    assert through(written, torch.save, wend.load, weights_only=False) is functional.relu
    assert through(wend.Tensor.add_, wend.save, wend.load, weights_only=False) is wend.Tensor.add_


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_both_ways(kind):
    def made(library):
        return getattr(library.nn, kind)(3, 4, num_layers=2, bidirectional=True)

    values = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 2, 3)
    for ours, theirs in (
        (layer := made(wend), through(layer, wend.save, torch.load, weights_only=False)),
        (through(layer := made(torch), torch.save, wend.load, weights_only=False), layer),
    ):
        got = ours(wend.tensor(values))[0].detach().numpy()
        np.testing.assert_allclose(got, theirs(torch.tensor(values))[0].detach(), atol=1e-6)
        assert type(theirs) is getattr(torch.nn, kind) and type(ours) is getattr(wend.nn, kind)
        assert len(list(ours.parameters())) == len(list(theirs.parameters()))


def test_hooks_can_be_registered_on_what_pytorch_wrote():
    ours = through(torch.nn.Linear(2, 2), torch.save, wend.load, weights_only=False)
    seen = []
    handle = ours.register_state_dict_pre_hook(lambda *args: seen.append("state"))
    ours._register_load_state_dict_pre_hook(lambda *args: seen.append("load"))
    ours.register_load_state_dict_post_hook(lambda *args: seen.append("loaded"))
    ours.register_forward_hook(lambda *args, **kwargs: seen.append("forward"), with_kwargs=True)
    ours.load_state_dict(ours.state_dict())
    ours(wend.ones(2))
    handle.remove()
    ours.state_dict()
    assert seen == ["state", "load", "loaded", "forward"]


def test_parameters_keep_what_the_user_set():
    import copy
    import pickle

    weight = wend.nn.Parameter(wend.ones(2))
    weight.decay = 0.5
    weight.sum().backward()
    for again in (copy.deepcopy(weight), pickle.loads(pickle.dumps(weight))):
        assert again.decay == 0.5 and again.requires_grad and again.tolist() == [1.0, 1.0]
        assert set(vars(again)) - {"decay"} == set(vars(wend.nn.Parameter(wend.ones(2))))
