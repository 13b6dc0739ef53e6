"""From syntax trees of an archive to functions that call ops of Wend's, one after the other.

Each node becomes a closure over a frame: a list with the line in place 0, and the variables. Python
compiles nothing. Names lead to variables, to the archive's own functions and classes, and to the
ops of a list (`_ops.py`); there are no further names.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from wend._engine.base.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    NotImplementedInWend,
)
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._classes import ArchiveClass, read, write
from wend.jit._torchscript._ops import find_op
from wend.jit._torchscript._text import shown
from wend.jit._torchscript._types import ANY, Kind, type_of
from wend.jit._torchscript._values import Number0d, ScriptObject, as_tensors

__all__ = ["Code", "Unit"]

Frame = list[Any]
Closure = Callable[[Frame], Any]
MISSING: Any = object()
GOES_ON: Any = object()  # of a statement that does not return


class Code:
    """A function or method of an archive."""

    def __init__(self, name: str, file: str) -> None:
        self.name, self.file = name, file
        self.parameters: list[tuple[str, Kind, Any]] = []
        self.size = 1
        self.body: list[Closure] = []

    def __repr__(self) -> str:
        return f"<code {self.name} of {self.file}>"

    def call(self, args: list[Any], keywords: Mapping[str, Any]) -> Any:
        """The result of a call.  Errors get a note with the line of the archive."""
        frame: Frame = [MISSING] * self.size
        frame[0] = 0
        frame[1 : len(args) + 1] = args
        if keywords or len(args) != len(self.parameters):
            self._bind(frame, args, keywords)
        try:
            for statement in self.body:
                result = statement(frame)
                if result is not GOES_ON:
                    return result
        except Exception as error:
            error.add_note(f"  in {self.file}, line {frame[0]}, in {self.name} of the archive")
            raise
        return None

    def _bind(self, frame: Frame, args: list[Any], keywords: Mapping[str, Any]) -> None:
        if len(args) > len(self.parameters):
            raise ArgumentTypeError(
                f"{self.name} of the archive takes {len(self.parameters)} arguments, not "
                f"{len(args)}"
            )
        names = [name for name, _, _ in self.parameters]
        for name in keywords:
            if name not in names or names.index(name) < len(args):
                raise ArgumentTypeError(f"{self.name} of the archive: unexpected {name!r}")
        for i, (name, _, default) in enumerate(self.parameters):
            if i >= len(args):
                value = keywords.get(name, default)
                if value is MISSING:
                    raise ArgumentTypeError(f"{self.name} of the archive: {name!r} is missing")
                frame[i + 1] = value

    def call_by_user(self, owner: list[Any], args: Any, keywords: Mapping[str, Any]) -> Any:
        """The result of a call from outside: arguments are compared with their types."""
        skipped = len(owner)
        values = list(owner)
        for i, value in enumerate(args):
            kind, name = ANY, f"argument {i}"
            if i + skipped < len(self.parameters):
                name, kind, _ = self.parameters[i + skipped]
            values.append(kind.taken(value, f"{self.name}: {name}"))
        kinds = {name: kind for name, kind, _ in self.parameters}
        named = {
            name: kinds.get(name, ANY).taken(value, f"{self.name}: {name}")
            for name, value in keywords.items()
        }
        return self.call(values, named)


class Inner:
    """A function inside of a function, with the variables of the outer one."""

    __slots__ = ("body", "frame")

    def __init__(self, body: Closure, frame: Frame) -> None:
        self.body, self.frame = body, frame

    def call(self) -> Any:
        """The result."""
        result = self.body(self.frame)
        return None if result is GOES_ON else result


class Unit:
    """All code of an archive.

    trees: syntax trees by module name, such as `__torch__.torch.nn.functional`
    constants: the archive's constants, `CONSTANTS.c0` and further
    version: of the archive, by which some ops differ
    compiler: the class that makes closures of nodes; by default for archives of PyTorch's
    """

    def __init__(
        self,
        trees: Mapping[str, ast.Module],
        constants: tuple[Any, ...],
        version: int,
        compiler: Callable[[Unit, Code], Compiler] | None = None,
    ) -> None:
        self.constants, self.version = constants, version
        self.compiler = Compiler if compiler is None else compiler
        self.texts: dict[str, str] = {}
        self.wide = False
        self.nodes: dict[str, tuple[str, ast.ClassDef | ast.FunctionDef]] = {}
        for module, tree in trees.items():
            for node in tree.body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    self.nodes[f"{module}.{node.name}"] = (module, node)
                elif not _is_head(node):
                    refuse(node, module, "a statement outside of functions")
        self.known: dict[str, Any] = {}

    def find(self, path: str) -> Any:
        """A class or function by the full name.  Raises FormatError."""
        entry = self.known.get(path)
        if entry is None:
            if path not in self.nodes:
                raise FormatError(f"TorchScript: the archive has no code of {path[:200]}")
            module, node = self.nodes[path]
            if isinstance(node, ast.FunctionDef):
                entry = self.known[path] = Code(node.name, module)
                compile_into(entry, node, self)
            else:
                entry = self.known[path] = ArchiveClass(path, _base(node, module))
                entry.unit = self
                ClassReader(self, module, entry).read(node)
        return entry

    def find_all(self) -> None:
        """Read all of the code, so that faults show at once.  Raises FormatError."""
        for path in self.nodes:
            self.find(path)


def _is_head(node: ast.stmt) -> bool:
    """Whether a statement is of the head of older archives, which says nothing.

    `op_version_set = 1`, `import __torch__.a.b`: names of code are full names anyway
    """
    if isinstance(node, ast.Import):
        return all(x.name.split(".")[0] == "__torch__" and x.asname is None for x in node.names)
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)


def _base(node: ast.ClassDef, module: str) -> str:
    bases = [b.id if isinstance(b, ast.Name) else "?" for b in node.bases]
    base = bases[0] if bases else ""
    base = {"ModuleInterface": "Interface"}.get(base, base)
    if len(bases) > 1 or base not in ("", "Module", "NamedTuple", "Enum", "Interface"):
        refuse(node, module, f"a class of the base {base}")
    return base


def refuse(node: ast.AST, file: str, what: str) -> NoReturn:
    """Raise FormatError with the place in the archive."""
    line = getattr(node, "lineno", 1)
    raise FormatError(f"torch.jit.load: {file}, line {line}: {what} is no TorchScript")


class ClassReader:
    """Fills an `ArchiveClass` from a class statement."""

    def __init__(self, unit: Unit, module: str, kind: ArchiveClass) -> None:
        self.unit, self.module, self.kind = unit, module, kind

    def read(self, node: ast.ClassDef) -> None:
        """Take all statements of the class.  Raises FormatError."""
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                code = Code(f"{self.kind.name}.{statement.name}", self.module)
                self.kind.methods[statement.name] = code
                if self.kind.base != "Interface":
                    compile_into(code, statement, self.unit)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                self.kind.fields[name] = type_of(statement.annotation)
                if statement.value is not None:
                    value = self._value(statement.value)
                    self.kind.defaults[name] = value
                    if self.kind.base != "NamedTuple":
                        self.kind.constants[name] = value
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value)
            elif not isinstance(statement, ast.Pass):
                refuse(statement, self.module, "a statement of a class")

    def _value(self, node: ast.expr) -> Any:
        code = Code(self.kind.name, self.module)
        return self.unit.compiler(self.unit, code).expression(node)([0] * 1)

    def _assign(self, target: ast.expr, node: ast.expr) -> None:
        if isinstance(target, ast.Subscript):  # __annotations__["0"] = ...
            name = target.slice
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self.kind.fields[name.value] = type_of(node)
                return
        if not isinstance(target, ast.Name):
            refuse(target, self.module, "a target of a class")
        if target.id in ("__parameters__", "__buffers__"):
            names = frozenset(x for x in self._value(node) if isinstance(x, str))
            if target.id == "__parameters__":
                self.kind.parameters = names
            else:
                self.kind.buffers = names
        elif target.id in ("__forward_hooks__", "__forward_pre_hooks__"):
            self.kind.hooks = self.kind.hooks or bool(self._value(node))
        else:
            self.kind.constants[target.id] = self._value(node)


def compile_into(code: Code, node: ast.FunctionDef, unit: Unit) -> None:
    """Fill the parameters and the body of a code.  Raises FormatError."""
    args = node.args
    if args.vararg or args.kwarg or args.posonlyargs or node.decorator_list:
        refuse(node, code.file, "a signature of this kind")
    compiler = unit.compiler(unit, code)
    listed = [*args.args, *args.kwonlyargs]
    padding: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    for arg, default in zip(listed, [*padding, *args.defaults, *args.kw_defaults], strict=True):
        value = MISSING if default is None else compiler.expression(default)([0] * 1)
        code.parameters.append((arg.arg, type_of(arg.annotation), value))
    for arg in listed:
        compiler.slot(arg.arg)
    compiler.declare(node)
    code.body = [compiler.statement(s) for s in node.body]
    code.size = compiler.places()


class Compiler:
    """Makes closures of the nodes of a function."""

    statements: tuple[type[ast.stmt], ...]
    expressions: tuple[type[ast.expr], ...]

    def __init__(self, unit: Unit, code: Code) -> None:
        self.unit, self.code = unit, code
        self.slots: dict[str, int] = {}

    def places(self) -> int:
        """The size of a frame."""
        return len(self.slots) + 1

    def declare(self, node: ast.FunctionDef) -> None:
        """Note the variables of a function; in archives each is assigned before the first use."""

    def slot(self, name: str) -> int:
        """The place of a variable in the frame."""
        return self.slots.setdefault(name, len(self.slots) + 1)

    def refuse(self, node: ast.AST, what: str) -> NoReturn:
        """Raise FormatError with the place in the archive."""
        refuse(node, self.code.file, what)

    # -- statements

    def statement(self, node: ast.stmt) -> Closure:
        """A closure that runs a statement: gives GOES_ON, or the value of `return`."""
        maker = getattr(self, f"_{type(node).__name__}", None)
        if maker is None or not isinstance(node, self.statements):
            self.refuse(node, f"a statement {type(node).__name__}")
        run: Closure = maker(node)
        return run

    def block(self, nodes: list[ast.stmt]) -> Closure:
        """A closure that runs statements in a row."""
        statements = [self.statement(n) for n in nodes if not isinstance(n, ast.Pass)]
        if not statements:
            return lambda f: GOES_ON
        if len(statements) == 1:
            return statements[0]

        def run(f: Frame) -> Any:
            for statement in statements:
                result = statement(f)
                if result is not GOES_ON:
                    return result
            return GOES_ON

        return run

    def _Pass(self, node: ast.Pass) -> Closure:
        return lambda f: GOES_ON

    def _Return(self, node: ast.Return) -> Closure:
        line = node.lineno
        value = (lambda f: None) if node.value is None else self.expression(node.value)

        def run(f: Frame) -> Any:
            f[0] = line
            return value(f)

        return run

    def _Expr(self, node: ast.Expr) -> Closure:
        value, line = self.expression(node.value), node.lineno

        def run(f: Frame) -> Any:
            f[0] = line
            value(f)
            return GOES_ON

        return run

    def _Assign(self, node: ast.Assign) -> Closure:
        if len(node.targets) != 1:
            self.refuse(node, "an assignment to several targets")
        return self._assignment(node.targets[0], node.value)

    def _AnnAssign(self, node: ast.AnnAssign) -> Closure:
        if node.value is None:
            self.refuse(node, "a variable without a value")
        return self._assignment(node.target, node.value)

    def _assignment(self, target: ast.expr, value_node: ast.expr) -> Closure:
        value, line = self.expression(value_node), target.lineno
        if isinstance(target, ast.Name):
            i = self.slot(target.id)

            def run_name(f: Frame) -> Any:
                f[0] = line
                f[i] = value(f)
                return GOES_ON

            return run_name
        put = self._target(target)

        def run(f: Frame) -> Any:
            f[0] = line
            put(f, value(f))
            return GOES_ON

        return run

    def _target(self, node: ast.expr) -> Callable[[Frame, Any], None]:
        """A closure that puts a value into a target."""
        if isinstance(node, ast.Name):
            i = self.slot(node.id)
            return lambda f, v: f.__setitem__(i, v)
        if isinstance(node, ast.Attribute):
            owner, name = self.expression(node.value), node.attr
            return lambda f, v: write(owner(f), name, v)
        if isinstance(node, ast.Tuple):
            parts = [self._target(part) for part in node.elts]

            def unpack(f: Frame, value: Any) -> None:
                items = tuple(value)
                if len(items) != len(parts):
                    raise ArgumentError(
                        f"TorchScript: {len(items)} values for {len(parts)} variables"
                    )
                for part, item in zip(parts, items, strict=True):
                    part(f, item)

            return unpack
        self.refuse(node, "a target of this kind")

    def _If(self, node: ast.If) -> Closure:
        line = node.lineno
        test, body, other = self.expression(node.test), self.block(node.body), None
        other = self.block(node.orelse)

        def run(f: Frame) -> Any:
            f[0] = line
            return body(f) if test(f) else other(f)

        return run

    def _While(self, node: ast.While) -> Closure:
        line = node.lineno
        test, body = self.expression(node.test), self.block(node.body)

        def run(f: Frame) -> Any:
            f[0] = line
            while test(f):
                result = body(f)
                if result is not GOES_ON:
                    return result
            return GOES_ON

        return run

    def _For(self, node: ast.For) -> Closure:
        line, put, body = node.lineno, self._target(node.target), self.block(node.body)
        items = self.expression(node.iter)

        def run(f: Frame) -> Any:
            f[0] = line
            for item in items(f):
                put(f, item)
                result = body(f)
                if result is not GOES_ON:
                    return result
            return GOES_ON

        return run

    def _With(self, node: ast.With) -> Closure:
        if len(node.items) != 1:
            self.refuse(node, "a block of several contexts")
        item, body, line = node.items[0], self.block(node.body), node.lineno
        context = self.expression(item.context_expr)
        put = None if item.optional_vars is None else self._target(item.optional_vars)

        def run(f: Frame) -> Any:
            f[0] = line
            manager = context(f)
            entered = call_method(manager, "__enter__", [], {})
            if put is not None:
                put(f, entered)
            try:
                return body(f)
            finally:
                call_method(manager, "__exit__", [None, None, None], {})

        return run

    def _FunctionDef(self, node: ast.FunctionDef) -> Closure:
        """A function without arguments, which `fork` gets: it sees the variables around."""
        if node.args.args or node.args.kwonlyargs or node.args.vararg or node.decorator_list:
            self.refuse(node, "a function with arguments inside of a function")
        i, body = self.slot(node.name), self.block(node.body)

        def run(f: Frame) -> Any:
            f[i] = Inner(body, f)
            return GOES_ON

        return run

    # -- expressions

    def expression(self, node: ast.expr) -> Closure:
        """A closure that gives the value of an expression."""
        maker = getattr(self, f"_{type(node).__name__}", None)
        if maker is None or not isinstance(node, self.expressions):
            self.refuse(node, f"an expression {type(node).__name__}")
        value: Closure = maker(node)
        return value

    def _Constant(self, node: ast.Constant) -> Closure:
        value = node.value
        return lambda f: value

    def _BinOp(self, node: ast.BinOp) -> Closure:
        # Complex numbers alone: `1.+2.j`.
        parts = (node.left, node.right)
        if not all(isinstance(x, (ast.Constant, ast.UnaryOp)) for x in parts):
            self.refuse(node, "an operator")
        try:
            value = ast.literal_eval(node)
        except ValueError:  # no number, which is told
            self.refuse(node, "an operator")
        return lambda f: value

    def _UnaryOp(self, node: ast.UnaryOp) -> Closure:
        value = self.expression(node.operand)
        if not isinstance(node.op, ast.USub):
            self.refuse(node, "an operator")
        if isinstance(node.operand, ast.Constant):
            constant = -value([])
            return lambda f: constant
        return lambda f: -value(f)

    def _Name(self, node: ast.Name) -> Closure:
        i = self.slots.get(node.id)
        if i is not None:
            return lambda f: f[i]
        if node.id in NUMBERS:
            number = NUMBERS[node.id]
            return lambda f: number
        self.refuse(node, f"the name {node.id[:80]!r}, which was not assigned,")

    def _List(self, node: ast.List) -> Closure:
        items = [self.expression(x) for x in node.elts]
        return lambda f: [x(f) for x in items]

    def _Tuple(self, node: ast.Tuple) -> Closure:
        items = [self.expression(x) for x in node.elts]
        return lambda f: tuple([x(f) for x in items])

    def _Dict(self, node: ast.Dict) -> Closure:
        if any(key is None for key in node.keys):
            self.refuse(node, "a dict of dicts")
        pairs = [
            (self.expression(k), self.expression(v))
            for k, v in zip(node.keys, node.values, strict=True)
            if k is not None
        ]
        return lambda f: {k(f): v(f) for k, v in pairs}

    def _IfExp(self, node: ast.IfExp) -> Closure:
        test, body, other = (self.expression(x) for x in (node.test, node.body, node.orelse))
        return lambda f: body(f) if test(f) else other(f)

    def _Subscript(self, node: ast.Subscript) -> Closure:
        value, index = self.expression(node.value), self.expression(node.slice)
        return lambda f: item_of(value(f), index(f))

    def _Slice(self, node: ast.Slice) -> Closure:
        parts = [
            (lambda f: None) if x is None else self.expression(x)
            for x in (node.lower, node.upper, node.step)
        ]
        return lambda f: slice(*[part(f) for part in parts])

    def _Attribute(self, node: ast.Attribute) -> Closure:
        path = dotted(node)
        root = path[0] if path else ""
        if root == "CONSTANTS" and len(path) == 2 and root not in self.slots:
            constant = self._constant(node, path[1])
            return lambda f: constant
        if root == "__torch__":
            return self._named(path)
        value, name = self.expression(node.value), node.attr
        return lambda f: read(value(f), name)

    def _constant(self, node: ast.AST, name: str) -> Any:
        place = name[1:]
        count = len(self.unit.constants)
        if name[:1] != "c" or not place.isdecimal() or len(place) > 9 or int(place) >= count:
            self.refuse(node, f"CONSTANTS.{name[:40]}, of {count},")
        return self.unit.constants[int(place)]

    def _named(self, path: list[str]) -> Closure:
        """A function, a class, or a member of an enum."""
        full = ".".join(path)
        if full in self.unit.nodes:
            entry = self.unit.find(full)
            return lambda f: entry
        owner = self.unit.find(".".join(path[:-1]))
        name = path[-1]
        return lambda f: read(owner, name)

    # -- calls

    def _Call(self, node: ast.Call) -> Closure:
        if any(isinstance(x, ast.Starred) for x in node.args):
            self.refuse(node, "a call with a star")
        func = node.func
        if isinstance(func, ast.Name) and func.id not in self.slots:
            form = FORMS.get(func.id)
            if form is None:
                self.refuse(node, f"the function {func.id[:80]!r}")
            return form(self, node)
        args = [self.expression(x) for x in node.args]
        keywords = {k.arg: self.expression(k.value) for k in node.keywords if k.arg is not None}
        if len(keywords) != len(node.keywords):
            self.refuse(node, "a call with two stars")
        path = dotted(func) if isinstance(func, ast.Attribute) else []
        if path and path[0] not in self.slots:
            if path[0] == "torch" and len(path) == 2:
                return self._op(node, f"aten::{path[1]}", args, keywords)
            if path[:2] == ["torch", "autograd"] and len(path) == 3:
                return self._op(node, f"aten::{path[2]}", args, keywords)
            if path == ["warnings", "warn"]:
                return self._op(node, "aten::warn", args, keywords)
            if path[0] == "ops" and len(path) == 3:
                return self._op(node, f"{path[1]}::{path[2]}", args, keywords)
            if path[0] == "__torch__" and path[-1] == "__new__":
                kind = self.unit.find(".".join(path[:-1]))
                return lambda f: new_object(kind)
        if isinstance(func, ast.Attribute) and not (path and path[0] == "__torch__"):
            owner, name = self.expression(func.value), func.attr
            return lambda f: call_method(
                owner(f), name, [a(f) for a in args], {k: v(f) for k, v in keywords.items()}
            )
        target = self.expression(func)
        return lambda f: call_value(
            target(f), [a(f) for a in args], {k: v(f) for k, v in keywords.items()}
        )

    def _op(
        self, node: ast.AST, name: str, args: list[Closure], keywords: dict[str, Closure]
    ) -> Closure:
        """The call of an op; one that Wend lacks raises when called."""
        op = find_op(name, self.unit.version)
        if op is None:
            place = f"{self.code.file}, line {getattr(node, 'lineno', 0)}, in {self.code.name}"

            def lacks(f: Frame) -> Any:
                raise NotImplementedInWend(
                    f"torch.jit.load: the archive calls {name[:120]}, which Wend does not have "
                    f"({place})"
                )

            return lacks
        if keywords:
            pairs = list(keywords.items())
            return lambda f: op(*[a(f) for a in args], **{k: v(f) for k, v in pairs})
        if len(args) == 1:
            (only,) = args
            return lambda f: op(only(f))
        if len(args) == 2:
            first, second = args
            return lambda f: op(first(f), second(f))
        return lambda f: op(*[a(f) for a in args])


STATEMENTS = (
    ast.Pass,
    ast.Return,
    ast.Expr,
    ast.Assign,
    ast.AnnAssign,
    ast.If,
    ast.While,
    ast.For,
    ast.With,
    ast.FunctionDef,
)
EXPRESSIONS = (
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Name,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.IfExp,
    ast.Subscript,
    ast.Slice,
    ast.Attribute,
    ast.Call,
)
NUMBERS: dict[str, Any] = {
    "inf": math.inf,
    "nan": math.nan,
    "infj": complex(0.0, math.inf),
    "nanj": complex(0.0, math.nan),
}


Compiler.statements, Compiler.expressions = STATEMENTS, EXPRESSIONS


def dotted(node: ast.expr) -> list[str]:
    """The names of `a.b.c`; nothing if the first is no name."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return []
    return [node.id, *reversed(names)]


