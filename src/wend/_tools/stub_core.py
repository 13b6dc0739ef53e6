"""Type declarations of the hot core, read from the source and from the C types beside the source.

The core is Python without annotations, typed for Cython in `_hot.pxd`. Classes and functions come
from the source, the types of fields and results from `_hot.pxd`.  `Tensor`, which users meet, has
docstrings in the stub; to repeat those of all classes would be a third of the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from wend._engine.core._select import plain_loader
from wend._tools.stub_forms import forms_of

__all__ = ["Core"]

#: Where the C types lie in the source tree, where the stubs are written: no installation has them.
TYPES = Path("src", "wend", "_engine", "core")
#: Python types of C types that cannot be None.  A field of any other type may be, now and then.
NUMBERS = {
    "bint": "_bool",
    "flag": "_bool",
    "int": "_int",
    "Py_ssize_t": "_int",
    "long long": "_int",
    "size_t": "_int",
    "str": "_str",
    "bytes": "_bytes",
}
CONTAINERS = {"dict": "dict[Any, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]"}
#: Classes of the core whose fields always hold an object.
ALWAYS_SET = frozenset({"RankedType", "TensorType", "Value"})
#: Results of functions whose C type says less.
RETURNS = {
    "held": "Value",
    "held_in_segment": "Value",
    "intern_kind": "RankedType",
    "intern_mode": "Mode",
    "intern_type": "TensorType",
    "symbolic_type": "TensorType",
    "symbolic_value": "Value",
    "value_of": "Value",
    "wrap": "Tensor",
}
#: Members of the native half of Tensor that callers rely on, by name: the type of the value.
TENSOR = {
    "shape": "_Size",
    "dim": "_int",
    "ndim": "_int",
    "dtype": "_dtype",
    "device": "_device",
    "requires_grad": "_bool",
    "is_leaf": "_bool",
    "grad": "Tensor | None",
    "_version": "_int",
    "__bool__": "_bool",
    "__int__": "_int",
    "__float__": "_float",
    "__complex__": "_complex",
    "__index__": "_int",
    "__len__": "_int",
    "__hash__": "_int",
    "__repr__": "_str",
    "__contains__": "_bool",
    "__iter__": "Iterator[Tensor]",
    "__getitem__": "Tensor",
    "__setitem__": "None",
}
TENSOR_PARAMETERS = {
    "__contains__": "self, item: _builtins.object",
    "__getitem__": "self, key: _Index | tuple[_Index, ...]",
    "__setitem__": "self, key: _Index | tuple[_Index, ...], value: Tensor | _Number",
}
_CLASS = re.compile(r"^cdef class (\w+)")
_FIELD = re.compile(r"^    cdef (?:public|readonly) ((?:long long|\w+)) (\w+)$")
_HIDDEN = re.compile(
    r"^cdef (?!class|extern)(?:public )?(?:(?:long long|\w+) )?(\w[\w, ]*?)(?:\(.*)?$"
)
_FUNCTION = re.compile(r"^cpdef (?:((?:long long|\w+)) )?(\w+)\(")
_ARITHMETIC = re.compile(
    r"^__[ri]?(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)__$"
)
_ORDER = frozenset("__lt__ __le__ __gt__ __ge__".split())
_UNARY = frozenset("__neg__ __pos__ __abs__ __invert__".split())


class Core:
    """The declarations of one part of the core.

    part: name of the module     known: classes of other parts, which its stub imports
    """

    def __init__(self, part: str, known: frozenset[str] = frozenset()) -> None:
        source = plain_loader(f"wend._engine.core.{part}")
        self.tree = ast.parse(source.get_data(source.path))
        self.known = known
        self.fields: dict[str, list[tuple[str, str]]] = {}
        self.returns: dict[str, str] = {}
        self.hidden: set[str] = set()  # C names: not there once the core is compiled
        beside = Path(source.path).with_name(f"{part}.pxd")
        types = beside if beside.exists() else TYPES / f"{part}.pxd"
        self._read_types(types.read_text(encoding="utf-8"))

    def _read_types(self, text: str) -> None:
        current = ""
        for line in text.splitlines():
            if match := _CLASS.match(line):
                current = match[1]
                self.fields[current] = []
            elif (match := _FIELD.match(line)) and current:
                known = match[1] if match[1] in ALWAYS_SET else "Any"
                self.fields[current].append((match[2], NUMBERS.get(match[1], known)))
            elif match := _FUNCTION.match(line):
                self.returns[match[2]] = match[1] or "object"
            elif match := _HIDDEN.match(line):
                self.hidden.update(name.strip() for name in match[1].split(","))

    def classes(self) -> frozenset[str]:
        """Names of the part's own classes."""
        return frozenset(n.name for n in self.tree.body if isinstance(n, ast.ClassDef))

    def lines(self, more: Callable[[str], list[str]]) -> Iterator[str]:
        """The stub; `more` gives further members of a class."""
        classes = self.classes() | self.known
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                yield from self._class(node, more(node.name))
            elif isinstance(node, ast.FunctionDef) and node.name not in self.hidden:
                c_type = RETURNS.get(node.name, self.returns.get(node.name, "object"))
                simple = {**NUMBERS, **CONTAINERS}
                returned = c_type if c_type in classes else simple.get(c_type, "Any")
                yield f"def {node.name}({_parameters(node, False)}) -> {returned}: ..."
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Name) and target.id not in self.hidden:
                    yield f"{target.id}: {_constant_type(node.value)}"

    def _class(self, node: ast.ClassDef, more: list[str]) -> Iterator[str]:
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
        yield f"    {_document(node.name, node)}"
        members = {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
        declared = {name for name, _ in self.fields.get(node.name, ())}
        for name, type_ in self.fields.get(node.name, ()):
            yield f"    {name}: {type_}"
        for name, type_ in _assigned(node):
            if name not in declared | members:
                yield f"    {name}: {type_}"
        for member in node.body:
            if isinstance(member, ast.FunctionDef):
                for line in _member(node.name, member):
                    yield f"    {line}"
        for line in more:
            yield f"    {line}"


def _member(owner: str, node: ast.FunctionDef) -> Iterator[str]:
    """Lines that declare a method or property."""
    name = node.name
    decorators = [ast.unparse(d) for d in node.decorator_list]
    if name == "__init__":
        yield f"def __init__({_parameters(node)}) -> None: ..."
        return
    if name in ("__dealloc__", "__cinit__") or any(d.endswith(".deleter") for d in decorators):
        return
    returned = TENSOR.get(name, "Any") if owner == "Tensor" else "Any"
    parameters = _parameters(node)
    if owner == "Tensor":
        if _ARITHMETIC.match(name) or name in _ORDER:
            parameters, returned = "self, other: Tensor | _Number", "Tensor"
        elif name in ("__eq__", "__ne__"):
            parameters, returned = "self, other: Any", "Tensor"
        elif name in TENSOR_PARAMETERS:
            parameters = TENSOR_PARAMETERS[name]
        elif forms := list(forms_of(name, None, "self")):
            ((parameters, returned),) = forms
        elif name in _UNARY:
            returned = "Tensor"
        elif name == "size":
            yield "@overload"
            yield "def size(self, dim: None = None) -> _Size: ..."
            yield "@overload"
            yield "def size(self, dim: _int) -> _int:"
            yield f"    {_document(owner, node)}"
            return
        elif decorators and decorators[0].endswith(".setter"):
            parameter = node.args.args[1].arg
            parameters, returned = f"self, {parameter}: {TENSOR.get(name, 'Any')}", "None"
    if name == "__repr__":
        returned = "_str"
    if (owner, name) == ("ModuleBase", "__call__"):  # a module is called as its `forward` is
        parameters, returned = "self: _Forward[_P, _R], *args: _P.args, **kwargs: _P.kwargs", "_R"
    for decorator in decorators:
        yield f"@{decorator}"
    document = _document(owner, node)
    yield f"def {name}({parameters}) -> {returned}:" + (" ..." if document == "..." else "")
    if document != "...":
        yield f"    {document}"


def _parameters(node: ast.FunctionDef, of_method: bool = True) -> str:
    """The parameters; untyped parameters are Any."""
    spec = node.args
    out = []
    missing = len(spec.args) - len(spec.defaults)
    for k, a in enumerate(spec.args):
        if k == 0 and of_method:
            out.append(a.arg)
            continue
        default = "" if k < missing else f" = {ast.unparse(spec.defaults[k - missing])}"
        out.append(f"{a.arg}: Any{default}")
    if spec.vararg is not None:
        out.append(f"*{spec.vararg.arg}: Any")
    if spec.kwarg is not None:
        out.append(f"**{spec.kwarg.arg}: Any")
    return ", ".join(out)


def _document(owner: str, node: ast.FunctionDef | ast.ClassDef) -> str:
    text = ast.get_docstring(node)
    if owner != "Tensor" or not text:
        return "..."
    line = text.strip().split("\n")[0].replace("\\", "\\\\")
    return f'"""{line}"""'


def _assigned(node: ast.ClassDef) -> list[tuple[str, str]]:
    """Fields that methods set and that the C types do not name."""
    fields: dict[str, str] = {}
    for part in ast.walk(node):
        if not isinstance(part, ast.Attribute) or not isinstance(part.ctx, ast.Store):
            continue
        if isinstance(part.value, ast.Name) and part.value.id == "self":
            fields.setdefault(part.attr, "Any")
    return list(fields.items())


def _constant_type(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and value.value is not None:
        return f"_{type(value.value).__name__}"
    return {
        ast.Dict: "dict[Any, Any]",
        ast.List: "list[Any]",
        ast.Tuple: "tuple[Any, ...]",
    }.get(type(value), "Any")
