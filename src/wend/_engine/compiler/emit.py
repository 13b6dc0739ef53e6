"""The pass `emit`: nests, products and routines become kernels, the remaining ops host steps."""

from __future__ import annotations

import importlib
import os

from wend._engine.base.modules import import_folder
from wend._engine.compiler.codegen.device_nest import DeviceNestCode
from wend._engine.compiler.codegen.known_code import form_of_nest, form_of_tail, recall
from wend._engine.compiler.codegen.nest import NAME, NestCode
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.loops import BANDS, CONTRACT, CONVOLVE, DRAWS, STEPS, WINDOWS, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly
from wend._engine.compiler.kernels.conv.lowering import convolution, tell_shared
from wend._engine.compiler.kernels.conv.pooled import Pooled
from wend._engine.compiler.kernels.matmul.epilogue import NAME as EPILOGUE
from wend._engine.compiler.kernels.matmul.epilogue import EpilogueCode
from wend._engine.compiler.kernels.matmul.lowering import product_kernel
from wend._engine.compiler.kernels.on_device.bands import device_band_scan
from wend._engine.compiler.kernels.on_device.convolution import device_convolution
from wend._engine.compiler.kernels.on_device.draws import device_draws
from wend._engine.compiler.kernels.on_device.product import device_product
from wend._engine.compiler.kernels.on_device.steps import device_steps
from wend._engine.compiler.kernels.on_device.windows import device_windows
from wend._engine.compiler.kernels.pooling import windows
from wend._engine.compiler.llvm_ir.jit import written_for
from wend._engine.compiler.lower.registry import kernel_maker
from wend._engine.compiler.schedule.epilogue_ops import Tail, head_of, tail_of
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.schedule.loop_order import Nest
from wend._engine.compiler.stages import Emitted, Ordered, Sliced


def _import_rules() -> None:
    """Import the files with rules: a new file in `lower` or `kernels` needs no entry anywhere."""
    root = os.path.dirname(os.path.abspath(__file__))
    import_folder("wend._engine.compiler.lower", os.path.join(root, "lower"))
    kernels = os.path.join(root, "kernels")
    import_folder("wend._engine.compiler.kernels", kernels)
    import_folder("wend._engine.compiler.kernels.on_device", os.path.join(kernels, "on_device"))
    for family in sorted(os.listdir(kernels)):
        if os.path.exists(os.path.join(kernels, family, "lowering.py")):
            importlib.import_module(f"wend._engine.compiler.kernels.{family}.lowering")


_import_rules()
#: The makers of kernels of accelerators, where a processor's kernel of that kind is another one.
_DEVICE_MAKERS = {
    BANDS: device_band_scan,
    DRAWS: device_draws,
    STEPS: device_steps,
    WINDOWS: device_windows,
}


def emit(ordered: Ordered) -> Sliced[Emitted]:
    """Return the code of each region, in slices of a region."""
    emission = Emission(ordered)
    steps: list[Kernel | Op] = []
    for region in ordered.regions:
        step = emission.step(region)
        if step is not None:
            steps.append(step)
        yield
    tell_shared({k: step for k, step in enumerate(steps) if isinstance(step, Kernel)})
    return Emitted(
        ordered.path, ordered.needed, emission.pooled.function, ordered.regions, ordered.nests,
        tuple(steps), tuple(emission.nonempty),
    )  # fmt: skip


