"""What op tables do not reach: errors, memory, sizes beyond a launch, ways to run."""

import os
import subprocess
import sys

import numpy as np
import pytest

import wend as torch
from wend._engine.runtime.devices.queue import accelerator_at


def indexed(x, i, j):
    return x[i]


def added(x, i, j):
    return x.index_add(0, i, x[:2])


def looked_up(x, i, j):
    return torch.nn.functional.embedding(i, x)


def gathered(x, i, j):
    return torch.gather(x, 1, i.reshape(2, 1))


def put(x, i, j):
    x[i] = 1.0
    return x


def labelled(x, i, j):
    return torch.nn.functional.cross_entropy(x[:2], i)


def divided(x, i, j):
    return j // (i - i)


@pytest.mark.parametrize("program", [indexed, added, looked_up, gathered, put, labelled, divided])
def test_an_error_tells_op_and_line_and_the_device_goes_on(program, accelerator):
    errors = []
    for place in ("cpu", accelerator):
        with pytest.raises(Exception) as caught:
            x = torch.arange(12.0, device=place).reshape(4, 3)
            i, j = torch.tensor([0, 9], device=place), torch.tensor([3, 4], device=place)
            program(x * 1, i, j).sum().item()
        errors.append(caught.value)
        assert (torch.arange(5.0, device=place) * 2).sum().item() == 20.0
    host, device = errors
    assert type(device) is type(host)
    assert str(device).startswith(str(host).partition("\n")[0])
    assert f"in {program.__name__}" in str(device)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, (1 << 20) + 5, (1 << 21) + 77])
def test_sizes(size, accelerator):
    """The largest have more turns than a launch has work items."""
    data = np.arange(size) % 7
    x = torch.tensor(data, device=accelerator)
    assert ((x * 3 + 1).sum() - (x > 2).sum()).item() == int(
        (data * 3 + 1).sum() - (data > 2).sum()
    )
    np.testing.assert_array_equal((x + 1).cpu().numpy(), data + 1)


def test_scalars_beside_loops_read_what_they_replace(accelerator):
    """A scalar is updated in the memory that other work items read it from."""
    data = np.linspace(-1, 1, 5000)
    s, x = torch.tensor(2.0, device=accelerator), torch.tensor(data, device=accelerator)
    m = torch.full((3, 1), 2.0, device=accelerator)
    y = torch.ones(3, 700, device=accelerator)
    for step in range(5):
        s = s * 1.5
        x = x * s + s
        m = m * 0.5 + 1
        y = y + m
        data = data * 2.0 * 1.5 ** (step + 1) + 2.0 * 1.5 ** (step + 1)
        torch.synchronize()
    np.testing.assert_allclose(x.cpu().numpy(), data, rtol=1e-6)
    np.testing.assert_allclose(y.cpu().numpy(), np.full((3, 700), 11.0))


def test_types_in_a_nest(accelerator):
    data = np.arange(-40, 40)
    results = []
    for place in ("cpu", accelerator):
        x = torch.tensor(data, device=place)
        parts = [x.to(d) for d in (torch.int8, torch.float16, torch.bfloat16, torch.float64)]
        total = sum((p * 2 for p in parts), x > 3)
        flags = (parts[0] < parts[1]) & (x % 3 == 0)
        results.append(
            [t.cpu() for t in (total, flags, *parts, total.to(torch.uint8), total.sum())]
        )
    for a, b in zip(*results, strict=True):
        assert a.dtype is b.dtype
        assert a.tolist() == b.tolist()


def test_memory_is_used_again(accelerator):
    device = accelerator_at(accelerator)
    x = torch.ones(1000, 50, device=accelerator)
    for step in range(30):
        x = torch.tanh(x.t().contiguous().t() * 2 - x.softmax(1)).clone()
        torch.synchronize()
        if step == 5:
            reserved = device.pool.reserved
    assert device.pool.reserved == reserved
    before = device.pool.allocated
    del x
    torch.synchronize()
    assert device.pool.allocated < before


PROGRAM = """
import wend as torch
w = torch.linspace(-1, 1, 12, device="xpu").reshape(3, 4).requires_grad_()
for _ in range(4):
    x = torch.arange(20.0, device="xpu").reshape(5, 4) / 20
    loss = torch.nn.functional.cross_entropy(x @ w.t(), torch.tensor([0, 1, 2, 0, 1], device="xpu"))
    (g,) = torch.autograd.grad(loss, w)
    w = (w - 0.5 * g).detach().requires_grad_()
print([round(v, 5) for v in w.detach().cpu().flatten().tolist()])
"""


def test_ways_to_run(accelerator):
    """The uncompiled core, checks of each plan, and no machine code: the same numbers."""
    shown = set()
    for way in ("", "WEND_PURE=1", "WEND_VERIFY=1", "WEND_COMPILE=0", "WEND_COMPILE=force"):
        name, _, value = way.partition("=")
        environment = {**os.environ, "WEND_STRICT": "1", **({name: value} if name else {})}
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, f"{way}: {run.stderr[-2000:]}"
        shown.add(run.stdout)
    assert len(shown) == 1


def test_pairs_of_64_bits_are_shown_in_other_orders_and_filled(accelerator):
    """Views at the end of a path, and fills, of complex128."""
    x = (np.arange(12.0) + 1j).reshape(3, 4)
    t, filled = torch.tensor(x), torch.full((3, 4), 2 + 1j, dtype=torch.complex128)
    t, filled = t.to(accelerator), filled.to(accelerator)
    made = torch.full((3, 4), 2 + 1j, dtype=torch.complex128, device=accelerator)
    for other in (filled, made):
        turned = (t + other).t()
        np.testing.assert_array_equal(turned.cpu().numpy(), (x + (2 + 1j)).T)
        np.testing.assert_array_equal((turned.real + 1).cpu().numpy(), (x + (2 + 1j)).T.real + 1)
    np.testing.assert_array_equal(made.cpu().numpy(), np.full((3, 4), 2 + 1j))
