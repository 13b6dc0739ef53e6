"""Type declarations of functions written in Python, with the names that a stub knows.

Annotations are repeated, in the stub's words. Keywords that a function takes through
`**keywords: Unpack[Options]` are written out: completion and signatures then show each.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from wend._frontend.linalg import named_results
from wend._tools.stub_forms import FORMS, forms_of

__all__ = ["NAMED_RESULTS", "annotation_text", "python_function", "returned", "written_out"]

NAMED_RESULTS = [name for name, value in vars(named_results).items() if hasattr(value, "_fields")]
#: Words that annotations of Python functions may use, in the stub's words; another becomes Any.
KNOWN = {
    **{word: word for word in "Any Tensor None tuple list dict Sequence Iterator Callable".split()},
    **{word: f"_{word}" for word in NAMED_RESULTS},
    **{word: f"_{word}" for word in "bool int float complex str bytes".split()},
    **{word: f"_{word}" for word in "device layout memory_format Generator Node".split()},
    "Array": "_Array",
    "DType": "_dtype",
    "DeviceLike": "_device | _str | _int | None",
    "Literal": "Literal",
    "Number": "_Number",
    "Operand": "Tensor | _Number",
    "Parts": "tuple[Tensor, ...]",
    "RemovableHandle": "_RemovableHandle",
    "Size": "_Size",
    "Sizes": "Sequence[_int] | _int",
    "TypedStorage": "_TypedStorage",
    "UntypedStorage": "_UntypedStorage",
    "memoryview": "_builtins.memoryview",
    "object": "_builtins.object",
    "type": "_builtins.type",
}
_OPTIONS = re.compile(r"Unpack\[(\w+)\]")
_WORD = r"[A-Za-z_][\w.]*"


def python_function(
    name: str, function: Callable[..., Any], owner: str = "", scope: str = ""
) -> Iterator[str]:
    """The declaration of a function; of a method with `owner`, which is `self` or `cls`."""
    line = (inspect.getdoc(function) or "").split("\n")[0]
    document = '"""{}"""'.format(line.replace("\\", "\\\\")) if line else "..."
    written = list(forms_of(name, function, owner, scope))
    for parameters, result in written:
        if len(written) > 1:
            yield "@overload"
        yield f"def {name}({parameters}) -> {result}:"
        yield f"    {document}"
    if written:
        return
    taken = list(_parameters(function, owner))
    sizes = [text for text in taken if text.startswith("*size:")]
    result = returned(function)
    if sizes:  # f(2, 3), f((2, 3)), f(size=(2, 3))
        place = taken.index(sizes[0])
        named = [*taken[:place], "*", "size: Sequence[_int]", *taken[place + 1 :]]
        yield "@overload"
        yield f"def {name}({', '.join(named)}) -> {result}: ..."
        yield "@overload"
    yield f"def {name}({', '.join(taken)}) -> {result}:"
    yield f"    {document}"


def written_out(name: str, function: object, scope: str = "") -> bool:
    """Whether a stub declares a function of another module, which says less about the function."""
    if not inspect.isfunction(function):
        return False
    parameters = inspect.signature(function).parameters.values()
    return scope + name in FORMS or any(_OPTIONS.fullmatch(str(p.annotation)) for p in parameters)


def _parameters(function: Callable[..., Any], owner: str) -> Iterator[str]:
    starred = False
    for i, p in enumerate(inspect.signature(function).parameters.values()):
        if i == 0 and owner and p.kind is not p.VAR_POSITIONAL:
            yield owner
            continue
        if p.kind is p.VAR_KEYWORD and (options := _OPTIONS.fullmatch(str(p.annotation))):
            if not starred:
                yield "*"
            holder = inspect.unwrap(function).__globals__[options[1]]
            for key, hint in holder.__annotations__.items():
                yield f"{key}: {annotation_text(hint.__forward_arg__)} = ..."
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        starred = starred or p.kind is p.VAR_POSITIONAL
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        text = f"{stars}{p.name}: {annotation_text(p.annotation)}"
        if p.default is not p.empty:
            simple = type(p.default) in (bool, int, float, str, type(None))
            text += f" = {p.default!r}" if simple else " = ..."
        yield text


def returned(function: object) -> str:
    """The type of the result that a function's annotations tell."""
    return annotation_text(getattr(function, "__annotations__", {}).get("return", "Any"))


def annotation_text(annotation: Any) -> str:
    """An annotation in the stub's words; Any for an annotation with a name that the stub lacks."""
    if not isinstance(annotation, str):
        empty = annotation is inspect.Parameter.empty
        annotation = "Any" if empty else getattr(annotation, "__name__", "Any")
    quoted = dict(re.findall(r"(([\"'])\w+\2)", annotation))
    plain = re.sub(r"([\"'])\w+\1", "None", annotation) if quoted else annotation
    if not set(re.findall(_WORD, plain)) <= KNOWN.keys():
        return "Any"
    text = re.sub(rf"([\"'])\w+\1|{_WORD}", lambda m: KNOWN.get(m[0], m[0]), annotation)
    return re.sub(r"\b(Callable|Sequence|Iterator|list|dict|tuple)(?![\w\[])", _filled, text)


def _filled(match: re.Match[str]) -> str:
    """A generic type that was given without type parameters, with general ones."""
    more = {"Callable": "[..., Any]", "dict": "[Any, Any]", "tuple": "[Any, ...]"}
    return match[0] + more.get(match[0], "[Any]")
