"""Names and kinds for the inputs and outputs of an exported program."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wend._engine.transforms.exploring.program import Apply, Give, StaticGraph, number_category
from wend.export._dims import Dim
from wend.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from wend.nn.modules.module import Module
from wend.utils import _pytree

__all__ = ["Bounds", "Example", "bounds_of", "example_of", "signature_of"]

_PREFIXES = {"parameter": "p_", "buffer": "b_", "constant": "c_"}
_KINDS = {
    "parameter": (InputKind.PARAMETER, OutputKind.PARAMETER_MUTATION),
    "buffer": (InputKind.BUFFER, OutputKind.BUFFER_MUTATION),
    "constant": (InputKind.CONSTANT_TENSOR, OutputKind.BUFFER_MUTATION),
}


@dataclass
class Example:
    """The call that a program was exported from.

    names: per leaf of the arguments     passing: buffers that a state_dict leaves out
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: list[str]
    passing: frozenset[str] = frozenset()


class Bounds(NamedTuple):
    """The smallest and the largest size of a dim; None where there is no bound."""

    lower: int
    upper: int | None


def example_of(mod: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Example:
    """The call, with a name for each leaf: the parameter's, and the keys that lead to the leaf."""
    target = mod.forward if isinstance(mod, Module) else mod
    names: list[str] = []
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
        arguments = bound.arguments
    except (TypeError, ValueError):
        # A callable without a signature has no names of arguments: they are numbered.
        arguments = {f"args_{k}": x for k, x in enumerate(args)} | kwargs
    for name, value in arguments.items():
        for path, _ in _pytree.tree_flatten_with_path(value)[0]:
            names.append("_".join([name, *map(_key, path)]))
    passing: set[str] = set()
    if isinstance(mod, Module):
        for prefix, part in mod.named_modules():
            dot = f"{prefix}." if prefix else ""
            passing.update(dot + name for name in part._non_persistent_buffers_set)
    return Example(tuple(args), kwargs, names, frozenset(passing))


def _key(entry: object) -> str:
    for attribute in ("idx", "key", "name"):
        key = getattr(entry, attribute, None)
        if key is not None:
            return str(key)
    return str(entry)


def bounds_of(dims: list[dict[int, Any]]) -> dict[str, Bounds]:
    """The bounds of each Dim, by name."""
    named = (d for row in dims for d in row.values() if isinstance(d, Dim))
    return {d.__name__: Bounds(d.min, d.max) for d in named}


def signature_of(program: StaticGraph, example: Example | None) -> ExportGraphSignature:
    """The signature of a program.

    Values have the names of their ops, with a number from the second one on. Where branches end
    apart, results are called output, output_1, ...
    """
    names = _op_names(program)
    inputs: list[InputSpec] = []
    kinds: dict[int, tuple[OutputKind, str]] = {}
    passing = example.passing if example else frozenset()
    for wanted in _PREFIXES:
        for c in program.captured:
            if c.kind != wanted:
                continue
            names[c.id] = _PREFIXES[wanted] + c.name.replace(".", "_")
            kind, written = _KINDS[wanted]
            kept = c.name not in passing if kind is InputKind.BUFFER else None
            inputs.append(InputSpec(kind, TensorArgument(names[c.id]), c.name, kept))
            kinds[c.id] = written, c.name
    inputs += _user_inputs(program, example, names, kinds)
    return ExportGraphSignature(inputs, _outputs(program, names, kinds))


def _op_names(program: StaticGraph) -> dict[int, str]:
    count: Counter[str] = Counter()
    names: dict[int, str] = {}
    for _, _, stretch in program.stretches():
        for item in stretch.items:
            if isinstance(item, Apply):
                for output in item.outputs:
                    names[output] = _numbered(item.prim.name, count)
    return names


def _numbered(name: str, count: Counter[str]) -> str:
    count[name] += 1
    return name if count[name] == 1 else f"{name}_{count[name] - 1}"


def _user_inputs(
    program: StaticGraph,
    example: Example | None,
    names: dict[int, str],
    kinds: dict[int, tuple[OutputKind, str]],
) -> list[InputSpec]:
    total = len(program.inputs) + len(program.constants)
    words = example.names if example else []
    if len(words) != total:
        words = [f"args_{k}" for k in range(total)]
    specs, tensors = [], iter(program.inputs)
    for k, word in enumerate(words):
        arg: ArgumentSpec
        if k in program.constants:
            arg = ConstantArgument(word, program.constants[k])
        else:
            number = next(tensors)
            names[number], arg = word, TensorArgument(word)
            kinds[number] = OutputKind.USER_INPUT_MUTATION, word
        specs.append(InputSpec(InputKind.USER_INPUT, arg, None))
    return specs


def _outputs(
    program: StaticGraph, names: dict[int, str], kinds: dict[int, tuple[OutputKind, str]]
) -> list[OutputSpec]:
    ends = [s.end for _, _, s in program.stretches() if isinstance(s.end, Give)]
    if not ends:  # each way ends by an error
        return []
    alone, end, count = len(ends) == 1, ends[0], Counter[str]()
    specs = []
    for target in dict.fromkeys(t for e in ends for t, _ in e.writes):
        kind, name = kinds[target]
        value = dict(end.writes).get(target) if alone else None
        word = names.get(value, "") if value is not None else ""
        specs.append(OutputSpec(kind, TensorArgument(word or f"new_{names[target]}"), name))
    for tag, x in end.leaves:
        arg: ArgumentSpec
        if tag == "constant":
            arg = ConstantArgument("", x)
        elif tag == "number":
            whole = number_category(x, program.info) < 2
            arg = (SymIntArgument if whole else SymFloatArgument)(_numbered("number", count))
        else:
            word = names.get(x, "") if alone else ""
            arg = TensorArgument(word or _numbered("output", count))
        specs.append(OutputSpec(OutputKind.USER_OUTPUT, arg, None))
    return specs
