"""Text of tensors: the layout rules of PyTorch's `repr`, from a NumPy array and a few facts.

The rules, in the order of their effect:

1. More than `threshold` elements: only `edgeitems` at either end of each dim are looked at.
2. One number format serves the whole tensor (`NumberFormat`), right-aligned: integral floats
   print as `3.`; a range wider than 1e3, values above 1e8 or below 1e-4 give scientific notation.
3. Rows wrap at `linewidth`; a dim of rank r is separated by r - 1 newlines.
4. Facts that cannot be read off the numbers follow: size=, dtype=, grad_fn=, requires_grad=.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wend._engine.base.devices import CURRENT, default_place, device
from wend._engine.base.dtypes import FLOAT, bool_, get_default_dtype, int64
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot
from wend._engine.core._hot import Tensor

__all__ = [
    "PrintOptions",
    "append_facts",
    "array_html",
    "array_text",
    "describe",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
    "tensor_text",
]


@dataclasses.dataclass
class PrintOptions:
    """How tensors print. `sci_mode` None lets the values decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = PrintOptions()

PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    precision: digits after the point (4).   threshold: element count that starts summaries (1000).
    edgeitems: elements kept at either end of a summarised dim (3).   linewidth: characters (80).
    profile: "default", "short" or "full", applied before the other options.
    sci_mode: True or False forces or forbids scientific notation; None (also when left out, as in
    PyTorch) lets the values decide.
    Raises ArgumentError or ArgumentTypeError for a value that cannot be used; nothing changes then.
    """
    changes: dict[str, Any] = {}
    if profile is not None:
        if profile not in PROFILES:
            raise ArgumentError(
                f"set_printoptions: profile is {profile!r}; use one of {', '.join(PROFILES)}"
            )
        changes.update(PROFILES[profile])
    counts = {"precision": precision, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in counts.items():
        if value is not None:
            changes[name] = _checked_count(name, value)
    if threshold is not None:
        if not isinstance(threshold, (int, float)) or threshold != threshold:
            raise ArgumentTypeError(
                f"set_printoptions: threshold must be a number, not {threshold!r}"
            )
        changes["threshold"] = threshold
    changes["sci_mode"] = sci_mode
    for name, value in changes.items():
        setattr(OPTIONS, name, value)


def _checked_count(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError(f"set_printoptions: {name} must be an int, not {value!r}")
    count = int(value)
    if count < 0:
        raise ArgumentError(f"set_printoptions: {name} must not be negative, got {count}")
    return count


def get_printoptions() -> dict[str, Any]:
    """The options in use, as keyword arguments of `set_printoptions`."""
    return dataclasses.asdict(OPTIONS)


@contextlib.contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """`set_printoptions(**options)` for the duration of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class NumberFormat:
    """The number format that all elements of a tensor share, and its width in characters.

    values: the elements that will be shown, real (bool, int or float), of any shape.
    """

    def __init__(self, values: np.ndarray[Any, Any], is_float: bool) -> None:
        self.is_float = is_float
        self.integral = True
        self.scientific = False
        self.width = 1
        if not is_float:
            self.width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
            return
        doubles = values.astype(np.float64, copy=False).ravel()
        doubles = doubles[np.isfinite(doubles) & (doubles != 0)]
        if doubles.size == 0:
            return
        self.integral = bool(np.all(doubles == np.ceil(doubles)))
        self.scientific = _wants_scientific(doubles)
        # An integral number carries a point that its str() lacks, so that inf and nan align.
        point = 1 if self.integral and not self.scientific else 0
        self.width = max(len(self._digits(v)) + point for v in doubles.tolist())

    def _digits(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{OPTIONS.precision}e}"
        return f"{value:.{0 if self.integral else OPTIONS.precision}f}"

    def text(self, value: Any) -> str:
        """`value` right-aligned to the common width."""
        if not self.is_float:
            return str(value).rjust(self.width)
        digits = self._digits(value)
        if self.integral and not self.scientific and math.isfinite(value):
            digits += "."
        return digits.rjust(self.width)


def _wants_scientific(doubles: np.ndarray[Any, Any]) -> bool:
    if OPTIONS.sci_mode is not None:
        return bool(OPTIONS.sci_mode)
    magnitudes = np.abs(doubles)
    smallest, largest = float(magnitudes.min()), float(magnitudes.max())
    return largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4


