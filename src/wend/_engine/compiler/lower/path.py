"""From a path's nodes to a `Function`: the loops of each op.

Rules are registered by family (`lower.registry`); a rule adds to the state of a `Lowering`.
"""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import int64
from wend._engine.base.errors import CompileError
from wend._engine.compiler.codegen.scalar_ops import convertible
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import (
    BANDS,
    CONTRACT,
    CONVOLVE,
    DRAWS,
    HOST,
    NESTED,
    ORDER,
    SCAN,
    SEARCH,
    STEPS,
    UPDATES,
    WINDOWS,
    Function,
    Layout,
    Op,
)
from wend._engine.compiler.ir.symbolic_extents import ZERO, find_extents, known, product
from wend._engine.compiler.lower.lowering import Lowering, consumers_of
from wend._engine.compiler.lower.registry import Rule, is_for, rule_of
from wend._engine.compiler.lower.sums_of_products import join_products
from wend._engine.compiler.stages import Sliced
from wend._engine.core.graph import Node, PathGraph
from wend._engine.ops.basic import Identity

#: The kinds of ops that accelerators have kernels for.
_ON_DEVICES = NESTED | {
    BANDS, CONTRACT, CONVOLVE, DRAWS, ORDER, SCAN, SEARCH, UPDATES, WINDOWS,
}  # fmt: skip
#: Ops, each with the dtypes of its values, that no accelerator has a kernel for.
_NOT_FOR_DEVICES: set[Any] = set()
NO_DEVICE_KERNEL = "accelerators have no kernel for it"


def lower_path(path: PathGraph, needed: frozenset[int]) -> Sliced[Function]:
    """Return the loops of all nodes, and lower a node in each slice.

    Nodes without a kernel of the accelerator are left to the processor. Rules may have noted loops
    of such a node in several tables by then: the path is lowered anew.

    needed: the values that the function returns
    """
    while True:
        low = Lowering(path, needed)
        function = yield from _lowered(low)
        if function is not None:
            return function


def _lowered(low: Lowering) -> Sliced[Function | None]:
    """Return the loops of all nodes; None if a node has just been noted in `_NOT_FOR_DEVICES`."""
    path, needed = low.path, low.needed
    yield from find_extents(path, low.extents)
    f = low.function
    nodes = join_products(low)
    if nodes is not low.nodes:
        low.nodes, low.consumers = nodes, consumers_of(nodes)
    results = {o for node in low.nodes for o in node.outputs}
    used = {i for node in low.nodes for i in node.inputs} | needed
    f.inputs = sorted(i for i in used if i not in results)
    for i in f.inputs:
        f.dtypes[i] = path.dtype_of(i)
    for node in low.nodes:
        begin = len(f.ops)
        _lower(low, node)
        if _is_refused(low, begin, node):
            return None
        yield
    f.outputs = sorted(i for i in needed if i in results)
    for i in f.outputs:
        low.materialise(f.resolve(i))
        _lay_out(low, i)
    _drop_unread(f)
    return f


def _is_refused(low: Lowering, begin: int, node: Node) -> bool:
    """Whether accelerators lack a kernel for an op of a node; notes the node's form.

    begin: the number of ops before those of the node
    """
    f = low.function
    if not low.is_device or all(_is_for_devices(f, op) for op in f.ops[begin:]):
        return False
    form = _form(low, node)
    if form in _NOT_FOR_DEVICES:
        raise CompileError(f"accelerators have no kernel for {node.prim!r}")
    _NOT_FOR_DEVICES.add(form)
    return True


def _drop_unread(f: Function) -> None:
    """Forget ops of which only the shape was asked, by a fill."""
    used = {f.base(f.resolve(i)) for i in f.outputs}
    kept = []
    for op in reversed(f.ops):
        if op.kind == HOST or not used.isdisjoint(op.outputs):
            kept.append(op)
            used.update(f.base(read.value) for read in op.reads)
    f.ops = kept[::-1]


