"""Frames: argument blocks of a plan bound to certain sizes, laid out in one piece of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wend.compiler import matmul
from wend.compiler.ir import Op
from wend.compiler.kernels import Kernel, Slot
from wend.compiler.split import Block, Stage
from wend.core import _hot
from wend.runtime import _launch_select, packed
from wend.runtime.launcher import launcher as _launch
from wend.runtime.launcher import maker
from wend.runtime.runners import runner_of
from wend.runtime.words import prepared

if TYPE_CHECKING:
    from wend.runtime.cpu import Bound

#: Work in bytes from which on other threads may run Python meanwhile.
RELEASE_BYTES = 1 << 17
#: Words of a call: see `_pool.h`.
CALL_WORDS = _launch_select.CALL_WORDS
_UNREAD = np.empty(0, np.uint8)
_WORD = {name: j for j, name in enumerate(matmul.PRODUCT)}
_PACK = {name: j for j, name in enumerate(matmul.PACK)}
MADE, LEAF, FOUND, SHOWN = _launch.sources()


class FrameMaker:
    """Lays out the memory of a frame: failures, table, blocks, patches, code."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.recipe = bound.plan.recipe
        self.start = 8  # words before the table: the failures, and what keeps them apart
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
        self.place_of_weight: dict[int, int] = {}  # step -> place in the table
        for k, step in enumerate(self.recipe.steps):
            if isinstance(step, Kernel) and self.may_pack(step):
                self.place_of_weight[k] = self.n_table
                self.n_table += 1
        self.packing: dict[int, tuple[int, list[Any]]] = {}  # step -> (place or -1, words)
        self.words: dict[int, list[int]] = {}  # of the blocks of steps
        self.patches: list[int] = []
        self.numbers: list[Any] = []
        self.work = 0

    def make(self) -> Any:
        """The frame."""
        bound, steps = self.bound, self.recipe.steps
        calls = [
            (k, step, stage, slots)
            for k, step in enumerate(steps)
            if isinstance(step, Kernel)
            for stage in bound.schedules[k].stages
            for slots in stage.blocks
        ]
        n_words = n_patches = n_scratch = 0  # at most
        for _, kernel, _, slots in calls:
            more = len(slots.changed) if isinstance(slots, Block) else 0
            if more == 0 and slots is not kernel.slots:
                more = len(slots)
            found = prepared(kernel)
            n_words += len(slots)
            n_patches += found.addresses + more
            n_scratch += found.scratch + more
        start = self.start
        blocks = start + self.n_table
        patches = blocks + n_words
        pairs = patches + 3 * n_patches
        code = pairs + 2 * n_scratch
        memory = np.zeros(code + CALL_WORDS * len(calls) + 8, np.int64)
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
            for stage in bound.schedules[k].stages:
                function = bound.plan.address(step, stage.function)
                for j, slots in enumerate(stage.blocks):
                    count = self.fill(memory, address, place, pairs, k, stage, j)
                    memory[at_code : at_code + CALL_WORDS] = (
                        function,
                        address + 8 * place,
                        len(stage.blocks) if j == 0 else 0,
                        address + 8 * pairs,
                        count,
                    )
                    at_code += CALL_WORDS
                    place += len(slots)
                    pairs += 2 * count
                    done[-1][2] += 1
                self.work += RELEASE_BYTES if len(stage.blocks) > 1 else 0
            self.count_work(step)
        memory[patches : patches + len(self.patches)] = self.patches
        frame.patches = address + 8 * patches
        frame.n_patches = len(self.patches) // 3
        frame.leaves = bound.plan.leaves
        frame.outs = tuple(bound.outs)
        frame.numbers = tuple(self.numbers)
        frame.weights = self.weights(address)
        frame.steps = tuple(tuple(step) for step in done)
        frame.owner = Owner(bound, self.source)
        frame.release = self.work >= RELEASE_BYTES
        frame.scratch = bound.places["scratch"]
        frame.room = bound.room
        frame.types, frame.sizes = bound.types, bound.sizes
        frame.places = bound.plan.sized_args
        self.hand_out(frame)
        frame.arena_bytes = bound.arena_bytes
        frame.needs_types = bool(self.numbers) or any(k == 1 for k, *_ in done)
        return frame

    def hand_out(self, frame: Any) -> None:
        """What becomes of the results: arrays that show others', wanted and saved ones."""
        bound, value = self.bound, self.bound.value
        recipe = self.recipe
        owners = {r.base: k for k, r in enumerate([r for r in recipe.results if r.owns])}
        inputs = set(recipe.function.inputs)
        places = {i: (MADE, k) for k, i in enumerate(bound.made)}
        types: dict[int, Any] = {}
        shows: list[Any] = []
        for result in recipe.results:
            dtype, base = result.dtype, result.base
            shape = tuple([value(n) for n in result.shape])
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
            strides = tuple([value(s) * dtype.itemsize for s in result.strides])
            offset = value(result.offset) * dtype.itemsize
            places[result.value] = (SHOWN, len(shows))
            shows.append((source, k, whole, shape, dtype.numpy, offset, strides))
        frame.shows = tuple(shows)
        frame.gives = tuple([(i, *places[i]) for i in bound.given])
        # In the order of the reference: a later step enters them so.
        saved = bound.plan.saved
        frame.saves = tuple([(i, *places.get(i, (LEAF, i)), types.get(i)) for i in saved])

    def donations(self) -> tuple[Any, ...]:
        """(place among the arrays made, leaf, how to make it, place in the table) of results."""
        bound = self.bound
        found = []
        for k, value in enumerate(bound.made):
            leaf = self.recipe.donations.get(value)
            if leaf is not None:
                _, shape, dtype = bound.outs[k]
                place = 8 * (1 + len(bound.plan.leaves) + k)
                found.append((k, leaf, maker(shape, dtype), shape, dtype, place))
        return tuple(found)

    def fill(
        self, memory: Any, address: int, place: int, pairs: int, k: int, stage: Stage, part: int
    ) -> int:
        """The words of one block of step k; how many of them are addresses of scratch memory."""
        slots = stage.blocks[part]
        kernel = self.recipe.steps[k]
        assert isinstance(kernel, Kernel)
        right = -1  # the word of an operand that may be packed already
        if k in self.place_of_weight:
            if stage.function == "product":
                right = _WORD["right"]
            else:
                self.spare(address, place, k, slots)
        order: Any = range(len(slots))
        if isinstance(slots, Block) or slots is kernel.slots:
            memory[place : place + len(slots)] = self.words_of(k, kernel)
            order = prepared(kernel).rest
            if isinstance(slots, Block):
                changed = slots.changed
                order = [*(j for j in order if j not in changed), *changed]
        count, first = 0, address + 8 * place
        value, patches = self.bound.value, self.patches
        for j in order:
            slot = slots[j]
            if j == right:
                self.weigh(address, place, k, slot)
            elif slot.kind == "pointer":
                source, more = self.origin(slot.a)
                patches += (first + 8 * j, source, more + value(slot.b) if slot.b else more)
            elif slot.kind == "scratch":
                memory[pairs + 2 * count] = first + 8 * j
                memory[pairs + 2 * count + 1] = self.bound.scratch[k, j]
                count += 1
            else:
                self.write(memory, address, place, j, k, slot)
        return count

    def words_of(self, k: int, kernel: Kernel) -> list[int]:
        """The words of step k's block, as far as they are no addresses."""
        words = self.words.get(k)
        if words is None:
            found, value = prepared(kernel), self.bound.value
            words = self.words[k] = found.fixed.copy()
            for j, size in found.extents:
                words[j] = value(size)
        return words

    def write(self, memory: Any, address: int, place: int, j: int, k: int, slot: Slot) -> None:
        """One word of a block."""
        value = self.bound.value
        at, kind = place + j, slot.kind
        if kind == "extent":
            memory[at] = value(slot.a)
        elif kind in ("pointer", "sums"):
            source, more = self.origin(slot.a)
            offset = more if kind == "sums" else more + value(slot.b)
            self.patches += (address + 8 * at, source, offset)
        elif kind == "number":
            self.numbers.append((address + 8 * at, slot.a, slot.b))
        elif kind == "private":
            self.patches += [address + 8 * at, 0, self.bound.places[k, slot.a] + slot.b]
        elif kind == "fault":
            memory[at] = address
        elif kind == "function":
            memory[at] = self.bound.plan.libraries[slot.a].address(slot.b)
        elif kind == "block":
            memory[at] = address + 8 * (place + slot.a)
        elif kind == "last":
            memory[at] = value(slot.b)
        elif kind == "copies":
            memory[at] = 1
        else:
            memory[at] = 0 if kind == "first" else slot.a

    def count_work(self, kernel: Kernel) -> None:
        """Note how many bytes a kernel writes, until they are enough."""
        if self.work >= RELEASE_BYTES:
            return
        for i in kernel.writes:
            size = 1
            for n in self.recipe.function.shape(i):
                size *= self.bound.value(n)
            self.work += size * 4

    def may_pack(self, kernel: Kernel) -> bool:
        """Whether the right operand of a product may be packed once for many flushes."""
        if not kernel.packable:
            return False
        rows, outer, inner, depth, columns = (
            self.bound.value(kernel.slots[_WORD[name]].a)
            for name in ("rows", "batch0", "batch1", "depth", "columns")
        )
        return 0 < rows * outer * inner <= packed.MAX_ROWS and depth * columns > 0

    def weigh(self, address: int, at: int, k: int, slot: Slot) -> None:
        """Note a right operand that may be packed; its pointer is that of a place in the table."""
        if slot.kind == "pointer":
            word = address + 8 * (at + _WORD["packed"])
            self.packing.setdefault(k, (-1, []))[1].append((word, 1, 0))
        self.patches += [address + 8 * (at + _WORD["right"]), self.place_of_weight[k], 0]

    def spare(self, address: int, at: int, k: int, slots: list[Slot]) -> None:
        """Let a part of a plan that packs an operand do nothing where the panels are kept."""
        columns = _PACK["columns"]
        private = self.bound.places[k, slots[_PACK["packed"]].a]
        word = address + 8 * (at + columns)
        self.packing.setdefault(k, (private, []))[1].append((word, 0, slots[columns].a))

    def weights(self, address: int) -> tuple[Any, ...]:
        """What says, per product, whether the right operand is packed, and where."""
        found = []
        value = self.bound.value
        for k, (private, words) in self.packing.items():
            kernel = self.recipe.steps[k]
            assert isinstance(kernel, Kernel)
            slots, table = kernel.slots, address + 8 * self.start
            right = slots[_WORD["right"]]
            source, more = self.origin(right.a)
            offset = more + value(right.b)
            sizes = (
                value(slots[_WORD[name]].a)
                for name in ("depth", "columns", "right_step", "right_column")
            )
            layout = packed.Layout(kernel.source, offset, *sizes)
            place, home = table + 8 * self.place_of_weight[k], table + 8 * source
            uses = packed.patience(layout)
            found.append((right.a, layout, place, home, offset, private, tuple(words), uses))
        return tuple(found)

    def origin(self, i: int) -> tuple[int, int]:
        """(place in the table, bytes from there) of a value."""
        source = self.source.get(i)
        return (0, self.bound.places[i]) if source is None else (source, 0)


