"""The pass `memory`: lifetimes of temporaries, shared memory, donations, and results."""

from __future__ import annotations

from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.ir.symbolic_extents import known, product
from wend._engine.compiler.schedule.buffer_reuse import Life, operand_for, shared_places
from wend._engine.compiler.stages import CompiledPath, Emitted, Result, Sliced


def place(emitted: Emitted) -> Sliced[CompiledPath]:
    """Return the steps with their memory and results, in a single slice."""
    results = results_of(emitted)
    homes, lifetimes = shared_places(emitted.steps, lifetimes_of(emitted, results))
    last_read = last_reads_of(emitted)
    donations, barrier = donations_of(emitted, results, last_read)
    yield
    return CompiledPath(
        emitted.path, emitted.needed, emitted.function, emitted.regions, emitted.nests,
        streamed_steps(emitted, results, last_read), emitted.nonempty,
        results, lifetimes, homes, last_read, donations, barrier,
        spent_operands(emitted, results, last_read),
    )  # fmt: skip


def results_of(emitted: Emitted) -> tuple[Result, ...]:
    """Return how each needed value is handed out."""
    f = emitted.function
    writes = {o for step in emitted.steps if isinstance(step, Kernel) for o in step.writes}
    owned: set[int] = set()
    results = []
    for i in f.outputs:
        value = f.resolve(i)
        layout = f.layout(value)
        owns = layout.base in writes and layout.base not in owned
        if owns:
            owned.add(layout.base)
            assert is_dense(f.shape(value), layout.strides), f"%{i} is not dense"
        results.append(Result(i, layout.base, owns, f))
    return tuple(results)


def lifetimes_of(emitted: Emitted, results: tuple[Result, ...]) -> dict[int, Life]:
    """Return (bytes, first step, last step) of the temporaries of kernels.

    Each temporary is taken to have memory of its own.
    """
    f = emitted.function
    owned = {r.base for r in results if r.owns}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, step in enumerate(emitted.steps):
        if isinstance(step, Kernel):
            for value in step.writes:
                first.setdefault(value, k)
            used = step.reads + step.writes
        else:
            used = [f.base(r.value) for r in step.reads]
        for value in used:
            last[value] = k
    return {
        value: (f.bytes_of(value), k, last[value])
        for value, k in first.items()
        if value not in owned
    }


def last_reads_of(emitted: Emitted) -> dict[int, int]:
    """Return the last step that reads each value."""
    last: dict[int, int] = {}
    for k, step in enumerate(emitted.steps):
        if isinstance(step, Kernel):
            used = step.reads
        else:
            used = [emitted.function.base(r.value) for r in step.reads]
        last.update(dict.fromkeys(used, k))
    return last


def spent_operands(
    emitted: Emitted, results: tuple[Result, ...], last_read: dict[int, int]
) -> dict[int, int]:
    """Return the operand that a host step may write over, by the first result of the step.

    Such a step is the last to read the operand, which no result shows. Memory of leaves is not
    written to, because a later step may fail: `Lowering.host` bounds the copies instead.
    """
    f = emitted.function
    kept = {r.base for r in results}
    spent: dict[int, int] = {}
    for k, step in enumerate(emitted.steps):
        if isinstance(step, Kernel) or not step.node.prim.schedule.donates:
            continue
        base = f.base(step.reads[0].value)
        if base not in kept and base not in f.inputs and last_read[base] == k:
            spent[step.outputs[0]] = base
    return spent


def streamed_steps(
    emitted: Emitted, results: tuple[Result, ...], last_read: dict[int, int]
) -> tuple[Kernel | Op, ...]:
    """Return the steps with all "streamed" slots filled in.

    A result may be written past the caches if it is handed out, and not read again.
    """
    f = emitted.function
    owned = {r.base for r in results if r.owns}
    steps = list(emitted.steps)
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel) or all(slot.kind != "streamed" for slot in step.slots):
            continue
        slots = list(step.slots)
        for j, slot in enumerate(slots):
            if slot.kind == "streamed":
                may = slot.a in owned and not reads_much(emitted, last_read, slot.a, k)
                slots[j] = Slot("extent", f.bytes_of(slot.a)) if may else Slot("word", 0)
        steps[k] = step.with_slots(slots)
    return tuple(steps)


def reads_much(emitted: Emitted, last_read: dict[int, int], i: int, k: int) -> bool:
    """Return whether a step after step k reads more than a fixed number of elements of i."""
    f = emitted.function
    for step in emitted.steps[k + 1 : last_read.get(i, -1) + 1]:
        for op in step.ops if isinstance(step, Kernel) else [step]:
            for read in op.reads:
                if f.base(read.value) == i and known(product(f.shape(read.value))) is None:
                    return True
    return False


def donations_of(
    emitted: Emitted, results: tuple[Result, ...], last_read: dict[int, int]
) -> tuple[dict[int, int], int]:
    """Return (result -> leaf over whose memory the result may be written, first such step).

    Only steps after all steps that can fail may do so, because a failed flush leaves no trace.
    Whether the leaf's memory has other references is checked when the plan runs.
    """
    steps = emitted.steps
    safe = 0
    for k, step in enumerate(steps):
        if not isinstance(step, Kernel) or step.faults:
            safe = k + 1
    free = set(emitted.function.inputs) - {r.base for r in results} - emitted.needed
    donations: dict[int, int] = {}
    barrier = len(steps)
    owned = {r.base: r for r in results if r.owns}
    for k, step in enumerate(steps[safe:], safe):
        if not isinstance(step, Kernel) or (step.nest is None and not step.over):
            continue
        for out in step.writes:
            if out not in owned:
                continue
            # The leaf's array becomes the result as it is, so both need the same shape.
            if step.nest is None:
                leaf = step.over.get(out)
            else:
                leaf = operand_for(step.nest, out, owned[out].shape, free)
            if leaf in free and last_read[leaf] == k:
                free.discard(leaf)
                donations[owned[out].value] = leaf
                barrier = min(barrier, k)
    return donations, barrier


def show_memory(code: CompiledPath) -> str:
    """Return lifetimes and donations as text, for people."""
    show = code.function.extents.show
    lines = [
        f"%{i}: {show(size)} bytes, steps {first} to {last}"
        for i, (size, first, last) in code.lifetimes.items()
    ]
    lines += [f"%{out} in the memory of %{i}" for out, i in code.homes.items()]
    lines += [f"%{r.value}: an array of its own" for r in code.results if r.owns]
    lines += [f"%{out} may take the memory of %{i}" for out, i in code.donations.items()]
    return "\n".join(lines)
