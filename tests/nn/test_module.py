"""Modules: members, their mirror in `__dict__`, states, hooks, conversion, copies. No PyTorch."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict

import pytest

import wend
from wend import nn


class Net(nn.Module):
    """A parameter, a buffer, a submodule, and a parameter that is None."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(wend.ones(3))
        self.register_buffer("scale", wend.full((3,), 2.0))
        self.register_buffer("cache", wend.zeros(1), persistent=False)
        self.inner = nn.Linear(3, 2)
        self.register_parameter("absent", None)

    def forward(self, x):
        return self.inner(x * self.weight * self.scale)


def agree(module):
    """Whether `__dict__` and the registries say the same."""
    members = {**module._parameters, **module._buffers, **module._modules}
    return all(module.__dict__[name] is value for name, value in members.items()) and all(
        name in members or not isinstance(value, (nn.Parameter, nn.Module))
        for name, value in module.__dict__.items()
    )


# -- members and their mirror ----------------------------------------------------------------


@pytest.mark.smoke
def test_members_are_plain_attributes():
    net = Net()
    assert net.__dict__["weight"] is net._parameters["weight"] is net.weight
    assert net.__dict__["inner"] is net._modules["inner"]
    assert net.absent is None
    assert agree(net)


def test_direct_writes_to_a_registry_reach_the_attribute():
    net, new = Net(), nn.Parameter(wend.zeros(3))
    net._parameters["weight"] = new
    assert net.weight is new
    net._buffers.update(scale=wend.ones(3))
    assert net.scale.tolist() == [1, 1, 1]
    net._modules["inner"] = linear = nn.Linear(3, 3)
    assert net.inner is linear
    net._modules |= {"more": nn.ReLU()}
    assert isinstance(net.more, nn.ReLU)
    assert net._parameters.setdefault("weight", None) is new
    assert agree(net)


def test_deletions_reach_the_other_side():
    net = Net()
    del net.weight
    assert "weight" not in net._parameters
    del net._buffers["scale"]
    assert not hasattr(net, "scale")
    assert net._modules.pop("inner") is not None
    assert not hasattr(net, "inner")
    assert net._modules.pop("inner", 5) == 5
    with pytest.raises(KeyError):
        net._modules.pop("inner")
    net._parameters.clear()
    assert not hasattr(net, "absent")
    assert agree(net)


def test_direct_writes_to_the_dict_are_found():
    net, new = Net(), nn.Parameter(wend.zeros(3))
    net.__dict__["weight"] = new
    assert dict(net.named_parameters())["weight"] is new
    assert net.state_dict()["weight"].tolist() == [0, 0, 0]
    del net.__dict__["inner"]
    assert list(net.named_children()) == []
    net.__dict__["scale"] = "no tensor"
    assert "scale" not in dict(net.named_buffers())
    assert agree(net)


def test_a_hidden_module_stays_hidden():
    net = Net()
    net.__dict__["teacher"] = nn.Linear(1, 1)
    object.__setattr__(net, "friend", nn.Linear(1, 1))
    assert [name for name, _ in net.named_children()] == ["inner"]


def test_registries_can_be_replaced():
    net = Net()
    old = net.weight
    net._parameters = {"bias": nn.Parameter(wend.zeros(1))}
    assert not hasattr(net, "weight")
    assert net.bias is net._parameters["bias"]
    net._parameters = OrderedDict(weight=old)
    assert net.weight is old
    assert agree(net)


def test_attributes_change_their_kind():
    net = Net()
    net.weight = None
    assert net._parameters["weight"] is None
    net.weight = nn.Parameter(wend.zeros(2))
    net.scale = nn.Parameter(wend.zeros(2))
    assert "scale" in net._parameters
    assert "scale" not in net._buffers
    del net.scale
    net.scale = nn.ReLU()
    assert "scale" in net._modules
    net.number = 3
    net.number = nn.Linear(1, 1)
    assert "number" in net._modules
    net.cache = wend.ones(4)
    assert net._buffers["cache"].shape == (4,)
    assert agree(net)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weight", wend.zeros(3), "as parameter 'weight' (torch.nn.Parameter or None expected)"),
        (
            "inner",
            3,
            "cannot assign 'int' as child module 'inner' (torch.nn.Module or None expected)",
        ),
        ("scale", "x", "cannot assign 'str' as buffer 'scale'"),
    ],
)
def test_wrong_kinds_raise(name, value, message):
    net = Net()
    with pytest.raises(TypeError) as caught:
        setattr(net, name, value)
    assert message in str(caught.value)


