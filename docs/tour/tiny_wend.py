"""Tiny Wend: the ideas of Wend in one file, with NumPy and nothing else.

    python docs/tour/tiny_wend.py

Each section names the files of the real code, relative to `src/wend`.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shape = tuple[int, ...]
COUNTS: Counter[str] = Counter()  # steps, plans and calls, for the demonstration


# 1. A handle and a pending value ------------------------------------------------------------------
# Arithmetic computes nothing. The user holds a `Tensor`, a handle. Its `Value` is pending (a place
# in a segment) or held (a buffer). A leaf is a value from outside; it is held from the start.
# Real code: core/_hot.py (`Value`, `Tensor`), _frontend/tensor.py, ops/elementwise/ (rules of ops).


@dataclass(eq=False)
class Value:
    """One immutable result: pending while it has no buffer, then held."""

    shape: Shape
    requires_grad: bool
    buffer: Array | None = None
    segment: Segment | None = None  # where it was recorded: its history
    index: int = -1


class Tensor:
    """The user's handle of a value."""

    def __init__(self, value: Value) -> None:
        self.value = value

    # fmt: off
    def __add__(self, other: Tensor | float) -> Tensor: return record(ADD, self, other)
    def __mul__(self, other: Tensor | float) -> Tensor: return record(MUL, self, other)
    def __sub__(self, other: Tensor) -> Tensor: return record(ADD, self, other * -1.0)
    def __matmul__(self, other: Tensor) -> Tensor: return record(MATMUL, self, other)
    def tanh(self) -> Tensor: return record(TANH, self)
    def sum(self) -> Tensor: return record(SUM, self)
    def t(self) -> Tensor: return record(TRANSPOSE, self)
    # fmt: on

    def numpy(self) -> Array:
        """The elements. Reading is a sync point: pending work is flushed."""
        if self.value.buffer is None:
            flush()
        assert self.value.buffer is not None
        return self.value.buffer


def tensor(data: Any, requires_grad: bool = False) -> Tensor:
    """A leaf that holds a copy of `data`."""
    buffer = np.array(data, dtype=np.float64)
    return Tensor(Value(buffer.shape, requires_grad, buffer))


class Op(NamedTuple):
    """One primitive with all of its rules. `vjp` has a rule per operand, written in ops."""

    name: str
    rule: Callable[..., Any]
    shape: Callable[..., Shape | None]  # None: the operands do not fit
    vjp: Sequence[Callable[..., Tensor]] = ()  # each takes: gradient, result, operands
    elementwise: bool = False
    batched: Callable[..., Any] | None = None  # where `rule` would mistake the batch axis


def same(*shapes: Shape) -> Shape | None:
    """The shape of an elementwise result: operands agree, or are numbers."""
    wide = {shape for shape in shapes if shape}
    return None if len(wide) > 1 else next(iter(wide), ())


# fmt: off
LEAF = Op("leaf", np.array, same)
ADD = Op("add", np.add, same, (lambda g, y, a, b: g, lambda g, y, a, b: g), True)
MUL = Op("mul", np.multiply, same, (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a), True)
TANH = Op("tanh", np.tanh, same, (lambda g, y, a: g - g * y * y,), True)
MATMUL = Op("matmul", np.matmul,
            lambda a, b: (a[0], b[1]) if len(a) == len(b) == 2 and a[1] == b[0] else None,
            (lambda g, y, a, b: g @ b.t(), lambda g, y, a, b: a.t() @ g))
TRANSPOSE = Op("transpose", lambda x: np.swapaxes(x, -1, -2),
               lambda a: a[::-1] if len(a) == 2 else None, (lambda g, y, a: g.t(),))
EXPAND = Op("expand", lambda number, x: np.broadcast_to(number, x.shape),  # as large as x
            lambda number, x: None if number else x, (lambda g, y, number, x: g.sum(),))
SUM = Op("sum", np.sum, lambda a: (), (lambda g, y, a: record(EXPAND, g, a),),
         batched=lambda x: x.sum(axis=tuple(range(1, x.ndim))))
# fmt: on


