"""The passes of a plan: what each leaves is well-formed, and the checks see what is not."""

import pytest

import wend as torch
import wend.nn.functional as F
from wend._engine.base import config
from wend._engine.base.errors import DefectError
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.symbolic_extents import ONE
from wend._engine.compiler.pipeline import PASSES, Recipe
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.compiler.schedule.fusion_group import Region
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


def stop_after(reference, name, spoil=None):
    """The recipe as the named pass leaves it; spoil: changes it before it is checked."""

    class Stopped(Exception):
        pass

    recipes = []

    def watch(done, recipe):
        if done.name == name:
            if spoil is not None:
                spoil(recipe)
            check(done, recipe)
            recipes.append(recipe)
            raise Stopped

    with pytest.raises(Stopped):
        Recipe(reference.path, reference.wanted | reference.saved, watch)
    return recipes[0]


def test_every_pass_has_a_check():
    assert [p.name for p in PASSES] == list(CHECKS)
    assert all(p.purpose for p in PASSES)


@pytest.mark.parametrize("name", [p.name for p in PASSES])
def test_what_a_pass_leaves_is_well_formed_and_can_be_shown(reference, name):
    recipe = stop_after(reference, name)
    assert next(p for p in PASSES if p.name == name).show(recipe)


def undefined(recipe):
    recipe.function.ops.pop(0)


def twice(recipe):
    recipe.function.ops.append(recipe.function.ops[0])


def other_dtype(recipe):
    op = next(op for op in recipe.function.ops if op.kind == "map" and op.node.inputs)
    recipe.function.dtypes[recipe.function.resolve(op.node.inputs[0])] = torch.int16


def other_loop(recipe):
    op = next(op for op in recipe.function.ops if len(op.space) == 2)
    op.space = (ONE, op.space[1])


def reversed_order(recipe):
    recipe.regions.reverse()


def dead(recipe):
    region = next(r for r in recipe.regions if r.kind == "nest")
    taken = {read.value for r in recipe.regions for op in r.ops for read in op.reads}
    last = next(r for r in reversed(recipe.regions) if not taken & set(r.ops[-1].outputs))
    recipe.function.outputs = [
        i for i in recipe.function.outputs if recipe.function.resolve(i) not in last.ops[-1].outputs
    ]
    assert region


def lost_step(recipe):
    recipe.steps.pop(0)


def short_life(recipe):
    i, (size, first, _) = next(iter(recipe.lifetimes.items()))
    recipe.lifetimes[i] = (size, first, first)


def one_more_axis(recipe):
    region = next(r for r in recipe.regions if any(op.kind == "fold" for op in r.ops))
    region.axes.append(region.axes[0])


def other_extent(recipe):
    nests = [r for r in recipe.regions if r.kind == "nest" and len(r.axes) == 2]
    next(r for r in nests if r.axes[0] != r.axes[1]).axes.reverse()


def first_phase(recipe):
    nest = next(nest for nest in recipe.nests.values() if nest.row_folds)
    nest.phase = dict.fromkeys(nest.phase, 0)


def forgotten_read(recipe):
    step = next(step for step in recipe.steps if step.reads)
    step.reads.pop()


def lost_address(recipe):
    step = next(step for step in recipe.steps if isinstance(step, Kernel) and step.reads)
    step.slots = [slot for slot in step.slots if slot.a != step.reads[0]]


def small_block(recipe):
    i, (_, first, last) = next(iter(recipe.lifetimes.items()))
    recipe.lifetimes[i] = (ONE, first, last)


def same_block(recipe):
    """Two temporaries in one place, alive as long as both together: only the contents tell."""
    f = recipe.function
    alike = [
        (i, j) for i, (_, first, last) in recipe.lifetimes.items()
        for j, (_, begin, end) in recipe.lifetimes.items()
        if i != j and first < begin <= last and f.bytes_of(i) == f.bytes_of(j)
    ]  # fmt: skip
    i, j = alike[0]
    size, first, last = recipe.lifetimes[i]
    recipe.lifetimes[i] = (size, first, max(last, recipe.lifetimes.pop(j)[2]))
    recipe.homes[j] = i


def over_a_leaf(recipe):
    last = recipe.steps[-1]
    result = next(r for r in recipe.results if r.owns and r.base not in last.writes)
    recipe.donations[result.value] = recipe.function.inputs[0]


def over_a_needed_leaf(recipe):
    last = recipe.steps[-1]
    result = next(r for r in recipe.results if r.owns and r.base in last.writes)
    leaf = next(i for i in recipe.function.inputs if i not in last.reads)
    recipe.needed |= {leaf}
    recipe.donations[result.value] = leaf


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
        Recipe(
            reference.path,
            reference.wanted | reference.saved,
            lambda done, recipe: (
                (spoil(recipe), check(done, recipe)) if done.name == name else None
            ),
        )


def test_a_step_that_may_fail_comes_before_results_that_take_a_leafs_memory(own_trie):
    x, table, index = torch.randn(4, 3), torch.randn(5, 3), torch.tensor([0, 1, 4, 3])
    torch.synchronize()
    with config.override(compile=False):
        for _ in range(3):
            y = x * 2 + table.index_select(0, index)
            y.sum().item()
    plan = last_step()[-1].plan

    def give(done, recipe):
        if done.name == "memory":
            check(done, recipe)
            result = next(r for r in recipe.results if r.shape == recipe.function.shape(0))
            recipe.barrier, recipe.donations = 0, {result.value: 0}
            check(done, recipe)

    with pytest.raises(AssertionError, match="may fail when a leaf is written over"):
        Recipe(plan.path, plan.wanted | plan.saved, give)


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
    regions = stop_after(reference, "fuse").regions
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
    recipe = stop_after(unrolled, "fuse")
    assert len(joined) < 1.5 * len(recipe.function.ops)
