"""Checks of passes: the value of each pass is well-formed, or the defect is named at its origin.

`check` is a watcher for `compile_path(path, needed, watch)`. Tests and `WEND_VERIFY=1` use it.

A check derives from the steps all that it holds the notes of a compiled path against. The memory
that a step uses follows from its ops and from the addresses in its argument block. Lifetimes, last
reads and donations are followed through the steps: memory must hold the value that a step reads
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import MAP, NESTED, Function, Op
from wend._engine.compiler.ir.symbolic_extents import ONE, ZERO, add, mul, product, sub
from wend._engine.compiler.pipeline import Pass
from wend._engine.compiler.schedule.fuse import is_covered
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.stages import CompiledPath, Emitted, Fused, Ordered


def check(done: Pass, value: Any) -> None:
    """Raise AssertionError, naming the pass, unless the value of the pass is well-formed."""
    try:
        CHECKS[done.name](value)
    except AssertionError as fault:
        raise AssertionError(f"after {done.name}: {fault}") from None


# -- functions ----------------------------------------------------------------------------------


def check_function(function: Function) -> None:
    """Extents known, operands there, types as the ops' own rules say, each value made once."""
    function.verify()
    values: set[int] = set(function.inputs)
    for op in function.ops:
        for out in op.outputs:
            assert out not in values, f"{op}: %{out} is made twice"
            assert out in function.dtypes, f"{op}: %{out} has no dtype"
            assert out in function.extents.shapes, f"{op}: %{out} has no extents"
            values.add(out)
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
        dtype = function.dtypes[function.resolve(i)]
        assert dtype is traced.dtype, f"{op}: %{i} is {dtype}, traced as {traced.dtype}"


def check_use(code: Fused) -> None:
    """Check that each computed value is read later, or wanted."""
    function = code.function
    wanted = {function.base(function.resolve(i)) for i in function.outputs}
    used = set(wanted)
    for region in reversed(code.regions):
        for op in reversed(region.ops):
            if op.node.prim.facts.pure and op.kind != "host":
                alive = not used.isdisjoint(op.outputs)
                assert alive, f"{op}: nobody reads the result"
            used.update(function.base(read.value) for read in op.reads)


def check_order(code: Fused) -> None:
    """Check that each region runs after the regions whose results are read there."""
    function = code.function
    numbers = [region.number for region in code.regions]
    assert len(set(numbers)) == len(numbers), "two regions have the same number"
    ready = set(function.inputs) | set(function.uniform)
    for region in code.regions:
        inside = {o for op in region.ops for o in op.outputs}
        for op in region.ops:
            for read in op.reads:
                base = function.base(read.value)
                assert base in ready | inside, f"{op}: %{base} is computed by a later region"
        ready |= inside
        if region.kind == "nest":
            check_turns(function, region)
    check_use(code)


def check_turns(function: Function, region: Region) -> None:
    """Check that a nest has the loops of its ops, and combines each element of a fold once.

    The nest has no more turns than one of its ops has alone.
    """
    canonical = function.extents.canonical
    every = set(range(len(region.axes)))
    for op in region.ops:
        axes = region.loops[op.out]
        followed = {a for a in axes if a >= 0}
        assert len(followed) == sum(a >= 0 for a in axes), f"{op}: two loops along an axis"
        for axis, n in zip(axes, op.space, strict=True):
            mine = ONE if axis < 0 else region.axes[axis]
            assert canonical(mine) == canonical(n), f"{op}: an axis of another extent"
        once = followed in (every, every - (region.inner or every))
        assert op.kind == MAP or once, f"{op}: elements are combined more than once"
    assert is_covered(region) or region.repeated, f"{region}: more turns than any of its ops has"


def check_nests(code: Ordered) -> None:
    """Check that loops, accesses and phases of the nests fit together."""
    kinds = {out: op.kind for op in code.function.ops for out in op.outputs}
    for region in code.regions:
        if region.kind == "nest" and region.ops:
            assert code.nests[region.number].region is region, f"{region}: the loops of another"
    for nest in code.nests.values():
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
                    ends = nest.phase[source] + (source in nest.row_folds)
                    assert ends <= nest.phase[op.out], f"{op}: reads a later phase"
                    ready = kinds[source] == MAP or source in nest.row_folds
                    assert ready, f"{op}: reads a fold that is not complete"


