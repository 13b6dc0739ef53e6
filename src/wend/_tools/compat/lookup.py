"""Whether Wend has a name of PyTorch's, whether calls fit, and which of them return a tensor."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import wend
from wend._engine.base.refusals import is_refused
from wend._tools.missing import (
    is_internal,
    missing_from_class,
    missing_from_module,
    sentence,
)

PACKAGE: Final = "wend"
TENSOR: Final = "torch.Tensor"
_NOTHING: Final = object()
#: Calls of these make tensors, as those of the functions do whose declaration says so.
_CLASSES: Final = frozenset((TENSOR, "torch.nn.Parameter", "torch.nn.parameter.Parameter"))


def fault(name: str) -> str:
    """Return why `torch.x.y` cannot be used, or an empty text."""
    return _resolve(name)[1]


@functools.cache
def _resolve(name: str) -> tuple[Any, str]:
    """Return the object, or as far as attributes are known before the program runs; the fault."""
    value: Any = wend
    for part in name.split(".")[1:]:
        if isinstance(value, ModuleType):
            member = _of_module(value, part)
            text = missing_from_module
            if member is _NOTHING:
                return None, text(value.__name__, part, PACKAGE)
        elif isinstance(value, type) and value.__module__.split(".")[0] == PACKAGE:
            member = getattr(value, part, _NOTHING)
            if member is _NOTHING:
                return None, missing_from_class(value, part, PACKAGE)
        else:
            break  # attributes of objects are known when the program runs
        value = member
    if isinstance(value, FunctionType) and is_refused(value):
        return None, sentence(name, [], PACKAGE)
    return value, ""


def _of_module(module: ModuleType, name: str) -> Any:
    """Return a name of a public module, which may be a module that nothing has loaded yet."""
    own = vars(module).get("__getattr__")
    if name in vars(module):
        return vars(module)[name]
    if own is not None:
        try:
            return own(name)
        except (AttributeError, ImportError):
            # A name that the module lacks: a submodule is asked for.
            pass
    real = f"{module.__name__}.{name}"
    if is_internal(real, PACKAGE):
        return _NOTHING
    try:
        return importlib.import_module(real)
    except ImportError:  # there is no such submodule either: the report says so
        return getattr(module, name, _NOTHING)


def unknown_keywords(name: str, keywords: tuple[str, ...]) -> str:
    """Return a text about keywords that the function or class does not take, or an empty text.

    Ops check calls by forms of their own, which a signature does not show, and are left out.
    """
    value = _resolve(name)[0]
    if not isinstance(value, FunctionType | type) or not keywords:
        return ""
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):  # Python knows no signature: keywords are not judged
        return ""
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return ""
    unknown = [keyword for keyword in keywords if keyword not in parameters]
    texts = [sentence(f"parameter {word!r} of {name}", [], PACKAGE) for word in unknown]
    return "; ".join(texts)


def returns_tensor(name: str) -> bool:
    """Whether a call of `torch.x` makes a single tensor, as far as declarations say so."""
    if name in _CLASSES:
        return True
    value = _resolve(name)[0]
    if isinstance(value, FunctionType):
        return value.__annotations__.get("return") in ("Tensor", wend.Tensor)
    owner, _, leaf = name.rpartition(".")
    if owner == TENSOR:
        return leaf in _declared("_engine/core/_hot.pyi", "Tensor")
    return owner in ("torch", "torch.nn.functional") and leaf in _declared("__init__.pyi", "")


def is_property(name: str) -> bool:
    """Whether an attribute of tensors is a tensor itself: `x.T`."""
    return name.rpartition(".")[2] in _declared("_engine/core/_hot.pyi", "Tensor", True)


@functools.cache
def _declared(file: str, kind: str, properties: bool = False) -> frozenset[str]:
    """Return the names in a declaration file of which every form returns a tensor."""
    text = (Path(wend.__path__[0]) / file).read_text(encoding="utf-8")
    body: list[ast.stmt] = ast.parse(text).body
    if kind:
        body = next(n.body for n in body if isinstance(n, ast.ClassDef) and n.name == kind)
    results: dict[str, set[str]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            asked = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
            if asked == properties and node.returns is not None:
                results.setdefault(node.name, set()).add(ast.unparse(node.returns))
    return frozenset(name for name, texts in results.items() if texts == {"Tensor"})
