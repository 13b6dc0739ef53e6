"""The table of ops that masked, nested and sparse tensors, and tensors on meta, have in common.

The class of these tests is a tensor with a unit of measurement, made of plain tensors.
"""

from contextlib import contextmanager

import pytest

import wend
from wend._engine.core.primitive import ops
from wend._frontend.components import (
    BoundCall,
    Call,
    OpTable,
    as_called,
    forms_of,
    is_dim,
    refused,
    tensors_in,
)
from wend._frontend.methods import DisableTorchFunctionSubclass

ENTERED = []


@contextmanager
def within():
    ENTERED.append(True)
    with DisableTorchFunctionSubclass():
        yield


class Metres(wend.Tensor):
    """Lengths: a tensor with a power of the unit."""

    power = 1


def metres(values, power=1):
    made = wend.as_tensor(values).as_subclass(Metres)
    made.power = power
    return made


def alike(call, rule):
    """The result has the unit of the operands, which must be equal."""
    powers = {x.power for x in tensors_in(call.args, Metres)}
    if len(powers) > 1:
        raise ValueError(f"{call.name}: units differ")
    result = call()
    return result if call.in_place else metres(result, powers.pop())


def product(input, other):
    return metres(ops.mul(input, other), input.power + other.power)


def asked(call, rule):
    return call()


def made_table(**further):
    table = OpTable(refused(TypeError, "{name}: lengths have no such op"), within, **further)
    table.family(alike, "add sub neg sum cat".split(), in_place=True)
    table.family(alike, ["clone"])
    table.family(as_called, {"mul": product})
    table.family(refused(ValueError, "{name}: an angle has no unit"), ["sin", "acos"])
    table.family(asked, ["__get__", "dim", "tolist"])
    return table


TABLE = made_table()


@pytest.fixture(autouse=True)
def attached():
    before = Metres.__torch_function__
    Metres.__torch_function__ = TABLE.torch_function
    yield
    Metres.__torch_function__ = before


def plain(x):
    with DisableTorchFunctionSubclass():
        return x.tolist()


# -- look-up ----------------------------------------------------------------------------------

SUMS = [
    lambda x, y: wend.add(x, y),
    lambda x, y: x.add(y),
    lambda x, y: x + y,
    lambda x, y: wend.add(x, other=y),
    lambda x, y: x.add_(y),
    lambda x, y: x.__iadd__(y),
]


@pytest.mark.parametrize("call", SUMS)
def test_functions_methods_operators_and_forms_in_place_have_one_entry(call):
    result = call(metres([1.0, 2.0]), metres([3.0, 4.0]))
    assert type(result) is Metres and result.power == 1
    assert plain(result) == [4.0, 6.0]


def test_a_form_in_place_gives_the_operand():
    x = metres([1.0])
    assert x.add_(metres([1.0])) is x


def test_an_op_answers_to_all_of_its_names():
    x, y = metres([3.0]), metres([1.0])
    for name in ("sub", "subtract"):
        assert plain(getattr(wend, name)(x, y)) == [2.0]
        assert plain(getattr(metres([3.0]), f"{name}_")(y)) == [2.0]
    for name in ("neg", "negative"):
        assert plain(getattr(metres([3.0]), f"{name}_")()) == [-3.0]
    for name in ("multiply", "mul"):
        assert getattr(wend, name)(x, y).power == 2
    for name in ("cat", "concat", "concatenate"):
        assert plain(getattr(wend, name)([x, y])) == [3.0, 1.0]


def test_a_family_without_forms_in_place_leaves_these_without_an_entry():
    with pytest.raises(TypeError, match=r"^mul_: lengths have no such op"):
        metres([1.0]).mul_(metres([2.0]))


def test_an_entry_under_the_name_of_a_form_in_place_comes_first():
    table = OpTable()
    table.family(lambda call, rule: "plain", ["add"], in_place=True)
    table.family(lambda call, rule: "own", ["add_"])
    assert table(wend.add, (), {}) == "plain"
    assert table(wend.Tensor.add_, (), {}) == "own"


def test_an_op_has_one_entry():
    with pytest.raises(TypeError, match="two entries for 'add'"):
        made_table().family(alike, ["mul_add", "add"])


# -- ops without a rule, and refused ops --------------------------------------------------------


def test_ops_without_an_entry_are_refused():
    with pytest.raises(TypeError, match=r"^cos: lengths have no such op"):
        wend.cos(metres([1.0]))
    with pytest.raises(NotImplementedError, match=r"^cos: has no rule here"):
        OpTable()(wend.cos, (metres([1.0]),), {})


def test_a_family_refuses_with_a_reason():
    for call in (wend.sin, wend.arccos):
        with pytest.raises(ValueError, match=r"^(sin|acos): an angle has no unit"):
            call(metres([1.0]))


def test_an_op_without_an_entry_may_have_a_rule_for_all():
    table = OpTable(lambda call: (call.name, call.op, call.args))
    assert table(wend.true_divide, (1, 2), {}) == ("true_divide", "div", (1, 2))


def test_errors_of_families_go_through():
    with pytest.raises(ValueError, match="units differ"):
        metres([1.0]) + metres([1.0], 2)


# -- arguments and results ------------------------------------------------------------------------


def test_rules_run_within_the_block():
    before = len(ENTERED)
    metres([1.0]) + metres([1.0])
    assert len(ENTERED) > before


