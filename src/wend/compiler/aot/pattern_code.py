"""C code that runs a recipe: sizes, memory, argument blocks, and calls of kernels in order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from wend.base.errors import CompileError
from wend.compiler.aot.recorded_path import LibraryWeight, RecordedPath
from wend.compiler.aot.size_code import SizeCode, integer
from wend.compiler.ir.kernel import Kernel, Slot
from wend.compiler.ir.symbolic_extents import known
from wend.compiler.kernels.matmul import matmul
from wend.compiler.parallel.partition import WHOLE
from wend.compiler.parallel.tasks import schedule
from wend.compiler.pipeline import Recipe, Result

__all__ = ["DTYPES", "KernelSymbols", "PatternCode"]

#: The element types of inputs and outputs; a type's number in the header is its place here.
DTYPES: Final = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
MOST_DIMS: Final = 8
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
        found = self.modules.setdefault(text, {}).get(function)
        if found is None:
            # No names of the user's are part of it: libraries share machine code kept on disk.
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            found = self.modules[text][function] = f"wend_{digest}_{function}"
            self._arguments[found] = arguments
        return found

    def declarations(self) -> str:
        """Return the C declarations of all functions."""
        rows = sorted(self._arguments.items())
        return "\n".join(f"HIDDEN extern void {name}({arguments});" for name, arguments in rows)


class PatternCode:
    """The C functions of a recorded path.

    number: the number of the path among those of the library
    weights: the tensors in the file of weights
    symbols: the functions that the library calls
    """

    def __init__(
        self,
        number: int,
        path: RecordedPath,
        weights: Sequence[LibraryWeight],
        symbols: KernelSymbols,
    ) -> None:
        self.number, self.path, self.symbols = number, path, symbols
        self.recipe = Recipe(path.graph(), frozenset(path.outputs))
        self.function = self.recipe.function
        _refuse_host_steps(self.recipe)
        self.shapes = {i: weights[k].shape for i, k in path.weights.items()}
        self.sizes = SizeCode(path, self.shapes, self.function.extents)
        results = {r.value: r for r in self.recipe.results}
        #: By output; None for an output that is an input or a weight.
        self.results: list[Result | None] = [results.get(i) for i in path.outputs]
        #: The place among the outputs of each result with memory of its own, by base.
        self.made: dict[int, int] = {}
        for k, result in enumerate(self.results):
            if result is not None and result.owns:
                self.made.setdefault(result.base, k)
        self.blocks = list(self.recipe.lifetimes)
        self.scratch: list[tuple[str, str]] = []

    # -- whether the path fits ----------------------------------------------------------------

    def fits(self) -> str:
        """Return the function that tells whether inputs have the sizes of this path."""
        sizes = SizeCode(self.path, self.shapes)
        conditions = [found for guard in self.path.guards if (found := sizes.guard(*guard))]
        checks = []
        for k, i in enumerate(self.path.inputs):
            type_ = self.path.types[i]
            code = DTYPES.index(type_.dtype.name)
            checks.append(f"in[{k}].dtype != {code} || in[{k}].ndim != {len(type_.shape)}")
        lines = [f"if ({' || '.join(checks) or '0'}) return 0;", *sizes.lines]
        lines += [f"if (!({condition})) return 0;" for condition in conditions]
        return _function(f"int fits_{self.number}(const TENSOR *in)", [*lines, "return 1;"])

    # -- running ------------------------------------------------------------------------------

    def run(self) -> str:
        """Return the function that computes the outputs."""
        calls = [line for k, step in enumerate(self.recipe.steps) for line in self.step(k, step)]
        shown = [line for k, i in enumerate(self.path.outputs) for line in self.show(k, i)]
        body = [*self.nonempty(), *self.memory(), *self.outputs(), *calls, *shown]
        head = f"int run_{self.number}(MODEL *m, const TENSOR *in, TENSOR *out)"
        return _function(head, [*self.sizes.lines, *body, "return 0;"])

    def nonempty(self) -> list[str]:
        """Return the checks that loops have elements where kernels rely on this."""
        extents = {p for together in self.recipe.nonempty for p in together}
        names = sorted({self.sizes.poly(p) for p in extents if not known(p)})
        if not names:
            return []
        met = " || ".join(f"{name} <= 0" for name in names)
        return [f'if ({met}) return refuse(m, "an input has no elements");']

    def memory(self) -> list[str]:
        """Return statements that find places for temporaries, and memory for all."""
        rows = []
        for size, first, last in self.recipe.lifetimes.values():
            rows.append(f"{{{self.sizes.poly(size)}, 0, {first}, {last}}}")
        lines = ["int64_t bytes = 0;"]
        if rows:
            lines += [
                f"Block blocks[{len(rows)}] = {{{', '.join(rows)}}};",
                f"bytes = place_blocks(blocks, {len(rows)});",
            ]
        room = "0"
        for step in self.recipe.steps:
            assert isinstance(step, Kernel)
            sizes = [self.sizes.poly(slot.a) for slot in step.slots if slot.kind == "scratch"]
            if sizes:
                total = " + ".join(f"aligned({size})" for size in sizes)
                room = self.sizes.named(
                    ("room", room, total), "int64_t", f"greatest({room}, {total})"
                )
        return [
            *lines,
            f"char *const arena = arena_of(m, bytes + {room});",
            'if (!arena) return refuse(m, "there is no memory for temporaries");',
            "char *const scratch = arena + bytes;",
            "(void)scratch;",
        ]

    def outputs(self) -> list[str]:
        """Return statements that find memory for the outputs."""
        lines = []
        for k, i in enumerate(self.path.outputs):
            type_, result = self.path.types[i], self.results[k]
            rank = len(type_.shape)
            if rank > MOST_DIMS:
                raise CompileError(f"aot.compile: output {k} has {rank} dims, above {MOST_DIMS}")
            if result is None:
                extents = [self.sizes.dim(i, axis) for axis in range(rank)]
            else:
                extents = [self.sizes.poly(p) for p in result.shape]
            code, size = _code_of(type_.dtype), type_.dtype.itemsize
            lines += [
                f"const int64_t shape{k}[] = {{{', '.join(extents) or '0'}}};",
                f"char *const out{k} = output_of(&out[{k}], {code}, {size}, {rank}, shape{k});",
                f'if (!out{k}) return refuse(m, "there is no room for output {k}");',
            ]
        return lines

    def show(self, k: int, i: int) -> list[str]:
        """Return statements that copy output k, where its elements are elsewhere."""
        type_, result = self.path.types[i], self.results[k]
        rank, size = len(type_.shape), type_.dtype.itemsize
        if result is None:
            return [f"copy_all(out{k}, {self.address(i)}, {size}, {rank}, shape{k});"]
        if result.owns and self.made[result.base] == k:
            return []
        steps = ", ".join(map(self.sizes.poly, result.strides)) or "0"
        source = f"{self.address(result.base)} + {self.sizes.poly(result.offset)} * {size}"
        return [
            f"const int64_t steps{k}[] = {{{steps}}};",
            f"copy_elements(out{k}, {source}, {size}, {rank}, shape{k}, steps{k});",
        ]

    def address(self, i: int) -> str:
        """Return where the memory of a value begins."""
        if i < len(self.path.inputs) and i in self.path.inputs:
            return f"((char *)in[{i}].data)"
        if i in self.path.weights:
            return f"((char *)m->weights[{self.path.weights[i]}])"
        if i in self.made:
            return f"out{self.made[i]}"
        home = self.recipe.homes.get(i, i)
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
            texts = ", ".join(_quoted(message) for message in step.faults)
            lines += [
                f"if (m->fault) {{ static const char *const texts[] = {{{texts}}};",
                "return refuse_fault(m, texts); }",
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
            return "word_of(&m->fault)"
        if kind == "function":
            name = self.symbols.name(slot.a, slot.b, _EPILOGUE)
            return f"(int64_t)(uintptr_t)&{name}"
        raise CompileError(f"aot: a word of the kind {kind!r} is not supported")


def _refuse_host_steps(recipe: Recipe) -> None:
    """Raise CompileError if an op has no kernel."""
    for step in recipe.steps:
        if isinstance(step, Kernel):
            continue
        why = recipe.function.reasons.get(step.outputs[0], "it has no kernel")
        raise CompileError(
            f"aot.compile: {step.name}: {why}, and NumPy is not there at run time; "
            "express it by other ops, or compute it before and give it as an input"
        )


def _code_of(dtype: Any) -> int:
    if dtype.name not in DTYPES:
        raise CompileError(f"aot.compile: outputs of {dtype} are not supported; cast them")
    return DTYPES.index(dtype.name)


def _quoted(text: str) -> str:
    """Return a text as a C string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _function(head: str, lines: list[str]) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    return f"static {head} {{\n  (void)in;\n{body}\n}}\n"
