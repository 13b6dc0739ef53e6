"""From a user's module or function to the text of a program: names resolved, types inferred.

The source is read, never run. A name that is no variable of the function leads to an object of the
user's module: a function of Wend's becomes `ops.functional.relu`, a function of the user's is
translated too, a number is written out. Arguments without a type are tensors. Whatever has no place
in a program is refused with the user's line.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
import types
import typing
from typing import Any, NoReturn

import wend.nn.functional as F
from wend._engine.base.devices import device
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import GraphError
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._ops import T
from wend.jit._torchscript._wide import BLOCKS, BUILTINS, PACKAGES, WideCompiler, find_function
from wend.nn.modules.module import Module

__all__ = ["ScriptRefused", "Translator", "class_of", "is_layer"]


class ScriptRefused(GraphError):
    """A program that `torch.jit.script` cannot save; the message ends with the user's line."""


def class_of(module: Module) -> Any:
    """The class of a module, without the subclass that `script` has made."""
    kind: Any = type(module)
    return kind.__dict__.get("_scripts", kind)


def is_layer(module: Module) -> bool:
    """Whether a module is of a class of `torch.nn`, which a program names."""
    return bool(class_of(module).__module__.startswith(f"{T.__name__}.nn.modules."))


NAMED_TYPES = {Tensor: "Tensor", type(None): "NoneType", device: "Device", Any: "Any"}
PLAIN = (int, float, bool, str, complex)


def type_text(kind: Any) -> str | None:
    """A type as programs write types; None for a type that programs do not have."""
    if kind in PLAIN:
        return str(kind.__name__)
    if kind in (list, typing.List):  # noqa: UP006 (users write both)
        return "list"
    if kind in (dict, typing.Dict):  # noqa: UP006
        return "dict"
    try:
        if kind in NAMED_TYPES:
            return NAMED_TYPES[kind]
    except TypeError:  # an object that is no type
        return None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Tensor):
        return "Tensor"
    if kind is DType or kind is T.Size:
        return "Any"
    if origin is None or Ellipsis in args:
        return None
    inner = [type_text(a) for a in args]
    if any(x is None for x in inner):
        return None
    listed = ", ".join(str(x) for x in inner)
    if origin in (typing.Union, types.UnionType):
        rest = [x for x in inner if x != "NoneType"]
        if len(rest) == 1:
            return f"Optional[{rest[0]}]"
        return f"Union[{listed}]"
    name = {list: "List", dict: "Dict", tuple: "Tuple", typing.Final: "Final"}.get(origin)
    return None if name is None else f"{name}[{listed}]"


class Translator:
    """Collects classes and functions of a program, as text.

    texts: lines of code by the name of a file of code
    """

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.functions: dict[int, str] = {}
        self.kept: list[Any] = []  # objects whose ids are keys

    def module(self, module: Module, number: int) -> str:
        """Translate a module's class for this very instance; gives the full name."""
        kind = class_of(module)
        methods = MethodCollector(self, module, kind)
        names = ["forward", *exported_names(kind)]
        for name in names:
            methods.want(name, None)
        lines = [f"class {kind.__name__}(Module):"]
        lines.append(f"  __parameters__ = {list(module._parameters)!r}")
        lines.append(f"  __buffers__ = {list(module._buffers)!r}")
        lines += ["  training : bool", *methods.lines()]
        file = f"__torch__.m{number}"
        self.texts[file] = lines
        return f"{file}.{kind.__name__}"

    def function(self, function: Any, site: Site) -> str:
        """Translate a function of the user's; gives the full name."""
        name = self.functions.get(id(function))
        if name is None:
            self.kept.append(function)
            file = f"__torch__.f{len(self.functions)}"
            name = self.functions[id(function)] = f"{file}.{function.__name__}"
            self.texts[file] = FunctionTranslator(self, function, None).lines(site)
        return name

    def record(self, kind: Any) -> str:
        """Write a named tuple's class; gives the full name."""
        name = self.functions.get(id(kind))
        if name is None:
            self.kept.append(kind)
            file = f"__torch__.c{len(self.functions)}"
            name = self.functions[id(kind)] = f"{file}.{kind.__name__}"
            hints = typing.get_type_hints(kind)
            lines = [f"class {kind.__name__}(NamedTuple):"]
            for field in kind._fields:
                text = type_text(hints.get(field, Any)) or "Any"
                default = kind._field_defaults.get(field, inspect.Parameter.empty)
                plain = default is None or isinstance(default, PLAIN)
                lines.append(f"  {field} : {text}" + (f" = {default!r}" if plain else ""))
            self.texts[file] = lines
        return name


