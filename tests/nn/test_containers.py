"""Containers, lazy modules and parameters as objects."""

import copy
import pickle
from collections import OrderedDict

import pytest

import wend
from wend import nn


def linears(count):
    return [nn.Linear(i + 1, i + 2) for i in range(count)]


# -- Sequential and ModuleList ---------------------------------------------------------------


def test_sequential_is_a_list():
    a, b, c = linears(3)
    net = nn.Sequential(a, b)
    assert net.append(c) is net
    assert len(net) == 3
    assert net[-1] is c
    assert list(net) == [a, b, c]
    assert isinstance(net[:2], nn.Sequential)
    assert list(net[1:]) == [b, c]
    assert net.pop(1) is b
    assert list(net._modules) == ["0", "1"]
    net.insert(1, b)
    assert list(net) == [a, b, c]
    net.insert(-1, nn.ReLU())
    assert isinstance(net[2], nn.ReLU)
    del net[0]
    assert list(net._modules) == ["0", "1", "2"]
    net[0] = a
    assert net[0] is a
    assert "0" not in dir(net)
    with pytest.raises(IndexError, match="index 9 is out of range"):
        net[9]
    with pytest.raises(IndexError, match="out of range"):
        net.insert(9, a)


def test_sequential_arithmetic():
    a, b = linears(2)
    net = nn.Sequential(a) + nn.Sequential(b)
    assert list(net) == [a, b]
    net += nn.Sequential(nn.ReLU())
    assert len(net * 2) == 6
    assert len(2 * net) == 6
    net *= 2
    assert len(net) == 6
    net.extend([a])
    assert len(net) == 7
    with pytest.raises(ValueError, match="only objects of Sequential"):
        net + [a]
    with pytest.raises(ValueError, match="Non-positive"):
        net * 0
    with pytest.raises(TypeError, match="unsupported operand"):
        net * 1.5


def test_sequential_keeps_the_names_of_a_dict():
    net = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), second=nn.ReLU()))
    assert net.first is net[0]
    del net[0]
    assert list(net._modules) == ["second"]
    assert net(wend.tensor([-1.0])).tolist() == [0]


def test_sequential_calls_what_the_dict_holds():
    net = nn.Sequential(nn.Identity())
    net.__dict__["0"] = nn.Threshold(0.0, 7.0)
    assert net(wend.tensor([-1.0])).tolist() == [7]


def test_module_list():
    a, b, c = linears(3)
    layers = nn.ModuleList([a])
    layers += [b]
    layers.append(c).extend([nn.ReLU()])
    assert len(layers) == 4
    assert layers[-2] is c
    assert isinstance(layers[1:3], nn.ModuleList)
    layers.insert(0, nn.Tanh())
    assert isinstance(layers.pop(0), nn.Tanh)
    layers[0] = b
    del layers[1:3]
    assert [type(m).__name__ for m in layers] == ["Linear", "ReLU"]
    assert list(layers._modules) == ["0", "1"]
    assert len(layers + [a]) == 3
    assert layers[wend.tensor(1)] is layers[1]
    with pytest.raises(IndexError):
        layers[5]
    with pytest.raises(TypeError, match="iterable"):
        layers.extend(3)
    with pytest.raises(NotImplementedError):
        layers(1)
    assert [name for name, _ in layers.named_parameters()] == ["0.weight", "0.bias"]


def test_module_list_prints_blocks():
    layers = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh(), nn.ReLU()])
    assert repr(layers) == ("ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n  (3): ReLU()\n)")
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict():
    layers = nn.ModuleDict({"a": nn.ReLU()})
    layers["b"] = nn.Tanh()
    layers.update([("c", nn.Identity())])
    assert list(layers) == ["a", "b", "c"]
    assert "a" in layers
    assert layers.pop("a") is not None
    del layers["b"]
    assert next(iter(layers.items()))[0] == "c"
    assert len(layers) == len(layers.keys()) == len(layers.values()) == 1
    layers.clear()
    assert not hasattr(layers, "c")
    with pytest.raises(TypeError, match="iterable of key/value pairs"):
        layers.update(3)
    with pytest.raises(ValueError, match="2 is required"):
        layers.update([("a", nn.ReLU(), 3)])
    with pytest.raises(TypeError, match="not a Module subclass"):
        layers["x"] = 3


# -- parameters ------------------------------------------------------------------------------


