# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"

import builtins as _builtins
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, SupportsIndex, TypeAlias, TypeVar
from typing import overload

from wend._engine.base.devices import device as _device
from wend._engine.base.dtypes import DType
from wend._engine.base.shapes import Size

_bool: TypeAlias = _builtins.bool
_int: TypeAlias = _builtins.int
_float: TypeAlias = _builtins.float
_complex: TypeAlias = _builtins.complex
_str: TypeAlias = _builtins.str
_bytes: TypeAlias = _builtins.bytes
_dtype: TypeAlias = DType
_Number: TypeAlias = _builtins.bool | _builtins.int | _builtins.float | _builtins.complex
_Size: TypeAlias = Size

def record_step(trace: Any, prim: Any, seeds: Any, operands: Any, values: Any, outs: Any, build: Any, leaves: Any) -> Any: ...
class StepPrimitive:
    ...
    name: Any
    key: Any
    is_view: _bool
    is_composite: _bool
    is_differentiable: _bool
    sized: _bool
    def __init__(self, name: Any, key: Any) -> None: ...
    def __repr__(self) -> _str: ...
def set_retained(table: Any) -> Any: ...
def give_gradients(leaves: Any, grads: Any) -> Any: ...
def note_holders(noted: Any, handle: Any) -> Any: ...
def restore(holder: Any, value: Any) -> Any: ...
def add_gradient(handle: Any, have: Any, g: Any) -> _bool: ...
def renew_value(handle: Any, old: Any, value: Any) -> _bool: ...
def rebind_alone(handle: Any, result: Any) -> _bool: ...
def settle_gradient(leaf: Any, g: Any) -> _bool: ...