def is_record(kind: Any) -> bool:
    """Whether a class is a NamedTuple of the user's."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_field_defaults")


HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def exported_names(kind: type) -> list[str]:
    """Names of methods that `torch.jit.export` has marked."""
    names = []
    for base in kind.__mro__:
        for name, member in base.__dict__.items():
            if getattr(member, "_jit_export", False) and name not in names:
                names.append(name)
    return names


class Site:
    """A place in the user's source."""

    def __init__(self, file: str, line: int, where: str) -> None:
        self.file, self.line, self.where = file, line, where

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.where}"


def refuse(site: Site | None, what: str) -> NoReturn:
    """Raise ScriptRefused with the user's line."""
    error = ScriptRefused(
        f"torch.jit.script: {what}; call the module once before it is saved, or use "
        "torch.jit.trace, to save the graph instead of the program"
    )
    error.site = site
    raise error


class MethodCollector:
    """The methods of a module that a program needs: those asked for, and those that these call."""

    def __init__(self, translator: Translator, module: Module, kind: type) -> None:
        self.translator, self.module, self.kind = translator, module, kind
        self.done: dict[str, list[str]] = {}

    def want(self, name: str, site: Site | None) -> None:
        """Translate a method, if that has not been done."""
        if name in self.done:
            return
        function = inspect.getattr_static(self.kind, name, None)
        if isinstance(function, staticmethod):
            refuse(site, f"the static method {name} is not saved")
        if not isinstance(function, types.FunctionType):
            refuse(site, f"{self.kind.__name__}.{name} is no method with a source")
        self.done[name] = []
        self.done[name] = FunctionTranslator(self.translator, function, self).lines(site)

    def lines(self) -> list[str]:
        """The text of all methods, indented."""
        return [f"  {line}" for lines in self.done.values() for line in lines]


REFUSED: dict[type, str] = {
    ast.Lambda: "a lambda",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Await: "await",
    ast.Try: "try",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.ClassDef: "a class inside of a function",
    ast.FunctionDef: "a function inside of a function",
    ast.AsyncFunctionDef: "async def",
    ast.Import: "an import inside of a function",
    ast.ImportFrom: "an import inside of a function",
    ast.NamedExpr: "an assignment inside of an expression",
    ast.SetComp: "a set",
    ast.Set: "a set",
    ast.Match: "match",
    ast.Starred: "a star outside of a call",
}


