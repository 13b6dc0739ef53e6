"""Plans of machine code for the CPU.

A `CompiledPlan` holds for all sizes.  For the sizes of a visit it is *bound*: extents, strides and
places in the arena are worked out, argument blocks filled.  A visit with sizes seen before finds
its bound plan by comparing types, fills in addresses and run-time numbers, and runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wend.base.dtypes import from_numpy
from wend.base.errors import CompileError
from wend.compiler import llvm, matmul
from wend.compiler.ir import Op
from wend.compiler.kernels import Kernel
from wend.compiler.plan import Recipe, Result
from wend.core import _hot
from wend.core._hot import Batch
from wend.runtime import _launch_select
from wend.runtime.arena import place_all, take_arena
from wend.runtime.reference import ReferencePlan, make_runner
from wend.transforms.history import note_history

_launch: Any = _launch_select.select()
_launch.set_note(note_history)

#: Bound plans that one plan keeps, and work in bytes from which on others may run meanwhile.
MAX_BOUND = 128
RELEASE_BYTES = 1 << 17
_EMPTY = np.empty


class Unbound(Exception):
    """These sizes are better left to the reference."""


class CompiledPlan:
    """Kernels and host steps in order; computes what its reference plan computes."""

    def __init__(self, reference: ReferencePlan, recipe: Recipe, libraries: dict[str, Any]) -> None:
        self.reference = reference
        self.recipe = recipe
        self.libraries = libraries
        function = recipe.function
        self.leaves = tuple(function.inputs)
        self.sized_args = tuple(sorted(sizes_used(recipe)))
        self.bound: dict[Any, Bound | None] = {}
        self.wanted = reference.wanted
        self.saved = reference.saved
        self.track = _launch.Track(
            reference.path,
            tuple(sorted(reference.roots)),
            tuple(reference.grad_leaves),
            tuple(sorted(reference.saved)),
        )
        self.track.type_of = type_of

    def address(self, kernel: Kernel) -> int:
        """Where a kernel's code is."""
        text = kernel.text or matmul.core_text(kernel.source)
        return int(self.libraries[text].address(kernel.name))

    def find(self, values: list[Any], args: list[Any]) -> Bound | None:
        """The plan bound to these sizes; None if they are left to the reference."""
        types = tuple([values[i].type for i in self.leaves])
        sizes = tuple([args[k] for k in self.sized_args])
        key = (types, sizes)
        if key in self.bound:
            return self.bound[key]
        if len(self.bound) >= MAX_BOUND:
            self.bound.pop(next(iter(self.bound)))
        try:
            found = Bound(self, [v.type for v in values], args, types, sizes)
        except (Unbound, OverflowError, ZeroDivisionError):
            found = None
        self.bound[key] = found
        return found

    def run(self, batch: Batch) -> bool:
        """Compute; False if the reference has to (a kernel noted a failure, say)."""
        outcome = _launch.run(self.track, batch)
        if outcome == 0:
            bound = self.find(batch.values, batch.args)
            if bound is None:
                return False
            frame = bound.frame
            if frame.busy:  # in another thread
                frame = bound.new_frame()
            self.track.frame = frame
            outcome = _launch.run_bound(self.track, frame, batch, batch.values, batch.args)
        return bool(outcome == 1)

    def execute(self, values: list[Any], args: list[Any]) -> dict[int, Any] | None:
        """The arrays of all results, handed to nobody; None if the reference has to run."""
        bound = self.find(values, args)
        if bound is None:
            return None
        frame = bound.new_frame()
        address = frame.owner.take_arena(frame)
        try:
            made = _launch.launch(frame, values, [v.type for v in values], args, address, None)
            return None if made is None else frame.owner.environment(frame, values, made)
        except Exception:
            return None
        finally:
            frame.arena.free()


def type_of(i: int, values: list[Any], array: Any) -> Any:
    """The type of a saved value."""
    if i >= 0:
        return values[i].type
    return _hot.intern_type(tuple(array.shape), from_numpy(array.dtype), values[0].type.device)


def sizes_used(recipe: Recipe) -> set[int]:
    """The run-time args that extents and strides depend on."""
    atoms = recipe.function.extents.atoms
    return {key[1] for key in atoms if key[0] == "arg"}


