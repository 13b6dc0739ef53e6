"""Calls of modules: the native slot finds `forward` wherever it may stand."""

import pytest

from wend import nn


class Echo(nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs


@pytest.mark.parametrize("args", [(), (1,), tuple(range(12))])
@pytest.mark.parametrize("kwargs", [{}, {"b": 3}])
def test_arguments_are_passed_on(args, kwargs):
    assert Echo()(*args, **kwargs) == (args, kwargs)
    assert nn.Module.__call__(Echo(), *args, **kwargs) == (args, kwargs)


def test_forward_on_the_instance_comes_first():
    echo = Echo()
    echo.forward = lambda x: x + 1
    assert echo(2) == 3
    del echo.forward
    assert echo(2) == ((2,), {})


def test_forward_need_not_be_a_plain_function():
    class Static(nn.Module):
        @staticmethod
        def forward(x):
            return x

    class Own(nn.Module):
        def __getattribute__(self, name):
            return (lambda x: "own") if name == "forward" else super().__getattribute__(name)

    class Around(Echo):
        def __call__(self, x):
            return "around", super().__call__(x)

    assert Static()(4) == 4
    assert Own()(4) == "own"
    assert Around()(4) == ("around", ((4,), {}))
