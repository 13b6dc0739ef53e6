"""Lowering of the three ops of `ops.conv` to steps of a plan, and the words of their kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wend._engine.base import dtypes
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import CONVOLVE, Function, Layout, Op, Read, contiguous
from wend._engine.compiler.ir.symbolic_extents import (
    ONE,
    ZERO,
    Poly,
    add,
    constant,
    mul,
    product,
    scale,
    sub,
)
from wend._engine.compiler.kernels.conv import forward
from wend._engine.compiler.lower.registry import lowers
from wend._engine.core.graph import Node
from wend._engine.ops.neural.conv import Convolution

# The roles of each op's two operands, in order, and the role of its result.
ROLES = {
    "convolve": ("input", "weight", "out"),
    "convolve_input": ("out", "weight", "input"),
    "convolve_weight": ("input", "out", "weight"),
}

#: The words that describe a convolution's weight. The groups are left out: their number is a value
#: of each call's own, and transformed weights always have one group.
_OF_A_WEIGHT = (
    "weight weight_filter channels kernel_height kernel_width dilation_height dilation_width"
).split()

#: The other functions of a module that a plan calls.
HELPERS = {
    "convolve": ["turn_weight"],
    "convolve_input": ["turn_weight"],
    "convolve_weight": ["add_parts"],
}


@lowers(Convolution)
def lower_convolution(low: Any, node: Node) -> bool:
    """Lower a convolution of one or two dims in float32 or float64.

    Returns whether the node was lowered: False for other ranks and dtypes.
    """
    f: Function = low.function
    out = node.outputs[0]
    rank, is_device = len(f.shape(out)), low.is_device
    if f.dtypes[out] not in (dtypes.float32, dtypes.float64) or (rank > 4 and not is_device):
        return bool(low.refuse("convolutions are made for one or two dims, of float32 or float64"))
    inputs = list(node.inputs)
    for i in inputs:
        low.materialise(i)
    for k, role in enumerate(ROLES[node.prim.name][:2]):
        value = f.resolve(inputs[k])
        layout, shape = f.layout(value), f.shape(value)
        # The kernels need dense rows of a gradient, and a weight that is dense within a filter.
        free = {"weight": 1, "out": 2 if node.prim.name == "convolve_weight" else rank}.get(role)
        if free is not None and not is_device and not is_dense(shape[free:], layout.strides[free:]):
            inputs[k] = low.copy(value)
    f.layouts[out] = Layout(out, contiguous(f.shape(out)), ZERO)
    node = Node(node.prim, node.program, tuple(inputs), node.outputs, node.args, node.grad)
    reads = [Read(i, tuple(range(len(f.shape(i))))) for i in inputs]
    f.add(Op(CONVOLVE, node, node.outputs, reads))
    return True


def convolution(f: Function, op: Op) -> Kernel:
    """Return the kernel of a convolution, with its words and slots."""
    node = op.node
    name = node.prim.name
    dtype = f.dtypes[op.out]
    kernel = Kernel(name, forward.core_text(name, dtype.name), f"{name} {op.out}")
    operands = [read.value for read in op.reads]
    values = dict(zip(ROLES[name], [*operands, op.out], strict=True))
    kernel.source = dtype.name
    kernel.helpers = HELPERS.get(name, [])
    kernel.reads = [f.layout(i).base for i in operands]
    kernel.writes = [op.out]
    sizes = _geometry(f, node, values)
    words: dict[str, Slot] = {word: Slot("extent", size) for word, size in sizes.items()}
    for role, i in values.items():
        layout = f.layout(i)
        words[role] = Slot("pointer", layout.base, scale(layout.offset, dtype.itemsize))
    zero = Slot("word", 0)
    zeros = "accumulate epilogue state first_column origin turned first_filter shared pool"
    words |= dict.fromkeys(zeros.split(), zero)
    words["last_filter"] = words["filters"]
    scratch = constant(forward.scratch_bytes(dtype.name))
    words["scratch"] = Slot("scratch", scratch, "scratch")
    words["workspace"] = Slot("scratch", _workspace(name, sizes, dtype.name), "workspace")
    channels, filters = _Size(sizes["channels"]), _Size(sizes["filters"])
    # Kernels of 3 x 3 alone use this memory: a kernel of many taps must not ask for more.
    taps = _Size(f.extents.minimum(mul(sizes["kernel_height"], sizes["kernel_width"]), constant(9)))
    sums = _poly(forward.spread_sums(name, channels, filters, taps, dtype.name))
    words["spread"] = Slot("scratch", scale(sums, dtype.itemsize), "spread")
    if name != "convolve_weight":
        words["batch"] = Slot("extent", sizes["images"])
    rows = sizes["channels" if name == "convolve_input" else "filters"]
    bundle = scale(_poly(forward.bundle_sums(_Size(rows), dtype.name)), dtype.itemsize)
    words["bundle"] = Slot("scratch", bundle, "bundle")
    words["partial"] = zero
    if name == "convolve_input" and any(n > 1 for n in node.prim.stride):
        size = scale(_sums_of_a_phase(f, sizes), dtypes.float64.itemsize)
        words["partial"] = Slot("scratch", size, "partial")
    kernel.words = tuple(forward.WORDS[name])
    kernel.slots = [words[word] for word in kernel.words]
    return kernel


def by_one_weight(kernels: Mapping[int, Kernel]) -> list[list[int]]:
    """Group convolutions whose weight is the same and may be transformed once for all of them.

    Returns a list of numbers of kernels for each such weight, each of two or more numbers.
    """
    numbers_by_weight: dict[Any, list[int]] = {}
    for k, kernel in kernels.items():
        if kernel.name == "convolve" and forward.keeps_turned(kernel.source):
            words = [kernel.slots[kernel.words.index(name)] for name in _OF_A_WEIGHT]
            numbers_by_weight.setdefault((kernel.source, *words), []).append(k)
    return [numbers for numbers in numbers_by_weight.values() if len(numbers) > 1]


def tell_shared(kernels: Mapping[int, Kernel]) -> None:
    """Set the word `shared` of all convolutions that have their weight in common.

    The cost of transforming the weight, per convolution, decides which kernel computes each
    convolution. The choice must not depend on how convolutions are cut, so that results are the
    same for any number of threads.
    """
    for numbers in by_one_weight(kernels):
        for k in numbers:
            kernels[k].slots[kernels[k].words.index("shared")] = Slot("word", 1)


def _geometry(f: Function, node: Node, values: dict[str, int]) -> dict[str, Poly]:
    """Return extents, steps and strides by word. A single dim is the width of an image of height 1.

    values: the operands and the result, by role
    """
    prim: Any = node.prim
    nd = len(prim.stride)
    sizes = [f.extents.path_expr(e) for e in node.args]
    # The args end with the padding in front, the padding behind, and the groups.
    groups, padding = sizes[-1], sizes[-1 - 2 * nd : -1 - nd]
    shapes = {role: f.shape(i) for role, i in values.items()}
    strides = {role: f.layout(i).strides for role, i in values.items()}

    def dims(polys: Any, missing: Poly) -> list[Any]:
        return [missing] * (2 - nd) + list(polys)

    pairs = {
        "input": dims(shapes["input"][2:], ONE),
        "out": dims(shapes["out"][2:], ONE),
        "kernel": dims(shapes["weight"][2:], ONE),
        "stride": dims(map(constant, prim.stride), ONE),
        "dilation": dims(map(constant, prim.dilation), ONE),
        "pad": dims(padding, ZERO),
    }
    words = {
        f"{what}_{side}": pair[i]
        for what, pair in pairs.items()
        for i, side in enumerate(("height", "width"))
    }
    for role in ("input", "out"):
        image, channel, *rest = strides[role]
        row, column = dims(rest, ZERO)
        steps = {"image": image, "channel": channel, "row": row, "column": column}
        if nd == 1:  # there is one row, so any stride will do: the stride of a dense row
            steps["row"] = mul(column, shapes[role][2])
        words |= {f"{role}_{side}": step for side, step in steps.items()}
    filters = shapes["weight"][0]
    words |= {
        "images": shapes["input"][0],
        "groups": groups,
        "channels": shapes["weight"][1],
        "filters": f.extents.quotient(filters, groups),
        "weight_filter": strides["weight"][0],
        "last_column": mul(*pairs["out"]),
    }
    return words


def _sums_of_a_phase(f: Function, sizes: dict[str, Poly]) -> Poly:
    """The number of partial sums, see `forward.partial_sums`."""
    sides = []
    for side in ("height", "width"):
        stride = sizes["stride_" + side]
        sides.append(f.extents.quotient(add(sizes["input_" + side], sub(stride, ONE)), stride))
    channels = _Size(mul(sizes["groups"], sizes["channels"]))
    return _poly(forward.partial_sums(channels, _Size(mul(*sides))))


class _Size:
    """A polynomial of symbolic extents with the operators + and *."""

    def __init__(self, poly: Poly) -> None:
        self.poly = poly

    def __add__(self, other: Any) -> _Size:
        return _Size(add(self.poly, _poly(other)))

    def __mul__(self, other: Any) -> _Size:
        return _Size(mul(self.poly, _poly(other)))


def _poly(x: Any) -> Poly:
    return x.poly if isinstance(x, _Size) else constant(x)


def _workspace(name: str, sizes: dict[str, Poly], dtype: str) -> Poly:
    """The bytes of the workspace of a convolution or of a gradient."""
    taps = mul(sizes["kernel_height"], sizes["kernel_width"])
    if name != "convolve_weight":
        whole = product([sizes["groups"], sizes["filters"], sizes["channels"], taps])
        return scale(whole, forward.workspace_sums(name, dtype) * dtypes.float32.itemsize)
    sides = []
    for side in ("height", "width"):
        steps = mul(sub(sizes["out_" + side], ONE), sizes["stride_" + side])
        reach = mul(sub(sizes["kernel_" + side], ONE), sizes["dilation_" + side])
        sides.append(add(add(steps, reach), ONE))
    channels, filters = _Size(sizes["channels"]), _Size(sizes["filters"])
    area = mul(*sides)
    return _poly(forward.weight_workspace(channels, filters, _Size(taps), _Size(area), dtype))
