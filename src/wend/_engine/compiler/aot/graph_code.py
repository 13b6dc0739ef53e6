"""C code of an explored graph: points become labels, questions conditional jumps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from wend._engine.base.errors import CompileError
from wend._engine.compiler.aot.pattern_code import (
    DTYPES,
    Frame,
    KernelSymbols,
    PatternCode,
    quoted,
    static_function,
    type_code,
)
from wend._engine.compiler.aot.recorded_path import LibraryWeight, Piece, RecordedGraph
from wend._engine.compiler.aot.size_code import SizeCode, integer
from wend._engine.core.symbolic import Expr
from wend._engine.transforms.exploring.program import (
    Fail,
    Give,
    Go,
    ReadNumber,
    Stretch,
    number_category,
)
from wend._engine.transforms.exploring.simplify import made_by, used_by

#: The element types of numbers among the results, by category.
_NUMBERS = ("bool", "int64", "float64")


class GraphCode:
    """The C functions of a recorded graph.

    number: the number of the graph among those of the library
    graph: the points and pieces
    weights: the tensors in the file of weights
    symbols: the functions that the library calls
    """

    def __init__(
        self,
        number: int,
        graph: RecordedGraph,
        weights: Sequence[LibraryWeight],
        symbols: KernelSymbols,
    ) -> None:
        self.number, self.graph, self.program = number, graph, graph.program
        self.all_weights, self.symbols = weights, symbols
        info = self.program.info
        self.frame = Frame(self.program.inputs, lambda i: info[i].dtype >= 2)
        self.captured = {c.id for c in self.program.captured}
        self.lent: list[int] = []  # captured tensors that have a place in the frame
        self.functions: list[str] = []
        self.n_pieces = 0

    # -- expressions ----------------------------------------------------------------------------

    def sizes(self) -> SizeCode:
        """Return a writer of statements over the frame."""
        return SizeCode(
            lambda i, axis: f"{self.value(i)}.shape[{axis}]", self.frame.number, extents=None
        )

    def value(self, i: int) -> str:
        """Return the place of a tensor in the frame."""
        if i in self.captured and i not in self.lent:
            self.lent.append(i)
        return self.frame.value(i)

    # -- whether the graph fits -----------------------------------------------------------------

    def fits(self) -> str:
        """Return the function that tells whether the inputs are such as the graph holds for."""
        info, sizes = self.program.info, self.sizes()
        conditions: list[str] = []
        checks: list[str] = []
        for k, i in enumerate(self.program.inputs):
            extents = info[i].extents or ()
            code = type_code(info[i].dtype)
            checks.append(f"in[{k}].dtype != {code} || in[{k}].ndim != {len(extents)}")
            conditions += [
                f"{self.frame.value(i)}.shape[{axis}] == {integer(extent)}"
                for axis, extent in enumerate(extents)
                if type(extent) is not tuple
            ]
        for (op, a, b), (outcome, _) in self.program.guards.items():
            conditions.append(sizes.guard(op, a, b, outcome))
        lines = [
            "const TENSOR *const in = c->in;",
            "(void)in;",
            f"if ({' || '.join(checks) or '0'}) return 0;",
            *sizes.lines,
            *[f"if (!({condition})) return 0;" for condition in conditions if condition],
            "return 1;",
        ]
        return static_function(f"int graph_fits_{self.number}(CALL *c)", lines)

    # -- running --------------------------------------------------------------------------------

    def run(self) -> str:
        """Return the functions that compute the outputs; the last is that of the graph."""
        body = [line for k in range(len(self.program.points)) for line in self.point(k)]
        lines = ["int failed = 0;", "(void)failed;"]
        for i in self.lent:
            number = self.graph.weights[i]
            shape = self.all_weights[number].shape
            text = ", ".join(map(str, shape)) or "0"
            lines += [
                f"static const int64_t shape{i}[] = {{{text}}};",
                f"lend(&{self.frame.value(i)}, (char *)c->model->weights[{number}], "
                f"{len(shape)}, shape{i});",
            ]
        whole = static_function(f"int graph_run_{self.number}(CALL *c)", [*lines, *body])
        return "\n".join([*self.functions, whole])

    def point(self, k: int) -> Iterator[str]:
        """Return the statements of a point and of its stretches."""
        point = self.program.points[k]
        if point.question is None:
            yield from self.stretch(k, 0)
            return
        yield f"point_{k}:"
        yield "{"
        yield from self.question(point.question)
        yield "if (answer)"
        yield from self.stretch(k, 1)
        yield from self.stretch(k, 0)
        yield "}"

    def question(self, question: tuple[Any, ...]) -> Iterator[str]:
        """Return statements that set `answer`."""
        if question[0] == "value":
            i = question[1]
            info = self.program.info[i]
            yield "int answer = 0;"
            yield (
                f"if ((failed = truth_of(&{self.value(i)}, {type_code(info.dtype)}, "
                f"{info.dtype.itemsize}, {len(info.extents or ())}, &answer))) return failed;"
            )
            return
        sizes = self.sizes()
        condition = sizes.guard(question[1], question[2], question[3], True) or "1"
        yield from sizes.lines
        yield f"const int answer = {condition};"

    def stretch(self, k: int, answer: int) -> Iterator[str]:
        """Return the statements of a stretch, which end in a jump or a return."""
        stretch = self.program.points[k].answers[answer]
        yield "{"
        for piece in self.graph.pieces[k, answer]:
            name = self.piece(piece)
            if name:
                yield f"if ((failed = {name}(c))) return failed;"
            if piece.read is not None:
                yield self.read(piece.read)
        for growth in self.graph.growths[k, answer]:
            info = self.program.info[growth.rows]
            places = [self.value(i) for i in (growth.output, growth.rows, growth.item)]
            yield (
                f"if ((failed = grow({', '.join(f'&{place}' for place in places)}, "
                f"{info.dtype.itemsize}, {len(info.extents or ())}))) return failed;"
            )
        end = stretch.end
        if isinstance(end, Go):
            yield from self.go(k, stretch, end)
        elif isinstance(end, Give):
            yield from self.give(stretch, end)
        elif isinstance(end, Fail):
            text = f"{type(end.error).__name__}: {end.error}".partition("\n")[0]
            yield f"return refuse(CODE(RAISED), {quoted(text)});"
        yield "}"

    def read(self, read: Any) -> str:
        """Return the statement that reads a number."""
        info = self.program.info[read.value]
        place, real = self.frame.number(read.output)
        function = "read_real" if real else "read_int"
        return (
            f"if ((failed = {function}(&{self.value(read.value)}, {type_code(info.dtype)}, "
            f"{len(info.extents or ())}, &{place}))) return failed;"
        )

    def piece(self, piece: Piece) -> str:
        """Return the name of the function of a piece; "" for pieces without work."""
        if not any(path.outputs or path.numbers for path in piece.paths):
            # No example goes this way, so nothing is known of the ops there.
            return "refuse_sizes" if piece.site is not None and not piece.paths else ""
        number = self.n_pieces
        self.n_pieces += 1
        choices = []
        for k, path in enumerate(piece.paths):
            name = f"{self.number}_{number}_{k}"
            code = PatternCode(name, path, self.frame, self.all_weights, self.symbols)
            if path.guards:
                self.functions.append(code.fits())
                choices.append(f"if (fits_{name}(c)) return run_{name}(c);")
            else:
                choices.append(f"return run_{name}(c);")
            self.functions.append(code.run())
            if not path.guards:
                break
        else:
            choices.append("return refuse_sizes(c);")
        name = f"piece_{self.number}_{number}"
        self.functions.append(static_function(f"int {name}(CALL *c)", choices))
        return name

    def go(self, k: int, stretch: Stretch, end: Go) -> Iterator[str]:
        """Return the statements that hand the params of a point over, and jump there."""
        info = self.program.info
        params = self.program.points[end.point].params
        moves = [(p, a) for p, a in zip(params, end.args, strict=True) if p != a]
        changed = {p for p, _ in moves}
        for n, (p, a) in enumerate(moves):  # all are read before any is written
            if info[p].extents is None:
                if a in changed:
                    place, real = self.frame.number(a)
                    yield f"const {'double' if real else 'int64_t'} old{n} = {place};"
            elif a in changed:
                yield f"VALUE old{n} = {{0}};"
                yield f"share(&old{n}, &{self.value(a)});"
        for n, (p, a) in enumerate(moves):
            if info[p].extents is None:
                text = f"old{n}" if a in changed else self.frame.number(a)[0]
                yield f"{self.frame.number(p)[0]} = {text};"
            elif a in changed:
                yield f"share(&{self.value(p)}, &old{n});"
                yield f"drop(&old{n});"
            else:
                yield f"share(&{self.value(p)}, &{self.value(a)});"
        for i in self.spent(k, stretch, end.point):
            yield f"drop(&{self.frame.value(i)});"
        yield f"goto point_{end.point};"

    def spent(self, k: int, stretch: Stretch, target: int) -> list[int]:
        """Return the tensors that nobody reads after a jump: their memory is given back."""
        points = self.program.points
        before = {*self.graph.live[k], *points[k].params, *used_by(stretch.end)}
        before |= {i for item in stretch.items for i in made_by(item)}
        fixed = {*self.program.inputs, *self.captured}
        gone = before - self.graph.live[target] - set(points[target].params) - fixed
        return sorted(i for i in gone if self.program.info[i].extents is not None)

    def give(self, stretch: Stretch, end: Give) -> Iterator[str]:
        """Return the statements that give the results which no piece has given."""
        pieces_gave = _made_last(stretch)
        sizes = self.sizes()
        lines: list[str] = []
        for place, (kind, x) in enumerate(end.leaves):
            if kind == "value":
                if x in pieces_gave:
                    continue
                info = self.program.info[x]
                lines.append(
                    f"if ((failed = give(c, {place}, {type_code(info.dtype)}, "
                    f"{info.dtype.itemsize}, {len(info.extents or ())}, &{self.value(x)}))) "
                    "return failed;"
                )
                continue
            lines += self.give_number(place, x, sizes)
        yield from sizes.lines
        yield from lines
        yield "return 0;"

    def give_number(self, place: int, x: Expr, sizes: SizeCode) -> list[str]:
        """Return the statements that give a number as a tensor without dims."""
        category = 0 if type(x) is bool else number_category(x, self.program.info)
        if category > 2:
            raise CompileError("aot.compile: complex results are not supported")
        c_type = ("uint8_t", "int64_t", "double")[category]
        text = sizes.real(x) if category == 2 else sizes.whole(x)
        code = DTYPES.index(_NUMBERS[category])
        size = (1, 8, 8)[category]
        return [
            f"{{ const {c_type} number = ({c_type}){text};",
            "VALUE value = {0}; value.data = (char *)(uintptr_t)&number;",
            f"if ((failed = give(c, {place}, {code}, {size}, 0, &value))) return failed; }}",
        ]


def _made_last(stretch: Stretch) -> set[int]:
    """Return the ids that the last piece of a stretch makes."""
    ids: set[int] = set()
    for item in stretch.items:
        ids = set() if isinstance(item, ReadNumber) else ids | set(made_by(item))
    return ids