class FunctionTranslator(ast.NodeTransformer):
    """Translates a function, or a method of a module."""

    def __init__(
        self, translator: Translator, function: Any, owner: MethodCollector | None
    ) -> None:
        self.translator, self.function, self.owner = translator, function, owner
        self.file = inspect.getsourcefile(function) or "?"
        self.first = 1
        self.locals: set[str] = set()
        self.self_name = ""
        self.names = {**function.__globals__}
        closure = function.__closure__ or ()
        for name, cell in zip(function.__code__.co_freevars, closure, strict=True):
            try:
                self.names[name] = cell.cell_contents
            except ValueError:  # a variable that is not set yet
                continue

    def site(self, node: ast.AST) -> Site:
        """The user's line of a node."""
        line = self.first + getattr(node, "lineno", 1) - 1
        return Site(self.file, line, self.function.__qualname__)

    def lines(self, site: Site | None) -> list[str]:
        """The text of the function.  Raises ScriptRefused."""
        try:
            source, self.first = inspect.getsourcelines(self.function)
        except (OSError, TypeError):  # no file, which is told
            refuse(site, f"the source of {self.function.__qualname__} is not there")
        try:
            body = ast.parse(textwrap.dedent("".join(source))).body
        except SyntaxError:  # a part of a line, which is told
            body = []
        if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
            refuse(site, f"{self.function.__qualname__} is no function of its own lines")
        node = body[0]
        if isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
        self._read_signature(node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self.locals.add(inner.id)
        statements: list[ast.stmt] = []
        for statement in node.body:
            visited = self.visit(statement)
            statements += visited if isinstance(visited, list) else [visited]
            if isinstance(visited, list) and isinstance(visited[-1], ast.Return):
                break  # the rest is for Python alone
        node.body = statements
        node.returns, node.decorator_list = None, []
        return ast.unparse(ast.fix_missing_locations(node)).splitlines()

    def _read_signature(self, node: ast.FunctionDef) -> None:
        """Write the types and defaults of parameters."""
        args = node.args
        if args.vararg or args.kwarg:
            refuse(self.site(node), "a function with * or ** in the signature")
        try:
            hints = typing.get_type_hints(self.function)
        except Exception as error:  # of the user's annotations, whatever these raise
            refuse(self.site(node), f"the annotations cannot be read ({error})")
        listed = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        args.args, args.posonlyargs = [*args.posonlyargs, *args.args], []
        if self.owner is not None:
            self.self_name = listed[0].arg
            listed[0].annotation = None
        for arg in listed:
            self.locals.add(arg.arg)
            if arg.arg == self.self_name:
                continue
            text = type_text(hints.get(arg.arg, Tensor))
            if text is None:
                refuse(self.site(arg), f"the type of the argument {arg.arg!r} is not supported")
            arg.annotation = ast.parse(text, mode="eval").body
        self._write_defaults(args)

    def _write_defaults(self, args: ast.arguments) -> None:
        values = self.function.__defaults__ or ()
        args.defaults = [self._constant(v, n) for v, n in zip(values, args.defaults, strict=True)]
        named = self.function.__kwdefaults__ or {}
        args.kw_defaults = [
            None if n is None else self._constant(named[a.arg], n)
            for a, n in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]

    def _constant(self, value: Any, node: ast.AST, what: str = "a default") -> ast.expr:
        """A value written out.  Raises ScriptRefused for values that are no constants."""
        if value is None or isinstance(value, PLAIN):
            if isinstance(value, float) and not math.isfinite(value):
                return ast.parse(f"float({str(value)!r})", mode="eval").body
            return ast.Constant(value)
        if isinstance(value, DType):
            return ast.parse(f"ops.dtype.{value.name}", mode="eval").body
        if isinstance(value, device):
            return ast.Constant(str(value))
        if isinstance(value, (list, tuple)):
            items = [self._constant(v, node, what) for v in value]
            kind = ast.List if isinstance(value, list) else ast.Tuple
            return kind(items, ast.Load())
        refuse(self.site(node), f"{what} of the type {type(value).__name__} is not saved")

    # -- nodes

    def visit(self, node: ast.AST) -> Any:
        """The node of the program for a node of the source."""
        what = REFUSED.get(type(node))
        if what is not None:
            refuse(self.site(node), f"{what} is not part of a program")
        kinds = (*WideCompiler.statements, *WideCompiler.expressions, ast.Raise, ast.Starred)
        if isinstance(node, (ast.stmt, ast.expr)) and not isinstance(
            node, (*kinds, ast.FormattedValue)
        ):
            refuse(self.site(node), f"{type(node).__name__} is not part of a program")
        return super().visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """An assignment; the type is for readers."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        targets = [self.visit(node.target)]
        return ast.copy_location(ast.Assign(targets, self.visit(node.value)), node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """The call that raises an error of the name, with the text."""
        error = node.exc
        name, text = "Exception", ast.Constant("")
        if isinstance(error, ast.Call):
            texts = [self.visit(a) for a in error.args]
            name = ast.unparse(error.func)
            text = texts[0] if texts else text
        elif error is not None:
            name = ast.unparse(error)
        call = ast.parse("ops.prim.RaiseException('', '')", mode="eval").body
        assert isinstance(call, ast.Call)
        call.args = [text, ast.Constant(name)]
        return ast.copy_location(ast.Expr(call), node)

    def visit_If(self, node: ast.If) -> Any:
        """A branch; where `torch.jit.is_scripting()` decides, the part that a script has."""
        test, turned = node.test, False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, turned = test.operand, True
        if isinstance(test, ast.Call):
            known, value = self._resolved(test.func)
            if known and value in (T.jit.is_scripting, T.jit.is_tracing):
                taken = (value is T.jit.is_scripting) is not turned
                kept = node.body if taken else node.orelse
                return [self.visit(x) for x in kept] or ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        """A value in a text; the specification is written out."""
        parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
        if not all(isinstance(x, ast.Constant) for x in parts):
            refuse(self.site(node), "a format that is computed is not part of a program")
        node.value = self.visit(node.value)
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        """A variable, or the object of a global name."""
        if node.id in self.locals or isinstance(node.ctx, ast.Store):
            if node.id == self.self_name:
                refuse(self.site(node), "the module itself is used as a value")
            return node
        return self._global(node, self._lookup(node))

    def _lookup(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        value = getattr(builtins, node.id, None)
        if value is None:
            refuse(self.site(node), f"the name {node.id!r} is not there")
        return value

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """An attribute of a value, of the module, or of an imported module."""
        if self._is_self(node.value):
            return self._field(node)
        known, value = self._resolved(node)
        if known:
            return self._global(node, value)
        node.value = self.visit(node.value)
        return node

    def _is_self(self, node: ast.expr) -> bool:
        return bool(self.self_name) and isinstance(node, ast.Name) and node.id == self.self_name

    def _field(self, node: ast.Attribute) -> Any:
        """An attribute of the module."""
        assert self.owner is not None
        module, name = self.owner.module, node.attr
        if isinstance(node.ctx, ast.Store):
            if name not in vars(module) and name not in module._buffers:
                refuse(self.site(node), f"the attribute {name!r} is not set before the call")
            return node
        if isinstance(inspect.getattr_static(self.owner.kind, name, None), property):
            refuse(self.site(node), f"the property {name!r} is not saved")
        try:
            value = getattr(module, name)
        except AttributeError:  # told with the line
            refuse(self.site(node), f"the module has no attribute {name!r}")
        held = (module._parameters, module._buffers, module._modules, vars(module))
        if not any(name in place for place in held):  # of the class
            return self._constant(value, node, f"the attribute {name!r} of the class")
        if isinstance(value, types.FunctionType) or (
            callable(value) and not isinstance(value, Module)
        ):
            return self._global(node, value)
        return node

    def _resolved(self, node: ast.expr) -> tuple[bool, Any]:
        """(whether a path leads through imported modules and classes to an object, the object)."""
        if isinstance(node, ast.Name):
            if node.id in self.locals or node.id not in self.names:
                return False, None
            return True, self.names[node.id]
        if not isinstance(node, ast.Attribute):
            return False, None
        known, owner = self._resolved(node.value)
        if not known or not isinstance(owner, (types.ModuleType, type)):
            return False, None
        try:
            return True, getattr(owner, node.attr)
        except AttributeError:  # told with the line
            refuse(self.site(node), f"{ast.unparse(node)} is not there")

    def _global(self, node: ast.expr, value: Any) -> Any:
        """The text of an object that is no variable."""
        path = self._path(node, value)
        if path is not None:
            return ast.copy_location(ast.parse(path, mode="eval").body, node)
        if isinstance(value, Tensor):
            refuse(self.site(node), f"{ast.unparse(node)!r} is a tensor outside of the module")
        return ast.copy_location(self._constant(value, node, repr(ast.unparse(node))), node)

    def _path(self, node: ast.expr, value: Any) -> str | None:
        """The name of a function in a program; None for values."""
        value = getattr(value, "_function", value) if not isinstance(value, Module) else value
        if isinstance(value, type) and value.__name__ in BLOCKS:
            return f"ops.block.{value.__name__}"
        if (
            isinstance(value, types.BuiltinFunctionType | type)
            and BUILTINS.get(getattr(value, "__name__", "")) is value
        ):
            return str(value.__name__)
        if not callable(value) or isinstance(value, (Module, DType, device)):
            return None
        path = path_of(value)
        if path is not None:
            return path
        own = str(getattr(value, "__module__", "")).startswith(f"{T.__name__}.")
        if isinstance(value, types.FunctionType) and not own:
            return self.translator.function(value, self.site(node))
        refuse(self.site(node), f"{ast.unparse(node)!r} is no function of a program")

    # -- calls

    def visit_Call(self, node: ast.Call) -> Any:
        """A call: of a method of the module, or of another function."""
        func = node.func
        known, value = self._resolved(func)
        if known:
            special = self._special(node, value)
            if special is not None:
                return ast.copy_location(special, node)
        if isinstance(func, ast.Name) and func.id == "isinstance" and func.id not in self.locals:
            return self._isinstance(node)
        for word in ("super", "getattr", "hasattr", "setattr", "eval", "exec", "type"):
            if isinstance(func, ast.Name) and func.id == word and word not in self.names:
                refuse(self.site(node), f"{word}() is not part of a program")
        node.args = [
            ast.Starred(self.visit(a.value), ast.Load())
            if isinstance(a, ast.Starred)
            else self.visit(a)
            for a in node.args
        ]
        node.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        if any(k.arg is None for k in node.keywords):
            refuse(self.site(node), "** in a call is not part of a program")
        if isinstance(func, ast.Attribute) and self._is_self(func.value):
            node.func = self._called_field(func)
        else:
            node.func = self.visit(func)
        return node

    def _called_field(self, func: ast.Attribute) -> ast.expr:
        assert self.owner is not None
        member = inspect.getattr_static(self.owner.kind, func.attr, None)
        if isinstance(member, types.FunctionType) and func.attr not in self.owner.module._modules:
            self.owner.want(func.attr, self.site(func))
            return func
        field = self._field(func)
        assert isinstance(field, ast.expr)
        return field

    def _special(self, node: ast.Call, value: Any) -> ast.expr | None:
        """Calls that a program has another form of."""
        name = getattr(value, "__name__", "")
        if value is getattr(T.jit, "is_scripting", None):
            return ast.Constant(True)
        if value is getattr(T.jit, "is_tracing", None):
            return ast.Constant(False)
        if value in (T.jit.annotate, typing.cast) and len(node.args) == 2:
            visited: ast.expr = self.visit(node.args[1])
            return visited
        if value is T.device and len(node.args) == 1:
            return self.visit(node.args[0])  # type: ignore[no-any-return]
        if value is T.jit.isinstance:
            return self._isinstance(node)
        if is_record(value):
            node.func = ast.parse(self.translator.record(value), mode="eval").body
            node.args = [self.visit(a) for a in node.args]
            node.keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
            return node
        if isinstance(value, type) and name not in BLOCKS and BUILTINS.get(name) is not value:
            refuse(self.site(node), f"an object of the class {name} is not part of a program")
        return None

    def _isinstance(self, node: ast.Call) -> ast.expr:
        subject, kinds = node.args
        listed = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        texts = []
        for kind in listed:
            try:
                value = self._evaluated(kind)
            except (KeyError, AttributeError, TypeError):  # no type, which is told
                value = None
            text = None if value is None else type_text(value)
            if text is None:
                refuse(self.site(node), f"isinstance of {ast.unparse(kind)}")
            texts.append(text)
        text = f"isinstance(x, ({', '.join(texts)},))"
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call)
        call.args[0] = self.visit(subject)
        return call

    def _evaluated(self, node: ast.expr) -> Any:
        """The type of a path or of `List[int]`, from the names of the user's module."""
        if isinstance(node, ast.Name):
            value = self.names.get(node.id, getattr(builtins, node.id, None))
            return value
        if isinstance(node, ast.Attribute):
            return getattr(self._evaluated(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            inner = node.slice
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            kinds = tuple(self._evaluated(p) for p in parts)
            return self._evaluated(node.value)[kinds if len(kinds) > 1 else kinds[0]]
        return None


def path_of(value: Any) -> str | None:
    """`ops.functional.relu` of a function of Wend's or of `math`; None for other functions."""
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    spaces: list[tuple[str, Any]] = [("torch", T), ("functional", F), ("math", math)]
    spaces += [(package, getattr(T, package)) for package in PACKAGES]
    for space, module in spaces:
        names = [name] if isinstance(name, str) and hasattr(module, name) else []
        for candidate in names or _names_of(module, value):
            if getattr(module, candidate, None) is value and find_function(space, candidate):
                return f"ops.{space}.{candidate}"
    return None


def _names_of(module: Any, value: Any) -> list[str]:
    """The names under which a module has a function that is called otherwise itself."""
    return [n for n, x in vars(module).items() if x is value and not n.startswith("_")]
