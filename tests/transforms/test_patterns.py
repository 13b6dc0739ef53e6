"""Gradient rules run once per pattern: what they decide must hold for all sizes of the pattern.

A rule that broadcasts against an extent of 1 where the op's own type rule asks nothing of that
extent is traced for one of the two cases only, and second derivatives of the other are wrong.
"""

import random
from types import SimpleNamespace

import harness
import pytest
from harness import PRIMITIVES, report, snippet

from wend._engine.base import dtypes
from wend._engine.base.errors import WendError
from wend._engine.core import _types, symtrace
from wend._engine.core.primitive import NO_GRADIENT
from wend._engine.core.signature import Binder
from wend._engine.core.symbolic import Guards, compare, evaluate
from wend._engine.core.types import Number, Spec
from wend._frontend.autograd.backward import grad
from wend._frontend.creation import full, ones

pytestmark = pytest.mark.filterwarnings("ignore")
VARIANTS = 60
EXTENTS = (0, 1, 2, 3, 4, 5, 6, 7)


def variants(types, args, prim):
    """Other sizes of the same call: extents changed alike where they were equal, or one by one."""
    rng = random.Random(prim.name)
    for k in range(VARIANTS):
        same = {}

        def other(n, alike=k % 2 == 0, same=same):
            if alike:
                return same.setdefault(n, rng.choice(EXTENTS))
            return rng.choice(EXTENTS) if rng.random() < 0.4 else n

        shapes = [tuple(other(n) for n in t.shape) for t in types]
        changed = [
            other(a) if is_size and a > 0 and rng.random() < 0.5 else a
            for a, is_size in zip(args, prim.size_mask, strict=True)
        ]
        yield shapes, changed


def holds(guards, shapes, args):
    return all(
        compare(op, evaluate(a, shapes, args), evaluate(b, shapes, args)) is outcome
        for op, a, b, outcome in guards
    )


def traced(program, types, args, needs, given, monkeypatch):
    """The comparisons that the gradient rule makes for these sizes."""
    seen = []

    class Watched(Guards):
        def __init__(self):
            super().__init__()
            seen.append(self)

    monkeypatch.setattr(symtrace, "Guards", Watched)
    stand_in = SimpleNamespace(
        prim=program.prim, sample_types=types, sample_args=args, outs=program.outs
    )
    symtrace._trace_vjp(stand_in, needs, given)
    return [(op, a, b, outcome) for (op, a, b), outcome in seen[0].items.items()]


def is_valid(prim, shapes, types, args):
    specs = [Spec(shape, t.dtype) for shape, t in zip(shapes, types, strict=True)]
    numbers = [
        a if is_size else Number(category)
        for a, is_size, category in zip(args, prim.size_mask, prim.categories, strict=True)
    ]
    try:
        prim.infer(*prim.arrange(specs, numbers))
    except (WendError, ArithmeticError):
        return False
    return True


def differentiable():
    return [
        pytest.param(op, id=op.name)
        for op in PRIMITIVES
        if op.vjp is not NO_GRADIENT
        and "float" in op.facts.supports
        and not (op.facts.random or op.facts.calls_user)
    ]


@pytest.mark.parametrize("op", differentiable())
def test_gradient_rules_hold_for_all_sizes_of_a_pattern(op, monkeypatch):
    faults = []
    for sample in harness.samples(op, dtypes.float64):
        bound = harness.map_arrays(sample, harness.tensor)
        prim, tensors, args, _ = Binder(op.name, op).bind(bound.args, bound.kwargs)
        types = [t.value.type for t in tensors]
        program, outs = prim.typed(types, args)
        needs = tuple(t.dtype.category >= 2 for t in types)
        given = tuple(t.dtype.category >= 2 for t in outs)
        if True in needs and True in given and not prim.facts.labels_leaf:
            fault = _fault(prim, program, types, args, needs, given, monkeypatch)
            if fault:
                faults.append(snippet(op, sample, fault))
    report(faults)


def _fault(prim, program, types, args, needs, given, monkeypatch):
    decided = traced(program, types, args, needs, given, monkeypatch)
    for shapes, changed in variants(types, args, prim):
        if not holds(program.guards, shapes, changed) or not is_valid(prim, shapes, types, changed):
            continue
        if holds(decided, shapes, changed):
            continue
        moved = [
            _types.intern_type(shape, t.dtype, t.device)
            for shape, t in zip(shapes, types, strict=True)
        ]
        try:
            traced(program, moved, changed, needs, given, monkeypatch)
        except (WendError, ArithmeticError):
            continue  # no call that a user could make
        wrong = [g for g in decided if not holds([g], shapes, changed)]
        return f"the gradient rule does not hold for shapes {shapes}, sizes {changed}: {wrong[:3]}"
    return ""


@pytest.mark.smoke
def test_second_derivatives_where_the_first_size_was_1():
    """The rule of `sum` broadcast against the extent that it had summed: 4 came out, not 12."""
    for n in (1, 3):
        x = ones(2, n, 4, requires_grad=True)
        w = full((2, 1, 4), 2.0, requires_grad=True)
        (gx,) = grad((x.sum(1, keepdim=True) * w).sum(), x, create_graph=True)
        (gw,) = grad((gx * gx).sum(), w)
        assert gw.flatten().tolist() == [4.0 * n] * 8
