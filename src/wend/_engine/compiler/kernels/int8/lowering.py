"""Lowering of products of 8 bits to steps of a plan, and the words of their kernels."""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import ZERO, constant, mul, product, scale
from wend._engine.compiler.kernels.int8 import channels, scans, windows  # noqa: F401 (scans registers)
from wend._engine.compiler.lower.registry import lowers, makes_kernel
from wend._engine.core.graph import Node
from wend._engine.ops.quantized.channels import ChannelsQuantized
from wend._engine.ops.quantized.windows import WindowsOfBytes


@lowers(WindowsOfBytes)
def lower_windows(low: Any, node: Node) -> bool:
    """Lower a product of windows: a step of its own, of dense operands."""
    add_dense(low, node, "windows_of_bytes")
    return True


@lowers(ChannelsQuantized)
def lower_channels(low: Any, node: Node) -> bool:
    """Lower a depthwise convolution: a step of its own, of dense operands."""
    add_dense(low, node, "channels_of_bytes")
    return True


def add_dense(low: Any, node: Node, kind: str) -> None:
    """Add a step whose operands and results are dense."""
    f: Function = low.function
    reads = []
    for i in node.inputs:
        low.materialise(i)
        source = i if is_dense(f.shape(i), f.layout(i).strides) else low.copy(i)
        reads.append(Read(source, tuple(range(len(f.shape(i))))))
    for out in node.outputs:
        f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    f.add(Op(kind, node, node.outputs, reads))


def pointers(f: Function, op: Op) -> list[Slot]:
    """The addresses of operands and results."""
    slots = []
    for value in [*(read.value for read in op.reads), *op.outputs]:
        layout = f.layout(value)
        slots.append(Slot("pointer", layout.base, scale(layout.offset, f.dtypes[value].itemsize)))
    return slots


@makes_kernel("windows_of_bytes")
def windows_of_bytes(f: Function, op: Op) -> Kernel:
    """Return the kernel of a product of windows, with its slots."""
    prim: Any = op.node.prim
    (out,) = op.outputs
    x, weight = (f.shape(read.value) for read in op.reads[:2])
    groups, images, rows, columns, filters = f.shape(out)
    channels = scale(x[4], f.dtypes[op.reads[0].value].itemsize)  # four in a word
    width = x[3]
    line = mul(width, channels)
    (tall, wide), (down, along) = prim.kernel, prim.dilation
    apart = wide > 1 and along > 1  # whether the columns of a kernel do not lie side by side
    loops = 2 if apart else int(tall > 1)
    pieces = tall * (wide if apart else 1)
    extents = {
        "groups": groups, "images": images, "rows": rows, "columns": columns,
        "filters": filters, "panels": weight[1],
        "group": product((*x[1:4], channels)), "image": product((*x[2:4], channels)),
        "row": scale(line, prim.stride[0]), "column": scale(channels, prim.stride[1]),
        "kernel_row": scale(line, down), "kernel_column": scale(channels, along),
        "kernel_rows": constant(tall), "kernel_columns": constant(wide if apart else 1),
        "steps": f.extents.quotient(weight[2], constant(pieces)),
    }  # fmt: skip
    text = windows.text(f.dtypes[out], bool(getattr(prim, "relu", False)), loops)
    kernel = Kernel("windows_of_bytes", text, f"{prim.name} {out}")
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = [out]
    kernel.slots = [*(Slot("extent", extents[name]) for name in windows.WORDS), *pointers(f, op)]
    return kernel


@makes_kernel("channels_of_bytes")
def channels_of_bytes(f: Function, op: Op) -> Kernel:
    """Return the kernel of a depthwise convolution, with its slots."""
    prim: Any = op.node.prim
    (out,) = op.outputs
    x = f.shape(op.reads[0].value)
    sides = (*prim.stride, *prim.dilation, *prim.padding)
    extents = (*f.shape(out), *x[2:4], *map(constant, sides))
    text = channels.text(*prim.kernel)
    kernel = Kernel("channels_of_bytes", text, f"{prim.name} {out}")
    kernel.reads = [f.layout(read.value).base for read in op.reads]
    kernel.writes = [out]
    kernel.slots = [*(Slot("extent", extent) for extent in extents), *pointers(f, op)]
    return kernel