def test_bad_names_raise():
    net = Net()
    for register in (net.register_parameter, net.register_buffer, net.add_module):
        with pytest.raises(KeyError, match="contain"):
            register("a.b", None)
        with pytest.raises(KeyError, match="be empty"):
            register("", None)
        with pytest.raises(TypeError, match="should be a string"):
            register(3, None)
        with pytest.raises(KeyError, match="already exists"):
            register("forward", None)
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("product", _non_leaf())
    with pytest.raises(TypeError, match="cannot assign"):
        net.register_parameter("tensor", wend.ones(1))


def _non_leaf():
    return (nn.Parameter(wend.ones(2)) * 2).as_subclass(nn.Parameter)


def test_before_init_members_are_refused():
    class Late(nn.Module):
        def __init__(self, value):
            self.number = 3
            self.value = value

    for value, what in ((nn.Parameter(wend.ones(1)), "parameters"), (nn.ReLU(), "module")):
        with pytest.raises(AttributeError, match=f"cannot assign {what} before Module.__init__"):
            Late(value)
    assert Late(3).number == 3


def test_missing_attributes_raise_as_usual():
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        _ = Net().nothing


def test_getattr_can_be_extended():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

    wrapper = Wrapper(Net())
    assert wrapper.weight is wrapper.module.weight


def test_unexpected_arguments_raise():
    with pytest.raises(TypeError, match="unexpected keyword argument 'a'"):
        nn.Module(a=1)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module(1)


def test_forward_is_needed():
    with pytest.raises(
        NotImplementedError, match=r'Module \[Module\] is missing the required "forw'
    ):
        nn.Module()(1)


# -- traversal -------------------------------------------------------------------------------


def test_traversal_names_each_member_once():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.Sequential(shared, Net()))
    assert [name for name, _ in net.named_modules()] == ["", "0", "1", "1.1", "1.1.inner"]
    assert [name for name, _ in net.named_parameters()] == [
        "0.weight", "0.bias", "1.1.weight", "1.1.inner.weight", "1.1.inner.bias",
    ]  # fmt: skip
    duplicated = [name for name, _ in net.named_parameters(remove_duplicate=False)]
    assert "1.0.weight" in duplicated
    assert [name for name, _ in net.named_buffers()] == ["1.1.scale", "1.1.cache"]
    assert len(list(net.parameters(recurse=False))) == 0
    assert len(list(net.modules())) == 5


def test_lookup_by_path():
    net = nn.Sequential(Net())
    assert net.get_submodule("0.inner") is net[0].inner
    assert net.get_submodule("") is net
    assert net.get_parameter("0.weight") is net[0].weight
    assert net.get_buffer("0.scale") is net[0].scale
    with pytest.raises(AttributeError, match="Sequential has no attribute `9`"):
        net.get_submodule("9")
    with pytest.raises(AttributeError, match=r"`weight` is not an nn\.Module"):
        net.get_submodule("0.weight")
    with pytest.raises(AttributeError, match=r"is not an nn\.Parameter"):
        net.get_parameter("0.scale")
    net.set_submodule("0.inner", nn.Identity())
    assert isinstance(net[0].inner, nn.Identity)


def test_modes_and_gradients_reach_all():
    net = Net()
    net.eval()
    assert not net.inner.training
    assert net.train() is net
    assert net.inner.training
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.requires_grad_()
    net(wend.ones(3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.tolist() == [0, 0, 0]
    net.zero_grad()
    assert net.weight.grad is None


def test_apply_visits_children_first():
    seen = []
    net = Net()
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "Net"]


# -- states ----------------------------------------------------------------------------------


def test_state_dict_has_persistent_members_only():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["weight", "scale", "inner.weight", "inner.bias"]
    assert not state["weight"].requires_grad
    assert net.state_dict(keep_vars=True)["weight"] is net.weight
    assert next(iter(net.state_dict(prefix="a."))) == "a.weight"
    assert state._metadata["inner"] == {"version": 1}


def test_state_dict_entries_share_their_values():
    net = Net()
    state = net.state_dict()
    state["weight"].fill_(7)
    assert net.weight.tolist() == [7, 7, 7]
    with wend.no_grad():
        net.weight.add_(1)
    assert state["weight"].tolist() == [8, 8, 8]


def test_load_state_dict_copies_or_assigns():
    first, second = Net(), Net()
    weight = second.weight
    assert repr(second.load_state_dict(first.state_dict())) == "<All keys matched successfully>"
    assert type(second.load_state_dict(first.state_dict())).__name__ == "_IncompatibleKeys"
    assert second.weight is weight
    assert wend.equal(first.inner.weight, second.inner.weight)
    state = {name: value.double() for name, value in first.state_dict().items()}
    second.load_state_dict(state, assign=True)
    assert second.weight.dtype == wend.float64
    assert isinstance(second.weight, nn.Parameter)
    assert agree(second)


def test_load_state_dict_lists_all_faults():
    net = Net()
    state = dict(net.state_dict())
    del state["scale"]
    state.update(extra=wend.ones(1), weight=wend.ones(4))
    state["inner.bias"] = 3
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "scale". \n'
        '\tUnexpected key(s) in state_dict: "extra". \n'
        "\tsize mismatch for weight: copying a param with shape torch.Size([4]) from checkpoint, "
        "the shape in current model is torch.Size([3]).\n"
        '\tWhile copying the parameter named "inner.bias", expected torch.Tensor or Tensor-like '
        "object from checkpoint but received <class 'int'>"
    )
    found = net.load_state_dict({"extra": wend.ones(1)}, strict=False)
    assert found.unexpected_keys == ["extra"]
    assert "inner.bias" in found.missing_keys
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_extra_state_and_hooks():
    class Counting(nn.Linear):
        count = 0

        def get_extra_state(self):
            return self.count

        def set_extra_state(self, state):
            self.count = state

    first, second = Counting(1, 1), Counting(1, 1)
    first.count = 5
    seen = []
    first.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append("before"))
    first.register_state_dict_post_hook(lambda module, state, prefix, meta: seen.append("after"))
    second.register_load_state_dict_pre_hook(lambda module, *rest: seen.append(type(module)))
    second.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.remove("bias"))
    state = first.state_dict()
    assert state["_extra_state"] == 5
    del state["bias"]
    second.load_state_dict(state)
    assert second.count == 5
    assert seen == ["before", "after", Counting]