def check_steps(code: Emitted) -> None:
    """Check that steps read only inputs and values written by earlier steps, each written once."""
    function = code.function
    ready, values = set(function.inputs), set(function.inputs)
    for step in code.steps:
        reads, writes = memory_of(function, step)
        for i in reads:
            assert i in ready or i in function.uniform, f"{step}: %{i} is not written yet"
        ops = step.ops if isinstance(step, Kernel) else [step]
        own = {out for op in ops for out in op.outputs} & writes
        assert values.isdisjoint(own), f"{step}: %{min(own & values, default=0)} is written twice"
        values |= own
        ready |= writes
    for i in function.outputs:
        base = function.base(function.resolve(i))
        assert base in ready, f"%{i} is wanted, and no step writes it"


# -- memory ---------------------------------------------------------------------------------------


def memory_of(function: Function, step: Kernel | Op) -> tuple[set[int], set[int]]:
    """Return the values that a step (reads, writes) in memory.

    A kernel reaches only memory whose address is in its argument block. The kernel needs the
    address of each operand made elsewhere, unless the operand is the same number everywhere.
    """
    if not isinstance(step, Kernel):
        return {function.base(read.value) for read in step.reads}, set(step.outputs)
    results = {out for op in step.ops for out in op.outputs}
    operands: set[int] = set()
    reached = {slot.a for slot in step.slots if slot.kind in ("pointer", "sums")}
    for op in step.ops:
        for read in op.reads:
            base = function.base(read.value)
            inside = base in results or (base in function.uniform and read.row < 0)
            assert inside or base in reached, f"{step}: the address of %{base} is missing"
            operands |= {base} & reached
    noted = {*step.reads, *step.writes}
    assert reached <= noted, f"{step}: %{min(reached - noted, default=0)} is used, and not noted"
    assert reached >= set(step.writes), f"{step}: a result has no address"
    # A convolution that pools writes the result of another step's op as well.
    writes = (reached & results) | set(step.writes)
    return ((reached - writes) | operands | set(step.reads)) - results, writes


def check_memory(code: CompiledPath) -> None:
    """Check the places of values: alive, large enough, and not written over too early."""
    check_blocks(code)
    check_results(code)
    check_contents(code, {})
    leaves = list(code.donations.values())
    assert len(set(leaves)) == len(leaves), "a leaf's memory is given away twice"
    bases = {result.value: result.base for result in code.results if result.owns}
    taken = {bases[value]: leaf for value, leaf in code.donations.items()}
    check_contents(code, taken)
    check_barrier(code, taken)


def check_blocks(code: CompiledPath) -> None:
    """Check that blocks of temporaries are as large as each value in them, and alive where used."""
    f = code.function
    canonical = f.extents.canonical
    owned = {result.base for result in code.results if result.owns}
    for k, step in enumerate(code.steps):
        reads, writes = memory_of(f, step)
        for i in writes if isinstance(step, Kernel) else ():
            assert i in owned or code.homes.get(i, i) in code.lifetimes, f"%{i} has no memory"
        for i in reads | writes:
            life = code.lifetimes.get(code.homes.get(i, i))
            if life is not None:
                assert life[1] <= k <= life[2], f"{step}: %{i} is not alive"
                assert canonical(life[0]) == canonical(f.bytes_of(i)), f"%{i} has another size"
                assert is_compact(f, i), f"%{i} lies beyond its memory"


def is_compact(function: Function, i: int) -> bool:
    """Whether a value's elements lie in as many places as there are, from the first place on."""
    canonical, layout = function.extents.canonical, function.layout(i)
    last = ZERO
    for n, stride in zip(function.shape(i), layout.strides, strict=True):
        last = add(last, mul(sub(n, ONE), stride))
    places = canonical(add(last, ONE))
    return layout.offset == ZERO and places == canonical(product(function.shape(i)))


def check_results(code: CompiledPath) -> None:
    """Check that results are whole arrays, or shown in memory that is left when the plan ends."""
    f = code.function
    canonical = f.extents.canonical
    for result in code.results:
        if result.owns:
            mine, its = (canonical(product(s)) for s in (result.shape, f.shape(result.base)))
            assert mine == its, f"%{result.value}: an array of another size"
            assert result.dtype is f.dtypes[result.base], f"%{result.value}: another dtype"
        else:
            home = code.homes.get(result.base, result.base)
            assert home not in code.lifetimes, f"%{result.value}: shown in memory of the arena"