# 2. Recording: a program is a path ----------------------------------------------------------------
# The trie holds the paths that the program has taken. A step is an op with the places of its
# operands. A step that was last taken here costs one comparison. Sizes and numbers are in no key.
# Real code: core/_hot.py (`record`, `enter`, `commit`); core/_trie_policy.py (`find_child`).


class State:
    """A node of the trie: exactly this has been recorded since the root."""

    def __init__(self, op: Op, operands: tuple[int, ...], linked: bool) -> None:
        self.op, self.operands = op, operands
        self.linked = linked  # whether the trie knows this state
        self.children: dict[tuple[int, tuple[int, ...]], State] = {}
        self.child: State | None = None  # the child that was taken last
        self.visits = self.divergences = 0
        self.plans: dict[tuple[int, ...], Plan] = {}


@dataclass(eq=False)
class Segment:
    """The work between two flushes: its path, its leaves, and its values until the flush."""

    serial: int
    path: list[State] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    leaves: dict[Value, int] = field(default_factory=dict)


class Trace:
    """The pending work, and its place in the trie. (Wend has a trace per thread.)"""

    def __init__(self) -> None:
        self.serial = 0
        self.begin(State(LEAF, (), linked=True))

    def begin(self, root: State) -> None:
        """Stand at the root of a trie, with nothing pending."""
        self.serial += 1
        self.root = self.state = root
        self.segment = Segment(self.serial)


TRACE = Trace()
SEAL_AFTER = 8  # new paths below a state before most of its visits must be to known ones


def record(op: Op, *operands: Tensor | float) -> Tensor:
    """The only door: one step. Shapes are checked now, so errors point at the user's line."""
    values = [x.value if isinstance(x, Tensor) else tensor(x).value for x in operands]
    shape = op.shape(*[v.shape for v in values])
    if shape is None:
        raise ValueError(f"{op.name}: shapes {[v.shape for v in values]} do not fit")
    places = tuple([enter(v) for v in values])
    value = Value(shape, any(v.requires_grad for v in values), None, TRACE.segment)
    value.index = commit(op, places, value)
    return Tensor(value)


def enter(value: Value) -> int:
    """The place of an operand. A held value enters as a leaf: its rank is a key, no size is."""
    if value.segment is TRACE.segment:
        return value.index
    leaves = TRACE.segment.leaves
    if value not in leaves:
        leaves[value] = commit(LEAF, (len(value.shape), int(value.requires_grad)), value)
    return leaves[value]


def commit(op: Op, operands: tuple[int, ...], value: Value) -> int:
    """Append one step to the trace; returns its place."""
    TRACE.state = find_child(TRACE.state, op, operands)
    TRACE.segment.path.append(TRACE.state)
    TRACE.segment.values.append(value)
    return len(TRACE.segment.path) - 1


def find_child(state: State, op: Op, operands: tuple[int, ...]) -> State:
    """The state behind one more step; a new one if the trie has none."""
    child = state.child
    if child is not None and child.op is op and child.operands == operands:
        COUNTS["steps compared"] += 1
        return child
    key = (id(op), operands)
    child = state.children.get(key)
    COUNTS["steps new" if child is None else "steps looked up"] += 1
    if child is None:
        child = State(op, operands, linked=state.linked and admit(state))
    if child.linked:
        state.children[key] = state.child = child
    return child