class Bound:
    """A plan for certain sizes."""

    def __init__(
        self, plan: CompiledPlan, types: list[Any], args: list[Any], key: Any, sizes: Any
    ) -> None:
        recipe = plan.recipe
        self.plan = plan
        self.types = key
        self.sizes = sizes
        self.value = value = recipe.function.extents.evaluator(types, args)
        for extents in recipe.nonempty:
            if any(value(n) == 0 for n in extents):
                raise Unbound
        self.find_memory()
        self.find_results()
        self.frame = self.new_frame()

    # -- memory -----------------------------------------------------------------------------

    def find_memory(self) -> None:
        """Places of temporaries and scratch in the arena."""
        recipe, value = self.plan.recipe, self.value
        wanted: list[tuple[Any, int, int, int]] = []
        for name, (size, first, last) in recipe.lifetimes.items():
            wanted.append((name, value(size), first, last))
        for k, step in enumerate(recipe.steps):
            if isinstance(step, Kernel):
                for j, slot in enumerate(step.slots):
                    if slot.kind == "scratch":
                        wanted.append(((k, j), value(slot.a), k, k))
        self.places, self.arena_bytes = place_all(wanted)

    def find_results(self) -> None:
        """Which arrays are made, and which results show them."""
        recipe, value = self.plan.recipe, self.value
        self.outs: list[Any] = []
        self.made: list[int] = []
        self.out_of_base: dict[int, int] = {}
        self.shown: list[Result] = []
        wanted = self.plan.wanted
        for result in recipe.results:
            if result.owns:
                shape = tuple([value(n) for n in result.shape])
                self.out_of_base[result.base] = len(self.outs)
                make = None if result.value in recipe.donations else _EMPTY
                self.outs.append((make, shape, result.dtype.numpy))
                self.made.append(result.value)
            else:
                self.shown.append(result)
        self.given = [r.value for r in recipe.results if r.value in wanted]

    def show(self, env: dict[int, Any], values: list[Any], frame: Any) -> None:
        """Arrays of results that lie in those of others."""
        function = self.plan.recipe.function
        owners = {r.base: r.value for r in self.plan.recipe.results if r.owns}
        inputs = set(function.inputs)
        for result in self.shown:
            base = result.base
            volatile = False
            if base in owners:
                array = env[owners[base]]
            elif base in inputs:
                array = values[base].buffer
                volatile = values[base].extra is not None
            else:
                array = frame.found[base]
            env[result.value] = self.shaped(result, array, volatile)

    def shaped(self, result: Result, array: Any, volatile: bool) -> Any:
        """A view of an array that lies as a result says."""
        value = self.value
        shape = tuple([value(n) for n in result.shape])
        if array.shape == shape and result.value == result.base:
            return array.copy() if volatile else array
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        size = array.dtype.itemsize
        strides = tuple([value(s) * size for s in result.strides])
        offset = value(result.offset) * size
        if 0 in shape:
            return np.empty(shape, array.dtype)
        view = np.ndarray(shape, array.dtype, array, offset, strides)
        return view.copy() if volatile else view

    # -- argument blocks ----------------------------------------------------------------------

    def new_frame(self) -> Any:
        """Argument blocks for one execution at a time."""
        return FrameMaker(self).make()