def check_contents(code: CompiledPath, taken: Mapping[int, int]) -> None:
    """Check that memory holds the value that a step reads there, and at the end each result.

    taken: result -> leaf whose memory it takes
    """
    f = code.function

    def block(i: int) -> int:
        return taken.get(i, code.homes.get(i, i))

    content = {i: i for i in f.inputs}
    for step in code.steps:
        reads, writes = memory_of(f, step)
        for i in reads:
            held = content.get(block(i))
            assert held == i or i in f.uniform, f"{step}: %{i} is not alive, %{held} lies there"
        assert len(set(map(block, writes))) == len(writes), f"{step}: two results in one memory"
        for i in writes:
            before = content.get(block(i), i)
            if before in reads:
                check_overwriting(code, step, before, i)
            content[block(i)] = i
    kept = {result.base for result in code.results} | (code.needed & set(f.inputs))
    for i in kept - set(f.uniform):
        assert content.get(block(i)) == i, f"%{i} is wanted, and written over"


def check_overwriting(code: CompiledPath, step: Any, before: int, after: int) -> None:
    """Check that a step may write a result over an operand that it reads.

    Each element is written once, where the same element of the operand was read, and not read
    later.
    """
    nest, f = step.nest, code.function
    if step.over.get(after) == before:
        return  # the kernel reads nothing of the operand but the places that change
    problem = f"{step}: %{after} is written over %{before}"
    assert nest is not None, f"{problem}, which is read in any order"
    store = nest.stores[after]
    kind = next(op.kind for op in step.ops if op.out == after)
    once = set(nest.outer + nest.inner) <= set(nest.loops[after])
    assert kind == MAP and once, f"{problem} more than once"
    sizes = [f.extents.canonical(product(f.shape(i))) for i in (before, after)]
    assert sizes[0] == sizes[1] and f.dtypes[before] is f.dtypes[after], (
        f"{problem} of another size"
    )
    for (user, _), load in nest.loads.items():
        if load.base != before:
            continue
        same = load.strides == store.strides and load.offset == store.offset
        assert same and load.row < 0 and not load.shifts, f"{problem} at other places"
        assert not nest.is_row[user], f"{problem} before a row is read"
    for phase in range(nest.phase[after] + 1, nest.phases):
        for op in nest.demanded(phase)[0]:
            loads = [nest.loads.get((op.out, k)) for k in range(len(op.reads))]
            assert before not in [load.base for load in loads if load], f"{problem} too early"


def check_barrier(code: CompiledPath, taken: Mapping[int, int]) -> None:
    """Check that nothing can fail from the first step on that writes over a leaf."""
    for k, step in enumerate(code.steps):
        if not taken.keys().isdisjoint(memory_of(code.function, step)[1]):
            assert code.barrier <= k, f"{step}: writes over a leaf too early"
        if k >= code.barrier and taken:
            fails = not isinstance(step, Kernel) or any(s.kind == "fault" for s in step.slots)
            assert not fails, f"{step}: may fail when a leaf is written over"


def check_places(blocks: Iterable[tuple[Any, int, int, Iterable[int]]]) -> None:
    """Raise AssertionError if blocks of the arena overlap while both are in use.

    blocks: (name, place, bytes, the rounds in which the block is used) of each block
    """
    rows = [(at, at + size, min(used), max(used), name) for name, at, size, used in blocks if size]
    alive: list[tuple[int, int, int, int, Any]] = []
    for row in sorted(rows, key=lambda row: row[2]):
        start, end, first, last, name = row
        alive = [other for other in alive if other[3] >= first]
        for begin, finish, _, _, other in alive:
            apart = end <= begin or finish <= start
            assert apart, f"%{name} lies over %{other} in rounds {first} to {last}"
        alive.append(row)


#: By the name of the pass.
CHECKS: dict[str, Callable[[Any], None]] = {
    "inline": lambda code: None,
    "lower": lambda code: check_function(code.function),
    "fuse": check_order,
    "nest": check_nests,
    "emit": check_steps,
    "memory": check_memory,
}
