"""Ops that a device leaves to the processor: counted, told once per op and line, or raised."""

import warnings

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.compiler.ir.loops import HOST
from wend._engine.compiler.lower import path
from wend._engine.runtime import host_steps
from wend._engine.runtime.devices.queue import accelerator_at
from wend.errors import DeviceError

pytestmark = pytest.mark.usefixtures("accelerator")
#: In these tests no accelerator multiplies numbers of this dtype, and the processor does.
WIDE = torch.complex128


@pytest.fixture(autouse=True)
def _new(monkeypatch):
    """A trie of its own, in which nothing has been told, and devices without products of `WIDE`."""
    real = path._is_for_devices

    def is_for_devices(f, op):
        is_product = op.name == "mul" and f.dtypes[op.outputs[0]] is WIDE
        return op.kind == HOST or (real(f, op) and not is_product)

    monkeypatch.setattr(path, "_is_for_devices", is_for_devices)
    monkeypatch.setattr(path, "_NOT_FOR_DEVICES", set())
    monkeypatch.setattr(host_steps, "_TOLD", set())
    with own_trie():
        yield


def squares(x):
    return (x * x).real.sum()


def told(strict, allowed, make, calls=1):
    """The warnings of a program."""
    settings = config.override(strict=strict, host_steps=allowed)
    with settings, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(calls):
            make()
    return [str(x.message) for x in caught if "no kernel" in str(x.message)]


def test_each_op_and_line_is_told_once():
    x = torch.ones(4, dtype=WIDE).to("xpu")
    y = torch.ones(3, dtype=WIDE).to("xpu")
    told(False, True, torch.synchronize)

    def program():
        squares(x).item()
        squares(y.reshape(3, 1)).item()  # another path, of the same lines

    texts = told(False, False, program, 3)
    (text,) = [t for t in texts if "for mul of" in t]
    assert len(texts) == len(set(texts))
    assert text.startswith("wend: xpu:0 has no kernel for mul of complex128, complex128; ")
    assert f"{__file__}:{squares.__code__.co_firstlineno + 1} in squares" in text
    assert "WEND_HOST_STEPS=1" in text
    assert "WEND_STRICT=1" in text


def test_gradients_have_the_line_of_the_forward_op():
    x = torch.ones(4, dtype=WIDE).to("xpu").requires_grad_()

    def program():
        squares(x).backward()
        return x.grad.tolist()

    texts = told(False, False, program)
    assert [t for t in texts if t.startswith("wend: mul_backward: xpu:0 ") and "in squares" in t]


def test_strict_raises_it_and_the_result_is_right():
    x = torch.ones(4, dtype=WIDE).to("xpu")
    told(False, True, torch.synchronize)
    y = squares(x)
    with config.override(strict=True, host_steps=False):
        with pytest.raises(DeviceError, match="no kernel for mul of complex128") as error:
            y.item()
        assert y.item() == 4  # computed, and known from now on
        assert squares(x).item() == 4
    assert "in squares" in str(error.value)
    assert "WEND_HOST_STEPS=1 allows it" in str(error.value)


def test_ops_that_run_by_numpy_everywhere_are_counted_and_not_told():
    x = torch.rand(4, 4).to("xpu")
    unit = accelerator_at(x.device)

    def program():
        torch.linalg.svdvals(torch.linalg.qr(x)[1]).sum().item()

    before = unit.host_steps
    with config.override(strict=True):
        assert told(True, False, program, 3) == []
    assert unit.host_steps >= before + 6


def test_paths_that_the_processor_computes_are_counted():
    x = torch.rand(4).to("xpu")
    unit = accelerator_at(x.device)
    torch.synchronize()
    before = unit.host_steps, unit.launches
    with config.override(deterministic=True):
        torch.tanh(x).sum().item()
    assert (unit.host_steps, unit.launches) == (before[0] + 2, before[1])


def test_a_setting_allows_all():
    x = torch.ones(4, dtype=WIDE).to("xpu")
    unit = accelerator_at(x.device)
    before = unit.host_steps
    assert told(True, True, lambda: squares(x).item()) == []
    assert unit.host_steps > before


def test_kernels_are_told_nothing_of():
    x = torch.rand(8, 8).to("xpu").requires_grad_()
    before = accelerator_at(x.device).host_steps

    def program():
        torch.softmax(torch.tanh(x @ x), 1).square().sum().backward()
        np.asarray(x.grad.cpu())

    assert told(True, False, program, 3) == []
    assert accelerator_at(x.device).host_steps == before


def test_reports_show_them():
    x = torch.ones(4, dtype=WIDE).to("xpu")
    squares(x).item()
    text = str(torch.debug.explain())
    assert "run by: machine code for xpu:0, bound to " in text
    assert "on the host: accelerators have no kernel for it" in text
    assert " host steps, " in torch.xpu.memory_summary()