def _lower(low: Lowering, node: Node) -> None:
    """Add the result of a node: ops, a view, or another name for a known value."""
    f, inputs = low.function, node.inputs
    for out in node.outputs:
        if out not in f.dtypes:
            f.dtypes[out] = low.path.dtype_of(out)
    if not f.same.keys().isdisjoint(inputs):
        inputs = tuple([f.resolve(i) for i in inputs])
    prim: Any = node.prim
    facts = prim.facts
    if facts.pure and not facts.random and not facts.calls_user:
        key = (prim, inputs, node.args)
        before = low.known.setdefault(key, node)
        if before is not node and len(before.outputs) == len(node.outputs):
            for mine, theirs in zip(node.outputs, before.outputs, strict=True):
                f.same[mine] = f.resolve(theirs)
            return
    if inputs is not node.inputs:
        node = Node(prim, node.program, inputs, node.outputs, node.args, node.grad)
    rule = rule_of(type(prim))
    if low.is_device and rule is not None and not _may_lower(low, node, rule):
        low.host(node, NO_DEVICE_KERNEL)
        return
    if not low.is_device and rule is not None and not is_for(rule, False):
        rule = None
    low.refusal = ""
    traced = isinstance(prim, Identity) or low.extents.holds_for(node)
    if rule is None:
        low.host(node, _stated(prim) or "Wend has no kernel for it")
    elif not traced:
        low.host(node, "its kernel was made for operands of other numbers of dims")
    elif not rule(low, node):
        low.host(node, _refusal(low, node))


def _may_lower(low: Lowering, node: Node, rule: Rule) -> bool:
    """Whether a rule may be asked for the loops of a node on an accelerator."""
    return is_for(rule, True) and _form(low, node) not in _NOT_FOR_DEVICES


def _form(low: Lowering, node: Node) -> Any:
    """The facts that decide whether an accelerator has a kernel for a node."""
    return node.prim, tuple([low.function.dtypes[i] for i in (*node.inputs, *node.outputs)])


def _is_for_devices(f: Function, op: Op) -> bool:
    """Whether accelerators have kernels for the loops of an op, or the op is a host step."""
    if op.kind == HOST:
        return True
    if op.kind == STEPS:  # sums of small integers have no such kernel
        return {f.dtypes[read.value] for read in op.reads} <= {f.dtypes[op.outputs[0]], int64}
    return op.kind in _ON_DEVICES


def _refusal(low: Lowering, node: Node) -> str:
    """Return why the rule of a family has made nothing of a node."""
    dtypes_ = {low.function.dtypes[i] for i in (*node.inputs, *node.outputs)}
    foreign = sorted(str(d) for d in dtypes_ if not convertible(d))
    if foreign:
        return f"there is no code for {', '.join(foreign)}"
    return low.refusal or _stated(node.prim) or "no kernel takes this form of it"


def _stated(prim: Any) -> str:
    """Return why no kernel computes an op, as the op's class states; "" if a kernel does."""
    library = prim.schedule.library
    return f"the work is a call of a library: {library}" if library else prim.schedule.unlowered


def _lay_out(low: Lowering, i: int) -> None:
    """Copy a needed value that shows elements of a computed value in another order."""
    f = low.function
    value = f.resolve(i)
    layout = f.layout(value)
    if layout.base in f.inputs:
        if _picks_one(f, value, layout):
            f.same[value] = low.copy(value)
        return
    whole = f.extents.canonical(product(f.shape(layout.base)))
    mine = f.extents.canonical(product(f.shape(value)))
    if is_dense(f.shape(value), layout.strides) and layout.offset == ZERO and whole == mine:
        return
    f.same[value] = low.copy(value)


def _picks_one(f: Function, i: int, layout: Layout) -> bool:
    """Whether a value is one element of an operand, at a place that the args of a visit name.

    Shown in the operand's memory, the element would bind the plan to its place, and each other
    place anew.
    """
    named = any(f.extents.atoms[a][0] == "arg" for m, _ in layout.offset for a in m)
    return named and known(product(f.shape(i))) == 1 and convertible(f.dtypes[i])
