"""torch.autograd.Variable: the former class of tensors with gradients; now every Tensor counts."""

from __future__ import annotations

from typing import Any

from wend._engine.base.errors import GraphError
from wend._engine.core._hot import Tensor
from wend._engine.transforms.grad import current_pass

__all__ = ["Variable"]


class _Engine:
    """Attributes of PyTorch's engine that old programs ask for."""

    @staticmethod
    def queue_callback(callback: Any) -> None:
        """Call `callback` at the end of the backward pass that runs now."""
        current_pass().at_end.append(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """Variable(data, requires_grad=False) is a tensor that shares the data of `data`."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if volatile:
            raise GraphError("Variable: volatile was removed: use torch.no_grad()")
        if data is None:
            return native_empty(requires_grad)
        tensor = data.detach()
        return tensor.requires_grad_() if requires_grad else tensor


def native_empty(requires_grad: bool) -> Any:
    """An empty tensor."""
    from wend._frontend.creation import empty

    tensor = empty(0)
    return tensor.requires_grad_() if requires_grad else tensor
