"""Programs that Wend itself has written from a user's source: a wider subset of Python.

Operators, methods of tensors, slices, comprehensions, `break` and early returns stay as the user
wrote them. Names are resolved when the program is saved: `ops.functional.relu` is a function of
`torch.nn.functional`. As in archives of PyTorch's nothing is executed by Python. Every function,
method and attribute is on a list.
"""

from __future__ import annotations

import ast
import functools
import importlib
import math
import operator
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import wend.nn.functional as F
from wend._engine.base.devices import device
from wend._engine.base.dtypes import NAMES, DType
from wend._engine.base.errors import ArgumentTypeError, FormatError, NotAvailable
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor
from wend.jit._torchscript._classes import read, write
from wend.jit._torchscript._compiling import (
    EXPRESSIONS,
    GOES_ON,
    MISSING,
    STATEMENTS,
    Closure,
    Code,
    Compiler,
    Frame,
    call_value,
    dotted,
)
from wend.jit._torchscript._module import ArchiveModule
from wend.jit._torchscript._ops import FUNCTIONS, METHODS
from wend.jit._torchscript._text import percent_formatted
from wend.jit._torchscript._types import type_of
from wend.jit._torchscript._values import ScriptRaised
from wend.nn.modules.module import Module

__all__ = ["WideCompiler", "find_function", "has_method", "parse_wide"]

T: Any = importlib.import_module(__name__.partition(".")[0])
Function = Callable[..., Any]
BREAK: Any = object()
CONTINUE: Any = object()
MOST_OPERATORS = 400  # of a statement
DEEPEST_BRACKETS = 60

# -- the lists -------------------------------------------------------------------------------

MORE_FUNCTIONS = frozenset(
    "broadcast_shapes is_grad_enabled is_tensor manual_seed meshgrid numel block_diag "
    "cartesian_prod unique unique_consecutive stft complex polar atleast_1d is_nonzero "
    "_assert einsum".split()
)
TENSOR_METHODS = frozenset(
    """
    backward bernoulli_ bool byte char chunk clone contiguous copy_ cpu detach detach_ dim double
    element_size expand_as exponential_ fill_ float half index_put_ int is_complex is_contiguous
    is_floating_point item long masked_select nelement new_tensor nonzero normal_ numel
    random_ repeat_interleave requires_grad_ reshape_as retain_grad short size split stride tolist
    to type_as unbind uniform_ unique view_as zero_ type stft istft split_with_sizes tensor_split
    ndimension multinomial new_empty new_full new_ones new_zeros bfloat16 equal allclose quantile
    sum_to_size isin
    """.split()
)
TENSOR_ATTRIBUTES = frozenset(
    "shape dtype device T mT H mH ndim grad data requires_grad is_leaf real imag is_cuda is_sparse "
    "itemsize nbytes is_meta".split()
)
PLAIN_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize count endswith find index isalnum isalpha isdigit islower isspace isupper join "
        "lower lstrip partition replace rfind rsplit rstrip split splitlines startswith strip "
        "title upper".split()
    ),
    list: frozenset("append clear copy count extend index insert pop remove reverse sort".split()),
    dict: frozenset("clear copy get items keys pop popitem setdefault update values".split()),
    tuple: frozenset("count index numel".split()),
}
LAYER_METHODS = frozenset("items keys values forward children parameters extra_repr".split())
FIELDS = frozenset(
    "values indices eigenvalues eigenvectors Q R U S V Vh LU L sign logabsdet solution pivots "
    "output mantissa exponent hist bin_edges".split()
)
BLOCKS = frozenset("no_grad enable_grad set_grad_enabled inference_mode".split())
MATHS = frozenset(name for name in dir(math) if not name.startswith("_"))
PACKAGES = ("linalg", "special", "fft")


