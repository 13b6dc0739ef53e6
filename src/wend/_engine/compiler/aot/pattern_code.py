"""C code that runs a code: sizes, memory, argument blocks, and calls of kernels in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from wend._engine.base.errors import CompileError
from wend._engine.compiler import pipeline
from wend._engine.compiler.aot.recorded_path import LibraryWeight, RecordedPath
from wend._engine.compiler.aot.size_code import SizeCode, integer
from wend._engine.compiler.ir.kernel import Kernel, Slot
from wend._engine.compiler.ir.symbolic_extents import known
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.parallel.partition import WHOLE
from wend._engine.compiler.parallel.tasks import schedule
from wend._engine.compiler.stages import CompiledPath, Result, finished

#: The element types of inputs and outputs; a type's number in the header is its place here.
DTYPES: Final = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
MOST_DIMS: Final = 8
#: Bytes that stand for themselves in strings of C; `?` does not, as it begins trigraphs.
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\?')
_EPILOGUE: Final = "void *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, void *"


class KernelSymbols:
    """The functions of kernels that a library calls, and the modules that define the functions.

    modules: text -> (old name -> name in the library)
    """

    def __init__(self) -> None:
        self.modules: dict[str, dict[str, str]] = {}
        self._arguments: dict[str, str] = {}

    def name(self, text: str, function: str, arguments: str = "void *") -> str:
        """Return the name in the library of a function of a module."""
        symbol = self.modules.setdefault(text, {}).get(function)
        if symbol is None:
            # No names of the user's are part of it: libraries share machine code kept on disk.
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            symbol = self.modules[text][function] = f"wend_{digest}_{function}"
            self._arguments[symbol] = arguments
        return symbol

    def declarations(self) -> str:
        """Return the C declarations of all functions."""
        rows = sorted(self._arguments.items())
        return "\n".join(f"HIDDEN extern void {name}({arguments});" for name, arguments in rows)


class Frame:
    """The places of a graph's values and numbers in the frame of a call.

    inputs: the ids of the graph's inputs, which come first
    is_real: function from the id of a number to whether it is a float
    """

    def __init__(self, inputs: Sequence[int], is_real: Callable[[int], bool]) -> None:
        self._values = {i: k for k, i in enumerate(inputs)}
        self._numbers: dict[int, tuple[str, bool]] = {}
        self._is_real = is_real

    def value(self, i: int) -> str:
        """Return the place of a tensor, as C text."""
        return f"c->values[{self._values.setdefault(i, len(self._values))}]"

    def number(self, i: int) -> tuple[str, bool]:
        """Return (the place of a number as C text, whether it is a double)."""
        if i not in self._numbers:
            real = self._is_real(i)
            field = "reals" if real else "ints"
            self._numbers[i] = f"c->{field}[{len(self._numbers)}]", real
        return self._numbers[i]

    @property
    def size(self) -> tuple[int, int]:
        """(number of tensors, number of numbers)."""
        return len(self._values), len(self._numbers)


class PatternCode:
    """The C functions of a recorded path.

    name: ends the functions' names
    path: the ops, whose inputs and outputs are values and numbers of the call's frame
    frame: where the frame has which value
    weights: the tensors in the file of weights
    symbols: the functions that the library calls
    """

    def __init__(
        self,
        name: str,
        path: RecordedPath,
        frame: Frame,
        weights: Sequence[LibraryWeight],
        symbols: KernelSymbols,
    ) -> None:
        self.name, self.path, self.frame, self.symbols = name, path, frame, symbols
        self.outputs = path.outputs
        needed = frozenset(o.local for o in path.outputs)
        self.code: CompiledPath = finished(pipeline.compile_path(path.graph(), needed))
        self.function = self.code.function
        self._refuse_host_steps()
        self.shapes = {i: weights[k].shape for i, k in path.weights.items()}
        self.sizes = SizeCode(self.dim, frame.number, self.function.extents)
        results = {r.value: r for r in self.code.results}
        #: By output; None for an output that is an input or a weight.
        self.results: list[Result | None] = [results.get(o.local) for o in path.outputs]
        #: The place among the outputs of each result with memory of its own, by base.
        self.made: dict[int, int] = {}
        for k, result in enumerate(self.results):
            if result is not None and result.owns:
                self.made.setdefault(result.base, k)
        self.blocks = list(self.code.lifetimes)

    def dim(self, i: int, axis: int) -> Any:
        """Return the extent of a dim of a value: C text, or an expression."""
        if i in self.shapes:
            return self.shapes[i][axis]
        if i < len(self.path.inputs):
            return f"{self.frame.value(self.path.inputs[i])}.shape[{axis}]"
        return self.path.shapes[i][0][axis]

    def _refuse_host_steps(self) -> None:
        """Raise CompileError if an op has no kernel."""
        for step in self.code.steps:
            if isinstance(step, Kernel):
                continue
            out = step.outputs[0]
            why = self.code.function.reasons.get(out, "it has no kernel")
            site = self.path.sites.get(out)
            place = "" if site is None or site.code is None else f" (at {site})"
            raise CompileError(
                f"aot.compile: {step.name}: {why}, and NumPy is not there at run time; "
                f"express it by other ops, or compute it before and give it as an input{place}"
            )

    # -- whether the path fits ----------------------------------------------------------------

    def fits(self) -> str:
        """Return the function that tells whether sizes and numbers are those of this path."""
        sizes = SizeCode(self.dim, self.frame.number)
        conditions = [test for guard in self.path.guards if (test := sizes.guard(*guard))]
        lines = [*sizes.lines, *[f"if (!({condition})) return 0;" for condition in conditions]]
        return static_function(f"int fits_{self.name}(CALL *c)", [*lines, "return 1;"])

    # -- running ------------------------------------------------------------------------------

    def run(self) -> str:
        """Return the function that computes the outputs."""
        calls = [line for k, step in enumerate(self.code.steps) for line in self.step(k, step)]
        shown = [line for k in range(len(self.outputs)) for line in self.show(k)]
        body = [*self.nonempty(), *self.memory(), *self.space(), *calls, *shown, *self.numbers()]
        return static_function(
            f"int run_{self.name}(CALL *c)", [*self.sizes.lines, *body, "return 0;"]
        )

    def nonempty(self) -> list[str]:
        """Return the checks that loops have elements where kernels rely on this."""
        extents = {p for together in self.code.nonempty for p in together}
        names = sorted({self.sizes.poly(p) for p in extents if not known(p)})
        if not names:
            return []
        met = " || ".join(f"{name} <= 0" for name in names)
        return [f'if ({met}) return refuse(CODE(WRONG_SIZES), "an input has no elements");']

    def memory(self) -> list[str]:
        """Return statements that find places for temporaries, and memory for all."""
        rows = []
        for size, first, last in self.code.lifetimes.values():
            rows.append(f"{{{self.sizes.poly(size)}, 0, {first}, {last}}}")
        lines = ["int64_t bytes = 0;"]
        if rows:
            lines += [
                f"Block blocks[{len(rows)}] = {{{', '.join(rows)}}};",
                f"bytes = place_blocks(blocks, {len(rows)});",
            ]
        room = "0"
        for step in self.code.steps:
            assert isinstance(step, Kernel)
            sizes = [self.sizes.poly(slot.a) for slot in step.slots if slot.kind == "scratch"]
            if sizes:
                total = " + ".join(f"aligned({size})" for size in sizes)
                room = self.sizes.named(
                    ("room", room, total), "int64_t", f"greatest({room}, {total})"
                )
        if not rows and room == "0":
            return []
        return [
            *lines,
            f"char *const arena = arena_of(c, bytes + {room});",
            "if (!arena) return refuse_memory();",
            "char *const scratch = arena + bytes;",
            "(void)scratch;",
        ]

    def space(self) -> list[str]:
        """Return statements that find memory for the outputs."""
        lines = []
        for k, output in enumerate(self.outputs):
            i = output.local
            type_, result = self.path.types[i], self.results[k]
            rank, size = len(type_.shape), type_.dtype.itemsize
            if rank > MOST_DIMS:
                raise CompileError(f"aot.compile: a tensor has {rank} dims, above {MOST_DIMS}")
            if output.slot is not None and result is None:
                continue
            if result is None:
                extents = [self.sizes.dim(i, axis) for axis in range(rank)]
            else:
                extents = [self.sizes.poly(p) for p in result.shape]
            lines.append(f"const int64_t shape{k}[] = {{{', '.join(extents) or '0'}}};")
            if output.slot is None:
                code = type_code(type_.dtype)
                lines += [
                    f"char *out{k};",
                    f"if ((failed = output_of(c, {output.place}, {code}, {size}, {rank}, "
                    f"shape{k}, &out{k}))) return failed;",
                ]
            else:
                value = self.frame.value(output.slot)
                lines += [
                    f"char *const out{k} = fresh(&{value}, {size}, {rank}, shape{k});",
                    f"if (!out{k}) return refuse_memory();",
                ]
        return ["int failed = 0;", "(void)failed;", *lines] if lines else []

    def show(self, k: int) -> list[str]:
        """Return statements that copy output k, where its elements are elsewhere."""
        output = self.outputs[k]
        i = output.local
        type_, result = self.path.types[i], self.results[k]
        rank, size = len(type_.shape), type_.dtype.itemsize
        if result is None:
            return self.handed_on(k)
        if result.owns and self.made[result.base] == k:
            return []
        steps = ", ".join(map(self.sizes.poly, result.strides)) or "0"
        source = f"{self.address(result.base)} + {self.sizes.poly(result.offset)} * {size}"
        return [
            f"const int64_t steps{k}[] = {{{steps}}};",
            f"copy_elements(out{k}, {source}, {size}, {rank}, shape{k}, steps{k});",
        ]

    def handed_on(self, k: int) -> list[str]:
        """Return statements for output k, which is an input or a weight."""
        output = self.outputs[k]
        i = output.local
        type_ = self.path.types[i]
        rank = len(type_.shape)
        if output.slot is None:
            size = type_.dtype.itemsize
            return [f"copy_all(out{k}, {self.address(i)}, {size}, {rank}, shape{k});"]
        value = self.frame.value(output.slot)
        if i not in self.path.weights:
            return [f"share(&{value}, &{self.frame.value(self.path.inputs[i])});"]
        shape = ", ".join(map(str, self.shapes[i])) or "0"
        return [
            f"const int64_t shape{k}[] = {{{shape}}};",
            f"lend(&{value}, {self.address(i)}, {rank}, shape{k});",
        ]

    def numbers(self) -> list[str]:
        """Return statements that keep computed numbers in the frame."""
        assignments = [
            (self.frame.number(k)[0], self.sizes.expr(e)[0]) for k, e in self.path.numbers
        ]
        return [f"{place} = {text};" for place, text in assignments]

    def address(self, i: int) -> str:
        """Return where the memory of a value begins."""
        if i in self.path.weights:
            return f"((char *)c->model->weights[{self.path.weights[i]}])"
        if 0 <= i < len(self.path.inputs):
            return f"({self.frame.value(self.path.inputs[i])}.data)"
        if i in self.made:
            return f"out{self.made[i]}"
        home = self.code.homes.get(i, i)
        return f"(arena + blocks[{self.blocks.index(home)}].place)"

    def step(self, k: int, step: Any) -> list[str]:
        """Return the statements that call a kernel."""
        lines = ["{", f"int64_t b[{max(1, len(step.slots))}];"]
        room: list[str] = []
        for j, slot in enumerate(step.slots):
            if slot.kind == "scratch":
                at = " + ".join(["scratch", *room])
                room.append(f"aligned({self.sizes.poly(slot.a)})")
                lines.append(f"b[{j}] = word_of({at});")
            else:
                lines.append(f"b[{j}] = {self.word(slot)};")
        text = step.text or matmul.core_text(step.source)
        for stage in schedule(step, WHOLE).stages:
            lines.append(f"{self.symbols.name(text, stage.function)}(b);")
        lines.append("}")
        if step.faults:
            texts = ", ".join(quoted(message) for message in step.faults)
            lines += [
                f"if (c->fault) {{ static const char *const texts[] = {{{texts}}};",
                "return refuse_fault(c, texts); }",
            ]
        return lines

    def word(self, slot: Slot) -> str:
        """Return the value of a word of an argument block."""
        kind = slot.kind
        if kind in ("extent", "last"):
            return self.sizes.poly(slot.a if kind == "extent" else slot.b)
        if kind in ("pointer", "sums"):
            offset = self.sizes.poly(slot.b) if slot.b else ""
            return f"word_of({self.address(slot.a)}{f' + {offset}' if offset else ''})"
        if kind in ("word", "first", "copies"):
            return integer({"word": slot.a, "first": 0, "copies": 1}[kind])
        if kind == "number":
            if slot.b == 2:
                return f"bits_of({self.sizes.real(slot.a)})"
            return f"(int64_t){self.sizes.expr(slot.a)[0]}"
        if kind == "block":
            return f"word_of(&b[{slot.a}])"
        if kind == "fault":
            return "word_of(&c->fault)"
        if kind == "function":
            name = self.symbols.name(slot.a, slot.b, _EPILOGUE)
            return f"(int64_t)(uintptr_t)&{name}"
        raise CompileError(f"aot: a word of the kind {kind!r} is not supported")


def type_code(dtype: Any) -> int:
    """Return the number of an element type. Raises CompileError for types that have none."""
    if dtype.name not in DTYPES:
        raise CompileError(f"aot.compile: arrays of {dtype} are not supported; cast them")
    return DTYPES.index(dtype.name)


def quoted(text: str) -> str:
    """Return a text as a C string. A text may come from a file, and must not become code."""
    data = text.encode("utf-8", "replace")
    return '"' + "".join(chr(b) if b in _PLAIN else f"\\{b:03o}" for b in data) + '"'


def static_function(head: str, lines: Sequence[str]) -> str:
    """Return a C function of a call."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"static {head} {{\n  (void)c;\n{body}\n}}\n"
