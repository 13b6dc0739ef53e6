"""The passes of a plan: what each leaves is well-formed, and the checks see what is not."""

from dataclasses import replace

import pytest

import wend as torch
import wend.nn.functional as F
from wend._engine.base import config
from wend._engine.base.errors import DefectError
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.symbolic_extents import ONE
from wend._engine.compiler.pipeline import PASSES
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.stages import Inlined, finished
from wend._engine.compiler.verifier import CHECKS, check, check_places
from wend._engine.runtime.compiled import arena
from wend._engine.runtime.flush_log import last_step


def network(x, weight, bias):
    hidden = F.layer_norm(torch.relu(x @ weight + bias), (4,))
    loss = F.cross_entropy(hidden.view(-1, 4), torch.tensor([0, 3, 1]))
    loss.backward()
    return loss


@pytest.fixture
def reference(own_trie):
    """The plan of a path with products, rows, views, a gather and their gradients."""
    torch.synchronize()
    x = torch.randn(3, 5)
    weight, bias = torch.randn(5, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
    with config.override(compile=False):
        for _ in range(3):
            weight.grad = bias.grad = None
            network(x, weight, bias).item()
    return last_step()[-1].plan


def value_after(reference, name, spoil=None):
    """The checked value of the named pass; spoil: changes the value before the check."""
    value = Inlined(reference.path, reference.wanted | reference.saved)
    for one in PASSES:
        value = finished(one.run(value))
        if one.name == name:
            if spoil is not None:
                value = spoil(value) or value
            check(one, value)
            return value
    raise AssertionError(name)


def test_every_pass_has_a_check():
    assert [p.name for p in PASSES] == list(CHECKS)
    assert all(p.purpose for p in PASSES)


@pytest.mark.parametrize("name", [p.name for p in PASSES])
def test_what_a_pass_leaves_is_well_formed_and_can_be_shown(reference, name):
    code = value_after(reference, name)
    assert next(p for p in PASSES if p.name == name).show(code)


def told(value):
    """All that a value says, deeply: texts of its graph, regions and nests, types, extents."""
    f = value.function
    regions = [
        (vars(region) | {"ops": list(map(repr, region.ops))})
        for region in getattr(value, "regions", ())
    ]
    nests = [
        {k: repr(v) for k, v in vars(nest).items() if k not in ("function", "region")}
        for nest in getattr(value, "nests", {}).values()
    ]
    steps = [(repr(s), list(getattr(s, "slots", ()))) for s in getattr(value, "steps", ())]
    facts = (f.ops, f.inputs, f.outputs, f.uniform, f.views, f.same, f.nonempty, f.dtypes)
    return repr((f, facts, regions, nests, steps))


def test_later_passes_change_no_earlier_value(reference):
    """Each value is complete: a pass makes a new one, and the verifier may look at any later."""
    value, seen = Inlined(reference.path, reference.wanted | reference.saved), []
    for one in PASSES:
        value = finished(one.run(value))
        if one.name != "inline":
            seen.append((one.name, value, told(value)))
    assert [name for name, value, text in seen if told(value) != text] == []


def undefined(code):
    code.function.ops = code.function.ops[1:]


def twice(code):
    code.function.ops = (*code.function.ops, code.function.ops[0])


def other_dtype(code):
    op = next(op for op in code.function.ops if op.kind == "map" and op.node.inputs)
    code.function.dtypes[code.function.resolve(op.node.inputs[0])] = torch.int16


def other_loop(code):
    op = next(op for op in code.function.ops if len(op.space) == 2)
    op.space = (ONE, op.space[1])


def reversed_order(code):
    return replace(code, regions=code.regions[::-1])


def dead(code):
    region = next(r for r in code.regions if r.kind == "nest")
    taken = {read.value for r in code.regions for op in r.ops for read in op.reads}
    last = next(r for r in reversed(code.regions) if not taken & set(r.ops[-1].outputs))
    code.function.outputs = [
        i for i in code.function.outputs if code.function.resolve(i) not in last.ops[-1].outputs
    ]
    assert region


def lost_step(code):
    return replace(code, steps=code.steps[1:])


def short_life(code):
    i, (size, first, _) = next(iter(code.lifetimes.items()))
    code.lifetimes[i] = (size, first, first)


def one_more_axis(code):
    region = next(r for r in code.regions if any(op.kind == "fold" for op in r.ops))
    region.axes.append(region.axes[0])


def other_extent(code):
    nests = [r for r in code.regions if r.kind == "nest" and len(r.axes) == 2]
    next(r for r in nests if r.axes[0] != r.axes[1]).axes.reverse()


def first_phase(code):
    nest = next(nest for nest in code.nests.values() if nest.row_folds)
    nest.phase = dict.fromkeys(nest.phase, 0)


def forgotten_read(code):
    step = next(step for step in code.steps if step.reads)
    step.reads.pop()


def lost_address(code):
    step = next(step for step in code.steps if isinstance(step, Kernel) and step.reads)
    step.slots = [slot for slot in step.slots if slot.a != step.reads[0]]


def small_block(code):
    i, (_, first, last) = next(iter(code.lifetimes.items()))
    code.lifetimes[i] = (ONE, first, last)


def same_block(code):
    """Two temporaries in one place, alive as long as both together: only the contents tell."""
    f = code.function
    alike = [
        (i, j) for i, (_, first, last) in code.lifetimes.items()
        for j, (_, begin, end) in code.lifetimes.items()
        if i != j and first < begin <= last and f.bytes_of(i) == f.bytes_of(j)
    ]  # fmt: skip
    i, j = alike[0]
    size, first, last = code.lifetimes[i]
    code.lifetimes[i] = (size, first, max(last, code.lifetimes.pop(j)[2]))
    code.homes[j] = i


def over_a_leaf(code):
    last = code.steps[-1]
    result = next(r for r in code.results if r.owns and r.base not in last.writes)
    code.donations[result.value] = code.function.inputs[0]


def over_a_needed_leaf(code):
    last = code.steps[-1]
    result = next(r for r in code.results if r.owns and r.base in last.writes)
    leaf = next(i for i in code.function.inputs if i not in last.reads)
    code.donations[result.value] = leaf
    return replace(code, needed=code.needed | {leaf})


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("lower", undefined, "is not there yet"),
        ("lower", twice, "is made twice"),
        ("lower", other_dtype, "traced as"),
        ("lower", other_loop, "follows a loop|turns"),
        ("fuse", reversed_order, "computed by a later region"),
        ("fuse", dead, "nobody reads the result"),
        ("emit", lost_step, "is not written yet|no step writes it"),
        ("fuse", one_more_axis, "combined more than once"),
        ("fuse", other_extent, "an axis of another extent"),
        ("nest", first_phase, "reads a later phase"),
        ("emit", forgotten_read, "is used, and not noted"),
        ("emit", lost_address, "the address of .* is missing"),
        ("memory", short_life, "is not alive"),
        ("memory", small_block, "has another size"),
        ("memory", same_block, "is not alive, .* lies there|written over"),
        ("memory", over_a_leaf, "lies there|is written over"),
        ("memory", over_a_needed_leaf, "is wanted, and written over"),
    ],
)
def test_checks_see_what_is_wrong(reference, name, spoil, message):
    with pytest.raises(AssertionError, match=f"after {name}: .*({message})"):
        value_after(reference, name, spoil)


