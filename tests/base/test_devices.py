"""Devices construct as PyTorch's, and answer clearly when they cannot be used."""

import copy
import pickle

import pytest

from wend._engine.base.devices import CPU, device, usable
from wend._engine.base.errors import ArgumentTypeError, DeviceError

GOOD = ["cpu", "cpu:0", "cuda", "cuda:1", "cuda:12", "mps", "meta", "privateuseone:3"]
BAD = ["foo", "CPU", "cpu:", "cpu:x", "cpu:-1", "cpu:01", "", ":0", "cuda:1:2", " cpu"]


@pytest.mark.smoke
def test_facts():
    assert (CPU.type, CPU.index) == ("cpu", None)
    assert device("cuda", 1) == device("cuda:1") == device(type="cuda", index=1)
    assert device("cuda") != device("cuda:0") and device("cpu") != "cpu"
    assert hash(device("cuda:1")) == hash(device("cuda", 1))
    assert device(device("cuda:1")) == device("cuda:1")
    assert pickle.loads(pickle.dumps(device("cuda:1"))) == device("cuda:1")
    assert copy.deepcopy(CPU) == CPU


@pytest.mark.parametrize("name", GOOD)
def test_prints_as_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = device(name), torch.device(name)
    assert (repr(ours), str(ours)) == (repr(theirs), str(theirs))
    assert (ours.type, ours.index) == (theirs.type, theirs.index)


@pytest.mark.parametrize("name", BAD)
def test_bad_names_are_runtime_errors(name):
    with pytest.raises(DeviceError, match="device"):
        device(name)
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError):
        torch.device(name)


def test_bad_arguments():
    with pytest.raises(DeviceError, match="must not be negative"):
        device("cpu", -1)
    with pytest.raises(DeviceError, match=r"includes an index, and index=0 was passed too"):
        device("cuda:0", 0)
    with pytest.raises(DeviceError, match="0 names an accelerator by number"):
        device(0)
    for wrong in (1.5, None, True, b"cpu"):
        with pytest.raises(ArgumentTypeError, match="takes a string"):
            device(wrong)
    with pytest.raises(ArgumentTypeError, match="index must be an int"):
        device("cuda", "1")
    with pytest.raises(ArgumentTypeError, match="beside a device"):
        device(CPU, 0)
    with pytest.raises(AttributeError, match="not writable"):
        CPU.type = "cuda"
    with pytest.raises(AttributeError, match="not writable"):
        del CPU.index


def test_usable():
    assert usable(None, "zeros") is CPU
    assert usable("cpu", "zeros") == CPU
    assert usable(device("cpu:0"), "zeros") is CPU
    with pytest.raises(RuntimeError, match=r"zeros: device 'cuda:1' is not available.*'cpu'"):
        usable("cuda:1", "zeros")
    with pytest.raises(DeviceError, match="there is one CPU device"):
        usable("cpu:1", "zeros")
    with pytest.raises(ArgumentTypeError, match="zeros: float is no device"):
        usable(1.0, "zeros")


def test_context_and_decorator():
    with device("cpu") as entered:
        assert entered == CPU

    @device("cpu")
    def double(x):
        """Twice x."""
        return 2 * x

    assert double(3) == 6 and double.__doc__ == "Twice x."
    with pytest.raises(DeviceError, match="'cuda' is not available"), device("cuda"):
        pass
