"""The passes of a plan: what each leaves is well-formed, and the checks see what is not."""

import pytest

import wend as torch
import wend.nn.functional as F
from wend.base import config
from wend.compiler.ir.symbolic_extents import ONE
from wend.compiler.pipeline import PASSES, Recipe
from wend.compiler.schedule.fuse import Fusion
from wend.compiler.schedule.fusion_group import Region
from wend.compiler.verifier import CHECKS, check
from wend.runtime.flush_log import last_step


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
        ("memory", short_life, "is not alive"),
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

    def counted(*given):
        joined.append(given)
        return join(*given)

    monkeypatch.setattr(Fusion, "join", counted)
    recipe = stop_after(unrolled, "fuse")
    assert len(joined) < 1.5 * len(recipe.function.ops)