def admit(state: State) -> bool:
    """Whether the trie may grow here. A state is sealed if most visits bring a new path."""
    if state.visits == 0 and state is not TRACE.root:
        return True  # the tail of a path that was admitted in this trace
    above = [TRACE.root, *TRACE.segment.path]
    for passed in above:
        passed.divergences += 1
    return all(s.divergences <= max(SEAL_AFTER, s.visits // 2) for s in above)


# 3. A plan hangs on the trie ----------------------------------------------------------------------
# A flush computes the pending values that somebody still holds. The state at the end of the path
# keeps the plan for them, and a later flush finds it there. Another branch in the user's Python is
# another path with a plan of its own: nothing is guarded, and nothing becomes invalid.
# Real code: runtime/flush.py (`find_plan`), runtime/numpy_executor/plan.py, runtime/tiers.py.

Step = tuple[int, State]
Call = tuple[Callable[..., Sequence[Any]], Sequence[int], Sequence[int]]  # function, reads, writes


class Plan:
    """The calls that compute the wanted values of one path, for all sizes."""

    def __init__(self, path: list[State], wanted: tuple[int, ...]) -> None:
        self.wanted = wanted
        self.steps = needed(path, wanted)
        self.calls = [call_of(step) for step in self.steps]
        self.runs = 0

    def run(self, buffers: dict[int, Array]) -> None:
        """Fill in the buffers. A path that comes back is worth compiling: see section 6."""
        if self.runs == 1:
            self.calls = fuse(self.steps, set(self.wanted))
        self.runs += 1
        for function, reads, writes in self.calls:
            COUNTS["calls"] += 1
            buffers.update(zip(writes, function(*[buffers[k] for k in reads])))


def call_of(step: Step) -> Call:
    """One op as one call."""
    index, state = step
    return lambda *operands: (state.op.rule(*operands),), state.operands, (index,)


def needed(path: list[State], wanted: tuple[int, ...]) -> list[Step]:
    """The steps that the wanted values depend on, in order, without leaves."""
    marked = set(wanted)
    for i in reversed(range(len(path))):
        if i in marked and path[i].op is not LEAF:
            marked.update(path[i].operands)
    return [(i, s) for i, s in enumerate(path) if i in marked and s.op is not LEAF]


def find_plan(state: State, path: list[State], wanted: tuple[int, ...]) -> Plan:
    """The plan that hangs on the state, made at the first flush."""
    COUNTS["plans found" if wanted in state.plans else "plans made"] += 1
    if wanted not in state.plans:
        state.plans[wanted] = Plan(path, wanted)
    return state.plans[wanted]


def flush() -> None:
    """Compute all that is pending and still wanted; the trace returns to the root."""
    segment, state = TRACE.segment, TRACE.state
    references = [weakref.ref(value) for value in segment.values]
    segment.values.clear()  # a value lives on if a handle has it: it is wanted
    alive = [(i, reference()) for i, reference in enumerate(references)]
    live = {i: value for i, value in alive if value is not None and value.buffer is None}
    buffers = {i: v.buffer for v, i in segment.leaves.items() if v.buffer is not None}
    if state.linked:
        find_plan(state, segment.path, tuple(live)).run(buffers)
    else:
        run_groups(segment.path, tuple(live), buffers)
    for i, value in live.items():
        value.buffer = np.asarray(buffers[i])
        value.segment = segment if value.requires_grad else None
    for passed in [TRACE.root, *segment.path]:
        passed.visits += 1
    TRACE.begin(TRACE.root)


# 4. A gradient is recorded like all else ----------------------------------------------------------
# Reverse mode walks the path backward and records each `vjp` rule. The gradient is therefore a
# path, with a plan and with derivatives of its own. An earlier flush has left a segment behind.
# Tiny Wend records such a segment again, from its leaves; Wend saves the values that are needed.
# Real code: transforms/grad.py, transforms/walk.py, transforms/residuals.py (saved values).


def grad(y: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """The gradients of a number `y` with respect to leaves: pending tensors, like any others."""
    if y.value.shape != ():
        raise ValueError(f"grad: the result has shape {y.value.shape}; take its sum first")
    found = {y.value: tensor(1.0)}
    done: set[Segment] = set()
    while segments := {v.segment for v in found if v.segment is not None} - done:
        segment = max(segments, key=lambda s: s.serial)  # latest first
        done.add(segment)
        seeds = {v.index: g for v, g in found.items() if v.segment is segment}
        for leaf, g in walk(segment, seeds).items():
            found[leaf] = found[leaf] + g if leaf in found else g
    return [found[x.value] if x.value in found else x * 0.0 for x in inputs]


def walk(segment: Segment, seeds: dict[int, Tensor]) -> dict[Value, Tensor]:
    """Push gradients back through one segment; returns those of its leaves."""
    handles = handles_of(segment, max(seeds))
    for i in range(max(seeds), -1, -1):
        op, operands = segment.path[i].op, segment.path[i].operands
        if i not in seeds:
            continue
        for rule, k in zip(op.vjp, operands):  # a leaf has no rules
            if handles[k].value.requires_grad:
                part = rule(seeds[i], handles[i], *[handles[j] for j in operands])
                if part.value.shape != handles[k].value.shape:
                    part = part.sum()  # the walk undoes broadcasting, never a rule
                seeds[k] = seeds[k] + part if k in seeds else part
    return {leaf: seeds[i] for leaf, i in segment.leaves.items() if i in seeds}


def handles_of(segment: Segment, last: int) -> list[Tensor]:
    """Handles of all values up to `last`; those of an earlier segment are recorded again."""
    if segment is TRACE.segment:
        return [Tensor(value) for value in segment.values[: last + 1]]
    leaves = {i: leaf for leaf, i in segment.leaves.items()}
    handles: list[Tensor] = []
    for i, state in enumerate(segment.path[: last + 1]):
        operands = [] if i in leaves else [handles[k] for k in state.operands]
        handles.append(Tensor(leaves[i]) if i in leaves else record(state.op, *operands))
    return handles


# 5. A batch ---------------------------------------------------------------------------------------
# Trees and ragged data hardly repeat as one path, so the trie is sealed there (`admit`). Their ops
# repeat. A flush off the trie sorts steps by depth, then by op and shapes. One call runs a group.
# Wend also groups inside of known paths; it groups regions of ops, and chooses the order better.
# Real code: runtime/batching/_grouper.py, runtime/batching/executor.py, transforms/batch.py.


def run_groups(path: list[State], wanted: tuple[int, ...], buffers: dict[int, Array]) -> None:
    """Compute the wanted values group by group, the least depth first."""
    depth: dict[int, int] = defaultdict(int)  # leaves are at depth 0
    levels: dict[int, list[Step]] = defaultdict(list)
    for i, state in needed(path, wanted):
        depth[i] = 1 + max(depth[k] for k in state.operands)
        levels[depth[i]].append((i, state))
    for level in sorted(levels):
        groups: dict[Any, list[Step]] = defaultdict(list)
        for i, state in levels[level]:
            shapes = tuple(buffers[k].shape for k in state.operands)
            groups[id(state.op), shapes].append((i, state))
        for members in groups.values():
            run_group(members, buffers)


def run_group(members: list[Step], buffers: dict[int, Array]) -> None:
    """Run one op for all members, on operands with a new first axis."""
    op = members[0][1].op
    columns = zip(*[state.operands for _, state in members])
    operands = [gather([buffers[k] for k in column]) for column in columns]
    rank = max(x.ndim for x in operands)
    lifted = [x.reshape(x.shape[:1] + (1,) * (rank - x.ndim) + x.shape[1:]) for x in operands]
    COUNTS["calls"] += 1
    result = (op.batched or op.rule)(*lifted)
    buffers.update((i, row) for (i, _), row in zip(members, result))


def gather(arrays: list[Array]) -> Array:
    """Lay one operand of all members behind each other; a shared one is not copied."""
    if all(x is arrays[0] for x in arrays):
        return np.broadcast_to(arrays[0], (len(arrays), *arrays[0].shape))
    COUNTS["calls"] += 1
    return np.stack(arrays)


# 6. A tiny compiler -------------------------------------------------------------------------------
# A chain of elementwise ops becomes the text of one function. Its text names no size and no place,
# so plans share it. A plan that comes back calls it instead of the ops. Here the function still
# calls NumPy; Wend writes one loop in LLVM IR, and values inside of the chain stay in registers.
# Real code: compiler/pipeline.py, compiler/schedule/fuse.py, compiler/codegen/nest.py.


def fuse(steps: list[Step], wanted: set[int]) -> list[Call]:
    """The calls of a plan, with each run of elementwise steps as one call."""
    calls: list[Call] = []
    for elementwise, run in groupby(steps, lambda step: step[1].op.elementwise):
        chain = list(run)
        first, last = chain[0][0], chain[-1][0]
        if elementwise:
            outside = [state.operands for i, state in steps if not first <= i <= last]
            calls.append(kernel_of(chain, wanted.union(*outside)))
        else:
            calls += [call_of(step) for step in chain]
    return calls


def kernel_of(chain: list[Step], kept: set[int]) -> Call:
    """One function for a chain of elementwise steps; it returns the values that are kept."""
    names: dict[int, str] = {}
    reads: list[int] = []
    lines: list[str] = []
    for i, state in chain:
        for k in state.operands:
            if k not in names:
                names[k] = f"a{len(reads)}"
                reads.append(k)
        names[i] = f"t{len(lines)}"
        arguments = ", ".join(names[k] for k in state.operands)
        lines.append(f"    {names[i]} = np.{state.op.rule.__name__}({arguments})")
    writes = [i for i, _ in chain if i in kept]
    head = f"def kernel({', '.join(names[k] for k in reads)}):"
    tail = f"    return [{', '.join(names[i] for i in writes)}]"
    return compiled("\n".join([head, *lines, tail])), reads, writes


KERNELS: list[str] = []  # all texts so far


@cache
def compiled(text: str) -> Any:
    """The function of a kernel's text, compiled once."""
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    KERNELS.append(text)
    return scope["kernel"]


# The demonstration --------------------------------------------------------------------------------


def begin(title: str) -> None:
    """Print a title; forget all paths and counts."""
    print(title)
    COUNTS.clear()
    TRACE.begin(State(LEAF, (), linked=True))


def show(*names: str, **facts: object) -> None:
    """Print facts, then the counts of these names since `begin`."""
    for name, fact in {**facts, **{name: COUNTS[name] for name in names}}.items():
        print(f"    {name} = {fact}")


def branching(x: Tensor, turns: int) -> Tensor:
    """Plain Python control flow, by an argument and by a value."""
    for _ in range(turns):
        x = (x * 0.5 + 1.0).tanh()
    return x if x.sum().numpy() > 2.7 else x + 10.0


def random_tree(draw: np.random.Generator, leaves: int, w: Tensor) -> Tensor:
    """The encoding of one random binary tree: a path that hardly comes back."""
    if leaves == 1:
        return tensor(draw.normal(size=(1, 4)))
    left = int(draw.integers(1, leaves))
    return ((random_tree(draw, left, w) + random_tree(draw, leaves - left, w)) @ w).tanh()


def forest(seed: int, w: Tensor) -> Tensor:
    """The sum of 16 encodings: the model is written for one tree."""
    draw = np.random.default_rng(seed)
    total = random_tree(draw, 6, w).sum()
    for _ in range(15):
        total = total + random_tree(draw, 6, w).sum()
    return total


def main() -> None:
    """Show each stage."""
    x, y = tensor([1.0, 2.0, 3.0], requires_grad=True), tensor([4.0, 5.0, 6.0])
    begin("1. A handle and a pending value")
    z = x * y + x
    show(before=z.value.buffer, after=z.numpy().tolist())

    begin("2. Recording: the second time, each step costs a comparison")
    for _ in range(2):
        (x * y + x).numpy()
        show("steps new", "steps compared")

    begin("3. A plan: one path, three sizes; then branches taken in turn")
    for size in (2, 3, 30):
        (tensor(np.ones(size)) * 3.0).numpy()
    show("plans made", "plans found")
    begin("   turns of a loop: 2 3 2 3 4 2")
    for turns in (2, 3, 2, 3, 4, 2):
        branching(y, turns).numpy()
    show("plans made", "plans found")

    begin("4. Gradients of the sum of x³")
    (first,) = grad((x * x * x).sum(), [x])
    show(first=first.numpy().tolist())  # flushed: the history is a segment from here on
    (second,) = grad(first.sum(), [x])
    show(second=second.numpy().tolist())

    begin("5. Forests of random trees: calls with a plan, and by groups once the trie is sealed")
    w = tensor(np.random.default_rng(0).normal(size=(4, 4)) / 2, requires_grad=True)
    for seed in range(SEAL_AFTER + 2):
        COUNTS["calls"] = 0
        loss = forest(seed, w)
        grad(loss, [w])[0].numpy()
        if seed in (0, SEAL_AFTER + 1):
            show("plans made", "calls", forest=seed, loss=float(loss.numpy()))

    begin("6. A compiler: a chain, op by op at first and then as one function")
    for _ in range(2):
        COUNTS["calls"] = 0
        show(values=((x * y + x).tanh() * y).numpy().tolist())
        show("calls")
    print(KERNELS[-1])


if __name__ == "__main__":
    main()
