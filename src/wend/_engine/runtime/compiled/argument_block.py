"""Frames: the argument blocks of a bound plan, laid out in a single piece of memory.

`argument_layout` says which word is which; the launcher reads frames (`_launch.ArgumentBlock`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import Op
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.sizes import PRODUCT
from wend._engine.core import _types
from wend._engine.runtime.compiled import packed_weights
from wend._engine.runtime.compiled.argument_layout import CALL_WORDS, START, ArgumentLayout
from wend._engine.runtime.compiled.framed_plan import FramedPlan
from wend._engine.runtime.compiled.handover import Handover
from wend._engine.runtime.donation import may_write
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.numpy_executor.runners import runner_of

#: Bytes to write from which on a run lets other threads execute Python meanwhile.
RELEASE_BYTES = 1 << 17
RIGHT = PRODUCT.index("right")
_UNREAD = np.empty(0, np.uint8)
MADE, LEAF, FOUND, SHOWN = _launch.sources()


class Visit:
    """The sizes of a visit. Polynomials are worked out when asked for.

    skeleton: the layout of the frames
    words: the words of the bound plan, with places of temporaries in the arena
    asked: (types, args, row of numbers, how many numbers of the row are polynomials)
    """

    plan: FramedPlan
    skeleton: ArgumentLayout
    words: np.ndarray
    asked: tuple[Any, Any, np.ndarray, int]
    _value: Any = None

    @property
    def value(self) -> Any:
        """A function from polynomials to numbers."""
        if self._value is None:
            types, args, row, n = self.asked
            extents = self.plan.code.function.extents
            self._value = extents.evaluator(types, args, row[:n].data)
        return self._value

    def place_of(self, name: Any) -> int:
        """Return the place in the arena of a value, or of (step, piece) of private memory."""
        return int(self.words[self.skeleton.n_terms + self.skeleton.at[name]])


class Bound(Visit):
    """A visit with all that its frames hold.

    at: address of the words
    types, sizes: the types of the leaves, and the sizes among the args
    layouts: the plan's `layouts` in numbers
    rest: see `_launch.frame_like`
    moved: the values of the args that move
    """

    at: int
    types: tuple[Any, ...]
    sizes: Any
    layouts: list[tuple[int, ...]]
    rest: tuple[Any, ...]
    moved: dict[int, int]


def frame_of(bound: Bound, memory: Any = None, address: int = 0) -> Any:
    """Return a new frame: argument blocks for a single execution at a time.

    memory: an array for the words of the frame; None to make one
    address: address of this array
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
    """Fills in the parts of a frame beside the words: steps, arrays, results."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.code = bound.plan.code
        self.skeleton = bound.skeleton

    def model(self) -> Any:
        """Return a frame with the parts that all frames of a skeleton share, at address 0."""
        skeleton, plan = self.skeleton, self.bound.plan
        frame = _launch.ArgumentBlock(None)
        frame.table = 8 * START
        frame.patches = 8 * skeleton.patches
        frame.n_patches = skeleton.n_patches
        frame.leaves = plan.leaves
        frame.places = plan.moving.places
        frame.numbers = skeleton.numbers
        frame.needs_types = skeleton.needs_types
        frame.device = plan.device
        frame.moves = frame.weights = ()
        frame.steps = self.steps()
        skeleton.handed = self.hand_out(frame)
        skeleton.varies = bool(skeleton.moving or not skeleton.handed)
        skeleton.model = frame
        if not (skeleton.varies or skeleton.packing):
            skeleton.tables.model = frame
        return frame

    def finish(self, frame: Any) -> None:
        """Fill in the parts of a frame that depend on sizes: moving words and results."""
        if self.skeleton.moving:
            first = (frame.fault - _launch.address_of(frame.memory)) // 8
            memory = frame.memory[first:]
            frame.moves = tuple([self.move(memory, *row) for row in self.skeleton.moving])
        if not self.skeleton.handed:
            self.hand_out(frame)

    def move(self, memory: Any, word: int, slopes: list[tuple[int, int]]) -> tuple[int, ...]:
        """Return an entry of `_launch.ArgumentBlock.moves`: how a word follows from moving args.

        word: number of the word
        slopes: (arg, term of the step by which the word grows with the arg)
        """
        number, row = int(memory[word]), []
        for arg, term in slopes:
            step = int(self.bound.words[term])
            number -= self.bound.moved[arg] * step
            row += [arg, step]
        return 8 * word, number, *row

    def steps(self) -> tuple[Any, ...]:
        """Return the steps in order, in the form of `_launch.ArgumentBlock.steps`."""
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
        """Tell a frame where results go: those in another array, wanted and saved ones.

        Returns whether the entries are the same for all sizes.
        """
        bound, code = self.bound, self.code
        owners = {r.base: k for k, r in enumerate([r for r in code.results if r.owns])}
        inputs = set(code.function.inputs)
        places = {i: (MADE, k) for k, i in enumerate(bound.plan.made)}
        types: dict[int, Any] = {}
        shows: list[Any] = []
        layouts = iter(bound.layouts)
        for result in code.results:
            dtype, base, shape = result.dtype, result.base, next(layouts)
            if result.value < 0:
                device = bound.types[0].device
                types[result.value] = _types.intern_type(shape, dtype, device)
            if result.owns:
                continue
            if base in owners:
                source, k, whole = MADE, owners[base], False
            else:
                source, k = (LEAF if base in inputs else FOUND), base
                whole = base == code.function.resolve(result.value)
            size = dtype.itemsize
            strides, offset = tuple([s * size for s in next(layouts)]), next(layouts)[0] * size
            places[result.value] = (SHOWN, len(shows))
            shows.append((source, k, whole, shape, dtype.numpy, offset, strides))
        frame.shows = tuple(shows)
        frame.gives = tuple([(i, *places[i]) for i in bound.plan.given])
        # Saved values are in the order of the reference, in which a later step enters the values.
        saved = bound.plan.saved
        frame.saves = tuple([(i, *places.get(i, (LEAF, i)), types.get(i)) for i in saved])
        return not (shows or types)


def weights_of(visit: Visit, terms: np.ndarray, at: int, places: int) -> tuple[Any, ...]:
    """Return a frame's entries for packed right operands, one per product, for these terms.

    at: address of the terms
    places: address of the places in `visit.words`
    """
    skeleton = visit.skeleton
    if not skeleton.packing:
        return ()
    known = skeleton.weights
    if known is not None and skeleton.tables.decided(_launch.address_of(known[0]), at, places):
        return known[1]  # type: ignore[no-any-return]
    numbers = np.concatenate([terms[skeleton.packed_terms], visit.words[skeleton.packed_places]])
    entries = tuple([weight_of(visit, terms, row) for row in skeleton.packing])
    skeleton.weights = numbers, entries
    return entries


def weight_of(visit: Visit, terms: np.ndarray, row: Any) -> tuple[Any, ...]:
    """Return the entry for a product; row: an entry of the skeleton's `packing`."""
    skeleton = visit.skeleton
    k, private, ends, layout = row
    kernel = visit.plan.code.steps[k]
    assert isinstance(kernel, Kernel)
    lies = packed_weights.layout(kernel.source, *terms[layout].tolist())
    leaf = kernel.slots[RIGHT].a
    place, home = (8 * n for n in (skeleton.place_of_weight[k], skeleton.source[leaf]))
    words = tuple(
        [(8 * w, kept, 0 if term is None else int(terms[term])) for w, kept, term in ends]
    )
    arena = -1 if private is None else visit.place_of(private)
    return leaf, lies, place, home, lies.offset, arena, words, packed_weights.patience(lies)


