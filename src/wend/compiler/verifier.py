"""Checks of recipes: each pass leaves a well-formed recipe, or the defect is named at its origin.

`check` is a watcher for `Recipe(path, needed, watch)`. Tests and `WEND_VERIFY=1` use it.
"""

from __future__ import annotations

from collections.abc import Callable

from wend.compiler.ir.kernel import Kernel
from wend.compiler.ir.loops import NESTED, Function, Op
from wend.compiler.pipeline import Pass, Recipe

__all__ = ["check"]


def check(done: Pass, recipe: Recipe) -> None:
    """Raise AssertionError, naming the pass, unless the recipe left by the pass is well-formed."""
    try:
        CHECKS[done.name](recipe)
    except AssertionError as fault:
        raise AssertionError(f"after {done.name}: {fault}") from None


# -- functions ----------------------------------------------------------------------------------


def check_function(function: Function) -> None:
    """Extents known, operands there, types as the ops' own rules say, each value made once."""
    function.verify()
    made: set[int] = set(function.inputs)
    for op in function.ops:
        for out in op.outputs:
            assert out not in made, f"{op}: %{out} is made twice"
            assert out in function.dtypes, f"{op}: %{out} has no dtype"
            assert out in function.extents.shapes, f"{op}: %{out} has no extents"
            made.add(out)
        if op.kind in NESTED:
            check_loops(function, op)
        check_types(function, op)


def check_loops(function: Function, op: Op) -> None:
    """Check that each dim of operand and result is as long as the loop that the dim follows."""
    show = function.extents.show
    canonical = function.extents.canonical
    for d, loop in enumerate(op.out_dims):
        assert -1 <= loop < len(op.space), f"{op}: dim {d} of the result follows no loop"
        # The rows of a scatter's result are named by an index; no loop goes along them.
        if loop >= 0 and not (op.kind == "scatter" and (op.within or d == op.row_dim)):
            mine, its = canonical(function.shape(op.out)[d]), canonical(op.space[loop])
            assert mine == its, f"{op}: dim {d} of {show(mine)} follows a loop of {show(its)}"
    for read in op.reads:
        shape = function.shape(read.value)
        for d, loop in enumerate(read.dims):
            assert -1 <= loop < len(op.space), f"{op}: {read} follows no loop"
            shifted = d in [s[0] for s in read.shifts]
            if loop < 0 or shifted or (read.row >= 0 and (op.within or d == read.row_dim)):
                continue
            mine, its = canonical(shape[d]), canonical(op.space[loop])
            assert mine == its, f"{op}: {read}: {show(mine)} elements, {show(its)} turns"


def check_types(function: Function, op: Op) -> None:
    """Check that operands have the dtypes with which the op's pattern was traced."""
    types = op.node.program.sample_types
    own = op.node.outputs == op.outputs and types is not None
    if not own or len(op.node.inputs) != len(types):
        return  # a copy, or a fill: no op of the path
    for i, traced in zip(op.node.inputs, types, strict=True):
        found = function.dtypes[function.resolve(i)]
        assert found is traced.dtype, f"{op}: %{i} is {found}, traced as {traced.dtype}"


def check_use(recipe: Recipe) -> None:
    """Check that each computed value is read later, or wanted."""
    function = recipe.function
    wanted = {function.base(function.resolve(i)) for i in function.outputs}
    used = set(wanted)
    for region in reversed(recipe.regions):
        for op in reversed(region.ops):
            if op.node.prim.pure and op.kind != "host":
                alive = not used.isdisjoint(op.outputs)
                assert alive, f"{op}: nobody reads the result"
            used.update(function.base(read.value) for read in op.reads)


def check_order(recipe: Recipe) -> None:
    """Check that each region runs after the regions whose results are read there."""
    function = recipe.function
    ready = set(function.inputs) | set(function.uniform)
    for region in recipe.regions:
        inside = {o for op in region.ops for o in op.outputs}
        for op in region.ops:
            for read in op.reads:
                base = function.base(read.value)
                assert base in ready | inside, f"{op}: %{base} is computed by a later region"
        ready |= inside
    check_use(recipe)


def check_nests(recipe: Recipe) -> None:
    """Check that loops, accesses and phases of the nests fit together."""
    for nest in recipe.nests.values():
        axes = set(nest.outer + nest.inner)
        assert nest.inner, f"{nest.region}: no loop for vectors"
        for access in nest.accesses():
            assert len(access.strides) == len(nest.extents), f"%{access.base}: strides of axes"
            moving = {a for a, stride in enumerate(access.strides) if stride} - axes
            follows = {a for loops in nest.loops.values() for a in loops}
            assert not moving & follows, f"%{access.base} moves along a loop that does not run"
        for op in nest.region.ops:
            for k in range(len(op.reads)):
                source = nest.inside.get((op.out, k))
                if source is not None:
                    assert nest.phase[source] <= nest.phase[op.out], f"{op}: reads a later phase"


def check_steps(recipe: Recipe) -> None:
    """Check that kernels read only inputs and values written by earlier steps."""
    function = recipe.function
    ready = set(function.inputs)
    for step in recipe.steps:
        if isinstance(step, Kernel):
            reads, writes = step.reads, step.writes
        else:
            reads = [function.base(read.value) for read in step.reads]
            writes = list(step.outputs)
        for i in reads:
            there = i in ready or i in writes or i in function.uniform
            assert there, f"{step}: %{i} is not written yet"
        ready.update(writes)
    for i in function.outputs:
        base = function.base(function.resolve(i))
        assert base in ready, f"%{i} is wanted, and no step writes it"


def check_memory(recipe: Recipe) -> None:
    """Check that temporaries live from the writing step to the last reading step."""
    function = recipe.function
    for k, step in enumerate(recipe.steps):
        if isinstance(step, Kernel):
            used = step.reads + step.writes
        else:
            used = [function.base(read.value) for read in step.reads]
        for i in used:
            life = recipe.lifetimes.get(recipe.homes.get(i, i))
            if life is not None:
                assert life[1] <= k <= life[2], f"{step}: %{i} is not alive"
    leaves = list(recipe.donations.values())
    assert len(set(leaves)) == len(leaves), "a leaf's memory is given away twice"


#: By the name of the pass.
CHECKS: dict[str, Callable[[Recipe], None]] = {
    "inline": lambda recipe: None,
    "lower": lambda recipe: check_function(recipe.function),
    "fuse": check_order,
    "nest": check_nests,
    "emit": check_steps,
    "memory": check_memory,
}