class ComplexFormat:
    """Real and imaginary part, each with its own format: `1.5000+2.j`."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.real = NumberFormat(values.real, is_float=True)
        self.imag = NumberFormat(values.imag, is_float=True)
        self.width = self.real.width + self.imag.width + 1

    def text(self, value: complex) -> str:
        imag = self.imag.text(value.imag).lstrip() + "j"
        sign = "" if imag[0] in "+-" else "+"
        return self.real.text(value.real) + sign + imag


def array_text(array: np.ndarray[Any, Any], indent: int = 0) -> str:
    """The bracketed numbers of `array`, continuation lines indented by `indent` spaces."""
    if array.size == 0:
        return "[]"
    summarize = array.size > OPTIONS.threshold
    number_format = _format_for(_corners(array) if summarize else array)
    return _nested_text(array, indent, summarize, number_format)


def _format_for(values: np.ndarray[Any, Any]) -> NumberFormat | ComplexFormat:
    if values.dtype.kind == "c":
        return ComplexFormat(values)
    # Kind 'V' is bfloat16 (ml_dtypes registers it as void-like); NumPy's own floats are 'f'.
    return NumberFormat(values, is_float=values.dtype.kind not in "biu")


def _corners(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that a summary shows: both ends of every long dim."""
    edge = OPTIONS.edgeitems
    for dim, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = [*range(edge), *range(size - edge, size)]
            array = array.take(kept, axis=dim)
    return array


def _nested_text(
    array: np.ndarray[Any, Any],
    indent: int,
    summarize: bool,
    number_format: NumberFormat | ComplexFormat,
) -> str:
    if array.ndim == 0:
        return number_format.text(array.item())
    if array.ndim == 1:
        return _row_text(array, indent, summarize, number_format)
    head, tail = _shown(len(array), summarize)
    blocks = [_nested_text(array[i], indent + 1, summarize, number_format) for i in head]
    if tail is not None:
        blocks.append("...")
        blocks += [_nested_text(array[i], indent + 1, summarize, number_format) for i in tail]
    separator = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(blocks) + "]"


def _shown(size: int, summarize: bool) -> tuple[range, range | None]:
    """Indices shown before and after the ellipsis; None when nothing is left out."""
    edge = OPTIONS.edgeitems
    if summarize and size > 2 * edge:
        return range(edge), range(size - edge, size)
    return range(size), None


