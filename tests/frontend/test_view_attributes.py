"""Attributes that tell of views: _base, _is_view, memory formats."""

import pytest

import wend

torch = pytest.importorskip("torch", reason="compares with PyTorch")


def bases(lib):
    x = lib.ones(2, 3)
    y = lib.ones(2, 3, requires_grad=True)
    with lib.no_grad():
        part = y[0]
    rows = x.split(1)
    return [
        x._base is None,
        x[0]._base is x,
        x[0][1:]._base is x,
        x.view(6)._base is x,
        rows[1]._base is x,
        part._base is y,
        x.clone()._base is None,
        x.detach()._base is None,
        [t._is_view() for t in (x, x.t(), part, x + 1, x.data, x.detach())],
    ]


def formats(lib):
    shapes = [(2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (2, 3), (0, 3, 2, 2)]
    given = [lib.ones(*shape) for shape in shapes]
    given.append(lib.ones(2, 4, 5, 3).permute(0, 3, 1, 2))
    return [t.is_contiguous(memory_format=lib.channels_last) for t in given]


@pytest.mark.parametrize("program", [bases, formats])
def test_as_in_pytorch(program):
    assert program(wend) == program(torch)
