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

MOST_DIMS: _int
class Counts:
    ...
    states: _int
    flushes: _int
    epoch: _int
    def __init__(self) -> None: ...
class CoreSlots:
    ...
    default_device: Any
    default_eager: Any
    default_mode: Any
    bool: Any
    complex: Any
    contains: Any
    float: Any
    getitem: Any
    index: Any
    int: Any
    iter: Any
    len: Any
    operator: Any
    repr: Any
    setitem: Any
    size: Any
    tensor_init: Any
    accumulate: Any
    backward: Any
    backward_at_once: Any
    backward_in_parts: Any
    backward_on: Any
    check_saved: Any
    go_on: Any
    node_of: Any
    nonleaf_grad: Any
    pass_segments: Any
    requires_grad_: Any
    set_grad: Any
    whole: Any
    assign: Any
    attach_detached: Any
    attach_reshape: Any
    become_view: Any
    check_view: Any
    lay_out: Any
    note_holders: Any
    rederive: Any
    relabel: Any
    view_ended: Any
    write_back: Any
    writes: Any
    call_out: Any
    even_parts: Any
    is_plain: Any
    op_by_name: Any
    override_enabled: Any
    signature: Any
    strip_device: Any
    torch_function: Any
    check_held: Any
    check_numbers: Any
    evict: Any
    execute: Any
    execute_many: Any
    module_error: Any
    on_beat: Any
    park: Any
    surface: Any
    take_back: Any
    unavailable: Any
    user_site: Any
    def __init__(self) -> None: ...
class RankedType:
    ...
    dtype: Any
    rank: _int
    device: Any
    leaves: Any
    itemsize: Any
    salt: Any
    wide: Any
    plain_leaf: Any
    def __init__(self, dtype: Any, rank: Any, device: Any) -> None: ...
    def __repr__(self) -> _str: ...
class TensorType:
    ...
    dtype: Any
    device: Any
    kind: RankedType
    nbytes: _int
    rank: _int
    size: Any
    @property
    def dims(self) -> Any: ...
    @property
    def shape(self) -> Any: ...
    def __repr__(self) -> _str: ...
    def __reduce__(self) -> Any: ...
def intern_kind(dtype: Any, rank: Any, device: Any) -> RankedType: ...
def bound_types(slots: Any) -> Any: ...
def same_type(a: Any, b: Any) -> _bool: ...
def same_tail(a: Any, b: Any) -> _bool: ...
def intern_type(shape: Any, dtype: Any, device: Any) -> TensorType: ...
def symbolic_type(shape: Any, dtype: Any, device: Any) -> TensorType: ...
def evaluate(expr: Any, types: Any, args: Any) -> Any: ...
class Program:
    ...
    prim: Any
    guards: Any
    outs: Any
    kinds: Any
    code: _bytes
    numbers: Any
    n_guards: _int
    as_operand: _int
    uniform: _bool
    graph: Any
    templates: Any
    runner: Any
    sample_types: Any
    sample_args: Any
    many: _bool
    wrap: Any
    real: _bool
    all_real: _bool
    differentiable: _bool
    def __init__(self, prim: Any, guards: Any, outs: Any) -> None: ...
    def matches(self, types: Any, args: Any) -> Any: ...
    def resize(self, t0: Any, t1: Any, t2: Any, more: Any, args: Any) -> Any: ...
    def out_types(self, types: Any, args: Any) -> Any: ...
def row_of(k: Any, t0: Any, t1: Any, t2: Any, more: Any) -> Any: ...
def translate(program: Any) -> Any: ...
def is_dim(expr: Any) -> Any: ...
def translate_expr(expr: Any, code: Any, numbers: Any, depth: Any) -> Any: ...
def settle_operand(program: Any, types: Any) -> Any: ...
def asks_equality(code: Any) -> Any: ...
def differentiable_dtypes(outs: Any) -> Any: ...
class PrimitiveBase:
    ...
    form: Any
    is_view: _bool
    is_composite: _bool
    is_differentiable: _bool
    plain_form: _bool
    sized: _bool
    all_sizes: _bool
    check_strides: _bool
    check_held: _bool
    check_numbers: _bool
    pick_rows: _bool
    joins_held: _bool
    piece: Any
    piece_dim: _int
    cuts_dim: _int
    region_code: _int
    programs: Any
    memo: Any
    epoch: _int
    size_mask: Any
    categories: Any
    last_n: Any
    quick_n: Any
    flows: Any
    other_t0: Any
    other_t1: Any
    other_t2: Any
    other_outs: Any
    piece_outs: Any
    piece_args: Any
    cut_from: Any
    cut: Any
    cut_program: Any
    def setup(self, form: Any, is_view: Any, is_composite: Any, differentiable: Any) -> Any: ...
    def arrange(self, tensors: Any, args: Any) -> Any: ...
    def place_of(self, types: Any) -> Any: ...
    def check_places(self, types: Any) -> Any: ...
    def typed(self, types: Any, args: Any) -> Any: ...
    def new_program(self, kinds: Any, types: Any, args: Any) -> Any: ...
class LeafPrimitive:
    ...
    kind: RankedType
    grad: _int
    is_view: _bool
    is_composite: _bool
    name: _str
    def __init__(self, kind: Any, grad: Any) -> None: ...
    def __repr__(self) -> _str: ...
class Mode:
    ...
    grad: _bool
    inference: _bool
    recompute: _int
    key: Any
    off: Any
    def __init__(self, grad: Any, inference: Any, key: Any) -> None: ...
    def __repr__(self) -> _str: ...
def intern_mode(grad: Any, inference: Any, autocast: Any, default_dtype: Any, deterministic: Any, anomaly: Any, recompute: Any = 0) -> Mode: ...
def off_mode(mode: Any) -> Mode: ...
class CallPlan:
    ...
    prim: Any
    nargs: _int
    kwnames: Any
    n_slots: _int
    raws: _bytes
    roles: _bytes
    extras: Any
    n_const: _int
    const_at: _bytes
    const_values: Any
    same_dtype: Any
    has_args: _bool
    def __init__(self, prim: Any, nargs: Any, kwnames: Any, slots: Any, constants: Any) -> None: ...
    def is_quick(self) -> Any: ...
    def fits(self, args: Any, nargs: Any, kwnames: Any) -> Any: ...
def count_known_types() -> _int: ...