class Emission:
    """Makes the steps of a path.

    nonempty: grows by the extents that a kernel needs
    """

    def __init__(self, ordered: Ordered) -> None:
        self.path = ordered.path
        self.is_device = written_for().is_device
        self.function = ordered.function
        self.nests = ordered.nests
        self.nonempty: list[tuple[Poly, ...]] = list(ordered.function.nonempty)
        self.pooled = Pooled(ordered.function, ordered.regions)

    def step(self, region: Region) -> Kernel | Op | None:
        """Return a region as a kernel or a host step; None if there is nothing to compute."""
        if region.kind == "nest" and not region.ops:
            return None
        op = region.ops[0]
        if region.kind == "nest":
            kernel = self.nest(self.nests[region.number])
        elif region.kind == CONVOLVE and self.is_device:
            kernel = device_convolution(self.function, region)
        elif region.kind == CONVOLVE:
            kernel = convolution(self.function, head_of(region))
            self.pooled.add(kernel, region, self.add_tail(kernel, region))
        elif region.kind == CONTRACT:
            kernel = self.product(region)
        elif self.is_device and op.kind in _DEVICE_MAKERS:
            kernel = _DEVICE_MAKERS[op.kind](self.function, op)
        elif op.kind == WINDOWS:
            kernel = windows(self.function, op, self.pooled.flags.get(op.outputs[0]))
        elif (maker := kernel_maker(op.kind)) is not None:
            kernel = maker(self.function, op)
        else:
            return op
        kernel.ops = list(region.ops)
        return kernel

    def product(self, region: Region) -> Kernel:
        """Return the kernel of a matrix product, with the ops behind it."""
        if self.is_device:
            return device_product(self.function, region)
        kernel = product_kernel(self.function, head_of(region), self.path)
        self.add_tail(kernel, region)
        return kernel

    def nest(self, nest: Nest) -> Kernel:
        """Return the kernel of a region of elementwise ops and folds."""
        region = nest.region
        for out in nest.stores:
            if out in nest.row_folds or out in nest.late:
                continue
            present = {a for a in nest.loops[out] if a >= 0}
            missing = [a for a in nest.outer + nest.inner if a not in present]
            if nest.is_row[out]:
                missing = [a for a in missing if a in nest.outer]
            if missing:
                self.nonempty.append(tuple(nest.extents[a] for a in missing))
        # An index that is out of range is noted, and row 0 is taken instead: row 0 has to exist.
        accesses = (*nest.loads.values(), *nest.stores.values())
        self.nonempty += [(access.row_extent,) for access in accesses if access.row >= 0]
        make = DeviceNestCode if self.is_device else NestCode
        written = recall(form_of_nest(nest), lambda: make(nest).write())
        kernel = Kernel(NAME, written.text, " ".join([op.name for op in region.ops]))
        kernel.slots, kernel.nest = written.slots, nest
        kernel.is_whole = self.is_device  # work items share the work
        kernel.helpers, kernel.faults = list(written.helpers), list(written.faults)
        kernel.reads = sorted({a.base for a in nest.loads.values()})
        kernel.writes = sorted(nest.stores)
        return kernel

    def add_tail(self, kernel: Kernel, region: Region) -> Tail | None:
        """Give a product or convolution the epilogue that computes the remaining ops of its region.

        Returns the ops of the epilogue; None if there are no such ops.
        """
        if len(region.ops) == 1:
            return None
        f = self.function
        tail = tail_of(f, region)
        outputs = region.outputs
        written = recall(form_of_tail(tail, outputs), lambda: EpilogueCode(tail, outputs).write())
        code, words = written.text, written.slots
        head = tail.head.out
        kernel.epilogue = code
        kernel.what += "".join(f" {op.name}" for op in tail.ops)
        kernel.reads += sorted({a.base for a in tail.loads.values()} - set(kernel.reads))
        kernel.writes = list(region.outputs)
        names = kernel.words
        out = kernel.slots[names.index("out")]
        if head not in region.outputs:
            # Sums over a part of the depth are kept in the memory of a result, if any fits.
            mine = f.layout(head)
            places = [
                i
                for i in region.outputs
                if f.dtypes[i] is f.dtypes[head] and f.layout(i).strides == mine.strides
            ]
            if places:
                out = Slot("pointer", places[0], ZERO)
            else:
                out = Slot("scratch", f.bytes_of(head), "partial")
        replacements = {
            "out": out,
            "epilogue": Slot("function", code, EPILOGUE),
            "state": Slot("block", len(names)),
        }
        kernel.slots = [replacements.get(*pair) for pair in zip(names, kernel.slots, strict=True)]
        kernel.slots += words
        return tail
