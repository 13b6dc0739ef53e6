"""The recipe of a plan: kernels and host steps in order, memory of values, and results.

Recipe(path, needed, watch)     calls watch(pass, recipe) after each of `PASSES`
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.modules import import_folder
from wend._engine.compiler.codegen.nest import NestCode
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.layout import is_dense
from wend._engine.compiler.ir.loops import CONTRACT, CONVOLVE, WINDOWS, Function, Op
from wend._engine.compiler.ir.symbolic_extents import ZERO, Poly, known, product
from wend._engine.compiler.kernels.conv.lowering import convolution, tell_shared
from wend._engine.compiler.kernels.conv.pooled import Pooled
from wend._engine.compiler.kernels.matmul.epilogue import NAME, EpilogueCode
from wend._engine.compiler.kernels.matmul.lowering import product_kernel
from wend._engine.compiler.kernels.pooling import windows
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.compiler.lower.registry import kernel_maker
from wend._engine.compiler.schedule.buffer_reuse import Life, operand_for, shared_places
from wend._engine.compiler.schedule.epilogue_ops import Tail, head_of
from wend._engine.compiler.schedule.fuse import Fusion
from wend._engine.compiler.schedule.fusion_group import Region
from wend._engine.compiler.schedule.loop_order import Nest
from wend._engine.core.graph import PathGraph


def _import_rules() -> None:
    """Import the files with rules: a new file in `lower` or `kernels` needs no entry anywhere."""
    root = os.path.dirname(os.path.abspath(__file__))
    import_folder("wend._engine.compiler.lower", os.path.join(root, "lower"))
    kernels = os.path.join(root, "kernels")
    import_folder("wend._engine.compiler.kernels", kernels)
    for family in sorted(os.listdir(kernels)):
        if os.path.exists(os.path.join(kernels, family, "lowering.py")):
            importlib.import_module(f"wend._engine.compiler.kernels.{family}.lowering")


_import_rules()


class Pass(NamedTuple):
    """A pass of the compiler.

    name: the name of the pass
    purpose: the work of the pass, in a few words
    run: changes the recipe, in slices or at once
    show: returns the outcome as text
    """

    name: str
    purpose: str
    run: Callable[[Recipe], Iterator[None] | None]
    show: Callable[[Recipe], str]


Watch = Callable[[Pass, "Recipe"], None]


class Result:
    """A value that outlives the plan: an array of its own, or a view of another array."""

    __slots__ = ("base", "dtype", "offset", "owns", "shape", "strides", "value")

    def __init__(self, value: int, base: int, owns: bool, function: Function) -> None:
        source = function.resolve(value)
        layout = function.layout(source)
        self.value = value
        self.base = base
        self.owns = owns
        self.shape = function.shape(source)
        self.strides = layout.strides
        self.offset = layout.offset
        self.dtype = function.dtypes[source]


class Recipe:
    """The steps, memory and results of a plan, for all sizes.

    path: the nodes to compile
    needed: the values to compute
    watch: called with each pass and the recipe when the pass is done
    sliced: whether the caller does the work, by iterating over `rest`
    """

    function: Function
    regions: list[Region]

    def __init__(
        self,
        path: PathGraph,
        needed: frozenset[int],
        watch: Watch | None = None,
        sliced: bool = False,
    ) -> None:
        self.path = path
        self.needed = needed
        self.nests: dict[int, Nest] = {}  # by number of the region
        self.steps: list[Kernel | Op] = []
        self.nonempty: list[tuple[Poly, ...]] = []  # extents of which none may be 0
        self.complete = False  # whether all passes are done
        self.rest = self.work(watch)
        if not sliced:
            with CollectionPaused():
                for _ in self.rest:
                    pass

    def work(self, watch: Watch | None) -> Iterator[None]:
        """Do all passes, in slices of an op, a nest or a kernel."""
        for one in PASSES:
            yield from one.run(self) or ()
            if watch is not None:
                watch(one, self)
        self.complete = True

    # -- passes -----------------------------------------------------------------------------

    def lower(self) -> Iterator[None]:
        """Turn nodes into loops; merge equal nodes, and turn views into strides."""
        lowering = Lowering(self.path, self.needed)
        yield from lowering.work()
        self.function = lowering.function
        self.nonempty += self.function.nonempty

    def fuse(self) -> Iterator[None]:
        """Sort ops into regions."""
        fusion = Fusion(self.function)
        yield from fusion.work()
        self.regions = fusion.ordered

    def arrange(self) -> Iterator[None]:
        """Turn regions into nests."""
        for region in self.regions:
            if region.kind == "nest" and region.ops:
                self.nests[region.number] = Nest(self.function, region)
                yield

    def emit(self) -> Iterator[None]:
        """Turn nests, products and other routines into kernels."""
        self.pooled = Pooled(self.function, self.regions)
        for region in self.regions:
            step = self.step(region)
            if step is not None:
                self.steps.append(step)
            yield
        tell_shared({k: step for k, step in enumerate(self.steps) if isinstance(step, Kernel)})

    def place(self) -> None:
        """Find lifetimes, donations, and shared memory."""
        self.results = self.find_results()
        self.homes, self.lifetimes = shared_places(self.steps, self.find_lifetimes())
        self.last_read = self.find_last_reads()
        self.donations, self.barrier = self.find_donations()
        self.find_spent()
        self.find_streamed()

    # -- steps ------------------------------------------------------------------------------

    def step(self, region: Region) -> Kernel | Op | None:
        """Return a region as a kernel or a host step; None if there is nothing to compute."""
        if region.kind == "nest" and not region.ops:
            return None
        op = region.ops[0]
        if region.kind == "nest":
            kernel = self.nest(region)
        elif region.kind == CONVOLVE:
            kernel = convolution(self.function, head_of(region))
            self.pooled.add(kernel, region, self.add_tail(kernel, region))
        elif region.kind == CONTRACT:
            kernel = product_kernel(self.function, head_of(region), self.path)
            self.add_tail(kernel, region)
        elif op.kind == WINDOWS:
            kernel = windows(self.function, op, self.pooled.flags.get(op.outputs[0]))
        elif (maker := kernel_maker(op.kind)) is not None:
            kernel = maker(self.function, op)
        else:
            return op
        kernel.ops = list(region.ops)
        return kernel

    def nest(self, region: Region) -> Kernel:
        """Return the kernel of a region of elementwise ops and folds."""
        nest = self.nests[region.number]
        names = " ".join(op.name for op in region.ops)
        for out in nest.stores:
            if out in nest.row_folds or out in region.late:
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
        kernel = NestCode(nest).write(names)
        kernel.nest = nest
        return kernel

    def add_tail(self, kernel: Kernel, region: Region) -> Tail | None:
        """Give a product or convolution the epilogue that computes the region's other ops.

        Returns the ops of the epilogue; None if the region has no other ops.
        """
        if len(region.ops) == 1:
            return None
        f = self.function
        tail = Tail(f, region)
        code, words = EpilogueCode(tail, region.outputs).compose()
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
        given = {
            "out": out,
            "epilogue": Slot("function", code, NAME),
            "state": Slot("block", len(names)),
        }
        kernel.slots = [given.get(*pair) for pair in zip(names, kernel.slots, strict=True)]
        kernel.slots += words
        return tail

    # -- memory -----------------------------------------------------------------------------

    def find_results(self) -> list[Result]:
        """Return how each needed value is handed out."""
        f = self.function
        made = {o for step in self.steps if isinstance(step, Kernel) for o in step.writes}
        owned: set[int] = set()
        results = []
        for i in f.outputs:
            value = f.resolve(i)
            layout = f.layout(value)
            owns = layout.base in made and layout.base not in owned
            if owns:
                owned.add(layout.base)
                assert is_dense(f.shape(value), layout.strides), f"%{i} is not dense"
            results.append(Result(i, layout.base, owns, f))
        return results

    def find_lifetimes(self) -> dict[int, Life]:
        """Return (bytes, first step, last step) of the temporaries of kernels.

        Each temporary is taken to have memory of its own.
        """
        f = self.function
        owned = {r.base for r in self.results if r.owns}
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for k, step in enumerate(self.steps):
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

    def find_last_reads(self) -> dict[int, int]:
        """Return the last step that reads each value."""
        last: dict[int, int] = {}
        for k, step in enumerate(self.steps):
            if isinstance(step, Kernel):
                used = step.reads
            else:
                used = [self.function.base(r.value) for r in step.reads]
            last.update(dict.fromkeys(used, k))
        return last

    def find_spent(self) -> None:
        """Find the host steps that may write over their first operand.

        These are the last to read the operand, which no result shows. Memory of leaves is not
        written to, because a later step may fail: `Lowering.host` bounds the copies instead.
        """
        f = self.function
        kept = {r.base for r in self.results}
        for k, step in enumerate(self.steps):
            if isinstance(step, Kernel) or not step.node.prim.donates:
                continue
            base = f.base(step.reads[0].value)
            if base not in kept and base not in f.inputs and self.last_read[base] == k:
                step.spent = base

    def find_streamed(self) -> None:
        """Fill in the "streamed" slots.

        A result may be written past the caches if it is handed out, and not read again.
        """
        f = self.function
        owned = {r.base for r in self.results if r.owns}
        for k, step in enumerate(self.steps):
            if not isinstance(step, Kernel):
                continue
            for j, slot in enumerate(step.slots):
                if slot.kind == "streamed":
                    may = slot.a in owned and not self.reads_much(slot.a, k)
                    step.slots[j] = Slot("extent", f.bytes_of(slot.a)) if may else Slot("word", 0)

    def reads_much(self, i: int, k: int) -> bool:
        """Return whether a step after step k reads more than a fixed number of elements of i."""
        f = self.function
        for step in self.steps[k + 1 : self.last_read.get(i, -1) + 1]:
            for op in step.ops if isinstance(step, Kernel) else [step]:
                for read in op.reads:
                    if f.base(read.value) == i and known(product(f.shape(read.value))) is None:
                        return True
        return False

    def find_donations(self) -> tuple[dict[int, int], int]:
        """Return (result -> leaf over whose memory the result may be written, first such step).

        Only steps after all steps that can fail may do so, because a failed flush leaves no trace.
        Whether the leaf's memory has other references is checked when the plan runs.
        """
        safe = 0
        for k, step in enumerate(self.steps):
            if not isinstance(step, Kernel) or step.faults:
                safe = k + 1
        free = set(self.function.inputs) - {r.base for r in self.results} - self.needed
        donations: dict[int, int] = {}
        barrier = len(self.steps)
        owned = {r.base: r for r in self.results if r.owns}
        for k, step in enumerate(self.steps[safe:], safe):
            if not isinstance(step, Kernel) or step.nest is None:
                continue
            for out in step.writes:
                if out not in owned:
                    continue
                # The leaf's array becomes the result as it is, so both need the same shape.
                leaf = operand_for(step.nest, out, owned[out].shape, free)
                if leaf is not None and self.last_read[leaf] == k:
                    free.discard(leaf)
                    donations[owned[out].value] = leaf
                    barrier = min(barrier, k)
        return donations, barrier

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.steps))

    def show_memory(self) -> str:
        """Return lifetimes and donations as text, for people."""
        show = self.function.extents.show
        lines = [
            f"%{i}: {show(size)} bytes, steps {first} to {last}"
            for i, (size, first, last) in self.lifetimes.items()
        ]
        lines += [f"%{out} in the memory of %{i}" for out, i in self.homes.items()]
        lines += [f"%{r.value}: an array of its own" for r in self.results if r.owns]
        lines += [f"%{out} may take the memory of %{i}" for out, i in self.donations.items()]
        return "\n".join(lines)


PASSES = (
    Pass(
        "inline",
        "what was recorded, composites and backward passes expanded",
        lambda recipe: None,
        lambda recipe: "\n".join(map(repr, recipe.path.nodes[: recipe.path.n_nodes])),
    ),
    Pass(
        "lower",
        "loops; equal ops merged; views as strides",
        Recipe.lower,
        lambda r: f"{r.function!r}",
    ),
    Pass(
        "fuse", "ops that share a loop nest", Recipe.fuse, lambda r: "\n".join(map(repr, r.regions))
    ),
    Pass(
        "nest",
        "order of loops, phases of rows",
        Recipe.arrange,
        lambda recipe: "\n".join(map(repr, recipe.nests.values())),
    ),
    Pass("emit", "kernels and host steps", Recipe.emit, repr),
    Pass("memory", "lifetimes, donation", Recipe.place, Recipe.show_memory),
)
