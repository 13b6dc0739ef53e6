"""Frames: argument blocks of a plan bound to certain sizes, laid out in one piece of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wend.compiler.ir.kernel import Kernel
from wend.compiler.ir.loops import Op
from wend.compiler.kernels.matmul import matmul
from wend.core import _hot
from wend.runtime.compiled import packed_weights
from wend.runtime.compiled.argument_layout import CALL_WORDS, START, ArgumentLayout
from wend.runtime.native.launcher import launcher as _launch
from wend.runtime.numpy_executor.runners import runner_of

if TYPE_CHECKING:
    from wend.runtime.compiled.plan import BoundPlan, CompiledPlan, Sized

#: Work in bytes from which on other threads may run Python meanwhile.
RELEASE_BYTES = 1 << 17
RIGHT = matmul.PRODUCT.index("right")
_UNREAD = np.empty(0, np.uint8)
MADE, LEAF, FOUND, SHOWN = _launch.sources()


class Visit:
    """The sizes of one visit. Polynomials are worked out when asked for.

    skeleton: of the frames     words: of the bound plan, with places of temporaries in the arena
    asked: types, args, row of numbers, how many of these are polynomials
    """

    plan: CompiledPlan
    skeleton: ArgumentLayout
    words: np.ndarray
    asked: tuple[Any, Any, np.ndarray, int]
    _value: Any = None

    @property
    def value(self) -> Any:
        """A function from polynomials to numbers."""
        if self._value is None:
            types, args, row, n = self.asked
            extents = self.plan.recipe.function.extents
            self._value = extents.evaluator(types, args, row[:n].data)
        return self._value

    def place_of(self, name: Any) -> int:
        """Where in the arena something is: a value, or (step, piece) of private memory."""
        return int(self.words[self.skeleton.n_terms + self.skeleton.at[name]])


def frame_of(bound: BoundPlan, memory: Any = None, address: int = 0) -> Any:
    """A frame: argument blocks for one execution at a time.

    memory, address: where its words are to lie; else it has some of its own
    """
    skeleton = bound.skeleton
    if memory is None:
        memory = np.empty(skeleton.n_memory, np.int64)
        address = _launch.address_of(memory)
    places = bound.at + skeleton.at_places
    skeleton.tables.fill(address, bound.at, places)
    frame = _launch.frame_like(
        skeleton.model or ArgumentBlockMaker(bound).model(),
        memory,
        address,
        bound.types,
        bound.sizes,
        (bound.plan, skeleton, bound.words, bound.asked),
        bound.rest,
    )
    if skeleton.packing:
        frame.weights = weights_of(bound, bound.words, bound.at, places)
    if skeleton.varies:
        ArgumentBlockMaker(bound).finish(frame)
    return frame


class ArgumentBlockMaker:
    """Says what is done with memory and arrays."""

    def __init__(self, bound: BoundPlan) -> None:
        self.bound = bound
        self.recipe = bound.plan.recipe
        self.skeleton = bound.skeleton

    def model(self) -> Any:
        """What the frames of a skeleton have in common, as if they lay at 0."""
        skeleton, plan = self.skeleton, self.bound.plan
        frame = _launch.ArgumentBlock(None)
        frame.table = 8 * START
        frame.patches = 8 * skeleton.patches
        frame.n_patches = skeleton.n_patches
        frame.leaves = plan.leaves
        frame.places = plan.moving.places
        frame.numbers = skeleton.numbers
        frame.needs_types = skeleton.needs_types
        frame.moves = frame.weights = ()
        frame.steps = self.steps()
        skeleton.handed = self.hand_out(frame)
        skeleton.varies = bool(skeleton.moving or not skeleton.handed)
        skeleton.model = frame
        if not (skeleton.varies or skeleton.packing):
            skeleton.tables.model = frame
        return frame

    def finish(self, frame: Any) -> None:
        """Fill in what else sizes make a difference to."""
        if self.skeleton.moving:
            first = (frame.fault - _launch.address_of(frame.memory)) // 8
            memory = frame.memory[first:]
            frame.moves = tuple([self.move(memory, *row) for row in self.skeleton.moving])
        if not self.skeleton.handed:
            self.hand_out(frame)

    def move(self, memory: Any, word: int, slopes: list[tuple[int, int]]) -> tuple[int, ...]:
        """A word that depends on moving args: what is added to it for each."""
        number, row = int(memory[word]), []
        for arg, term in slopes:
            step = int(self.bound.words[term])
            number -= self.bound.moved[arg] * step
            row += [arg, step]
        return 8 * word, number, *row

    def steps(self) -> tuple[Any, ...]:
        """What is done in order, see `_launch.ArgumentBlock`."""
        done: list[tuple[Any, ...]] = []
        for step in self.skeleton.steps:
            if step is None:
                done.append((2, self.bound.plan.donated))
            elif isinstance(step, list):
                done.append((0, 8 * (self.skeleton.calls + CALL_WORDS * step[0]), step[1]))
            else:
                done.append((1, step))
        return tuple(done)

    def hand_out(self, frame: Any) -> bool:
        """What becomes of the results: arrays that show others', wanted and saved ones.

        Returns whether it is the same for all sizes.
        """
        bound, recipe = self.bound, self.recipe
        owners = {r.base: k for k, r in enumerate([r for r in recipe.results if r.owns])}
        inputs = set(recipe.function.inputs)
        places = {i: (MADE, k) for k, i in enumerate(bound.plan.made)}
        types: dict[int, Any] = {}
        shows: list[Any] = []
        layouts = iter(bound.layouts)
        for result in recipe.results:
            dtype, base, shape = result.dtype, result.base, next(layouts)
            if result.value < 0:
                device = bound.types[0].device
                types[result.value] = _hot.intern_type(shape, dtype, device)
            if result.owns:
                continue
            if base in owners:
                source, k, whole = MADE, owners[base], False
            else:
                source, k = (LEAF if base in inputs else FOUND), base
                whole = base == recipe.function.resolve(result.value)
            size = dtype.itemsize
            strides, offset = tuple([s * size for s in next(layouts)]), next(layouts)[0] * size
            places[result.value] = (SHOWN, len(shows))
            shows.append((source, k, whole, shape, dtype.numpy, offset, strides))
        frame.shows = tuple(shows)
        frame.gives = tuple([(i, *places[i]) for i in bound.plan.given])
        # In the order of the reference: a later step enters them so.
        saved = bound.plan.saved
        frame.saves = tuple([(i, *places.get(i, (LEAF, i)), types.get(i)) for i in saved])
        return not (shows or types)


def weights_of(sized: Sized, terms: np.ndarray, at: int, places: int) -> tuple[Any, ...]:
    """What says, per product, whether the right operand is packed, and where: for these terms.

    at, places: where the terms are, and the places of `sized.words`
    """
    skeleton = sized.skeleton
    if not skeleton.packing:
        return ()
    known = skeleton.weights
    if known is not None and skeleton.tables.decided(_launch.address_of(known[0]), at, places):
        return known[1]  # type: ignore[no-any-return]
    numbers = np.concatenate([terms[skeleton.packed_terms], sized.words[skeleton.packed_places]])
    found = tuple([weight_of(sized, terms, row) for row in skeleton.packing])
    skeleton.weights = numbers, found
    return found


def weight_of(sized: Sized, terms: np.ndarray, row: Any) -> tuple[Any, ...]:
    """What says it of one product."""
    skeleton = sized.skeleton
    k, private, ends, layout = row
    kernel = sized.plan.recipe.steps[k]
    assert isinstance(kernel, Kernel)
    lies = packed_weights.layout(kernel.source, *terms[layout].tolist())
    leaf = kernel.slots[RIGHT].a
    place, home = (8 * n for n in (skeleton.place_of_weight[k], skeleton.source[leaf]))
    words = tuple(
        [(8 * w, kept, 0 if term is None else int(terms[term])) for w, kept, term in ends]
    )
    arena = -1 if private is None else sized.place_of(private)
    return leaf, lies, place, home, lies.offset, arena, words, packed_weights.patience(lies)


class BlockOwner(Visit):
    """What a frame needs of Python: dense copies, and host steps.

    It does not know the bound plan, which has the frame: neither waits for a collection.
    """

    def __init__(
        self, plan: CompiledPlan, skeleton: ArgumentLayout, words: np.ndarray, asked: Any
    ) -> None:
        self.plan = plan
        self.skeleton = skeleton
        self.words = words
        self.asked = asked

    def environment(self, frame: Any, values: list[Any], made: list[Any]) -> dict[int, Any]:
        """The arrays of all results by value."""
        env = dict(zip(self.plan.made, made, strict=True))
        shown = _launch.show(frame, values, made)
        env.update(zip([r.value for r in self.plan.shown], shown, strict=True))
        return env

    def part(self, array: Any, shape: Any, dtype: Any, offset: int, strides: Any) -> Any:
        """An array that lies in another."""
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self.dense(array), offset, strides)

    def dense(self, array: Any) -> Any:
        """A C-contiguous, aligned array of the same elements: the array itself if it is one.

        For what nobody reads (None), any.  Of a subclass (a memmap), the array below.
        """
        return _UNREAD if array is None else np.require(array, None, ("C", "A", "E"))

    def pack(self, value: Any, layout: packed_weights.PanelLayout, address: int) -> int:
        """Where the panels of a value are that is used for the second time; 0 for nowhere."""
        library = self.plan.libraries[matmul.core_text(layout.dtype)]
        return packed_weights.pack(value, layout, library, address)

    def host(
        self, frame: Any, op: Op, values: list[Any], types: list[Any], args: list[Any],
        made: list[Any], kept: list[Any],
    ) -> None:  # fmt: skip
        """Run an op's reference rule on arrays."""
        if frame.found is None:
            frame.found = {}
        arrays = [self.array(frame, read.value, values, made) for read in op.reads]
        program = op.node.program
        numbers = [_hot.evaluate(e, types, args) for e in op.node.args]
        result = runner_of(program)(arrays, numbers)
        results = [result] if op.node.prim.result_wrap() is None else list(result)
        for out, item in zip(op.outputs, results, strict=True):
            array = np.asarray(item)
            if not array.flags.c_contiguous or not array.flags.aligned or array.base is not None:
                array = np.array(array, order="C")
            frame.found[out] = array
            _launch.write_word(
                frame.table + 8 * self.skeleton.source[out], _launch.address_of(array)
            )

    def array(self, frame: Any, i: int, values: list[Any], made: list[Any]) -> Any:
        """The elements of a value as an array."""
        function = self.plan.recipe.function
        layout = function.layout(i)
        base = layout.base
        value = self.value
        dtype = function.dtypes[i].numpy
        shape = tuple([value(n) for n in function.shape(i)])
        if 0 in shape:
            return np.empty(shape, dtype)  # there may be no arena at all
        if base in frame.found:
            array = frame.found[base]
        elif base in self.plan.out_of_base:
            array = made[self.plan.out_of_base[base]]
        elif base in self.skeleton.source:
            array = values[base].buffer
        else:
            return frame.arena.view(self.place_of(base), function, i, value)
        if base == i and array.shape == shape:  # a result may be the base with dims of 1 more
            return array
        strides = tuple([value(s) * dtype.itemsize for s in layout.strides])
        return self.part(array, shape, dtype, value(layout.offset) * dtype.itemsize, strides)


_launch.fill("owner", BlockOwner)