class Form(NamedTuple):
    """How a value lies in the memory of its base. offset, strides: in bytes"""

    base: int
    shape: tuple[int, ...]
    dtype: Any
    offset: int
    strides: tuple[int, ...]


class BlockOwner(Visit):
    """The Python half of a frame: dense copies, and host steps.

    An owner does not refer to the bound plan, which holds the frame.  Such a cycle would keep
    both alive until a garbage collection.
    """

    def __init__(
        self, plan: FramedPlan, skeleton: ArgumentLayout, words: np.ndarray, asked: Any
    ) -> None:
        self.plan = plan
        self.skeleton = skeleton
        self.words = words
        self.asked = asked
        self.forms: dict[int, Form] = {}  # of the values that host steps read

    def environment(self, frame: Any, values: list[Any], outs: list[Any]) -> dict[int, Any]:
        """Return the arrays of all results by value."""
        env = dict(zip(self.plan.made, outs, strict=True))
        shown = _launch.show(frame, values, outs)
        env.update(zip([r.value for r in self.plan.shown], shown, strict=True))
        return env

    def part(self, array: Any, shape: Any, dtype: Any, offset: int, strides: Any) -> Any:
        """Return an array that shows elements of another array."""
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self.dense(array), offset, strides)

    def dense(self, array: Any) -> Any:
        """Return a C-contiguous, aligned array of the same elements: the array itself if it is so.

        An array of a subclass (a memmap) gives the plain array below.  None, for an array that is
        not read, gives an empty array.
        """
        return _UNREAD if array is None else np.require(array, None, ("C", "A", "E"))

    def pack(self, value: Any, layout: packed_weights.PanelLayout, address: int) -> int:
        """Pack a value that is used again; return the address of its panels, or 0 for none."""
        library = self.plan.libraries[matmul.core_text(layout.dtype)]
        return packed_weights.pack(value, layout, library, address)

    def host(
        self, frame: Any, op: Op | Handover, values: list[Any], types: list[Any], args: list[Any],
        outs: list[Any], kept: list[Any],
    ) -> None:  # fmt: skip
        """Run an op's reference rule on arrays, and note the arrays that it makes in the frame."""
        if isinstance(op, Handover):
            op.run(outs)
            return
        if frame.found is None:
            frame.found = {}
        device = self.plan.device
        if device is not None:
            device.host_steps += 1
        arrays = [self.array(frame, read.value, values, outs) for read in op.reads]
        program = op.node.program
        numbers = [_types.evaluate(e, types, args) for e in op.node.args]
        spent = self.plan.code.spent.get(op.outputs[0])
        if spent is not None:
            frame.found.pop(spent, None)
        with np.errstate(all="ignore"):
            if spent is not None and may_write(None, op.node.prim, arrays, numbers):
                prim = op.node.prim
                result = prim.reference_inplace(*prim.arrange(arrays, numbers))
            else:
                result = runner_of(program)(arrays, numbers)
        results = [result] if op.node.prim.result_wrap() is None else list(result)
        for out, item in zip(op.outputs, results, strict=True):
            array = np.asarray(item)
            if not array.flags.c_contiguous or not array.flags.aligned or array.base is not None:
                array = np.array(array, order="C")
            if device is not None:
                array = device.copied(array)
            frame.found[out] = array
            _launch.write_word(
                frame.table + 8 * self.skeleton.source[out], _launch.address_of(array)
            )

    def array(self, frame: Any, i: int, values: list[Any], outs: list[Any]) -> Any:
        """Return the elements of a value as an array."""
        form = self.forms.get(i)
        if form is None:
            form = self.forms[i] = self.form_of(i)
        base, shape, dtype, offset, strides = form
        if 0 in shape:
            return np.empty(shape, dtype)  # there may be no arena at all
        if base in frame.found:
            array = frame.found[base]
        elif base in self.plan.out_of_base:
            array = outs[self.plan.out_of_base[base]]
        elif base in self.skeleton.source:
            array = values[base].buffer
        else:
            return frame.arena.view(self.place_of(base), shape, dtype, offset, strides)
        if base == i and array.shape == shape:  # a result may be the base with dims of 1 more
            return array
        return self.part(array, shape, dtype, offset, strides)

    def form_of(self, i: int) -> Form:
        """Return how a value lies in its base, for the sizes of this owner."""
        function, value = self.plan.code.function, self.value
        layout, dtype = function.layout(i), function.dtypes[i].numpy
        shape = tuple([value(n) for n in function.shape(i)])
        strides = tuple([value(s) * dtype.itemsize for s in layout.strides])
        return Form(layout.base, shape, dtype, value(layout.offset) * dtype.itemsize, strides)


_launch.fill("owner", BlockOwner)