@functools.cache
def find_function(space: str, name: str) -> Function | None:
    """The function `ops.SPACE.NAME` of a program; None if the lists lack the name."""
    if name.startswith("_") and name != "_assert":
        return None
    if space == "torch":
        function = getattr(T, name, None)
        listed = name in FUNCTIONS or name in MORE_FUNCTIONS
        return function if listed or isinstance(function, _hot.OpFunction) else None
    if space == "functional":
        function = getattr(F, name, None)
        own = isinstance(function, types.FunctionType)
        own = own and function.__module__.startswith(f"{T.__name__}.")
        return function if isinstance(function, _hot.OpFunction) or own else None
    if space == "math":
        function = getattr(math, name, None) if name in MATHS else None
        return function if callable(function) else None
    if space == "block":
        return getattr(T, name, None) if name in BLOCKS else None
    if space in PACKAGES:
        module = importlib.import_module(f"{T.__name__}.{space}")
        return getattr(module, name, None) if name in getattr(module, "__all__", ()) else None
    return None


@functools.cache
def has_method(name: str) -> bool:
    """Whether programs may call a method of tensors."""
    if name in TENSOR_METHODS or name in METHODS:
        return hasattr(Tensor, name)
    return isinstance(getattr(Tensor, name, None), _hot.OpFunction)


# -- the text ----------------------------------------------------------------------------------

WORD = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<open>[(\[{])|(?P<close>[)\]}])"""
    r"""|(?P<line>\n)|(?P<sign>[-+*/%&|^~<>!@.]|\b(?:not|and|or|if|in|is|lambda)\b)|[^\s\w]|\w+|\s""",
    re.DOTALL,
)


def parse_wide(text: str, file: str) -> ast.Module:
    """The syntax tree of a program that Wend has written.  Raises FormatError."""
    depth = signs = 0
    for match in WORD.finditer(text):
        kind = match.lastgroup
        depth += (kind == "open") - (kind == "close")
        signs = 0 if kind == "line" and depth <= 0 else signs + (kind == "sign")
        if depth > DEEPEST_BRACKETS or signs > MOST_OPERATORS:
            raise FormatError(f"torch.jit.load: {file}: an expression is too deep")
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise FormatError(f"torch.jit.load: {file}: the code is no program of Wend's") from error


# -- values ------------------------------------------------------------------------------------


def wide_read(value: Any, name: str) -> Any:
    """An attribute of a value; tensors, layers and results have those on the lists."""
    if isinstance(value, Tensor):
        if name in TENSOR_ATTRIBUTES:
            return getattr(value, name)
    elif isinstance(value, ArchiveModule):
        return value._archive_read(name)
    elif isinstance(value, Module):
        if not name.startswith("_"):
            for place in (value._parameters, value._buffers, value._modules, vars(value)):
                if name in place:
                    return place[name]
    elif isinstance(value, device):
        if name in ("type", "index"):
            return getattr(value, name)
    elif isinstance(value, DType):
        if name in ("is_floating_point", "is_complex", "itemsize"):
            return getattr(value, name)
    elif isinstance(value, complex):
        if name in ("real", "imag"):
            return getattr(value, name)
    elif isinstance(value, tuple) and name in FIELDS:
        return getattr(value, name)
    return read(value, name)


def wide_method(owner: Any, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The result of a method of a tensor, a module, a list, a dict or a text."""
    if isinstance(owner, Tensor):
        if has_method(name):
            return getattr(owner, name)(*args, **keywords)
    elif isinstance(owner, ArchiveModule):
        return owner._kind.method(name).call([owner, *args], keywords)
    elif isinstance(owner, Module):
        if name in LAYER_METHODS:
            return getattr(owner, name)(*args, **keywords)
    else:
        for kind, names in PLAIN_METHODS.items():
            if isinstance(owner, kind) and name in names:
                return getattr(owner, name)(*args, **keywords)
    raise NotAvailable(f"the program calls {name[:80]} of a {type(owner).__name__}")


