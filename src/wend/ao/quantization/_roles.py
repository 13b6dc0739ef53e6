"""Roles of calls in a traced model: which of them compute with bytes, and by which rule.

- computed: a module with a quantised form, with a scale of its own
- arithmetic: a sum or product of two operands, with a scale of its own; also with a ReLU behind
- joined: `cat`; all operands and the result have a single scale
- passed: pooling, views, ReLU and the like; the result has the operand's scale
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wend._engine.core.primitive import ops
from wend._frontend.quantized.functions import quantize_per_tensor
from wend._frontend.quantized.tensor import QuantizedTensor
from wend._frontend.toolkit import Tensor
from wend.ao.nn.intrinsic.fused import FusedModule
from wend.ao.quantization.quantization_mappings import DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
from wend.fx.node import Node
from wend.nn import modules
from wend.nn.modules.linear import Identity
from wend.nn.modules.module import Module

__all__ = ["Role", "drops", "is_query", "is_relu", "original_type", "role_of"]

#: Functions and methods whose result has the scale of the first operand.
_PASSED = frozenset(
    "contiguous clone detach expand flatten flip movedim narrow permute repeat reshape select "
    "squeeze swapaxes t transpose unflatten unsqueeze view view_as getitem pixel_shuffle "
    "pixel_unshuffle channel_shuffle max_pool1d max_pool2d max_pool3d relu relu_ avg_pool1d "
    "avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "interpolate mean hardtanh relu6 clamp dropout".split()
)
_PASSED_MODULES = (
    modules.AdaptiveAvgPool1d, modules.AdaptiveAvgPool2d, modules.AdaptiveAvgPool3d,
    modules.AvgPool1d, modules.AvgPool2d, modules.AvgPool3d, modules.Dropout, modules.Flatten,
    modules.Hardtanh, Identity, modules.MaxPool1d, modules.MaxPool2d, modules.MaxPool3d,
    modules.PixelShuffle, modules.PixelUnshuffle, modules.ReLU, modules.ReLU6, modules.Unflatten,
)  # fmt: skip
_JOINED = frozenset(("cat", "concat", "concatenate"))
_RELUS = frozenset(("relu", "relu_"))
_QUERIES = frozenset(("size", "dim", "ndimension", "numel", "stride", "getattr", "is_contiguous"))
_PACKAGE = __name__.partition(".")[0]


def _rounded(y: Tensor, scale: Tensor, zero_point: Tensor, dtype: Any) -> Any:
    return quantize_per_tensor(y, scale, zero_point, dtype)


def _number(x: Any) -> Any:
    """The floats of a quantised operand; a number itself."""
    return x.dequantize() if isinstance(x, QuantizedTensor) else x


def quantized_add(x: Any, y: Any, scale: Tensor, zero_point: Tensor, dtype: Any) -> Any:
    """x + y of quantised tensors, or of such a tensor and a number."""
    return _rounded(ops.add(_number(x), _number(y)), scale, zero_point, dtype)


def quantized_add_relu(x: Any, y: Any, scale: Tensor, zero_point: Tensor, dtype: Any) -> Any:
    """relu(x + y) of quantised tensors."""
    return _rounded(ops.relu(ops.add(_number(x), _number(y))), scale, zero_point, dtype)


def quantized_mul(x: Any, y: Any, scale: Tensor, zero_point: Tensor, dtype: Any) -> Any:
    """x * y of quantised tensors, or of such a tensor and a number."""
    return _rounded(ops.mul(_number(x), _number(y)), scale, zero_point, dtype)


def quantized_mul_relu(x: Any, y: Any, scale: Tensor, zero_point: Tensor, dtype: Any) -> Any:
    """relu(x * y) of quantised tensors."""
    return _rounded(ops.relu(ops.mul(_number(x), _number(y))), scale, zero_point, dtype)


def quantized_matmul(x: Any, y: Any, scale: Tensor, zero_point: Tensor, dtype: Any) -> Any:
    """x @ y of quantised tensors."""
    return _rounded(ops.matmul(_number(x), _number(y)), scale, zero_point, dtype)


#: The quantised function of a function or method, and that of the function and a ReLU.
_ARITHMETIC: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    **dict.fromkeys(("add", "iadd"), (quantized_add, quantized_add_relu)),
    **dict.fromkeys(("mul", "imul", "multiply"), (quantized_mul, quantized_mul_relu)),
    "matmul": (quantized_matmul, None),
}


@dataclass
class Role:
    """The rule of a call. operands: nodes that are quantised; args: of the quantised function."""

    kind: str
    operands: list[Node]
    function: Any = None
    args: tuple[Any, ...] = ()
    inner: list[Node] = field(default_factory=list)  # calls that the function also computes


def name_of(node: Node) -> str:
    """The name of a function of Wend's or of `operator`, or of a method; "" for other nodes."""
    if node.op == "call_method":
        return str(node.target)
    target: Any = node.target
    home = str(getattr(target, "__module__", "") or "")
    if node.op != "call_function":
        return ""
    if home in ("_operator", "builtins") or home.split(".")[0] == _PACKAGE:
        return str(getattr(target, "__name__", ""))
    return ""


