"""Small ways in which libraries use PyTorch: signatures, arrays under no_grad, streams, names."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import wend
from wend import nn

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
def test_signatures_of_modules(t):
    class Own(t.nn.Module):
        def __call__(self, a, b=3):
            return a

    class Plain(t.nn.Module):
        def forward(self, a, b):
            return a

    for module in (t.nn.Linear(2, 2), t.nn.Sequential(t.nn.ReLU()), Plain()):
        assert str(inspect.signature(module)) == "(*args, **kwargs)"
    assert str(inspect.signature(Own())) == "(a, b=3)"
    assert list(inspect.signature(t.nn.Linear).parameters)[:2] == ["in_features", "out_features"]
    assert str(inspect.signature(Plain().forward)) == "(a, b)"


@pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
def test_arrays_of_variables_without_gradients(t):
    p = t.ones(2, requires_grad=True)
    with t.no_grad():
        array = p.numpy()
        array[0] = 5.0
        assert p.tolist() == [5.0, 1.0]
        assert np.asarray(p).tolist() == [5.0, 1.0]
        assert t.nn.Linear(2, 3).weight.numpy().shape == (3, 2)
    with t.inference_mode():
        assert p.numpy().tolist() == [5.0, 1.0]
    for ask in (lambda: p.numpy(), lambda: np.asarray(p), lambda: (p * 2).numpy()):
        with pytest.raises(RuntimeError, match="requires grad"):
            ask()
    with t.no_grad(), t.enable_grad(), pytest.raises(RuntimeError, match="requires grad"):
        p.numpy()


@pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
def test_divergences_are_registered_for_any_classes(t):
    class Mine:
        pass

    from wend.distributions import kl as ours

    kl = ours if t is wend else torch.distributions.kl
    kl.register_kl(t.distributions.Normal, Mine)(lambda p, q: 7)
    assert kl.kl_divergence(t.distributions.Normal(0.0, 1.0), Mine()) == 7
    with pytest.raises(TypeError):
        kl.register_kl(t.distributions.Normal, 3)


@pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
def test_streams_and_events_of_the_cpu(t):
    stream = t.Stream("cpu")
    assert stream.device.type == "cpu"
    assert stream.query()
    with stream:
        event = t.Event("cpu")
    if t is wend:  # PyTorch's events of the CPU cannot be recorded
        assert stream.record_event(event) is event
        event.wait()
        event.synchronize()
        stream.wait_event(event)
        stream.wait_stream(t.Stream(device="cpu"))
        assert event.query()
    stream.synchronize()
    with pytest.raises(RuntimeError):
        t.Stream("cuda")


def test_names_at_second_places():
    import wend.fx.proxy
    from wend.fx._symbolic_trace import GraphAppendingTracer

    assert wend.fx.proxy.GraphAppendingTracer is GraphAppendingTracer
    assert nn.functional.torch is wend


def test_the_package_is_called_torch_where_it_serves_torch(tmp_path):
    script = tmp_path / "names.py"
    script.write_text(
        "import torch, torch.nn.functional as F, importlib, pickle\n"
        "from torch import nn, optim\n"
        "assert torch.__name__ == 'torch' and F.torch is torch\n"
        "assert importlib.import_module(torch.__name__ + '.linalg') is torch.linalg\n"
        "assert pickle.loads(pickle.dumps(torch.nn.Linear(1, 1))).in_features == 1\n"
        "try: torch.spam\n"
        "except AttributeError as error: assert 'torch.spam' in str(error)\n"
        "from torch.utils import data\n"
        "import wend\n"
        "assert wend is torch\n"
        "print('done')\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "wend", "run", str(script)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "done", found.stderr
