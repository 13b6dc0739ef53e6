"""Lowering of the ops over the steps of sequences, and the words of their kernels."""

from __future__ import annotations

from typing import Any

from wend._engine.base.dtypes import DType, float32, float64
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import STEPS, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import (
    ONE,
    ZERO,
    Poly,
    add,
    constant,
    mul,
    product,
    scale,
)
from wend._engine.compiler.kernels.recurrent.scans import SCANS, WORDS, name_of, scratch_elements
from wend._engine.compiler.llvm_ir.jit import cached_by_processor
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.ops.quantized.windows import DEPTH
from wend._engine.ops.recurrent.steps import StepsOp

HALVES = "sums of halves are kept in a wider type"


@lowers(StepsOp)
def lower_steps(low: Any, node: Node) -> bool:
    """Lower an op over steps. Returns False for types without kernels."""
    f: Function = low.function
    if f.dtypes[node.outputs[0]] not in (float32, float64):
        return bool(low.refuse(HALVES))
    reads = []
    for i, _ in node.prim.listed(operands_read(f, node)):
        low.materialise(i)
        source = i if is_dense(f.shape(i), f.layout(i).strides) else low.copy(i)
        reads.append(Read(source, tuple(range(len(f.shape(i))))))
    for out in node.outputs:
        f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    f.add(Op(STEPS, node, node.outputs, reads))
    return True


def operands_of(node: Node) -> list[Any]:
    """The values of the operands, as in a call."""
    values: list[Any] = node.prim.arrange(list(node.inputs), list(node.args))
    return values


def operands_read(f: Function, node: Node) -> list[Any]:
    """The operands that the kernel reads, None in the place of terms that are known to be 0."""
    terms = node.prim.terms
    return [
        None if i is None or (k in terms and _is_zero(f, i)) else i
        for k, i in enumerate(operands_of(node))
    ]


def _is_zero(f: Function, i: int) -> bool:
    """Whether a value is known to be 0 everywhere."""
    while i in f.views:
        i = f.views[i].source
    expr = f.uniform[i][0] if i in f.uniform else None
    return type(expr) in (int, float) and expr == 0


@makes_kernel(STEPS)
def steps_kernel(f: Function, op: Op) -> Kernel:
    """Return the kernel of an op over steps, with its slots."""
    prim: Any = op.node.prim
    inputs = operands_of(op.node)
    zero = tuple([i is None for i in operands_read(f, op.node)])
    dtype = f.dtypes[op.outputs[0]]
    form = (
        prim.name,
        prim.count(inputs),
        bool(getattr(prim, "relu", False)),
        prim.back,
        zero,
        dtype,
    )
    kernel = Kernel(name_of(prim), _text(*form), f"{prim.name} {op.outputs[0]}")
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = list(op.outputs)
    extents: dict[str, Poly] = {}
    for i, letters in prim.listed(inputs):
        shape = f.shape(i)
        extents |= dict(zip(letters, shape[len(shape) - len(letters) :], strict=True))
        extents["G"] = ONE if len(shape) == len(letters) else shape[0]
    pointers = []
    for value in [*(read.value for read in op.reads), *op.outputs]:
        layout = f.layout(value)
        pointers.append(
            Slot("pointer", layout.base, scale(layout.offset, f.dtypes[value].itemsize))
        )
    words = {letter: Slot("extent", extents[letter]) for letter in "GRNTH"}
    words |= {"first": Slot("word", 0), "last": words["N"]}
    words["scratch"] = Slot("scratch", _scratch(form[1], extents, dtype), "steps")
    kernel.slots = [*(words[name] for name in WORDS), *pointers]
    kernel.words, kernel.source = WORDS, dtype.name
    return kernel


def multiplications(f: Function, op: Op) -> Poly:
    """Return the multiplications of an op by its weight; without a weight, its elements."""
    prim: Any = op.node.prim
    rows = next(out for out, d in zip(op.outputs, prim.results.split()) if d[0] == "R")
    for i, dims in prim.listed(operands_of(op.node)):
        if dims == "JH":
            return product([*f.shape(rows)[:-1], *f.shape(i)[-2:]])
    return product(f.shape(rows))


def _scratch(gates: int, extents: dict[str, Poly], dtype: DType) -> Poly:
    """The bytes of the scratch memory of a kernel: the first row of each step, and panels."""
    width = extents["H"]
    rows = scale(add(extents["T"], constant(2)), 8)
    if "J" not in extents:
        return rows
    if "P" in extents:  # the panels are an operand; there are bytes of the states
        return add(add(rows, constant(128)), mul(extents["N"], add(width, constant(DEPTH))))
    columns = scale(add(width, constant(scratch_elements(dtype))), gates)
    return add(add(rows, constant(128)), scale(mul(columns, width), dtype.itemsize))


@cached_by_processor
def _text(
    name: str, gates: int, relu: bool, back: bool, zero: tuple[bool, ...], dtype: DType
) -> str:
    return SCANS[name](name, gates, relu, back, zero, dtype).write()