def wide_call(function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """The result of a function or a module of the program."""
    if isinstance(function, ArchiveModule):
        return function._kind.method("forward").call([function, *args], keywords)
    if isinstance(function, Module):
        return function(*args, **keywords)
    return call_value(function, args, keywords)


def item(value: Any, index: Any) -> Any:
    """An item of a container or a tensor."""
    if isinstance(value, (Tensor, list, tuple, dict, str, Module)):
        return value[index]  # type: ignore[index]
    raise ArgumentTypeError(f"the program takes an item of a {type(value).__name__}")


def put_item(value: Any, index: Any, new: Any) -> None:
    """Set an item of a list, a dict or a tensor."""
    if not isinstance(value, (Tensor, list, dict)):
        raise ArgumentTypeError(f"the program sets an item of a {type(value).__name__}")
    value[index] = new


def remainder(a: Any, b: Any) -> Any:
    """a % b; texts are formatted without large widths."""
    return percent_formatted(a, b) if isinstance(a, str) else a % b


def spelled(value: Any, spec: str) -> str:
    """A value in a text."""
    if not re.fullmatch(r"[^{}]{0,12}", spec) or re.search(r"\d{5}", spec):
        raise FormatError("a program formats by an odd specification")
    if isinstance(value, (int, float, complex, str)) or (spec and isinstance(value, Tensor)):
        return format(value, spec)
    return str(value)


BINARY: dict[type, Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: remainder,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
IN_PLACE: dict[type, Function] = {
    ast.Add: operator.iadd,
    ast.Sub: operator.isub,
    ast.Mult: operator.imul,
    ast.Div: operator.itruediv,
    ast.FloorDiv: operator.ifloordiv,
    ast.Mod: operator.imod,
    ast.Pow: operator.ipow,
    ast.MatMult: operator.imatmul,
    ast.BitAnd: operator.iand,
    ast.BitOr: operator.ior,
    ast.BitXor: operator.ixor,
    ast.LShift: operator.ilshift,
    ast.RShift: operator.irshift,
}
UNARY: dict[type, Function] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
COMPARISONS: dict[type, Function] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
BUILTINS: dict[str, Function] = {
    f.__name__: f
    for f in (
        *(range, len, int, float, bool, str, complex, list, dict, tuple, zip, enumerate, reversed),
        *(min, max, sum, sorted, abs, round, any, all, divmod, pow, ord, chr, print, set),
    )
}


class WideCompiler(Compiler):
    """Makes closures of the nodes of a program that Wend has written."""

    statements = (
        *STATEMENTS[:-1],
        ast.AugAssign,
        ast.Break,
        ast.Continue,
        ast.Assert,
        ast.Delete,
    )
    expressions = (
        *EXPRESSIONS,
        ast.BoolOp,
        ast.Compare,
        ast.ListComp,
        ast.DictComp,
        ast.GeneratorExp,
        ast.JoinedStr,
    )

    def __init__(self, unit: Any, code: Code) -> None:
        super().__init__(unit, code)
        self.count = 0

    def slot(self, name: str) -> int:
        """The place of a variable in the frame."""
        if name not in self.slots:
            self.count += 1
            self.slots[name] = self.count
        return self.slots[name]

    def places(self) -> int:
        """The size of a frame."""
        return self.count + 1

    def declare(self, node: ast.FunctionDef) -> None:
        """Give each variable a place: a loop may use a name before the line that sets it."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                self.slot(inner.id)

    def _Name(self, node: ast.Name) -> Closure:
        i, name = self.slots.get(node.id), node.id
        if i is None:
            return super()._Name(node)

        def value(f: Frame) -> Any:
            result = f[i]
            if result is MISSING:
                raise ScriptRaised(f"UnboundLocalError: {name} has no value")
            return result

        return value

    # -- statements

    def _Break(self, node: ast.Break) -> Closure:
        return lambda f: BREAK

    def _Continue(self, node: ast.Continue) -> Closure:
        return lambda f: CONTINUE

    def _Assert(self, node: ast.Assert) -> Closure:
        line, test = node.lineno, self.expression(node.test)
        text = (lambda f: "") if node.msg is None else self.expression(node.msg)

        def run(f: Frame) -> Any:
            f[0] = line
            if not test(f):
                raise ScriptRaised(f"AssertionError: {text(f)}")
            return GOES_ON

        return run

    def _Delete(self, node: ast.Delete) -> Closure:
        if not all(isinstance(t, ast.Subscript) for t in node.targets):
            return lambda f: GOES_ON
        targets = [t for t in node.targets if isinstance(t, ast.Subscript)]
        pairs = [(self.expression(t.value), self.expression(t.slice)) for t in targets]

        def run(f: Frame) -> Any:
            for owner, index in pairs:
                container = owner(f)
                if not isinstance(container, (list, dict)):
                    raise ArgumentTypeError("the program deletes an item of no list or dict")
                del container[index(f)]
            return GOES_ON

        return run

    def _Assign(self, node: ast.Assign) -> Closure:
        if len(node.targets) == 1:
            return self._assignment(node.targets[0], node.value)
        value, line = self.expression(node.value), node.lineno
        puts = [self._target(t) for t in node.targets]

        def run(f: Frame) -> Any:
            f[0] = line
            result = value(f)
            for put in puts:
                put(f, result)
            return GOES_ON

        return run

    def _AnnAssign(self, node: ast.AnnAssign) -> Closure:
        return self._Pass(ast.Pass()) if node.value is None else super()._AnnAssign(node)

    def _target(self, node: ast.expr) -> Callable[[Frame, Any], None]:
        if isinstance(node, ast.Subscript):
            owner, index = self.expression(node.value), self.expression(node.slice)
            return lambda f, v: put_item(owner(f), index(f), v)
        if isinstance(node, ast.List):
            node = ast.copy_location(ast.Tuple(node.elts, ast.Store()), node)
        return super()._target(node)

    def _AugAssign(self, node: ast.AugAssign) -> Closure:
        change, value, line = IN_PLACE[type(node.op)], self.expression(node.value), node.lineno
        target = node.target
        if isinstance(target, ast.Name):
            i = self.slot(target.id)

            def run_name(f: Frame) -> Any:
                f[0] = line
                f[i] = change(f[i], value(f))
                return GOES_ON

            return run_name
        owner = self.expression(target.value)
        if isinstance(target, ast.Attribute):
            name = target.attr

            def run_attribute(f: Frame) -> Any:
                f[0] = line
                holder = owner(f)
                write(holder, name, change(wide_read(holder, name), value(f)))
                return GOES_ON

            return run_attribute
        index = self.expression(target.slice)

        def run_item(f: Frame) -> Any:
            f[0] = line
            holder, place = owner(f), index(f)
            put_item(holder, place, change(item(holder, place), value(f)))
            return GOES_ON

        return run_item

    def _While(self, node: ast.While) -> Closure:
        test = self.expression(node.test)

        def turns(f: Frame) -> Iterator[None]:
            while test(f):
                yield

        return self._loop(node, turns)

    def _For(self, node: ast.For) -> Closure:
        put, items = self._target(node.target), self.expression(node.iter)

        def turns(f: Frame) -> Iterator[None]:
            for value in items(f):
                put(f, value)
                yield

        return self._loop(node, turns)

    def _loop(self, node: ast.While | ast.For, turns: Callable[[Frame], Iterator[None]]) -> Closure:
        """A loop.  turns: what happens before the body in each turn"""
        line, body, other = node.lineno, self.block(node.body), self.block(node.orelse)

        def run(f: Frame) -> Any:
            f[0] = line
            for _ in turns(f):
                result = body(f)
                if result is BREAK:
                    return GOES_ON
                if result is not GOES_ON and result is not CONTINUE:
                    return result
            return other(f)

        return run

    def _With(self, node: ast.With) -> Closure:
        line, body = node.lineno, self.block(node.body)
        managers = [self.expression(x.context_expr) for x in node.items]
        if len(managers) != 1 or node.items[0].optional_vars is not None:
            self.refuse(node, "a block of several contexts")
        enter = managers[0]

        def run(f: Frame) -> Any:
            f[0] = line
            manager: Any = enter(f)
            if type(manager).__name__ not in BLOCKS:
                raise ArgumentTypeError("the program enters an object that is no block")
            with manager:
                return body(f)

        return run

    # -- expressions

    def _BinOp(self, node: ast.BinOp) -> Closure:
        a, b, apply = self.expression(node.left), self.expression(node.right), BINARY[type(node.op)]
        return lambda f: apply(a(f), b(f))

    def _UnaryOp(self, node: ast.UnaryOp) -> Closure:
        value, apply = self.expression(node.operand), UNARY[type(node.op)]
        return lambda f: apply(value(f))

    def _BoolOp(self, node: ast.BoolOp) -> Closure:
        parts, stops = [self.expression(x) for x in node.values], isinstance(node.op, ast.Or)

        def run(f: Frame) -> Any:
            for part in parts[:-1]:
                value = part(f)
                if bool(value) is stops:
                    return value
            return parts[-1](f)

        return run

    def _Compare(self, node: ast.Compare) -> Closure:
        first = self.expression(node.left)
        rest = [
            (COMPARISONS[type(op)], self.expression(x))
            for op, x in zip(node.ops, node.comparators, strict=True)
        ]
        if len(rest) == 1:
            ((apply, second),) = rest
            return lambda f: apply(first(f), second(f))

        def run(f: Frame) -> Any:
            left = first(f)
            for apply, part in rest:
                right = part(f)
                result = apply(left, right)
                if not result:
                    return result
                left = right
            return result

        return run

    def _Subscript(self, node: ast.Subscript) -> Closure:
        value, index = self.expression(node.value), self.expression(node.slice)
        return lambda f: item(value(f), index(f))

    def _comprehension(self, node: Any, result: Callable[[], Callable[[Frame, Any], None]]) -> Any:
        """A closure that runs the loops of a comprehension; its variables are new."""
        outer = dict(self.slots)
        loops = []
        for loop in node.generators:
            items = self.expression(loop.iter)
            for name in ast.walk(loop.target):
                if isinstance(name, ast.Name):
                    self.slots.pop(name.id, None)
            put = self._target(loop.target)
            loops.append((items, put, [self.expression(test) for test in loop.ifs]))
        take = result()
        self.slots = outer

        def run(f: Frame, into: Any, depth: int = 0) -> Any:
            if depth == len(loops):
                take(f, into)
                return into
            items, put, tests = loops[depth]
            for value in items(f):
                put(f, value)
                if all(test(f) for test in tests):
                    run(f, into, depth + 1)
            return into

        return run

    def _ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Closure:
        def result() -> Callable[[Frame, Any], None]:
            value = self.expression(node.elt)
            return lambda f, into: into.append(value(f))

        run = self._comprehension(node, result)
        return lambda f: run(f, [])

    _GeneratorExp = _ListComp

    def _DictComp(self, node: ast.DictComp) -> Closure:
        def result() -> Callable[[Frame, Any], None]:
            key, value = self.expression(node.key), self.expression(node.value)
            return lambda f, into: into.__setitem__(key(f), value(f))

        run = self._comprehension(node, result)
        return lambda f: run(f, {})

    def _JoinedStr(self, node: ast.JoinedStr) -> Closure:
        parts: list[Closure] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts.append(self._formatted(part))
            else:
                parts.append(self.expression(part))
        return lambda f: "".join([p(f) for p in parts])

    def _formatted(self, node: ast.FormattedValue) -> Closure:
        value, spec = self.expression(node.value), ""
        if isinstance(node.format_spec, ast.JoinedStr):
            if not all(isinstance(x, ast.Constant) for x in node.format_spec.values):
                self.refuse(node, "a format that is computed")
            texts = [x.value for x in node.format_spec.values if isinstance(x, ast.Constant)]
            spec = "".join(str(x) for x in texts)
        if node.conversion == ord("r"):
            return lambda f: repr(value(f))
        return lambda f: spelled(value(f), spec)

    def _Attribute(self, node: ast.Attribute) -> Closure:
        path = dotted(node)
        root = path[0] if path else ""
        if root not in self.slots:
            if root == "__torch__":
                return self._named(path)
            if root == "ops" and len(path) == 3:
                constant = self._value(node, path[1], path[2])
                return lambda f: constant
        value, name = self.expression(node.value), node.attr
        return lambda f: wide_read(value(f), name)

    def _value(self, node: ast.AST, space: str, name: str) -> Any:
        """`ops.dtype.float32`, `ops.math.pi`."""
        if space == "dtype" and name in NAMES:
            return NAMES[name]
        if space == "math" and isinstance(getattr(math, name, None), float):
            return getattr(math, name)
        self.refuse(node, f"the name ops.{space}.{name}")

    def _Call(self, node: ast.Call) -> Closure:
        func = node.func
        path = dotted(func) if isinstance(func, ast.Attribute) else []
        named = bool(path) and path[0] not in self.slots
        if isinstance(func, ast.Name) and func.id == "isinstance":
            return self._isinstance(node)
        arguments = self._arguments(node)
        if isinstance(func, ast.Name) and func.id not in self.slots:
            if func.id not in BUILTINS:
                self.refuse(node, f"the function {func.id[:80]!r}")
            function = BUILTINS[func.id]
            return self._applied(function, arguments)
        if named and path[0] == "ops" and len(path) == 3:
            if path[1:] == ["prim", "RaiseException"]:
                return self._applied(raised, arguments)
            function_or_none = find_function(path[1], path[2])
            if function_or_none is None:
                self.refuse(node, f"the function {'.'.join(path)[:80]}")
            return self._applied(function_or_none, arguments)
        if isinstance(func, ast.Attribute) and not (named and path[0] == "__torch__"):
            owner, name = self.expression(func.value), func.attr
            return lambda f: called(owner(f), name, *arguments(f))
        target = self.expression(func)
        return lambda f: wide_call(target(f), *arguments(f))

    def _applied(self, function: Function, arguments: Any) -> Closure:
        def run(f: Frame) -> Any:
            args, keywords = arguments(f)
            return function(*args, **keywords)

        return run

    def _arguments(self, node: ast.Call) -> Callable[[Frame], tuple[list[Any], dict[str, Any]]]:
        """A closure that gives the arguments of a call."""
        if any(k.arg is None for k in node.keywords):
            self.refuse(node, "a call with two stars")
        starred = any(isinstance(x, ast.Starred) for x in node.args)
        args = [self.expression(x.value if isinstance(x, ast.Starred) else x) for x in node.args]
        flags = [isinstance(x, ast.Starred) for x in node.args]
        keywords = [(str(k.arg), self.expression(k.value)) for k in node.keywords]
        if not starred:
            return lambda f: ([a(f) for a in args], {k: v(f) for k, v in keywords})

        def spread(f: Frame) -> tuple[list[Any], dict[str, Any]]:
            values: list[Any] = []
            for part, many in zip(args, flags, strict=True):
                values += part(f) if many else [part(f)]
            return values, {k: v(f) for k, v in keywords}

        return spread

    def _isinstance(self, node: ast.Call) -> Closure:
        if len(node.args) != 2:
            self.refuse(node, "isinstance of this kind")
        value, kind = self.expression(node.args[0]), node.args[1]
        kinds = [type_of(k) for k in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
        return lambda f: any(k.holds(value(f)) for k in kinds)


def called(owner: Any, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
    """A method, or a part of a module that is called: `self.linear(x)`."""
    if isinstance(owner, Module):
        part = owner._modules.get(name)
        if part is not None:
            return wide_call(part, args, keywords)
    return wide_method(owner, name, args, keywords)


def raised(text: Any, name: str) -> None:
    """Raise the error of a `raise` in the program."""
    raise ScriptRaised(f"{name}: {text}")
