"""Plans of machine code for the CPU.

A `CompiledPlan` holds for all sizes.  For the sizes of a visit the plan is *bound* (`BoundPlan`):
extents, strides and places in the arena are worked out, and argument blocks are filled.  A visit
with sizes seen before finds its bound plan by comparing types.  Such a visit only fills in
addresses and run-time numbers, and runs.

A *skeleton* is an `ArgumentLayout`: all that does not depend on sizes in the argument blocks.
A *frame* is a `_launch.ArgumentBlock`: the memory with the argument blocks of a bound plan.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from wend._engine.base import config
from wend._engine.base.collecting import CollectionPaused
from wend._engine.base.errors import CompileError
from wend._engine.base.weak_objects import WeakObjects
from wend._engine.compiler import pipeline
from wend._engine.compiler.ir.dynamic_offsets import DynamicOffsets
from wend._engine.compiler.ir.extent_program import NONE
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.symbolic_extents import Poly, known
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.parallel.partition import WHOLE, WORTH, Partition, Partitioner, cutter
from wend._engine.compiler.stages import CompiledPath, Sliced, finished
from wend._engine.compiler.verifier import check
from wend._engine.core._hot import FlushJob
from wend._engine.runtime.backend import NoMachineCode
from wend._engine.runtime.compiled import packed_weights, threads
from wend._engine.runtime.compiled.argument_block import (
    RELEASE_BYTES,
    Bound,
    Visit,
    frame_of,
    weights_of,
)
from wend._engine.runtime.compiled.argument_layout import ArgumentLayout
from wend._engine.runtime.compiled.check_places import check_places_of
from wend._engine.runtime.compiled.framed_plan import FramedPlan
from wend._engine.runtime.devices.queue import Accelerator, accelerator_at
from wend._engine.runtime.native import _bind_select
from wend._engine.runtime.native.launcher import LARGE
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.numpy_executor.plan import ReferencePlan

WORD = np.dtype(np.int64)
#: The number of bound plans that a plan keeps.
MAX_BOUND = 128
#: The number for plans without kernels: to show elements takes the reference less than to bind.
MOST_SHOWN = 8
#: The number of skeletons that native code tells apart.
MOST_KNOWN = 8
#: A frame for many sizes has this many times the memory that the first sizes need.
ROOMY = 2
#: Changing a part of a leaf with more elements than this is left to the reference, which writes
#: in place.
MOST_COPIED = 1 << 15

_bind: Any = _bind_select.select()
#: Plans that have been bound: plans are bound anew when threads begin, or cease, to share parts.
_BOUND: WeakObjects[CompiledPlan] = WeakObjects()


def unbind_all() -> None:
    """Forget all bound plans; a run that is under way goes on in its frame."""
    for plan in _BOUND.alive():
        plan.bound.clear()
        plan.native_plan.frames.clear()
        plan.native_plan.frame = None
    _BOUND.clear()


threads.on_change.append(unbind_all)


class Unbound(Exception):
    """Raised for sizes that are better left to the reference."""


class CompiledPlan(FramedPlan):
    """Kernels and host steps in order, which compute the same values as the reference plan."""

    def __init__(
        self,
        reference: ReferencePlan,
        code: CompiledPath,
        libraries: dict[str, Any],
        device: Accelerator | None = None,
    ) -> None:
        kernels = [(k, step) for k, step in enumerate(code.steps) if isinstance(step, Kernel)]
        candidates = [(n, k, step, cutter(step)) for n, (k, step) in enumerate(kernels)]
        cutters = [(n, k, step.packable, c) for n, k, step, c in candidates if c is not None]
        moving = DynamicOffsets(code, [p for *_, c in cutters for p in c.polys])
        super().__init__(reference, code, libraries, moving, device)
        self.reference = reference
        self.kernels = kernels
        self.bound: dict[Any, BoundPlan | None] = {}
        self.program = np.empty(0, np.int64), 0  # see `extent_program.Row.program`
        adding = [row for row in cutters if row[3].adds]
        packing = [row for row in cutters if row[2] and not row[3].adds]
        #: The kernels whose partition is asked for: with one thread, and with several.
        self.ways = (
            [self.way(adding, WORTH), self.way(packing, sys.maxsize)], [self.way(cutters, WORTH)]
        )  # fmt: skip
        self.nonempty = self.places(
            {p for together in code.nonempty for p in together if not known(p)}
        )
        #: The shape of each result; if the result lies in another array, also strides and offset.
        self.layouts = [
            part
            for r in code.results
            for part in ((r.shape,) if r.owns else (r.shape, r.strides, (r.offset,)))
        ]
        self.counts = tuple(map(len, self.layouts))
        #: The argument of `_bind.outs_of` that says which arrays are made.
        starts = accumulate([1 if r.owns else 3 for r in code.results], initial=0)
        arrays = [
            (at, r.dtype.numpy, r.dtype.itemsize, r.value not in code.donations)
            for at, r in zip(starts, code.results, strict=False)
            if r.owns
        ]
        makers = (np.empty, _launch.large) if device is None else (device.empty, device.empty)
        self.results = arrays, *makers, LARGE
        self.gathered = self.places([p for part in self.layouts for p in part])
        self.skeletons: dict[Any, ArgumentLayout] = {}
        self.homes: dict[ArgumentLayout, BoundPlan] = {}  # see `fitted`
        #: The last of the homes, whether there were several threads then, and its `BoundPlan.fit`.
        self.last: tuple[BoundPlan, bool, Any] | None = None
        #: Whether all steps are kernels, and all results arrays of their own.
        self.on_addresses = len(kernels) == len(code.steps) and not self.shown
        self.sizers: dict[bool, Any] = {}  # see `know`; by whether there are several threads
        self.native_plan = _launch.NativePlan(
            reference.path,
            tuple(sorted(reference.roots)),
            tuple(reference.grad_leaves),
        )

    def places(self, polys: Iterable[Poly]) -> np.ndarray:
        """Return the places of these polynomials in the row of `numbers`."""
        place = self.code.function.extents.row.place
        return np.array([place(p) for p in polys], np.int64)

    def way(self, rows: list[Any], worth: int) -> tuple[list[Partitioner], np.ndarray]:
        """Return the cutters, and the words about these that `_bind.cut_kernels` reads.

        rows: (number of the kernel, step, packable, cutter)
        worth: nanoseconds from which on a kernel is cut
        """
        words: list[int] = []
        for n, k, packs, c in rows:
            least = min(math.ceil(worth / c.cost), sys.maxsize) if c.cost else sys.maxsize
            words += (n, k, least, packs, c.leading, len(c.polys), *self.places(c.polys).tolist())
        return [row[3] for row in rows], np.array(words, np.int64)

    def up_to_date(self) -> tuple[np.ndarray, int]:
        """Return the program for all polynomials that were asked for, and their number."""
        row = self.code.function.extents.row
        if self.program[1] < len(row.polynomials):
            words, n = row.program()
            self.program = np.array(words, np.int64), n
        return self.program

    def know(self, skeleton: ArgumentLayout, several: bool) -> Any:
        """Return the native object that finds a skeleton's numbers for other sizes.

        several: whether several threads share the parts of a kernel
        """
        sizer = self.sizers.get(several)
        known = [] if sizer is None else sizer.known
        if any(row[0] is skeleton for row in known):
            return sizer
        forms = {n: skeleton.forms[k] for n, (k, _) in enumerate(self.kernels)}
        forms = {n: form for n, form in forms.items() if form is not WHOLE}
        many = 0 if skeleton.cut else -(-RELEASE_BYTES // 4)
        row = skeleton, forms, list(skeleton.place_of_weight), many
        extents = self.code.function.extents
        ways = list(self.ways[several])
        small = self.places(self.code.function.small)
        asked = self.places({p for cutters, _ in ways for c in cutters for p in c.polys})
        sizer = self.sizers[several] = _bind.NativeBinder(
            program=self.up_to_date(),
            n_atoms=len(extents.atoms),
            nonempty=self.nonempty,
            small=small,
            most=MOST_COPIED,
            asked=asked,
            ways=ways,
            most_rows=packed_weights.MAX_ROWS,
            known=[(*row, skeleton.tables), *known[: MOST_KNOWN - 1]],
            empty=np.empty,
            word=WORD,
            gathered=self.gathered,
            counts=self.counts,
            results=self.results,
            frame_like=_launch.frame_like,
        )
        return sizer

    def numbers(self, types: Any, args: list[Any]) -> np.ndarray:
        """Return the values of all polynomials that were asked for before.

        The row is described in `ir.extent_program`.  Raises OverflowError if a factor of
        a polynomial does not fit into 64 bits.
        """
        extents = self.code.function.extents
        program, n = self.up_to_date()
        numbers = np.empty(n + len(extents.atoms), np.int64)
        address = _launch.address_of(numbers)
        code = _launch.address_of(program)
        _bind.evaluate(code, len(program), types, args, address, address + 8 * n)
        return numbers[:n]

    def find(self, values: list[Any], args: list[Any]) -> BoundPlan | None:
        """Return the plan bound to these sizes; None if the sizes are left to the reference."""
        key = self.key(values, args)
        if key in self.bound:
            return self.bound[key]
        if not self.kernels and len(self.bound) >= MOST_SHOWN:
            return None
        if len(self.bound) >= MAX_BOUND:
            oldest = next(iter(self.bound), key)
            self.bound.pop(oldest, None)
            self.native_plan.frames.pop(oldest, None)
        bound = self.bound[key] = self.bind_to(values, args, *key)
        _BOUND.add(self)
        if bound is not None:
            self.native_plan.frames[key] = bound.frame
        return bound

    def fitted(self, types: list[Any], args: list[Any]) -> tuple[BoundPlan, Any]:
        """Return a bound plan, and the words of its frame for these sizes (see `_launch.fit`).

        The plan may be bound to other sizes.  A frame serves all sizes for which kernels are
        cut alike, whatever the number of rows.  Raises NoMachineCode if these sizes are left to
        the reference.
        """
        several, last = threads.threads() > 1, self.last
        try:
            if last is not None and last[1] == several:
                words = last[2].find(types, args)
                if words is not None:
                    return last[0], words
            sized = Sized(self, types, args)
            home = self.homes.get(sized.skeleton)
            words = None if home is None else sized.words_for(home)
            if home is None or words is None:
                key = tuple([types[i] for i in self.leaves])
                among = _launch.sizes_among(self.moving.places, args)
                home = BoundPlan(self, types, args, key, among, ROOMY)
                words = home.words_for(home)
                if words is not None:
                    if len(self.homes) >= MAX_BOUND:
                        self.homes.clear()
                    self.homes[home.skeleton] = home
            if words is not None:
                fit = home.fits.get(several)
                if fit is None:
                    fit = home.fits[several] = home.fit(words)
                self.last = home, several, fit
        except (Unbound, OverflowError, ZeroDivisionError):
            raise NoMachineCode from None
        return home, words

    def bind(self, values: list[Any], args: list[Any]) -> BoundPlan | None:
        """Bind the plan to these sizes, for a caller that keeps the bound plan itself."""
        return self.bind_to(values, args, *self.key(values, args))

    def key(self, values: list[Any], args: list[Any]) -> tuple[Any, Any]:
        """Return the key of a bound plan: the types of the leaves, and the sizes among the args."""
        types = tuple([values[i].type for i in self.leaves])
        return types, _launch.sizes_among(self.moving.places, args)

    def bind_to(
        self, values: list[Any], args: list[Any], types: Any, sizes: Any
    ) -> BoundPlan | None:
        """Bind the plan; None if these sizes are left to the reference.  types, sizes: see `key`"""
        try:
            return BoundPlan(self, [v.type for v in values], args, types, sizes)
        except (Unbound, OverflowError, ZeroDivisionError):
            # Sizes too large for argument blocks: the reference computes.
            return None

    def run(self, batch: FlushJob) -> bool:
        """Run the plan; return False if the reference has to run.

        The reference has to where a kernel has noted a failure, for example.
        """
        outcome = _launch.run(self.native_plan, batch)
        if outcome == 0:
            bound = self.find(batch.values, batch.args)
            if bound is None:
                return False
            frame = bound.frame
            while outcome == 0:
                if frame.busy:  # in another thread
                    frame = frame_of(bound)
                self.native_plan.frame = frame
                outcome = _launch.run_bound(
                    self.native_plan, frame, batch, batch.values, batch.args
                )
        return bool(outcome == 1)

    def execute(self, values: list[Any], args: list[Any]) -> dict[int, Any] | None:
        """Return the arrays of all results by value; None if the reference has to run.

        The values of the flush do not get these arrays.
        """
        bound = self.find(values, args)
        if bound is None:
            return None
        frame = frame_of(bound)
        address = _launch.take_arena(frame)
        try:
            outs = _launch.launch(frame, values, [v.type for v in values], args, address, None)
            return (
                None if outs is None else _launch.owner_of(frame).environment(frame, values, outs)
            )
        finally:
            frame.arena.free()


class Sized(Visit):
    """The numbers that follow from the sizes of a visit, and the partition of each kernel.

    terms: the numbers for argument blocks; with `whole`, room for a bound plan's words follows

    The constructor raises Unbound for sizes that are left to the reference.
    """

    plan: CompiledPlan
    whole = False

    def __init__(self, plan: CompiledPlan, types: list[Any], args: list[Any]) -> None:
        self.plan = plan
        several = threads.threads() > 1
        sizer = plan.sizers.get(several)
        if sizer is not None:
            entry = sizer.find(types, args, self.whole)
            if entry is not None:
                self.skeleton, self.row, self.terms, self.release = entry
                self.asked = types, args, self.row, sizer.n
                return
        self.row = plan.numbers(types, args)
        self.asked = types, args, self.row, len(self.row)
        self.check()
        self.find_form(several)

    def check(self) -> None:
        """Raise Unbound where these sizes are left to the reference."""
        plan, code, value = self.plan, self.plan.code, self.value
        row, places = _launch.address_of(self.row), _launch.address_of(plan.nonempty)
        least = _bind.least_of(row, places, len(plan.nonempty))
        if least == NONE:
            least = min([value(n) for together in code.nonempty for n in together])
        if least <= 0:
            raise Unbound
        if any(value(n) > MOST_COPIED for n in code.function.small):
            raise Unbound

    def find_form(self, several: bool) -> None:
        """Find the partition of each kernel, and all numbers that argument blocks need.

        several: whether several threads share the parts of a kernel
        """
        plan = self.plan
        forms: dict[int, Partition] = {}
        edges: list[int] = []
        packable: list[int] = []
        # With a single thread few kernels are cut, so most sizes lead to the same skeleton.
        for cutters, words in plan.ways[several]:
            _bind.cut_kernels(
                cutters,
                _launch.address_of(words),
                _launch.address_of(self.row),
                packed_weights.MAX_ROWS,
                self.value,
                forms,
                edges,
                packable,
            )
        key = (tuple(forms.items()), tuple(packable))
        skeleton = plan.skeletons.get(key)
        if skeleton is None:
            if len(plan.skeletons) >= MAX_BOUND:
                plan.skeletons.clear()
                plan.placings.clear()
            by_step = {k: forms.get(n, WHOLE) for n, (k, _) in enumerate(plan.kernels)}
            with CollectionPaused():
                skeleton = ArgumentLayout(plan, by_step, tuple(packable))
            plan.skeletons[key] = skeleton
        else:  # the skeleton is met again: native code should find it from now on
            plan.know(skeleton, several)
        self.skeleton = skeleton
        self.terms = skeleton.evaluate(self.row, edges, self.value)
        written = skeleton.tables.total(_launch.address_of(self.terms))
        self.release = skeleton.cut or 4 * written >= RELEASE_BYTES

    def words_for(self, home: BoundPlan) -> Any:
        """Return the words that a frame bound to other sizes has to hold for these sizes.

        The words are those of `_launch.fit`; words that move are included.  The result is None
        where the frame has too little memory for these sizes.
        """
        skeleton = self.skeleton
        terms = self.terms[: skeleton.n_terms]
        memory = skeleton.memory_terms
        if (terms[memory] > ROOMY * home.terms[memory]).any():
            return None
        self.words, at = home.words, _launch.address_of(terms)
        places = home.at + skeleton.at_places
        return (
            skeleton.tables.fill,
            at,
            places,
            bool(self.release),
            weights_of(self, terms, at, places),
            (terms, home.words),
        )


class BoundPlan(Sized, Bound):
    """A plan for certain sizes.

    words: terms, places and a frame's memory (see `_bind.Tables`)
    """

    whole = True

    def __init__(
        self, plan: CompiledPlan, types: list[Any], args: list[Any], key: Any, sizes: Any,
        room: int = 1,
    ) -> None:  # fmt: skip
        """room: the memory to reserve, as a multiple of what these sizes take"""
        sizer = plan.sizers.get(threads.threads() > 1) if room == 1 else None
        fields = None if sizer is None else sizer.bind(plan, types, args, key, sizes)
        self.types = key
        self.sizes = sizes
        self.fits: dict[bool, Any] = {}  # see `fit`; by whether there are several threads
        if fields is None:
            super().__init__(plan, types, args)
            self.words = self.terms
            self.at = _launch.address_of(self.words)
            outs = self.find_results()
            self.rest = outs, self.release, self.find_memory(room)
            self.frame: Any = None
        else:
            self.plan = plan
            (
                self.skeleton, self.words, self.at, self.asked, self.layouts, self.rest, self.frame,
            ) = fields  # fmt: skip
        if self.frame is None:
            if self.skeleton.moving:  # the values that moving args have now
                self.moved = {k: int(args[k]) for k in plan.moving.moves}
            self.frame = frame_of(self, self.words, self.at + self.skeleton.at_memory)
        if config.settings.verify:
            check_places_of(self.skeleton, self.words)

    def fit(self, words: Any) -> Any:
        """Return the native object that does the work of `words_for` for more sizes cut alike.

        words: the result of `words_for` for some sizes
        """
        skeleton, terms = self.skeleton, words[5][0]
        return _bind.Fit(
            self.plan.know(skeleton, threads.threads() > 1),
            skeleton,
            self.words,
            self.at + skeleton.at_places,
            [(k, ROOMY * int(self.terms[k])) for k in skeleton.memory_terms.tolist()],
            words[4],
            [(k, int(terms[k])) for k in skeleton.packed_terms],
            partial(weights_of, self),
        )

    def find_memory(self, room: int) -> tuple[int, int, int]:
        """Find places in the arena; return (place of scratch memory, its bytes, bytes in all)."""
        skeleton = self.skeleton
        if room > 1:
            sizes = self.words[skeleton.memory_terms]
            self.words[skeleton.memory_terms] = room * sizes
        memory = skeleton.place(self.words, self.at)
        if room > 1:
            self.words[skeleton.memory_terms] = sizes
        return memory

    def find_results(self) -> Any:
        """Find the layouts of all results; return the `outs` of `_launch.ArgumentBlock`."""
        plan = self.plan
        row, places = _launch.address_of(self.row), _launch.address_of(plan.gathered)
        layouts = _bind.gather(row, places, plan.counts)
        if layouts is None:
            value = self.value
            layouts = [tuple([value(p) for p in part]) for part in plan.layouts]
        self.layouts = layouts
        return _bind.outs_of(layouts, plan.results)


class Compilation:
    """A plan in the making: planned in slices, its kernels compiled in the background."""

    def __init__(self, reference: ReferencePlan, offer: Any = None) -> None:
        """offer: machine code that a file has brought along for this plan"""
        self.reference, self.offer = reference, offer
        self.work = planning_of(reference)
        self.code: CompiledPath | None = None
        self.libraries: dict[str, Any] = {}
        self.failure: CompileError | None = None
        self.planned = False  # whether the passes are done, and all kernels taken or asked for
        self.texts: list[tuple[str, list[str]]] | None = None  # of kernels not asked for yet
        self.left: set[str] = set()

    def plan(self, seconds: float) -> None:
        """Go on planning for about this long, and for a slice at least.

        Kernels whose machine code is at hand are taken here: in the background each call of LLVM
        waits for the interpreter lock.

        Raises CompileError.
        """
        if self.planned:
            return
        stop = time.perf_counter() + seconds
        if self.code is None and not self.make_code(stop):
            return
        if self.texts is None:
            assert self.code is not None
            texts = kernel_texts(self.code)
            self.left.update(texts)
            self.texts = list(texts.items())
        while self.texts:
            if jit.is_busy() and seconds < float("inf"):
                return  # a later slice may find more at hand
            text, names = self.texts[-1]
            module = jit.find_module(text, names, self.offer)
            if module is None:
                jit.compile_later(text, names, self.receiver(text), self.offer)
            else:
                self.receiver(text)(module)
            self.texts.pop()
            if self.texts and time.perf_counter() >= stop:
                return
        self.planned = True

    def make_code(self, stop: float) -> bool:
        """Go on with the passes until `stop`; return whether all are done."""
        with CollectionPaused():
            try:
                while True:
                    next(self.work)
                    if time.perf_counter() >= stop:
                        return False
            except StopIteration as end:  # the passes are done, or were cut short
                self.code = end.value
        if self.code is None:
            # An exception has ended the passes, and its handler has failed as well: at the end of
            # the stack, the handler of a RecursionError may raise a RecursionError.
            self.work = planning_of(self.reference)
        return self.code is not None

    def receiver(self, text: str) -> Any:
        """Return the function to which the machine code of a module is handed."""

        def receive(library: Any) -> None:
            if isinstance(library, CompileError):
                self.failure = library
            else:
                self.libraries[text] = library
            self.left.discard(text)

        return receive

    @property
    def ready(self) -> bool:
        """Whether planning is done and every kernel is compiled."""
        return self.planned and not self.left

    def finish(self) -> CompiledPlan:
        """Return the finished plan.  Raises CompileError if a kernel could not be compiled."""
        if self.failure is not None:
            raise self.failure
        assert self.code is not None
        with CollectionPaused():
            return CompiledPlan(self.reference, self.code, self.libraries)


def planning_of(
    reference: ReferencePlan, needed: frozenset[int] | None = None
) -> Sliced[CompiledPath]:
    """Return the work of all passes for the values of a reference plan.

    needed: the values to compute, if not the wanted and saved ones
    """
    watch = check if config.settings.verify else None
    return pipeline.compile_path(
        reference.path, needed or reference.wanted | reference.saved, watch
    )


def kernel_texts(code: CompiledPath) -> dict[str, list[str]]:
    """Return the texts of the modules of a compiled path, each with the functions called."""
    texts: dict[str, list[str]] = {}
    for step in code.steps:
        if isinstance(step, Kernel):
            if step.text:
                texts[step.text] = [step.name, *step.helpers]
            else:
                texts[matmul.core_text(step.source)] = ["product", "pack"]
            if step.epilogue:
                texts[step.epilogue] = ["epilogue"]
    return texts


def compile_plan(
    reference: ReferencePlan, needed: frozenset[int] | None = None, offer: Any = None
) -> CompiledPlan:
    """Return the plan for the values of a reference plan, compiled now.  Raises CompileError.

    needed: the values to compute, if not the wanted and saved ones
    offer: machine code that a file has brought along for this plan
    """
    device = None if reference.place is None else accelerator_at(reference.place)
    if device is not None:
        with jit.writing_for(device.target):
            code = finished(planning_of(reference, needed))
        loaded = {text: device.load(text, names) for text, names in kernel_texts(code).items()}
        return CompiledPlan(reference, code, loaded, device)
    code = finished(planning_of(reference, needed))
    libraries = {
        text: jit.compile_module(text, names, offer=offer)
        for text, names in kernel_texts(code).items()
    }
    return CompiledPlan(reference, code, libraries)