def is_query(node: Node) -> bool:
    """Whether the call asks for a size or the like, which a quantised tensor has too."""
    return name_of(node) in _QUERIES


def drops(node: Node) -> bool:
    """Whether the call is a function of dropout in training mode."""
    if name_of(node) != "dropout" or node.op != "call_function":
        return False
    return bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("training", True))


def is_relu(node: Node, parts: dict[str, Any]) -> bool:
    """Whether the call is a ReLU, as a module, a function or a method."""
    if node.op == "call_module":
        return type(parts[str(node.target)]) is modules.ReLU
    return name_of(node) in _RELUS


def original_type(module: Module) -> Any:
    """The type that a mapping of qconfigs names: of a fused module, that of its first part."""
    return type(module[0]) if isinstance(module, FusedModule) else type(module)


def role_of(node: Node, parts: dict[str, Any], is_float: Callable[[Node], bool]) -> Role | None:
    """The role of a call, or None for a call that computes with floats.

    parts: modules by path     is_float: whether a node's result is a tensor of floats
    """
    if is_relu(node, parts) and len(node.all_input_nodes) == 1:
        role = _with_relu(node.all_input_nodes[0], is_float)
        if role is not None:
            return role
    if node.op == "call_module":
        return _of_module(node, parts[str(node.target)], is_float)
    name = name_of(node)
    if name in _ARITHMETIC:
        return _arithmetic(node, is_float)
    if name in _JOINED:
        parts_of = node.args[0] if node.args else node.kwargs.get("tensors", ())
        if isinstance(parts_of, (list, tuple)) and all(_is(x, is_float) for x in parts_of):
            return Role("joined", list(parts_of))
    if name in _PASSED and not drops(node):
        return _passed(node, is_float)
    return None


def _is(x: Any, is_float: Callable[[Node], bool]) -> bool:
    return isinstance(x, Node) and is_float(x)


def _passed(node: Node, is_float: Callable[[Node], bool]) -> Role | None:
    """The first operand alone is a tensor; sizes may be nodes too."""
    first: Any = node.args[0] if node.args else node.kwargs.get("input")
    others = [n for n in node.all_input_nodes if n is not first]
    if _is(first, is_float) and is_float(node) and not any(is_float(n) for n in others):
        return Role("passed", [first])
    return None


def _of_module(node: Node, module: Module, is_float: Callable[[Node], bool]) -> Role | None:
    operands = node.all_input_nodes
    if len(operands) != 1 or not is_float(operands[0]) or not is_float(node):
        return None
    if type(module) in _PASSED_MODULES:
        return Role("passed", operands)
    if type(module) in DEFAULT_STATIC_QUANT_MODULE_MAPPINGS:
        return Role("computed", operands)
    return None


def _arithmetic(node: Node, is_float: Callable[[Node], bool]) -> Role | None:
    if name_of(node) not in _ARITHMETIC or node.kwargs or len(node.args) != 2:
        return None
    if not all(_is(x, is_float) or isinstance(x, (int, float)) for x in node.args):
        return None
    return Role("arithmetic", node.all_input_nodes, _ARITHMETIC[name_of(node)][0], node.args)


def _with_relu(before: Node, is_float: Callable[[Node], bool]) -> Role | None:
    """The role of a ReLU whose operand is a sum or product that nothing else uses."""
    role = _arithmetic(before, is_float) if len(before.users) == 1 else None
    function = None if role is None else _ARITHMETIC[name_of(before)][1]
    if role is None or function is None:
        return None
    return Role("arithmetic", role.operands, function, role.args, [before])