def item_of(value: Any, index: Any) -> Any:
    """An item of a list, a tuple, a dict or a text.  Raises ArgumentTypeError for other kinds."""
    if isinstance(value, (list, tuple, dict, str)):
        return tuple.__getitem__(value, index) if isinstance(value, tuple) else value[index]
    if isinstance(value, Tensor):
        return value.select(0, index)
    kind = getattr(value, "_archive_item", None)
    if kind is not None:
        return kind(index)
    raise ArgumentTypeError(f"TorchScript: a {type(value).__name__} has no items")


def new_object(kind: Any) -> ScriptObject:
    """An object without fields, which `__init__` will fill."""
    if not isinstance(kind, ArchiveClass) or kind.base:
        raise FormatError("TorchScript: __new__ is called of something else than a class")
    return ScriptObject(kind)


def call_value(function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The result of a function or class of the archive."""
    if isinstance(function, Code):
        return function.call(args, keywords)
    if isinstance(function, ArchiveClass):
        return function.call(args, keywords)
    if isinstance(function, Inner) and not args and not keywords:
        return function.call()
    raise ArgumentTypeError(f"TorchScript: a {type(function).__name__} is called")


def call_method(owner: Any, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The result of a method of a module or object of the archive; of tensors, `tolist`."""
    kind = owner.kind if isinstance(owner, ScriptObject) else getattr(owner, "_kind", None)
    if isinstance(kind, ArchiveClass):
        return kind.method(name).call([owner, *args], keywords)
    if isinstance(owner, (Tensor, Number0d)) and name == "tolist" and not args:
        return as_tensors(owner).tolist()
    raise ArgumentTypeError(
        f"TorchScript: a {type(owner).__name__} has no method {name[:80]!r} in an archive"
    )


# -- forms that look like functions -----------------------------------------------------------


def _parts(compiler: Compiler, node: ast.Call, count: int) -> list[ast.expr]:
    if len(node.args) != count or node.keywords:
        compiler.refuse(node, f"a call of {ast.unparse(node.func)[:80]} in this way")
    return node.args


def _typed(compiler: Compiler, node: ast.Call) -> Closure:
    """`annotate(T, x)`, `unchecked_cast(T, x)`: the value; of a tensor for a number, the number."""
    kind_node, value_node = _parts(compiler, node, 2)
    kind, value = type_of(kind_node), compiler.expression(value_node)
    if kind.name not in IMPLICIT or isinstance(value_node, ast.Constant):
        return value
    return lambda f: implicit(value(f))


IMPLICIT = frozenset(("int", "float", "complex", "bool", "number", "Scalar"))


def implicit(x: Any) -> Any:
    """A number; of a tensor, the number in it."""
    if isinstance(x, Number0d):
        return x.value
    return x.item() if isinstance(x, Tensor) else x


def _uninitialized(compiler: Compiler, node: ast.Call) -> Closure:
    type_of(_parts(compiler, node, 1)[0])
    return lambda f: None


def _isinstance(compiler: Compiler, node: ast.Call) -> Closure:
    value_node, kind = _parts(compiler, node, 2)
    value = compiler.expression(value_node)
    listed = kind.elts if isinstance(kind, (ast.List, ast.Tuple)) else [kind]
    kinds = [type_of(k) for k in listed]

    def test(f: Frame) -> bool:
        subject = value(f)
        return any(k.holds(subject) for k in kinds)

    return test


def _getattr(compiler: Compiler, node: ast.Call) -> Closure:
    owner_node, name = _parts(compiler, node, 2)
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        compiler.refuse(node, "getattr without a name")
    owner, text = compiler.expression(owner_node), name.value
    return lambda f: read(owner(f), text)


def _number(convert: Callable[[Any], Any]) -> Callable[[Compiler, ast.Call], Closure]:
    def form(compiler: Compiler, node: ast.Call) -> Closure:
        value = compiler.expression(_parts(compiler, node, 1)[0])
        return lambda f: convert(value(f))

    return form


def as_int(x: Any) -> Any:
    """An int: of a number, a text, a tensor.  Sizes of explored graphs stay."""
    if isinstance(x, Number0d):
        return x.value
    return x if type(x).__name__ == "SymInt" else int(x)


def as_float(x: Any) -> Any:
    """A float: of a number, a text, a tensor."""
    return float(x.value if isinstance(x, Number0d) else x)


def as_bool(x: Any) -> bool:
    """A bool: of a number, a tensor, a list."""
    return bool(x.value if isinstance(x, Number0d) else x)


def _complex(compiler: Compiler, node: ast.Call) -> Closure:
    parts = [compiler.expression(x) for x in node.args[:2]]
    return lambda f: complex(*[p(f) for p in parts])


def _range(compiler: Compiler, node: ast.Call) -> Closure:
    parts = [compiler.expression(x) for x in node.args[:3]]
    return lambda f: range(*[as_int(p(f)) for p in parts])


def _print(compiler: Compiler, node: ast.Call) -> Closure:
    parts = [compiler.expression(x) for x in node.args]
    return lambda f: print(*[shown(as_tensors(p(f))) for p in parts])


def _fork(compiler: Compiler, node: ast.Call) -> Closure:
    """`fork(function, ...)`: calls at once; `torch.wait` then gives the result."""
    if not node.args:
        compiler.refuse(node, "fork without a function")
    target, *args = [compiler.expression(x) for x in node.args]
    return lambda f: call_value(target(f), [a(f) for a in args], {})


def _builtin(name: str) -> Callable[[Compiler, ast.Call], Closure]:
    """A function of Python's name that is an op: `sorted(x)`."""

    def form(compiler: Compiler, node: ast.Call) -> Closure:
        if node.keywords:
            compiler.refuse(node, f"{name} with keywords")
        return compiler._op(node, name, [compiler.expression(x) for x in node.args], {})

    return form


BUILTINS = "sorted len list dict ord chr hash abs round sum max min hex bin oct divmod".split()
FORMS: dict[str, Callable[[Compiler, ast.Call], Closure]] = {
    **{name: _builtin(f"aten::{name}") for name in BUILTINS},
    "unchecked_unwrap_optional": _builtin("prim::unchecked_unwrap_optional"),
    "rangelist": _builtin("prim::rangelist"),
    "annotate": _typed,
    "unchecked_cast": _typed,
    "uninitialized": _uninitialized,
    "isinstance": _isinstance,
    "getattr": _getattr,
    "int": _number(as_int),
    "float": _number(as_float),
    "bool": _number(as_bool),
    "str": _number(lambda x: shown(as_tensors(x))),
    "complex": _complex,
    "range": _range,
    "print": _print,
    "fork": _fork,
    "awaitable": _fork,
}