class Owner:
    """What a frame needs of Python: dense copies, and host steps."""

    def __init__(self, bound: Bound, source: dict[int, int]) -> None:
        self.bound = bound
        self.source = source

    def environment(self, frame: Any, values: list[Any], made: list[Any]) -> dict[int, Any]:
        """The arrays of all results by value."""
        env = dict(zip(self.bound.made, made, strict=True))
        shown = _launch.show(frame, values, made)
        env.update(zip([r.value for r in self.bound.shown], shown, strict=True))
        return env

    def part(self, array: Any, shape: Any, dtype: Any, offset: int, strides: Any) -> Any:
        """An array that lies in another."""
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self.dense(array), offset, strides)

    def dense(self, array: Any) -> Any:
        """A C-contiguous array of the same elements: the array itself if it is one.

        For what nobody reads (None), any.
        """
        if array is None:
            return _UNREAD
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def pack(self, value: Any, layout: packed.Layout, address: int) -> int:
        """Where the panels of a value are that is used for the second time; 0 for nowhere."""
        library = self.bound.plan.libraries[matmul.core_text(layout.dtype)]
        return packed.pack(value, layout, library, address)

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
            return frame.arena.view(bound.places[base], function, i, value)
        if base == i:
            return array
        strides = tuple([value(s) * dtype.itemsize for s in layout.strides])
        return self.part(array, shape, dtype, value(layout.offset) * dtype.itemsize, strides)
