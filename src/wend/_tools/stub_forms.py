"""Forms of calls that a signature alone does not tell: results by flags, arguments by kind.

A form is a list of parameters and a type of result, in the words of the stubs. `{x}` stands for
the tensor: `self` of a method, `input: Tensor` of a function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

__all__ = ["ATTRIBUTES", "FORMS", "forms_of"]

#: Types of parameters of an op that are Python objects, by name.
ATTRIBUTES = {
    "align_corners": "_bool | None",
    "atol": "_float",
    "beta": "_float",
    "compute_mode": "_str | None",
    "delta": "_float",
    "dim": "Sequence[_int] | _int | None",
    "dims": "_int | Sequence[Sequence[_int]] | Sequence[_int] | Tensor",
    "exponent": "Tensor | _Number",
    "generator": "_Generator | None",
    "label_smoothing": "_float",
    "lambd": "_float",
    "margin": "_float",
    "max_val": "_float",
    "memory_format": "_memory_format | None",
    "min_val": "_float",
    "ord": "_int | _float | _str | None",
    "output_size": "Sequence[_int | None] | _int | None",
    "p": "_float | _str | None",
    "padding": "_str | Sequence[_int] | _int",
    "recompute_scale_factor": "_bool | None",
    "reduce": "_bool | None",
    "rounding_mode": "_str | None",
    "rtol": "_float",
    "scale_factor": "_float | Sequence[_float] | None",
    "side": "_str | None",
    "size": "Sequence[_int] | _int",
    "size_average": "_bool | None",
    "stable": "_bool | None",
    "unbiased": "_bool | None",
}

_F = "nn.functional."
_TENSORS = "tuple[Tensor, ...]"
_PAIR = "tuple[Tensor, Tensor]"
_DEVICE = "_device | _str | _int | None"
_TO = "non_blocking: _bool = False, copy: _bool = False"
_FORMAT = "memory_format: _memory_format | None = None"
_OUT = "out: Tensor | None = None"
_BELOW = "low: _int, high: _int, size: Sequence[_int]"
_UP_TO = "high: _int, size: Sequence[_int]"
_OPTIONS = (
    f"dtype: _dtype | None = None, device: {_DEVICE} = None, layout: _layout | None = None, "
    f"requires_grad: _bool = False, pin_memory: _bool = False, {_OUT}"
)
_RANDOM = f"*, generator: _Generator | None = None, {_OPTIONS}"
_NORM = (
    "{x}, p: _float | _str | None = 'fro', dim: Sequence[_int] | _int | None = None, "
    "keepdim: _bool = False, dtype: _dtype | None = None"
)


def _by_flags(first: str) -> tuple[tuple[str, str], ...]:
    """The forms of `unique`: a tensor, or with a flag or two a tuple of tensors."""

    def flags(inverse: bool, counts: bool) -> str:
        shown = [
            f"Literal[{on}] = False" if not on else f"Literal[{on}]" for on in (inverse, counts)
        ]
        star = "*, " if inverse or counts else ""
        rest = f"return_inverse: {shown[0]}, return_counts: {shown[1]}, dim: _int | None = None"
        return f"{{x}}{first}, {star}{rest}"

    return (
        (flags(False, False), "Tensor"),
        (flags(True, False), "tuple[Tensor, Tensor]"),
        (flags(False, True), "tuple[Tensor, Tensor]"),
        (flags(True, True), "tuple[Tensor, Tensor, Tensor]"),
    )


def _pooled(parameters: str, more: str = "") -> tuple[tuple[str, str], ...]:
    """The forms of a pooling function: a tensor, or the tensor and where each element was."""
    return (
        (f"{parameters}, return_indices: Literal[False] = False{more}", "Tensor"),
        (f"{parameters}, *, return_indices: Literal[True]{more}", _PAIR),
        (f"{parameters}, *, return_indices: _bool{more}", f"Tensor | {_PAIR}"),
    )


_ADAPTIVE = "{x}, output_size: Sequence[_int | None] | _int | None"
_FRACTIONAL = (
    "{x}, kernel_size: Sequence[_int] | _int, output_size: Sequence[_int] | _int | None = None, "
    "output_ratio: _float | Sequence[_float] | None = None"
)
_SAMPLES = ", _random_samples: Tensor | None = None"
_WITH_INDICES = ", return_indices: _bool = False"
#: A name with `()` is a function alone, which differs from the method of that name.
FORMS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(
        (f"nn.functional.adaptive_max_pool{n}d" for n in (1, 2, 3)), _pooled(_ADAPTIVE)
    ),
    **dict.fromkeys(
        (f"{_F}fractional_max_pool{n}d" for n in (2, 3)), _pooled(_FRACTIONAL, _SAMPLES)
    ),
    **dict.fromkeys(
        (f"nn.functional.adaptive_max_pool{n}d_with_indices" for n in (1, 2, 3)),
        ((_ADAPTIVE + _WITH_INDICES, _PAIR),),
    ),
    **dict.fromkeys(
        (f"nn.functional.fractional_max_pool{n}d_with_indices" for n in (2, 3)),
        ((_FRACTIONAL + _WITH_INDICES + _SAMPLES, _PAIR),),
    ),
    "arange": (
        (f"end: _float | Tensor, *, {_OPTIONS}", "Tensor"),
        (
            "start: _float | Tensor, end: _float | Tensor, step: _float | Tensor = 1, "
            f"*, {_OPTIONS}",
            "Tensor",
        ),
    ),
    "backward": (
        (
            "{x}, gradient: Tensor | None = None, retain_graph: _bool | None = None, "
            "create_graph: _bool = False, inputs: Tensor | Sequence[Tensor] | None = None",
            "None",
        ),
    ),
    "clone": ((f"{{x}}, *, {_FORMAT}", "Tensor"),),
    "item": (("{x}", "_builtins.bool | _builtins.int | _builtins.float"),),
    "narrow": (("{x}, dim: _int, start: _int | Tensor, length: _int", "Tensor"),),
    "nonzero": (
        (f"{{x}}, *, as_tuple: Literal[False] = False, {_OUT}", "Tensor"),
        ("{x}, *, as_tuple: Literal[True]", _TENSORS),
    ),
    "norm": ((_NORM, "Tensor"),),
    "numpy": (("{x}, *, force: _bool = False", "_Array"),),
    "randint": (
        (f"{_UP_TO}, {_RANDOM}", "Tensor"),
        (f"{_BELOW}, {_RANDOM}", "Tensor"),
    ),
    "randint_like": (
        (f"{{x}}, high: _int, {_RANDOM}, {_FORMAT}", "Tensor"),
        (f"{{x}}, low: _int, high: _int, {_RANDOM}, {_FORMAT}", "Tensor"),
    ),
    "repeat_interleave": (
        (
            "{x}, repeats: Tensor | _int, dim: _int | None = None, *, "
            "output_size: _int | None = None",
            "Tensor",
        ),
        ("{x}, *, output_size: _int | None = None", "Tensor"),
    ),
    "squeeze_": (("{x}, dim: Sequence[_int] | _int | None = None", "Tensor"),),
    "stride": (("{x}, dim: None = None", "tuple[_int, ...]"), ("{x}, dim: _int", "_int")),
    "swapaxes_": (("{x}, axis0: _int, axis1: _int", "Tensor"),),
    "swapdims_": (("{x}, dim0: _int, dim1: _int", "Tensor"),),
    "t_": (("{x}", "Tensor"),),
    "to": (
        (f"{{x}}, dtype: _dtype, {_TO}, *, {_FORMAT}", "Tensor"),
        (
            f"{{x}}, device: {_DEVICE} = None, dtype: _dtype | None = None, {_TO}, *, {_FORMAT}",
            "Tensor",
        ),
        (f"{{x}}, other: Tensor, {_TO}, *, {_FORMAT}", "Tensor"),
    ),
    "tolist": (("{x}", "_builtins.list[Any]"),),
    "transpose_": (("{x}, dim0: _int, dim1: _int", "Tensor"),),
    "type": (
        ("{x}, dtype: None = None, non_blocking: _bool = False", "_str"),
        (
            "{x}, dtype: _dtype | _str | _builtins.type[Tensor], non_blocking: _bool = False",
            "Tensor",
        ),
    ),
    "unique": _by_flags(", sorted: _bool = True"),
    "unique_consecutive": _by_flags(""),
    "unsqueeze_": (("{x}, dim: _int", "Tensor"),),
    "where()": (
        ("condition: Tensor", _TENSORS),
        ("condition: Tensor, input: Tensor | _Number, other: Tensor | _Number", "Tensor"),
    ),
    "view": (
        ("{x}, *shape: _int", "Tensor"),
        ("{x}, size: Sequence[_int]", "Tensor"),
        ("{x}, dtype: _dtype", "Tensor"),
    ),
}


def forms_of(
    name: str, function: Callable[..., object] | None, owner: str, scope: str = ""
) -> Iterator[tuple[str, str]]:
    """(parameters, result) of each form that the table has for a name.

    owner: `self`, `cls`, or a function's first parameter     scope: `nn.functional.` and its like
    """
    forms = FORMS.get(scope + name, ())
    if owner not in ("self", "cls"):
        forms = FORMS.get(f"{name}()", forms) if not scope else forms
    tensor = owner
    if not owner and forms and function is not None:
        first = next(iter(inspect.signature(function).parameters), "input")
        tensor = f"{first}: Tensor"
    for parameters, result in forms:
        yield parameters.replace("{x}", tensor), result