def _row_text(
    row: np.ndarray[Any, Any],
    indent: int,
    summarize: bool,
    number_format: NumberFormat | ComplexFormat,
) -> str:
    head, tail = _shown(len(row), summarize)
    cells = [number_format.text(v) for v in row[head.start : head.stop].tolist()]
    if tail is not None:
        # PyTorch's ellipsis has a space in front, unless it stands alone.
        cells.append(" ..." if OPTIONS.edgeitems else "...")
        cells += [number_format.text(v) for v in row[tail.start : tail.stop].tolist()]
    per_line = max(1, (OPTIONS.linewidth - indent) // (number_format.width + 2))
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def describe(
    array: np.ndarray[Any, Any] | None,
    *,
    shape: Sequence[int],
    dtype: str,
    usual_dtype: bool,
    default_dtype: bool,
    prefix: str = "tensor(",
    device: str | None = None,
    grad_fn: str | None = None,
    requires_grad: bool = False,
) -> str:
    """PyTorch's `repr` of a tensor.

    array: the tensor's values, or None where there are none (a meta tensor), which prints `...`.
    dtype: the dtype's name with prefix, `torch.float16`; shown unless `usual_dtype` (the default
    dtypes, int64 and bool need no mention); empty tensors show it unless `default_dtype`.
    device: shown if not None.   grad_fn: the node's name, `AddBackward0`.
    """
    indent = len(prefix)
    facts = [] if device is None else [f"device='{device}'"]
    size = f"size={tuple(shape)}"
    if array is None:
        text = "..."
        facts += [size] if default_dtype else [size, f"dtype={dtype}"]
    elif array.size == 0:
        text = "[]"
        facts += [size] if len(shape) != 1 else []
        facts += [] if default_dtype else [f"dtype={dtype}"]
    else:
        text = array_text(array, indent)
        facts += [] if OPTIONS.edgeitems else [size]
        facts += [] if usual_dtype else [f"dtype={dtype}"]
    if grad_fn is not None:
        facts.append(f"grad_fn=<{grad_fn}>")
    elif requires_grad:
        facts.append("requires_grad=True")
    return append_facts(prefix + text, facts, indent) + ")"


def append_facts(text: str, facts: Sequence[str], indent: int) -> str:
    """`text` and `facts`, comma-separated, a new line where `linewidth` would be passed."""
    used = len(text) - text.rfind("\n") + 1
    for fact in facts:
        if used + len(fact) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + fact
            used = indent + len(fact)
        else:
            text += ", " + fact
            used += len(fact) + 2
    return text


# ---------------------------------------------------------------------------------------- HTML

HTML_EDGE = 5  # rows and columns kept at either end of a table that is cut
HTML_LIMIT = 12  # tables up to this many rows and columns are shown whole


def array_html(array: np.ndarray[Any, Any] | None, caption: str, text: str) -> str:
    """A notebook's view: a table for up to two dims, else `text`, with `caption` underneath."""
    from html import escape  # only for notebooks: loading it takes a millisecond

    note = f"<div style='font-size:smaller;color:gray'>{escape(caption)}</div>"
    if array is None or array.size == 0 or array.ndim > 2:
        return f"<div><pre>{escape(text)}</pre>{note}</div>"
    grid = array.reshape(1, -1) if array.ndim < 2 else array
    rows, columns = (_table_indices(size) for size in grid.shape)
    shown = grid[np.ix_([i for i in rows if i is not None], [j for j in columns if j is not None])]
    number_format = _format_for(shown)
    body = "".join(_table_row(grid, i, columns, number_format) for i in rows)
    return f"<div><table>{body}</table>{note}</div>"


def _table_indices(size: int) -> list[int | None]:
    """Indices of the rows (or columns) shown, None where some are left out."""
    if size <= HTML_LIMIT:
        return list(range(size))
    return [*range(HTML_EDGE), None, *range(size - HTML_EDGE, size)]


def _table_row(
    grid: np.ndarray[Any, Any],
    i: int | None,
    columns: list[int | None],
    number_format: NumberFormat | ComplexFormat,
) -> str:
    if i is None:
        return f"<tr><td colspan='{len(columns)}' style='text-align:center'>&#8942;</td></tr>"
    cells = (
        "&#8943;" if j is None else number_format.text(grid[i, j].item()).strip() for j in columns
    )
    return "<tr>" + "".join(f"<td style='text-align:right'>{c}</td>" for c in cells) + "</tr>"


# ---------------------------------------------------------------------------------- tensors


def tensor_text(tensor: Tensor) -> str:
    """`repr(tensor)`. Computes pending values, except inside the body of a composite."""
    cls = type(tensor)
    # A Parameter names its class in front, and goes on like a plain tensor.
    plain = cls is Tensor or (cls.__name__ == "Parameter" and cls.__module__.startswith("wend."))
    node = getattr(tensor, "grad_fn", None)
    default = get_default_dtype()
    run = _hot.current_trace().symbolic
    symbolic = run is not None
    if hasattr(run, "shown") and run.explores(tensor):
        return str(run.shown(f"tensor(..., size={tuple(tensor.shape)}, dtype={tensor.dtype})"))
    return describe(
        None if symbolic else _hot.ensure(_hot.refreshed(tensor)),
        shape=tensor.shape,
        dtype=str(tensor.dtype),
        usual_dtype=tensor.dtype in (default, default.to_complex(), int64, bool_),
        default_dtype=tensor.dtype is default,
        prefix="tensor(" if plain else f"{cls.__name__}(",
        device=_told(tensor.device),
        grad_fn=None if node is None else _node_name(node),
        requires_grad=tensor.requires_grad,
    )


def _told(place: device) -> str | None:
    """The name of a device, unless it is where tensors are made in any case."""
    usual = default_place()
    if place.type != usual.type or place.index not in (None, CURRENT.get(place.type, 0)):
        return str(place)
    return None


def meta_text(tensor: Tensor) -> str:
    """`repr(tensor)` of a tensor on the device meta, which has no elements to show."""
    node = tensor.grad_fn
    return describe(
        None,
        shape=tensor.shape,
        dtype=str(tensor.dtype),
        usual_dtype=True,
        default_dtype=tensor.dtype is get_default_dtype(),
        device="meta",
        grad_fn=None if node is None else _node_name(node),
        requires_grad=bool(tensor.requires_grad),
    )


def _node_name(node: object) -> str:
    name = getattr(node, "name", None)
    return str(name()) if callable(name) else type(node).__name__


def tensor_html(self: Tensor) -> str:
    """The HTML of a tensor in a notebook."""
    caption = f"{type(self).__name__} of shape {tuple(self.shape)}, {self.dtype}"
    if self.requires_grad:
        caption += ", requires grad"
    return array_html(_hot.ensure(_hot.refreshed(self)), caption, repr(self))


def tensor_format(self: Tensor, spec: str) -> str:
    """`format(tensor, spec)`: that of the number for a 0-d tensor."""
    run = _hot.current_trace().symbolic
    if hasattr(run, "shown") and run.explores(self):
        return repr(self)
    if self.dim() == 0 and type(self) is Tensor:
        number = _hot.ensure(_hot.refreshed(self)).item()
        return format(float(number) if self.dtype.category == FLOAT else number, spec)
    return object.__format__(self, spec)


_hot.set_slot("repr", tensor_text)
for _name, _method in {"_repr_html_": tensor_html, "__format__": tensor_format}.items():
    setattr(Tensor, _name, _method)
