"""Type declarations of ops: C-level callables as type checkers and editors see them.

A signature such as "input, dim: dims = None, keepdim: bool = False" becomes a line of a stub, with
the first line of the op's docstring.  Names of built-in types have an underscore in front: the
classes and modules that hold these lines have members called `int`, `float` and `bool`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from wend._engine.core._hot import OpFunction
from wend._engine.core.signature import EMPTY, OverloadBinder, Param
from wend._tools.stub_forms import ATTRIBUTES, forms_of

__all__ = ["HEADER", "Results", "first_line", "op_lines"]

HEADER = """# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
"""

#: Python types of the parameter kinds of a signature (see core/primitive.py).
TYPES = {
    "tensor": "Tensor",
    "tensor?": "Tensor | None",
    "operand": "Tensor | _Number",
    "tensors": "Sequence[Tensor]",
    "size": "_int",
    "size?": "_int | None",
    "sizes": "Sequence[_int] | _int",
    "sizes?": "Sequence[_int] | _int | None",
    "scalar": "Tensor | _Number",
    "scalar?": "Tensor | _Number | None",
    "dim": "_int | None",
    "dims": "Sequence[_int] | _int | None",
    "bool": "_bool",
    "int": "_int",
    "ints": "Sequence[_int] | _int",
    "str": "_str",
    "dtype": "_dtype | None",
    "false": "Literal[False]",
    "true": "Literal[True]",
}
#: Kinds that, as the last positional parameter, may also be given as several arguments.
VARARGS = {"sizes": "_int", "ints": "_int", "dims": "_int", "tensors": "Tensor"}


class Results:
    """Types of results; named result types are declared once per set of fields."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[str, ...]] = {}

    def type_of(self, primitive: Any) -> str:
        """The type of the value that a call of this op returns."""
        result = primitive.result
        if result is None:
            several = f"tuple[{', '.join(['Tensor'] * primitive.n_outputs)}]"
            return "Tensor" if primitive.n_outputs == 1 else several
        if isinstance(result, tuple):
            name = "_" + "_".join(result)
            self.named[name] = result
            return name
        return "list[Tensor]" if result is list else "tuple[Tensor, ...]"

    def declarations(self) -> Iterator[str]:
        """The classes of named results."""
        for name, fields in sorted(self.named.items()):
            yield f"class {name}(NamedTuple):"
            for field in fields:
                yield f"    {field}: Tensor"
            yield ""


def op_lines(
    name: str, function: OpFunction, is_method: bool, results: Results, scope: str = ""
) -> list[str]:
    """Lines that declare an op under a public name, as a function or as a method of Tensor."""
    binder = function.binder
    binders = binder.binders if isinstance(binder, OverloadBinder) else [binder]
    forms: list[tuple[str, str]] = []
    for one in binders:
        primitive = getattr(one, "cls", None)
        alone = function.inplace or primitive is None
        returned = "Tensor" if alone else results.type_of(primitive)
        params = one.params
        if getattr(one, "tensors_only", False):
            params = tuple(Param(p.name, "tensor", p.default, p.keyword_only) for p in params)
        for taken, result in _variants(function, params, returned):
            forms.extend((text, result) for text in _forms(taken, is_method, result))
    written = list(forms_of(name, None, "self" if is_method else "input: Tensor", scope))
    forms = written or list(dict.fromkeys(forms))
    document = first_line(function)
    out = []
    for parameters, returned in forms:
        if len(forms) > 1:
            out.append("@overload")
        out.append(f"def {name}({parameters}) -> {returned}:")
        out.append(f"    {document}")
    return out


def _variants(
    function: OpFunction, params: tuple[Param, ...], returned: str
) -> Iterator[tuple[tuple[Param, ...], str]]:
    """(parameters, result) with the further parameters that functions of `nn.functional` have."""
    general = function.general
    closure = inspect.getclosurevars(general).nonlocals if inspect.isfunction(general) else {}
    if "of_some_dim" in closure:  # a choice of the dim, with a warning
        level = Param("_stacklevel", "int", 3, False)
        dim = Param("dim", "size?", None, False)
        yield (
            tuple(dim if p.name == "dim" else p for p in (*params[:2], level, *params[2:])),
            returned,
        )
    elif closure.get("name") == "return_indices":
        yield (*params, Param("return_indices", "false", False, False)), returned
        yield (*params, Param("return_indices", "true", EMPTY, True)), "tuple[Tensor, Tensor]"
    elif closure.get("name") == "inplace":
        yield (*params, Param("inplace", "bool", False, False)), returned
    else:
        yield params, returned


def _forms(params: tuple[Param, ...], is_method: bool, returned: str) -> Iterator[str]:
    """The parameter lists under which a signature may be called."""
    positional = [p for p in params if not p.keyword_only]
    keywords = [_declared(p) for p in params if p.keyword_only]
    if not is_method and returned == "Tensor":
        keywords.append("out: Tensor | None = None")
    first = ["self"] if is_method else []
    rest = positional[1:] if is_method else positional
    declared = [_declared(p) for p in rest]
    yield ", ".join([*first, *declared, *(["*", *keywords] if keywords else [])])
    if rest and rest[-1].kind in VARARGS:
        last = f"*{rest[-1].name}: {VARARGS[rest[-1].kind]}"
        before = [_declared(p) for p in rest[:-1]]
        yield ", ".join([*first, *before, last, *keywords])


def _declared(p: Param) -> str:
    text = TYPES.get(p.kind) or ATTRIBUTES.get(p.name, "Any")
    if p.default is EMPTY:
        return f"{p.name}: {text}"
    if p.default is None and "None" not in text and text != "Any":
        text += " | None"
    shown = repr(p.default) if type(p.default) in (bool, int, str, type(None)) else "..."
    return f"{p.name}: {text} = {shown}"


def first_line(function: OpFunction) -> str:
    """The first line of an op's docstring, as a docstring."""
    text = (function.__doc__ or "").strip().split("\n")[0].replace("\\", "\\\\").replace('"', "'")
    return f'"""{text}"""'
