"""Flags, strides and the errors of `view` of tensors that were asked for in a memory format."""

import numpy as np
import pytest

import wend

FORMATS = ["contiguous_format", "preserve_format", "channels_last"]
SHAPES = [(2, 3, 4, 5), (1, 3, 5, 6), (2, 1, 3, 4), (2, 3, 1, 1), (0, 3, 4, 5), (1, 1, 1, 1)]
WAYS = {
    "to": lambda x, f: x.to(memory_format=f),
    "contiguous": lambda x, f: x.contiguous(memory_format=f),
    "clone": lambda x, f: x.clone(memory_format=f),
    "to dtype": lambda x, f: x.to(x.dtype, memory_format=f),
    "twice": lambda x, f: x.to(memory_format=f).to(memory_format=f),
}


def facts(library, way, shape, name):
    if way == "contiguous" and name == "preserve_format":
        name = "contiguous_format"  # PyTorch refuses it
    x = library.arange(float(np.prod(shape))).reshape(shape)
    y = WAYS[way](x, getattr(library, name))
    found = [y.stride(), y.is_contiguous(), y.is_contiguous(memory_format=library.channels_last)]
    found += [
        y is x,
        y.tolist(),
        y.detach().stride(),
        y[:, :1].stride(),
        y.transpose(1, 3).stride(),
    ]
    for view in (
        lambda: y.view(-1),
        lambda: y.view(*shape[:2], -1),
        lambda: y.permute(0, 2, 3, 1).view(-1),
    ):
        try:
            found.append(view().tolist())
        except RuntimeError:
            found.append("refused")
    return found


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_as_pytorch(way, shape, name):
    torch = pytest.importorskip("torch")
    assert facts(wend, way, shape, name) == facts(torch, way, shape, name)


def test_of_five_dims_and_of_other_ranks():
    x = wend.zeros(2, 3, 4, 5, 6)
    y = x.to(memory_format=wend.channels_last_3d)
    assert y.stride() == (360, 1, 90, 18, 3)
    assert y.is_contiguous(memory_format=wend.channels_last_3d) and not y.is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        x.to(memory_format=wend.channels_last)
    with pytest.raises(TypeError, match="memory_format"):
        x.to(memory_format="channels_last")


def test_writes_reach_what_shares_the_memory_and_gradients_pass():
    x = wend.zeros(1, 2, 2, 2, requires_grad=True)
    y = x.to(memory_format=wend.channels_last)
    (y * wend.arange(8.0).reshape(1, 2, 2, 2)).sum().backward()
    assert x.grad.flatten().tolist() == list(range(8))
    z = y.detach()
    z[:, 0] = 1
    assert y.flatten().tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert z.stride() == (8, 1, 4, 2)
    with pytest.raises(RuntimeError, match=r"Use \.reshape"):
        z.view(-1)
    assert z.permute(0, 2, 3, 1).view(-1).tolist() == [1, 0] * 4


def test_modules_take_a_format():
    m = wend.nn.Conv2d(3, 4, 3).to(memory_format=wend.channels_last)
    assert m.weight.is_contiguous(memory_format=wend.channels_last)
    assert m.weight.stride() == (27, 1, 9, 3)
    assert m.bias.is_contiguous() and m.weight.is_leaf
    opt = wend.optim.SGD(m.parameters(), lr=0.1)
    m(wend.ones(1, 3, 5, 5).to(memory_format=wend.channels_last)).sum().backward()
    before = m.weight.detach().clone()
    opt.step()
    assert wend.allclose(m.weight, before - 0.1 * m.weight.grad)
    assert m.weight.is_contiguous(memory_format=wend.channels_last)


def test_view_of_a_transposed_array_is_refused_each_time():
    x = wend.from_numpy(np.arange(6.0).reshape(2, 3).T)
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"Use \.reshape"):
            x.view(-1)
