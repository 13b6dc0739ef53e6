"""The layout of a frame without sizes: which word holds which number.

A frame is a piece of memory with failures, a table of addresses, argument blocks, patches,
pairs and calls (see `_launch.ArgumentBlock`). There is one `ArgumentLayout`, or *skeleton*, for
each way to cut a plan's kernels. A skeleton knows all words of the frame but for the numbers that
depend on sizes. These numbers are *terms*: polynomials of the plan's extents, the edges of parts,
and sums and products of both. For the sizes of a visit all terms are evaluated together, and
gathered into a copy of the memory.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.symbolic_extents import Poly, known, product
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.kernels.matmul.sizes import PRODUCT
from wend._engine.compiler.parallel.partition import Partition
from wend._engine.compiler.parallel.tasks import NO_EDGE, StagedTasks, keep_turned, schedule
from wend._engine.compiler.parallel.wavefronts import Round, accesses, rounds
from wend._engine.runtime.compiled.arena import Placing
from wend._engine.runtime.compiled.framed_plan import FramedPlan
from wend._engine.runtime.native import _bind_select, _launch_select
from wend._engine.runtime.native.launcher import launcher as _launch
from wend._engine.runtime.native.temporaries import ALIGNMENT

_bind: Any = _bind_select.select()

#: Words of a call: see `_pool.h`.
CALL_WORDS = _launch_select.CALL_WORDS
_WORD = {name: j for j, name in enumerate(PRODUCT)}
_PACK = {name: j for j, name in enumerate(matmul.PACK)}
_LAYOUT = ("depth", "columns", "right_step", "right_column")
#: First numbers of edges, spans and moves, until the count of each is known; polynomials begin
#: at 0.
_EDGES, _SPANS, _MOVES = 1 << 20, 2 << 20, 3 << 20
#: Words in front of the table: a word for failures, and padding behind it.
START = 8


class ArgumentLayout:
    """The common layout of all frames of a plan whose kernels are cut alike.

    forms: the partition of each kernel, by step
    packable: steps whose right operand may be packed for good
    """

    def __init__(
        self, plan: FramedPlan, forms: dict[int, Partition], packable: tuple[int, ...]
    ) -> None:
        self.plan, self.code = plan, plan.code
        steps = self.code.steps
        self.kernels = {k: step for k in forms if isinstance(step := steps[k], Kernel)}
        self.schedules: dict[int, StagedTasks] = {
            k: schedule(kernel, forms[k]) for k, kernel in self.kernels.items()
        }
        self.together = keep_turned(self.kernels, self.schedules)
        self.forms = forms
        self._polys: dict[Poly, int] = {}  # polynomial -> term
        self._spans: list[int] = []
        self._moves: list[tuple[int, int, int]] = []  # (edge, factor, term that is added)
        self._places: dict[Any, int] = {None: 0}  # name of a block in the arena -> number
        self._number_edges()
        self._number_table(packable)
        self._number_rounds()
        self._memory()
        self._lay_out()
        self._settle()

    # -- terms ------------------------------------------------------------------------------

    def _number_edges(self) -> None:
        self._first_edge: dict[int, int] = {}
        count = 0
        for k, form in self.forms.items():
            self._first_edge[k] = count
            if form.how != "whole":
                count += form.parts + 1 + (form.before + 1 if form.before else 0)
        self.n_edges = count

    def _poly(self, p: Poly) -> int:
        return self._polys.setdefault(p, len(self._polys))

    def _edge(self, k: int, edge: int) -> int:
        return _EDGES + self._first_edge[k] + edge

    def _span(self, k: int, edge: int) -> int:
        self._spans.append(self._first_edge[k] + edge)
        return _SPANS + len(self._spans) - 1

    def _moved(self, k: int, edge: int, step: Poly, more: Poly) -> int:
        """Return the term of more + edge * step."""
        if edge == NO_EDGE:
            return self._poly(step)
        move = self._first_edge[k] + edge, self._poly(step), self._poly(more)
        self._moves.append(move)
        return _MOVES + len(self._moves) - 1

    def _place(self, name: Any) -> int:
        return self._places.setdefault(name, len(self._places))

    def _settle(self) -> None:
        """Number all terms in a single row, now that the count of each kind is known."""
        firsts = np.cumsum([0, len(self._polys), self.n_edges, len(self._spans)])

        def settled(terms: Any) -> Any:
            array = np.array(terms, np.int64).reshape(-1)
            return array % _EDGES + firsts[array // _EDGES]

        self.polys = list(self._polys)
        self.n_terms = int(firsts[-1]) + len(self._moves)
        self.n_memory = len(self._words)
        place = self.code.function.extents.row.place
        number = [-1, *[self.at[name] for name in list(self._places)[1:]]]
        rows: dict[str, Any] = {
            "polys": [place(p) for p in self.polys],  # in the row of all that is evaluated
            "spans": self._spans,
            "moves": self._moves,
            "wanted": self.wanted,
            "scratch": self.scratch,
            "memory": self._words,
            "relative": self._relative,
            "terms": list(zip([w for w, _ in self._terms], settled([t for _, t in self._terms]))),
            "placed": [(w, number[p]) for w, p in self._placed],
            "writes": self.written,
            **self._settle_packing(settled),
        }
        tables = {name: np.array(row, np.int64).reshape(-1) for name, row in rows.items()}
        self.at_places = 8 * self.n_terms  # bytes from the beginning of a bound plan's words
        self.at_memory = self.at_places + 8 * (self.n_names + 2 * len(self.wanted) + 2)
        self.size = self.at_memory // 8 + self.n_memory
        self.tables = _bind.Tables(tables, self.n_terms, self.n_names, self.size)
        self.memory_terms = np.unique([*self.wanted, *[t for t, _ in self.scratch]]).astype(np.intp)
        self.numbers = tuple(self._numbers)
        hosts = [s for s in self.steps if s is not None and not isinstance(s, list)]
        self.needs_types = bool(self.numbers or hosts)
        self.model: Any = (
            None  # the parts that frames share: see `argument_block.ArgumentBlockMaker`
        )
        # varies: whether a frame needs more than the model; handed: whether results need nothing
        self.varies = self.handed = False
        #: The values that frames hand over before their last step: see `handover`.
        self.handed_early: frozenset[int] = frozenset()
        self.weights: Any = None  # (numbers, a frame's `weights` for these numbers), the last ones

    def _settle_packing(self, settled: Any) -> dict[str, list[int]]:
        """List the operands that may be packed for good.

        Returns the terms and places that decide how each is packed.
        """
        self.packing = []
        for k, (private, words) in self._packing.items():
            ends = [(w, kept, t if t is None else int(settled([t])[0])) for w, kept, t in words]
            self.packing.append((k, private, ends, self._layouts[k]))
        used = [t for _, _, ends, layout in self.packing for t in (*layout, *[e[2] for e in ends])]
        self.packed_terms = [t for t in used if t is not None]
        private = [self.at[row[1]] for row in self.packing if row[1] is not None]
        self.packed_places = [self.n_terms + at for at in private]
        return {"decides": self.packed_terms, "private": private}

    def evaluate(self, row: np.ndarray, edges: list[int], value: Any) -> np.ndarray:
        """Return all terms, and behind the terms room for a bound plan (see `_bind.Tables`).

        row: numbers of the polynomials that earlier visits asked for
        edges: the edges of parts
        value: a function from polynomials to numbers, for polynomials that the row lacks
        """
        terms = np.empty(self.size, np.int64)
        address = _launch.address_of(terms)
        if not self.tables.evaluate(_launch.address_of(row), len(row), edges, address):
            terms[: len(self.polys)] = [value(p) for p in self.polys]
            self.tables.derive(edges, address)
        return terms

    # -- rounds -----------------------------------------------------------------------------

    def _number_rounds(self) -> None:
        """Sort calls into rounds, in each stretch of kernels between steps of the interpreter."""
        code, schedules = self.code, self.schedules
        stages = [stage for tasks in schedules.values() for stage in tasks.stages]
        self.cut = any(len(stage.blocks) > 1 for stage in stages)
        over = {r.base: code.donations.get(r.value) for r in code.results if r.owns}
        taken = {base: leaf for base, leaf in over.items() if leaf is not None}
        launched = None if self.plan.device is None else self.kernels
        apart = self.cut or launched is not None
        uses = accesses(code.steps, code.homes, taken, self.together) if apart else None
        # The rounds of all kernels up to the next host step or donation, by the first kernel.
        self.rounds: dict[int, list[Round]] = {}
        self.n_rounds = 0
        spans: list[tuple[int, int]] = []  # (first round, last round) of each step
        while len(spans) < len(code.steps):
            first = end = len(spans)
            while end in schedules and (end == first or end != code.barrier):
                end += 1
            if end == first:
                spans.append((self.n_rounds, self.n_rounds))
                self.n_rounds += 1
                continue
            stretch, own = rounds(first, end, schedules, uses, launched)
            self.rounds[first] = stretch
            spans += [(self.n_rounds + begins, self.n_rounds + ends) for begins, ends in own]
            self.n_rounds += len(stretch)
        # By step: the first round of this and all later steps, the last of this and all earlier.
        self._begins = list(accumulate([begins for begins, _ in reversed(spans)], min))[::-1]
        self._ends = list(accumulate([ends for _, ends in spans], max))

    def _span_of(self, first: int, last: int) -> tuple[int, int]:
        """Return (first round, last round) of memory that lives from step `first` to `last`."""
        return self._begins[first], self._ends[last]

    # -- memory -----------------------------------------------------------------------------

    def _memory(self) -> None:
        """List the blocks in the arena: values and pieces by lifetime, then scratch memory."""
        code = self.code
        lives = [self._span_of(first, last) for _, first, last in code.lifetimes.values()]
        self.wanted = [self._poly(size) for size, _, _ in code.lifetimes.values()]
        names: list[Any] = list(code.lifetimes)
        last = {steps[0]: steps[-1] for steps in self.together}
        for k, tasks in self.schedules.items():
            for j, size in enumerate(tasks.private):
                names.append((k, j))
                lives.append(self._span_of(k, last.get(k, k)))
                self.wanted.append(self._poly(size))
        # All scratch memory has a single place, since it holds nothing from step to step.
        names.append("scratch")
        lives.append((0, self.n_rounds))
        kept = self.plan.placings
        self.placing = kept.get(tuple(lives)) or kept.setdefault(tuple(lives), Placing(lives))
        self.orders = self.placing.orders
        self.scratch: list[tuple[int, int]] = []  # (term of the bytes, 1 where a step begins)
        for k in self.schedules:
            begins = 1
            for j, slot in enumerate(self.kernels[k].slots):
                if slot.kind == "scratch":
                    names.append(("scratch", k, j))
                    self.scratch.append((self._poly(slot.a), begins))
                    begins = 0
        self.n_names = len(names)
        self.at = {name: n for n, name in enumerate(names)}  # places in the row of `place`
        self.at |= {i: self.at[home] for i, home in code.homes.items()}
        self.at |= {(k, 0): self.at[steps[0], 0] for steps in self.together for k in steps}

    def place(self, words: np.ndarray, address: int) -> tuple[int, int, int]:
        """Find places in the arena; return (place of scratch memory, its bytes, bytes in all).

        words: the words of a bound plan, with its terms; the places are written here
        address: address of the words
        """
        n = len(self.wanted) + 1
        scratch, room, total = self.tables.place(address, self.orders)
        if total < 0:
            sizes = self.n_terms + self.n_names
            row = address + 8 * self.n_terms
            total = self.placing.search(row, words[sizes : sizes + n].tolist())
            scratch = int(words[self.n_terms + n - 1])
            total = max(total, ALIGNMENT)
        return scratch, room, total

    def _number_table(self, packable: tuple[int, ...]) -> None:
        """Give each value outside of the arena an entry in the table of addresses."""
        plan, code = self.plan, self.code
        self.source: dict[int, int] = {i: 1 + k for k, i in enumerate(plan.leaves)}
        self.n_table = 1 + len(plan.leaves)
        for result in code.results:
            if result.owns:
                self.source[result.base] = self.n_table
                self.n_table += 1
        for step in code.steps:
            if not isinstance(step, Kernel):
                for out in step.outputs:
                    self.source[out] = self.n_table
                    self.n_table += 1
        self.place_of_weight = {k: self.n_table + n for n, k in enumerate(packable)}
        self.n_table += len(packable)

    # -- blocks -----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        """Write down the memory, word by word."""
        code = self.code
        self._words = [0] * (START + self.n_table)
        self._terms: list[tuple[int, int]] = []  # (word, term)
        self._placed: list[tuple[int, int]] = []  # (word, place), which is added
        self._relative: list[int] = []  # words that are addresses in this memory
        self._packing: dict[int, tuple[Any, list[Any]]] = {}
        self._layouts: dict[int, list[int]] = {}  # step -> terms of its right operand's layout
        # (word, source, term, place, offset as a polynomial)
        self._patches: list[tuple[int, int, int | None, int, Poly]] = []
        self.moving: list[tuple[int, list[tuple[int, int]]]] = []  # (word, (arg, term of a step))
        self._pairs: list[tuple[int, int]] = []  # (word, place)
        self._numbers: list[tuple[int, Any, int]] = []  # (byte, expression, category)
        self.steps: list[Any] = []  # None for donations, a host step, or [first call, calls]
        self.written: list[int] = []  # terms of the numbers of elements that kernels write
        calls: list[tuple[int, int, int, int, int]] = []
        for k, step in enumerate(code.steps):
            if k == code.barrier:
                self.steps.append(None)
            if not isinstance(step, Kernel):
                self.steps.append(step)
                continue
            for i in step.writes:
                self.written.append(self._poly(product(code.function.shape(i))))
            if k in self.rounds:
                self.steps.append([len(calls), 0])
                for one in self.rounds[k]:
                    self._lay_out_round(one, calls)
                self.steps[-1][1] = len(calls) - self.steps[-1][0]
        self._write_patches()
        self._write_calls(calls)

    def _lay_out_round(self, one: Round, calls: list[tuple[int, int, int, int, int]]) -> None:
        """Write down the blocks and calls of a round; the first call holds their number."""
        first, count = len(calls), 0
        for k, s in one:
            stage = self.schedules[k].stages[s]
            function = self.plan.address(self.kernels[k], stage.function)
            for slots in stage.blocks:
                place, pairs = len(self._words), len(self._pairs)
                self._block(k, stage.function, slots)
                calls.append((function, place, 0, pairs, len(self._pairs) - pairs))
                count += 1
        calls[first] = (*calls[first][:2], count, *calls[first][3:])

    def _write_patches(self) -> None:
        words = self._words
        self.patches, self.n_patches = len(words), len(self._patches)
        for word, source, term, place, offset in self._patches:
            self._relative.append(len(words))
            self._move(len(words) + 2, offset)
            if term is not None:
                self._terms.append((len(words) + 2, term))
            if place:
                self._placed.append((len(words) + 2, place))
            words += (8 * word, source, 0)

    def _write_calls(self, calls: list[tuple[int, int, int, int, int]]) -> None:
        words = self._words
        pairs_at = len(words)
        for word, place in self._pairs:
            self._relative.append(len(words))
            self._placed.append((len(words) + 1, place))
            words += (8 * word, 0)
        self.calls = len(words)
        for function, place, group, pairs, count in calls:
            self._relative += (len(words) + 1, len(words) + 3)
            words += (function, 8 * place, group, 8 * (pairs_at + 2 * pairs), count)

    def _block(self, k: int, function: str, slots: list[Slot]) -> None:
        """Write down an argument block.

        k: the step
        function: the function that is called with the block
        slots: the words of the block
        """
        start = len(self._words)
        self._words += [0] * len(slots)
        weight = self.place_of_weight.get(k)
        if weight is not None and k not in self._layouts:
            whole = self.kernels[k].slots
            sizes = [whole[_WORD[name]].a for name in _LAYOUT]
            self._layouts[k] = [self._poly(p) for p in (whole[_WORD["right"]].b, *sizes)]
        if weight is not None and function == "pack":
            # A part that packs an operand does nothing where the panels are kept.
            word = start + _PACK["columns"]
            term = self._span(k, slots[_PACK["columns"]].a)
            self._packing.setdefault(k, ((k, 0), []))[1].append((word, 0, term))
        for j, slot in enumerate(slots):
            if slot.kind == "extent":  # most words are
                self._extent(start + j, slot.a)
            elif weight is not None and function == "product" and j == _WORD["right"]:
                if slot.kind != "private":
                    word = start + _WORD["packed"]
                    self._packing.setdefault(k, (None, []))[1].append((word, 1, None))
                self._patches.append((start + j, weight, None, 0, ()))
            else:
                self._write(k, start, j, slot)

    def _write(self, k: int, start: int, j: int, slot: Slot) -> None:
        """Write down a word of a block: slot j of a block of step k that begins at `start`."""
        at, kind = start + j, slot.kind
        if kind == "last":
            self._extent(at, slot.b)
        elif kind in ("word", "copies"):
            self._words[at] = slot.a if kind == "word" else 1
        elif kind == "edge":
            self._terms.append((at, self._edge(k, slot.a)))
        elif kind == "span":
            self._terms.append((at, self._span(k, slot.a)))
        elif kind == "pointer":
            self._patch(at, slot.a, self._poly(slot.b) if slot.b else None, slot.b)
        elif kind == "sums":
            self._patch(at, slot.a, None)
        elif kind == "moved":
            pointer, (edge, step) = slot.a, slot.b
            self._patch(at, pointer.a, self._moved(k, edge, step, pointer.b), pointer.b)
        elif kind == "private":
            edge, step = slot.b
            term = self._moved(k, edge, step, ()) if step else None
            self._patches.append((at, 0, term, self._place((k, slot.a)), ()))
        elif kind == "scratch":
            self._pairs.append((at, self._place(("scratch", k, j))))
        elif kind == "number":
            self._numbers.append((8 * at, slot.a, slot.b))
        elif kind == "function":
            self._words[at] = self.plan.libraries[slot.a].address(slot.b)
        elif kind == "fault" and self.plan.device is not None:
            self._words[at] = self.plan.device.fault
        elif kind in ("fault", "block"):
            self._words[at] = 8 * (start + slot.a) if kind == "block" else 0
            self._relative.append(at)
        else:
            assert kind == "first", kind

    def _extent(self, at: int, p: Poly) -> None:
        number = known(p)
        if number is not None:
            self._words[at] = number
            return
        self._terms.append((at, self._poly(p)))
        if self.plan.moving.groups:
            self._move(at, p)

    def _move(self, word: int, p: Poly) -> None:
        """Note how much a word grows with each arg that moves (see `ir.dynamic_offsets`)."""
        slopes = self.plan.moving.slopes(p)
        if slopes:
            self.moving.append((word, [(arg, self._poly(slope)) for arg, slope in slopes]))

    def _patch(self, at: int, i: int, term: int | None, offset: Poly = ()) -> None:
        """Note a word that is an address of a value: from the table, or a place in the arena.

        at: the word
        i: the value
        term: term of the bytes that are added, or None
        offset: these bytes as a polynomial
        """
        source = self.source.get(i)
        place = 0 if source is not None else self._place(i)
        self._patches.append((at, source or 0, term, place, offset))