def test_parameter_list():
    values = nn.ParameterList([wend.zeros(2), nn.Parameter(wend.ones(1)), "note"])
    values.append(wend.ones(3))
    values += [wend.ones(4)]
    assert isinstance(values[0], nn.Parameter)
    assert values[2] == "note"
    assert len(values) == 5
    assert len(values[1:3]) == 2
    values[0] = wend.ones(7)
    assert [name for name, _ in values.named_parameters()] == ["0", "1", "3", "4"]
    assert values.state_dict()["0"].shape == (7,)
    with pytest.raises(IndexError):
        values[9]
    with pytest.raises(TypeError, match="iterable"):
        values.extend(wend.ones(2))
    with pytest.raises(RuntimeError, match="should not be called"):
        values(1)
    assert len(copy.deepcopy(values)) == 5


def test_parameter_dict():
    values = nn.ParameterDict({"a": wend.zeros(2)})
    values["b"] = nn.Parameter(wend.ones(1))
    values.update({"d": wend.ones(3), "c": 5})
    assert list(values) == ["a", "b", "c", "d"]
    assert isinstance(values["a"], nn.Parameter)
    assert values.get("x", 3) == 3
    assert values.setdefault("a") is values["a"]
    assert values.pop("c") == 5
    assert values.popitem()[0] == "d"
    del values["b"]
    assert (values | {"z": wend.ones(1)}).keys() == {"a": 0, "z": 0}.keys()
    assert list(values.fromkeys(["p", "q"], 1).items()) == [("p", 1), ("q", 1)]
    assert values.state_dict().keys() == {"a"}
    values.clear()
    assert len(values) == 0
    with pytest.raises(TypeError, match="not a string"):
        values[3] = wend.ones(1)


@pytest.mark.smoke
def test_parameters_share_their_data():
    data = wend.zeros(2)
    parameter = nn.Parameter(data)
    data.add_(1)
    assert parameter.tolist() == [1, 1]
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)
    assert repr(parameter) == ("Parameter containing:\ntensor([1., 1.], requires_grad=True)")
    assert type(parameter * 1) is wend.Tensor
    assert type(parameter.data) is wend.Tensor


def test_parameters_are_copied_and_pickled():
    parameter = nn.Parameter(wend.ones(2), requires_grad=False)
    parameter.note = "kept"
    for twin in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(twin) is nn.Parameter
        assert twin.note == "kept"
        assert not twin.requires_grad
        twin.zero_()
    assert parameter.tolist() == [1, 1]


def test_buffers_say_whether_they_are_kept():
    net = nn.Module()
    net.kept = nn.Buffer(wend.ones(1))
    net.dropped = nn.Buffer(wend.ones(1), persistent=False)
    assert list(net.state_dict()) == ["kept"]
    assert [name for name, _ in net.named_buffers()] == ["kept", "dropped"]


# -- lazy modules ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape", "becomes", "weight"),
    [
        (lambda: nn.LazyLinear(3), (2, 5), nn.Linear, (3, 5)),
        (lambda: nn.LazyConv1d(4, 2), (2, 3, 5), nn.Conv1d, (4, 3, 2)),
        (lambda: nn.LazyConv2d(6, 2, groups=3), (2, 3, 5, 5), nn.Conv2d, (6, 1, 2, 2)),
        (lambda: nn.LazyConvTranspose2d(4, 2), (2, 3, 5, 5), nn.ConvTranspose2d, (3, 4, 2, 2)),
        (lambda: nn.LazyBatchNorm1d(), (2, 5), nn.BatchNorm1d, (5,)),
        (lambda: nn.LazyBatchNorm2d(), (2, 5, 2, 2), nn.BatchNorm2d, (5,)),
        (lambda: nn.LazyInstanceNorm2d(), (2, 5, 2, 2), nn.InstanceNorm2d, (5,)),
    ],
)
def test_lazy_modules_take_their_shape_from_the_first_input(make, shape, becomes, weight):
    net = make()
    parameter = net.weight
    assert isinstance(parameter, nn.UninitializedParameter)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        _ = parameter.shape
    net(wend.randn(*shape)).sum().backward()
    assert type(net) is becomes
    assert net.weight is parameter
    assert type(parameter) is nn.Parameter
    assert tuple(parameter.shape) == weight
    assert parameter.grad.shape == parameter.shape
    assert net.n_hooks == 0


def test_lazy_modules_load_states():
    source, target = nn.Linear(5, 3), nn.LazyLinear(3)
    target.load_state_dict(source.state_dict())
    assert wend.equal(target.weight, source.weight)
    data = wend.randn(2, 5)
    assert wend.equal(target(data), source(data))
    again = nn.LazyLinear(3)
    again.load_state_dict(nn.LazyLinear(3).state_dict())
    assert again.has_uninitialized_params()


def test_uninitialized_parameters_are_copied():
    net = copy.deepcopy(nn.LazyLinear(3))
    net(wend.ones(1, 2))
    assert net.in_features == 2