def test_a_step_that_may_fail_comes_before_results_that_take_a_leafs_memory(own_trie):
    x, table, index = torch.randn(4, 3), torch.randn(5, 3), torch.tensor([0, 1, 4, 3])
    torch.synchronize()
    with config.override(compile=False):
        for _ in range(3):
            y = x * 2 + table.index_select(0, index)
            y.sum().item()
    plan = last_step()[-1].plan

    def give(code):
        result = next(r for r in code.results if r.shape == code.function.shape(0))
        return replace(code, barrier=0, donations={result.value: 0})

    value_after(plan, "memory")
    with pytest.raises(AssertionError, match="may fail when a leaf is written over"):
        value_after(plan, "memory", give)


def test_blocks_of_the_arena_lie_apart_while_both_are_used():
    check_places([(1, 0, 64, [0, 2]), (2, 64, 64, [1]), (3, 0, 128, [3]), (4, 0, 0, [1])])
    with pytest.raises(AssertionError, match="%2 lies over %1 in rounds 2 to 4"):
        check_places([(1, 0, 128, [0, 2]), (2, 64, 64, [4, 2])])


def test_places_that_overlap_are_seen_when_a_plan_is_bound(own_trie, monkeypatch, planted_failure):
    def all_in_one(rows):
        return dict.fromkeys([row[0] for row in rows], 0), sum(row[1] for row in rows)

    monkeypatch.setattr(arena, "place_in_turn", all_in_one)
    monkeypatch.setattr(arena, "place_by_size", all_in_one)
    x, w = torch.randn(60, 50), torch.randn(50, 60)
    machine_code = config.override(compile=True, wait=True, verify=True, strict=True)
    with machine_code, pytest.raises((AssertionError, DefectError), match="lies over"):
        y = torch.softmax(x @ w, 1)
        z = torch.softmax(y @ x, 1)
        (z @ w + y + torch.softmax(z.T @ y, 1).sum()).sum().item()


@pytest.fixture
def unrolled(own_trie):
    """The plan of a loop of 25 turns and its gradient, whose nests are merged many times."""
    torch.synchronize()
    x, y = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    with config.override(compile=False):
        for _ in range(3):
            x.grad = y.grad = None
            h = x
            for _ in range(25):
                h = torch.tanh(h * y + x) - y
            h.sum().backward()
            x.grad.sum().item()
    return last_step()[-1].plan


def fused(reference):
    """The regions of a plan, as they can be compared."""
    regions = value_after(reference, "fuse").regions
    return [
        (region.axes, region.loops, region.places, region.late, region.before, region.outputs)
        for region in regions
    ]


def test_nests_are_merged_as_if_their_ops_had_come_one_by_one(unrolled, monkeypatch):
    once = fused(unrolled)

    def replay(fusion, a, b):
        whole = Region(a.number, "nest")
        for op in fusion.in_order(a.ops + b.ops):
            assert fusion.join(whole, op, True)
        merged.append(whole)
        return whole

    merged = []
    monkeypatch.setattr(Fusion, "replay", replay)
    assert fused(unrolled) == once
    assert len(merged) > 5


def test_ops_of_a_long_loop_are_placed_a_few_times_each(unrolled, monkeypatch):
    joined = []
    join = Fusion.join

    def counted(*given, **named):
        joined.append(given)
        return join(*given, **named)

    monkeypatch.setattr(Fusion, "join", counted)
    code = value_after(unrolled, "fuse")
    assert len(joined) < 1.5 * len(code.function.ops)