def test_load_from_state_dict_can_be_overridden():
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *args):
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")
            super()._load_from_state_dict(state_dict, prefix, *args)

    outer = nn.Sequential(Renamed(1, 1, bias=False))
    state = {"0.old": wend.full((1, 1), 4.0)}
    outer.load_state_dict(state)
    assert outer[0].weight.item() == 4.0
    assert list(state) == ["0.old"]


# -- copies ----------------------------------------------------------------------------------


class Pickled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.tied = self.layer.weight


class OwnState(nn.Module):
    """Copies its `__dict__` by hand, as programs do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.note = "kept"

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        self.__dict__.update(state)


@pytest.mark.parametrize("cls", [Pickled, OwnState])
@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_are_whole_and_apart(cls, how):
    net = cls()
    twin = copy.deepcopy(net) if how == "deepcopy" else pickle.loads(pickle.dumps(net))
    assert wend.equal(twin.layer.weight, net.layer.weight)
    assert twin.layer.weight is not net.layer.weight
    twin._modules["layer"] = nn.Identity()
    assert isinstance(twin.layer, nn.Identity)
    assert isinstance(net.layer, nn.Linear)
    assert agree(twin)


def test_copies_keep_ties_and_hooks():
    net = Pickled()
    calls = []
    net.layer.register_forward_hook(lambda *args: calls.append(1))
    twin = copy.deepcopy(net)
    assert twin.tied is twin.layer.weight
    twin.layer(wend.ones(2))
    assert calls == [1]


def test_shallow_copies_have_members_of_their_own():
    net = Net()
    twin = copy.copy(net)
    twin.weight = nn.Parameter(wend.zeros(1))
    assert net.weight.shape == (3,)
    assert twin.inner is net.inner
    assert agree(net)
    assert agree(twin)


def test_a_module_goes_when_its_last_name_does():
    net = Net()
    net(wend.ones(3))
    net.register_forward_hook(lambda *args: None)
    net(wend.ones(3))
    seen = weakref.ref(net)
    gc.disable()
    try:
        del net
        assert seen() is None
    finally:
        gc.enable()


# -- conversion ------------------------------------------------------------------------------


def test_conversion_keeps_parameters_and_changes_dtypes():
    net = Net()
    net.register_buffer("index", wend.arange(3))
    weight = net.weight
    net(wend.ones(3)).sum().backward()
    assert net.double() is net
    assert net.weight is weight
    assert weight.dtype == weight.grad.dtype == wend.float64
    assert net.scale.dtype == wend.float64
    assert net.index.dtype == wend.int64
    net.to(wend.float32).to("cpu").to(wend.ones(1, dtype=wend.float64))
    assert net.weight.dtype == wend.float64
    assert net.float().half().bfloat16().weight.dtype == wend.bfloat16
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(wend.int64)
    assert agree(net)


def test_other_devices_are_refused():
    for move in (
        lambda net: net.cuda(),
        lambda net: net.to("cuda:0"),
        lambda net: net.to(device="mps"),
    ):
        with pytest.raises(RuntimeError, match="not available"):
            move(Net())


# -- hooks -----------------------------------------------------------------------------------


def test_forward_hooks_change_what_passes():
    net, data = nn.Identity(), wend.ones(2)
    first = net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    second = net.register_forward_hook(lambda module, args, output: output * 10)
    assert net(data).tolist() == [20, 20]
    first.remove()
    assert net(data).tolist() == [10, 10]
    with second:
        assert net(data).tolist() == [10, 10]
    assert net(data) is data
    assert net.n_hooks == 0


def test_hooks_with_keywords_and_order():
    class Add(nn.Module):
        def forward(self, x, *, y=0):
            return x + y

    net, seen = Add(), []
    net.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"y": kwargs["y"] * 2}), with_kwargs=True
    )
    net.register_forward_hook(
        lambda module, args, kwargs, output: seen.append((kwargs["y"], output)), with_kwargs=True
    )
    net.register_forward_hook(lambda module, args, output: seen.append("first"), prepend=True)
    assert net(1, y=3) == 7
    assert seen == ["first", (6, 7)]
    net.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        net(1, y=1)


def test_hooks_that_are_always_called():
    class Fails(nn.Module):
        def forward(self):
            raise ValueError("inside")

    net, seen = Fails(), []
    net.register_forward_hook(lambda *args: seen.append(args[2]), always_call=True)
    net.register_forward_hook(lambda *args: seen.append("never"))
    with pytest.raises(ValueError, match="inside"):
        net()
    assert seen == [None]


def test_hooks_on_all_modules():
    seen = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: seen.append(type(module).__name__)
    )
    net = nn.Sequential(nn.Identity(), nn.ReLU())
    net(wend.ones(1))
    handle.remove()
    net(wend.ones(1))
    assert seen == ["Identity", "ReLU", "Sequential"]


def test_hooks_put_into_the_table_directly_are_seen():
    net, seen = nn.Identity(), []
    net._forward_hooks[7] = lambda *args: seen.append(1)
    net(1)
    net._forward_hooks.clear()
    net(1)
    assert seen == [1]


def test_tables_of_hooks_can_be_replaced():
    net, seen = nn.Identity(), []
    net.register_forward_hook(lambda *args: seen.append("old"))
    net._forward_hooks = OrderedDict()
    net(1)
    net.register_forward_hook(lambda *args: seen.append("new"))
    net(1)
    assert seen == ["new"]
    assert net.n_hooks == 1


def test_registration_hooks():
    seen = []
    handle = nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, parameter: seen.append(name)
    )
    nn.Linear(1, 1)
    handle.remove()
    nn.Linear(1, 1)
    assert seen == ["weight", "bias"]


def test_printing():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(1, 2)
            self.b = nn.Sequential(nn.ReLU(), nn.Dropout(0.1))

        def extra_repr(self):
            return "first\nsecond"

    assert repr(Named()) == (
        "Named(\n  first\n  second\n  (a): Linear(in_features=1, out_features=2, bias=True)\n"
        "  (b): Sequential(\n    (0): ReLU()\n    (1): Dropout(p=0.1, inplace=False)\n  )\n)"
    )
    assert repr(nn.Identity()) == "Identity()"
    assert nn.Linear.__module__ == "wend.nn.modules.linear"


def test_errors_name_the_layer():
    net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(5, 2)))
    with pytest.raises(RuntimeError) as caught:
        net(wend.ones(2, 3))
    assert "1.0" in str(caught.value)
    assert "(2, 4)" in str(caught.value)


# -- backward hooks --------------------------------------------------------------------------


def test_full_backward_hooks_see_and_change_gradients():
    net = nn.Linear(2, 1, bias=False)
    net.load_state_dict({"weight": wend.tensor([[2.0, 3.0]])})
    seen = []
    net.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 10,))
    net.register_full_backward_hook(lambda module, inputs, outputs: seen.append((inputs, outputs)))
    net.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] + 1,))
    data = wend.ones(1, 2, requires_grad=True)
    net(data).sum().backward()
    ((grad_input,), (grad_output,)) = seen[0]
    assert grad_output.tolist() == [[10]]
    assert grad_input.tolist() == [[20, 30]]
    assert data.grad.tolist() == [[21, 31]]
    assert net.weight.grad.tolist() == [[10, 10]]


def test_backward_hooks_run_without_gradients_of_inputs():
    net, seen = nn.Linear(2, 1), []
    net.register_full_backward_hook(lambda module, inputs, outputs: seen.append(inputs))
    net(wend.ones(1, 2)).sum().backward()
    assert seen == [(None,)]


def test_both_kinds_of_backward_hooks_are_refused():
    net = nn.Linear(1, 1)
    net.register_full_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="regular backward hooks and full backward hooks"):
        net.register_backward_hook(lambda *args: None)


def test_backward_hooks_on_all_modules():
    seen = []
    handle = nn.modules.module.register_module_full_backward_hook(
        lambda module, inputs, outputs: seen.append(type(module).__name__)
    )
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    net(wend.ones(1, 1, requires_grad=True)).sum().backward()
    handle.remove()
    assert sorted(seen) == ["Linear", "ReLU", "Sequential"]