class FrameMaker:
    """Lays out the memory of a frame: failures, table, blocks, patches, code."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.recipe = bound.plan.recipe
        leaves = bound.plan.leaves
        self.source: dict[int, int] = {i: 1 + k for k, i in enumerate(leaves)}
        for base, k in bound.out_of_base.items():
            self.source[base] = 1 + len(leaves) + k
        self.n_table = 1 + len(leaves) + len(bound.outs)
        for step in self.recipe.steps:
            if not isinstance(step, Kernel):
                for out in step.outputs:
                    self.source[out] = self.n_table
                    self.n_table += 1
        self.patches: list[int] = []
        self.numbers: list[Any] = []
        self.work = 0

    def make(self) -> Any:
        """The frame."""
        bound, steps = self.bound, self.recipe.steps
        kernels = [step for step in steps if isinstance(step, Kernel)]
        n_blocks = sum(len(k.slots) for k in kernels)
        n_patches = sum(s.kind in ("pointer", "scratch") for k in kernels for s in k.slots)
        start = 8  # words before the table: the failures, and what keeps them apart
        blocks = start + self.n_table
        patches = blocks + n_blocks
        code = patches + 3 * n_patches
        memory = np.zeros(code + 2 * len(kernels) + 8, np.int64)
        address = memory.ctypes.data
        frame = _launch.Frame(memory)
        frame.fault = address
        frame.table = address + 8 * start
        place, at_code = blocks, code
        done: list[Any] = []
        for k, step in enumerate(steps):
            if k == self.recipe.barrier:
                done.append((2, self.donations()))
            if not isinstance(step, Kernel):
                done.append((1, step))
                continue
            if not done or done[-1][0] != 0:
                done.append([0, address + 8 * at_code, 0])
            self.fill(memory, address, place, k, step)
            memory[at_code] = bound.plan.address(step)
            memory[at_code + 1] = address + 8 * place
            at_code += 2
            place += len(step.slots)
            done[-1][2] += 1
        memory[patches : patches + len(self.patches)] = self.patches
        frame.patches = address + 8 * patches
        frame.n_patches = len(self.patches) // 3
        frame.leaves = bound.plan.leaves
        frame.outs = tuple(bound.outs)
        frame.numbers = tuple(self.numbers)
        frame.steps = tuple(tuple(step) for step in done)
        frame.owner = Owner(bound, self.source)
        frame.release = self.work > RELEASE_BYTES
        frame.types, frame.sizes = bound.types, bound.sizes
        frame.places = bound.plan.sized_args
        frame.results = tuple(bound.made)
        frame.arena_bytes = bound.arena_bytes
        frame.plain = not bound.shown and set(bound.made) == set(bound.given)
        frame.plain = frame.plain and not bound.plan.saved
        frame.needs_types = bool(self.numbers) or any(k == 1 for k, *_ in done)
        return frame

    def donations(self) -> tuple[Any, ...]:
        """(place among the arrays made, leaf, how to make it, place in the table) of results."""
        bound = self.bound
        found = []
        for k, value in enumerate(bound.made):
            leaf = self.recipe.donations.get(value)
            if leaf is not None:
                _, shape, dtype = bound.outs[k]
                place = 8 * (1 + len(bound.plan.leaves) + k)
                found.append((k, leaf, _EMPTY, shape, dtype, place))
        return tuple(found)

    def fill(self, memory: Any, address: int, place: int, k: int, kernel: Kernel) -> None:
        """The words of one block."""
        value = self.bound.value
        for j, slot in enumerate(kernel.slots):
            at = place + j
            if slot.kind == "extent":
                memory[at] = value(slot.a)
            elif slot.kind == "pointer":
                source, more = self.origin(slot.a)
                self.patches += [address + 8 * at, source, more + value(slot.b)]
            elif slot.kind == "number":
                self.numbers.append((address + 8 * at, slot.a, slot.b))
            elif slot.kind == "scratch":
                self.patches += [address + 8 * at, 0, self.bound.places[k, j]]
            elif slot.kind == "fault":
                memory[at] = address
            else:
                memory[at] = slot.a
        for i in kernel.writes:
            size = 1
            for n in self.recipe.function.shape(i):
                size *= value(n)
            self.work += size * 4

    def origin(self, i: int) -> tuple[int, int]:
        """(place in the table, bytes from there) of a value."""
        source = self.source.get(i)
        return (0, self.bound.places[i]) if source is None else (source, 0)


class Owner:
    """What a frame needs of Python: dense copies, and host steps."""

    def __init__(self, bound: Bound, source: dict[int, int]) -> None:
        self.bound = bound
        self.source = source

    def take_arena(self, frame: Any) -> int:
        """Memory for temporaries while the frame runs; its address."""
        frame.arena = take_arena(frame.arena_bytes)
        return int(frame.arena.address)

    def environment(self, frame: Any, values: list[Any], made: list[Any]) -> dict[int, Any]:
        """The arrays of all results by value."""
        env = dict(zip(self.bound.made, made, strict=True))
        self.bound.show(env, values, frame)
        return env

    def settle(self, frame: Any, values: list[Any], made: list[Any]) -> dict[int, Any]:
        """Hand the wanted results to their values; all of them by value."""
        env = self.environment(frame, values, made)
        for i in self.bound.given:
            value = values[i]
            if value.buffer is None:
                value.buffer = env[i]
        return env

    def dense(self, array: Any) -> Any:
        """A C-contiguous array of the same elements."""
        return np.ascontiguousarray(array)

    def host(
        self, frame: Any, op: Op, values: list[Any], types: list[Any], args: list[Any],
        made: list[Any], kept: list[Any],
    ) -> None:  # fmt: skip
        """Run an op's reference rule on arrays."""
        if frame.found is None:
            frame.found = {}
        arrays = [self.array(frame, read.value, values, made) for read in op.reads]
        program = op.node.program
        if program.runner is None:
            program.runner = make_runner(program)
        numbers = [_hot.evaluate(e, types, args) for e in op.node.args]
        result = program.runner(arrays, numbers)
        results = [result] if op.node.prim.result_wrap() is None else list(result)
        for out, item in zip(op.outputs, results, strict=True):
            array = np.asarray(item)
            if not array.flags.c_contiguous or not array.flags.aligned or array.base is not None:
                array = np.array(array, order="C")
            frame.found[out] = array
            _launch.write_word(frame.table + 8 * self.source[out], _launch.address_of(array))

    def array(self, frame: Any, i: int, values: list[Any], made: list[Any]) -> Any:
        """The elements of a value as an array."""
        bound = self.bound
        function = bound.plan.recipe.function
        layout = function.layout(i)
        base = layout.base
        value = bound.value
        dtype = function.dtypes[i].numpy
        shape = tuple([value(n) for n in function.shape(i)])
        if base in frame.found:
            array = frame.found[base]
        elif base in bound.out_of_base:
            array = made[bound.out_of_base[base]]
        elif base in self.source:
            array = values[base].buffer
        else:
            array = frame.arena.view(bound.places[base], function, base, value)
        if base == i:
            return array
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if 0 in shape:
            return np.empty(shape, dtype)
        strides = tuple([value(s) * dtype.itemsize for s in layout.strides])
        return np.ndarray(shape, dtype, array, value(layout.offset) * dtype.itemsize, strides)