def test_write_ends_forms_in_place_and_results_that_are_given():
    noted = []

    def write(call, target, result):
        noted.append((call.name, target, result, call.out))
        return "written"

    table = OpTable(lambda call: (call.base, call.args, call.kwargs), write=write)
    table.family(lambda call, rule: rule, {"mul": "product", "zero_": "zero"})
    kwargs = {"out": "there"}
    assert table(wend.mul, (1, 2), {}) == "product"
    assert table(wend.mul, (1, 2), kwargs) == "written"
    assert table(wend.Tensor.mul_, (1, 2), {}) == "written"
    assert table(wend.Tensor.zero_, (1,), {}) == "zero"  # the rule is that of the form in place
    assert table(wend.cos, (1,), kwargs) == "written"
    assert kwargs == {"out": "there"}  # the caller's dict stays as it is
    assert noted == [
        ("mul", "there", "product", "there"),
        ("mul_", 1, "product", None),
        ("cos", "there", ("cos", (1,), {}), "there"),
    ]


def test_gradients_flow_through_the_components():
    x = wend.tensor([2.0, 3.0], requires_grad=True)
    y = x.as_subclass(Metres)
    result = y * y + y * y
    with DisableTorchFunctionSubclass():
        result.as_subclass(wend.Tensor).sum().backward()
    assert x.grad.tolist() == [8.0, 12.0]


def test_users_classes_are_asked_in_turn():
    class Further(Metres):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, [t.__name__ for t in types]

    x, y = metres([1.0]), wend.tensor([1.0]).as_subclass(Further)
    assert wend.add(x, y) == ("add", ["Further", "Metres"])


def test_facts_of_a_call():
    rows = [
        (wend.add, "add", "add", "add", False),
        (wend.Tensor.add_, "add_", "add", "add", True),
        (wend.Tensor.arcsin_, "arcsin_", "arcsin", "asin", True),
        (wend.subtract, "subtract", "subtract", "sub", False),
        (wend.Tensor.__len__, "__len__", "__len__", "__len__", False),
        (wend.Tensor.copy_, "copy_", "copy", "copy", True),
    ]
    for function, *facts in rows:
        call = Call(function, (), {})
        assert [call.name, call.base, call.op, call.in_place] == facts


def test_tensors_among_arguments():
    x, y = metres([1.0]), wend.ones(1)
    assert [id(t) for t in tensors_in((1, x, [y, (x, None)], "x"))] == [id(x), id(y), id(x)]
    assert [id(t) for t in tensors_in(([x, y],), Metres)] == [id(x)]


# -- calls by signature -------------------------------------------------------------------------


def bound(function, *args, **kwargs):
    return BoundCall(function, forms_of(function)[0], args, kwargs)


def test_arguments_come_to_parameters():
    x = wend.ones(2, 3)
    call = bound(ops.sum, x, axis=1, keepdim=True)
    assert {p.name: v for p, v in call.given} == {"input": x, "dim": 1, "keepdim": True}
    assert call.dims == {"dim": 1}
    assert [is_dim(p) for p, _ in call.given] == [False, True, False]
    args, kwargs = call.arranged(lambda p, v: v - 1 if p.name == "dim" else v)
    assert args[1:] == (0, True) and kwargs == {}
    assert bound(ops.permute, x, 1, 0).given[1][1] == (1, 0)  # as many as there are


def test_arguments_after_a_gap_are_named():
    x = wend.ones(2, 3)
    args, kwargs = bound(ops.sum, x, keepdim=True).arranged(lambda p, v: v)
    assert args == (x,) and kwargs == {"keepdim": True}


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="unexpected argument 'depth'"):
        bound(ops.sum, wend.ones(2), depth=1)


def test_forms_of_functions():
    assert len(forms_of(wend.max)) > 1
    assert len(forms_of(wend.add)) >= 1
    assert forms_of(len) == [] == forms_of(wend.Tensor.float)


# -- the tables of the packages -------------------------------------------------------------------


def tables():
    import wend._frontend.meta.table
    import wend.masked.table
    import wend.nested.table
    import wend.sparse.table

    return {
        "masked": wend.masked.table.TABLE,
        "meta": wend._frontend.meta.table.TABLE,
        "nested": wend.nested.table.TABLE,
        "sparse": wend.sparse.table.TABLE,
    }


def known_names():
    """The names under which functions and members of tensors come to a table."""
    modules = (wend, wend.nn.functional, wend.linalg, wend.special, wend.fft, wend.Tensor, ops)
    members = [getattr(module, name) for module in modules for name in dir(module)]
    calls = [Call(member, (), {}) for member in members if callable(member)]
    return {n for call in calls for n in (call.name, call.base, call.op)}, calls


def test_entries_are_ops_and_none_is_an_alias():
    known, calls = known_names()
    known |= {"__get__", "__set__", "__delete__"}  # accessors of attributes
    assert len(known) > 1000
    aliases = {call.base: call.op for call in calls if call.base != call.op}
    for package, table in tables().items():
        entries = table.entries
        assert sorted(entries.keys() - known) == [], package
        assert [n for n in entries if aliases.get(n) in entries] == [], package


def test_the_classes_ask_their_tables():
    x = wend.eye(2)
    operands = {
        "masked": wend.masked.masked_tensor(x, x.bool()),
        "meta": x.to("meta"),
        "nested": wend.nested.nested_tensor([x, x]),
        "sparse": x.to_sparse(),
    }
    for package, table in tables().items():
        names = []

        def noting(call, before=table.otherwise, names=names):
            names.append(call.name)
            return before(call)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table, "otherwise", noting)
            with pytest.raises((TypeError, NotImplementedError, IndexError)):
                wend.cumsum(operands[package], 7)
        assert names == ["cumsum"], package
