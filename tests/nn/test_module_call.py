"""Calls of modules: the native slot finds `forward` wherever it may stand."""

import pytest

import wend as torch
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


class Watched(torch.nn.Module):
    """Its attributes come from everywhere."""

    kind = "watched"

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def __getattr__(self, name):
        return 7 if name == "missing" else super().__getattr__(name)

    @property
    def failing(self):
        return self.absent

    @property
    def doubled(self):
        return self.weight * 2

    def method(self):
        return "of the class"


def test_members_are_found_where_python_finds_them():
    module = Watched()
    assert module.missing == 7
    assert module.kind == "watched"
    assert module.doubled.tolist() == [2.0, 2.0]
    assert module.method() == "of the class"
    module.method = lambda: "of the instance"
    assert module.method() == "of the instance"
    del module.method
    assert module.method() == "of the class"
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = module.absent
    with pytest.raises(AttributeError):
        _ = module.failing
    Watched.weight = property(lambda self: "of a property")
    try:
        assert module.weight == "of a property"
    finally:
        del Watched.weight
    assert module.weight is dict(module.named_parameters())["weight"]


def test_a_class_may_get_attributes_in_its_own_way():
    class Own(torch.nn.Linear):
        def __getattribute__(self, name):
            return 3 if name == "mark" else super().__getattribute__(name)

    class Later(torch.nn.Linear):
        pass

    own, layer = Own(2, 2), Later(2, 2)
    own.mark = layer.mark = 5
    assert own.mark == 3
    assert layer.mark == 5
    Later.__getattribute__ = Own.__getattribute__
    assert layer.mark == 3