class Compilation:
    """A plan whose kernels are being compiled in the background."""

    def __init__(self, reference: ReferencePlan) -> None:
        self.reference = reference
        self.recipe = recipe_of(reference, None)
        self.libraries: dict[str, Any] = {}
        self.failed = False
        texts = kernel_texts(self.recipe)
        self.left = set(texts)
        for text, names in texts.items():
            llvm.compile_later(text, names, self.receiver(text))

    def receiver(self, text: str) -> Any:
        """What takes one kernel's machine code."""

        def receive(library: Any) -> None:
            if isinstance(library, CompileError):
                self.failed = True
            else:
                self.libraries[text] = library
            self.left.discard(text)

        return receive

    @property
    def ready(self) -> bool:
        """Whether every kernel is there."""
        return not self.left

    def finish(self) -> CompiledPlan:
        """The plan.  Raises CompileError if a kernel could not be compiled."""
        if self.failed:
            raise CompileError("a kernel could not be compiled")
        return CompiledPlan(self.reference, self.recipe, self.libraries)


def recipe_of(reference: ReferencePlan, needed: frozenset[int] | None) -> Recipe:
    """The recipe for what a reference plan computes.  Raises CompileError."""
    recipe = Recipe(reference.path, needed or reference.wanted | reference.saved)
    if any(not isinstance(step, Kernel) and step.node.prim.donates for step in recipe.steps):
        # The reference writes in place where it may; host steps do not.
        raise CompileError("an op that writes into its operand has no kernel")
    return recipe


def kernel_texts(recipe: Recipe) -> dict[str, list[str]]:
    """The modules that a recipe needs, and the functions wanted of each."""
    texts: dict[str, list[str]] = {}
    for step in recipe.steps:
        if isinstance(step, Kernel):
            if step.text:
                texts[step.text] = [step.name]
            else:
                texts[matmul.core_text(step.source)] = ["product", "pack"]
    return texts


def compile_plan(reference: ReferencePlan, needed: frozenset[int] | None = None) -> CompiledPlan:
    """The plan for what a reference plan computes, compiled now.  Raises CompileError.

    needed: the values to compute, if they are not the wanted and saved ones
    """
    recipe = recipe_of(reference, needed)
    libraries = {
        text: llvm.compile_module(text, names) for text, names in kernel_texts(recipe).items()
    }
    return CompiledPlan(reference, recipe, libraries)


__all__ = ["Compilation", "CompiledPlan", "compile_plan"]
