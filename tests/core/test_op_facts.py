"""Records of facts about ops: inherited field by field, in the order of the bases."""

import pytest

from wend._engine.core._hot import Tensor
from wend._engine.core.op_facts import (
    RECORDS,
    OpBatching,
    OpFacts,
    OpSchedule,
    TorchCall,
    combine,
    in_records,
)
from wend._engine.core.primitive import PUBLIC, REGISTRY, composite, ops


class Base:
    facts = OpFacts(smooth=True, supports=frozenset({"float"}))
    schedule = OpSchedule(heavy=True)

    def __init_subclass__(cls):
        combine(cls)


class Other(Base):
    facts = OpFacts(random=True)


class Wide(Base):
    facts = OpFacts(supports=frozenset({"int"}))
    schedule = OpSchedule(heavy=False, turns=True)


class Both(Other, Wide):
    pass


class Own(Both):
    facts = OpFacts(smooth=False)


def test_a_class_states_what_differs():
    assert Other.facts.smooth and Other.facts.random and Other.facts.supports == {"float"}
    assert Other.schedule is Base.schedule and Other.facts.stated == {"random": True}


def test_several_bases_are_asked_in_order_field_by_field():
    """As attributes would be: `Other` states no `supports`, so that of `Wide` comes first."""
    assert Both.facts.random and Both.facts.supports == {"int"}
    assert not Both.schedule.heavy and Both.schedule.turns
    assert Own.facts.random and not Own.facts.smooth and Both.facts.smooth


def test_names_are_those_of_a_function_and_a_method():
    call = TorchCall(names=("neg", "negative"), methods=("neg",))
    assert call.functions == ("neg", "negative") and call.methods == ("neg",)
    changed = call.but(grad_name="X")
    assert changed.grad_name == "X" and changed.functions == call.functions
    assert call.grad_name == ""


def test_a_field_that_no_record_has_is_an_error():
    with pytest.raises(TypeError, match="OpFacts has no smoth"):
        OpFacts(smoth=True)
    with pytest.raises(AttributeError, match="is not written to: joins"):
        OpBatching().joins = True


def test_fields_by_name_come_into_their_records():
    made = in_records({"functions": ("f",), "random": True, "samples": None})
    assert set(made) == {"torch", "facts"}
    assert made["torch"].functions == ("f",) and made["facts"].random


def test_no_two_records_have_a_field_of_the_same_name():
    fields = [field for record in RECORDS.values() for field in record.defaults]
    assert len(fields) == len(set(fields))


def test_a_composite_takes_names_of_both():
    """Parameters of the decorator that are left out do not hide those names."""
    composite("input", name="op_of_this_test", names=("op_of_this_test",))(lambda input: input)
    made = REGISTRY.pop("op_of_this_test")
    assert PUBLIC.pop("op_of_this_test") is made.function
    assert made.torch.functions == made.torch.methods == ("op_of_this_test",)
    delattr(Tensor, "op_of_this_test")
    delattr(ops, "op_of_this_test")
