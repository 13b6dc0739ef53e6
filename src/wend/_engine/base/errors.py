"""Exception classes. Each derives from the built-in type that PyTorch raises in its place.

A message reads `op: given values: the exact fault; the remedy`, and the user's line follows:

    ShapeError: mul: shapes (3, 4) and (3, 5) do not broadcast: dim -1 has sizes 4 and 5
      at model.py:34 in Attention.forward (encoder.layers.2.attn)
"""

from __future__ import annotations

from typing import Any, ClassVar

from wend._engine.base.tracebacks import leave_out_own


class WendError(Exception):
    """Base of all of Wend's exceptions.

    `site` is the user's line, for an error that surfaces elsewhere than at its cause: an index
    found out of range when the value is computed, say. Whoever knows the line fills it in; str()
    then shows it on a second line.
    """

    site: object | None = None
    #: Whether the traceback leaves out Wend's own frames: see `base/tracebacks.py`.
    is_short: ClassVar[bool] = True

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.site is None else f"{text}\n  at {self.site}"

    def name_call(self, inner: str, outer: str) -> None:
        """Name the op that was called, in a message that begins with an op inside of it."""
        text = str(self.args[0]) if self.args else ""
        if inner != outer and text.startswith(f"{inner}: "):
            self.args = (outer + text[len(inner) :], *self.args[1:])

    def name_function(self, function: Any) -> None:
        """Name the function that was called, in a message that begins with the op it stands for."""
        if function.primitive is not None:
            self.name_call(function.primitive.name, function.name)

    def shorten(self) -> None:
        """Leave Wend's own frames out of the traceback, if the error tells of a user's mistake."""
        if self.is_short:
            leave_out_own(self)


class ShapeError(WendError, RuntimeError):
    """The shapes do not fit the op, or do not fit together."""


class DTypeError(WendError, RuntimeError):
    """An element type that the op does not take."""


class DTypeNotImplemented(DTypeError, NotImplementedError):
    """An element type that the op has no rule for: PyTorch raises NotImplementedError."""


class DTypeOfOperator(DTypeNotImplemented, TypeError):
    """An element type that an operator of Python is not for: PyTorch raises TypeError."""


class DeviceError(WendError, RuntimeError):
    """A device that is not there, or operands on different devices."""


class OutOfMemoryError(WendError, RuntimeError):
    """An accelerator has no memory left for a tensor. Nothing has been changed."""


class GraphError(WendError, RuntimeError):
    """A gradient that cannot be had: a freed graph, a value without a history, a bad root."""


class LinAlgError(WendError, RuntimeError):
    """A matrix that an algorithm of linear algebra cannot handle: a singular matrix, say."""


class ExecutionError(WendError, RuntimeError):
    """An op failed while a value was computed."""


class BadValueError(ExecutionError):
    """An op made a NaN or an infinity while the guard was on.

    finding: the op, its line and its operands: see `wend.debug.find_nan`
    """

    finding: object | None = None


class KernelFailure(ExecutionError):
    """A kernel noted that an op refuses its values; the NumPy executor tells which."""

    is_short = False


class OutOfMemory(ExecutionError, MemoryError):
    """There is not enough memory; the message says who holds what."""


class DefectError(WendError, RuntimeError):
    """A failure inside Wend, which no operand explains; see `wend._engine.base.defects`."""

    is_short = False


class CompileError(WendError, RuntimeError):
    """Generated code that could not be made into machine code: a fault of Wend's own."""

    is_short = False


class CompileDeclined(CompileError):
    """A path that is left to the NumPy executor on purpose: no fault of anybody's."""


class SymbolicError(WendError, RuntimeError):
    """A symbolic size was used where only a known number makes sense."""

    is_short = False


class FormatError(WendError, RuntimeError):
    """A file is not of the claimed kind: truncated, of another format, or hostile."""


class ArgumentTypeError(WendError, TypeError):
    """An argument of the wrong type, or a call that fits no signature."""


class ArgumentError(WendError, ValueError):
    """An argument of the right type whose value is not allowed."""


class DivisionByZero(WendError, ZeroDivisionError):
    """A number that is divided by is 0, for which PyTorch's Python code raises this."""


class TooLarge(WendError, OverflowError):
    """A number that no element type of PyTorch's can hold."""


class ValueRefused(ArgumentError, RuntimeError):
    """A value that is not allowed, and that PyTorch refuses with RuntimeError."""


class DataRefused(ArgumentTypeError, ValueRefused):
    """An argument is no number or array; PyTorch raises TypeError, ValueError or RuntimeError."""


class GradientRefused(ArgumentTypeError, GraphError):
    """Nothing can be differentiated; PyTorch raises TypeError or RuntimeError."""


class AmbiguousError(WendError, RuntimeError, ValueError, TypeError):
    """A tensor with many elements, or none, used as a number or in a condition."""


class ValuesRefused(ExecutionError, ValueError):
    """Values out of an op's range, found at computation."""


class RequirementError(WendError, AssertionError):
    """Arguments that do not meet a requirement, where PyTorch raises AssertionError."""


class IndexOutOfRange(WendError, IndexError):
    """An index beyond the extent of the indexed dim.  index: that index, if it is known"""

    index: int | None = None


class ElementOutOfRange(IndexOutOfRange, RuntimeError):
    """An index along a dim (gather, scatter, index_select): PyTorch raises either class."""


class DimError(WendError, IndexError):
    """A dim beyond the rank of the tensor."""


class NotAvailable(WendError, AttributeError):
    """A name of PyTorch's that Wend does not have (yet). `hasattr` answers False."""


class ModuleNotAvailable(WendError, ModuleNotFoundError):
    """A module of PyTorch's that Wend does not have (yet), caught by `except ImportError`."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    def __str__(self) -> str:
        # ImportError.__str__ would hide the second line: the method returns its own `msg`.
        text = str(self.msg)
        return text if self.site is None else f"{text}\n  at {self.site}"


class NoDataError(WendError, NotImplementedError):
    """The elements of a tensor on the device `meta` were asked for."""


class NotImplementedInWend(WendError, NotImplementedError):
    """A case of an existing function that Wend does not handle (yet)."""


for _kind in list(globals().values()):
    if isinstance(_kind, type) and issubclass(_kind, WendError):
        _kind.__module__ = "wend.errors"  # as tracebacks show it, and where programs find it
del _kind
