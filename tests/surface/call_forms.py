"""A call form: names, order, kinds and defaults of the parameters of a public name."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

REQUIRED = object()  # the default of a parameter without one
ANY = object()  # a default that is not written down


@dataclass(frozen=True)
class Parameter:
    """A parameter; `kind` is the text of its type, empty where PyTorch states none."""

    name: str
    kind: str = ""
    default: Any = REQUIRED
    keyword_only: bool = False
    positional_only: bool = False

    @property
    def required(self) -> bool:
        """Whether each call has to give it."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Form:
    """One way to call `name`, read from one of PyTorch's tables (`source`)."""

    name: str
    parameters: tuple[Parameter, ...]
    source: str

    def __str__(self) -> str:
        words, starred = [], False
        for p in self.parameters:
            if p.keyword_only and not starred:
                words.append("*")
                starred = True
            words.append(p.name if p.required else f"{p.name}=")
        return f"{self.name}({', '.join(words)})"

    def calls(self) -> Iterator[tuple[str, list[Parameter], list[Parameter]]]:
        """(words, parameters by position, parameters by keyword) of the calls that must bind."""
        first = [p for p in self.parameters if not p.keyword_only]
        by_word = [p for p in self.parameters if p.keyword_only]
        needed = [p for p in by_word if p.required]
        yield "required", [p for p in first if p.required], needed
        yield "by position", first, by_word
        fixed = [p for p in first if p.positional_only]
        yield "by keyword", fixed, [p for p in first if not p.positional_only] + by_word


def of_python(name: str, function: Any, skip: int = 0) -> Form | None:
    """The form of a Python function or class, by `inspect`; None for builtins without one.

    skip: parameters to leave out at the front, as the `self` of a method
    """
    try:
        found = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return None
    rows, loose = [], False
    for p in found:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            loose = loose or p.kind == p.VAR_POSITIONAL or not rows
            continue
        default = REQUIRED if p.default is p.empty else p.default
        note = p.annotation
        kind = (
            ""
            if note is p.empty
            else note
            if isinstance(note, str)
            else inspect.formatannotation(note)
        )
        rows.append(
            Parameter(p.name, kind, default, p.kind == p.KEYWORD_ONLY, p.kind == p.POSITIONAL_ONLY)
        )
    return None if loose else Form(name, tuple(rows), "inspect")


def of_stub(name: str, node: ast.FunctionDef, skip: int = 0) -> Form:
    """The form that a `def` of a stub file states."""
    a = node.args
    rows = []
    positional = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        rows.append(_stubbed(arg, default, False, i < len(a.posonlyargs)))
    if a.vararg is not None:
        rows.append(Parameter(a.vararg.arg, "_int", positional_only=True))
    for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        rows.append(_stubbed(arg, default, True, False))
    return Form(name, tuple(rows[skip:]), "stub")


def _stubbed(arg: ast.arg, default: ast.expr | None, keyword_only: bool, fixed: bool) -> Parameter:
    kind = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    return Parameter(arg.arg, kind, _literal(default), keyword_only, fixed)


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return REQUIRED
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ANY


def of_schema(name: str, schema: Any, method: bool) -> Form:
    """The form of an operator's schema, as PyTorch's Python calls it."""
    rows = []
    out = []
    for a in schema.arguments:
        kind = str(a.type)
        default = a.default_value if a.has_default_value() else REQUIRED
        if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write:
            out.append(kind)
            continue
        word = "input" if a.name == "self" else a.name
        rows.append(Parameter(word, kind, default, a.kwarg_only))
    if method:
        rows = rows[1:]
    if out:
        rows.append(Parameter("out", "Tensor" if len(out) == 1 else "Tensors", None, True))
    # Factories say dtype, layout, device and pin_memory as one, requires_grad apart from them.
    return Form(name, tuple(rows), "schema")


_HEAD = re.compile(r"^\s*(?:torch\.)?([\w.]+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.S)


def of_docstring(name: str, text: str | None, method: bool) -> Form | None:
    """The form in the first line of a builtin's docstring, where that is a call."""
    head = _HEAD.match(text or "")
    if head is None or head[1].rpartition(".")[2] != name.rpartition(".")[2]:
        return None
    source = re.sub(r"(\w+)(?:\s*\([^()]*\))(?=[,=)])", r"\1", head[2])  # `dim (int)`
    try:
        node = ast.parse(f"def f({source}): ...").body[0]
    except SyntaxError:
        return None
    assert isinstance(node, ast.FunctionDef)
    form = of_stub(name, node)
    rows = form.parameters
    if method and rows and rows[0].name in ("self", "input"):
        rows = rows[1:]
    return Form(name, rows, "docstring")
