"""Moving a module's tensors to another dtype or device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from wend._engine.base.devices import DeviceLike
from wend._engine.base.dtypes import DType
from wend._engine.base.errors import ArgumentTypeError, NoDataError
from wend._engine.core._modules import ModuleBase
from wend._frontend.static.compiling import Settings, StaticCheck
from wend._frontend.toolkit import (
    Tensor,
    bfloat16,
    device_of,
    empty_like,
    float16,
    float32,
    float64,
    no_grad,
    parse_to,
)
from wend.nn.parameter import Parameter, is_lazy

Convert = Callable[[Tensor], Tensor]


def _is_real_or_complex(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


class ConversionMixin:
    """`to`, `float`, `cpu` and similar methods, for all parameters and buffers."""

    _parameters: Any
    _buffers: Any
    children: Callable[[], Any]

    def _apply(self, fn: Convert, recurse: bool = True) -> Self:
        """Replace the values of all parameters, gradients and buffers by `fn` of each.

        Parameters keep their identity: optimizers go on holding them. Only those that leave the
        device meta, or get there, are new ones.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _applied(parameter, fn)
        for name, buffer in list(self._buffers.items()):
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call `fn` on every module below this module, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: object, **kwargs: object) -> Self:
        """to(device), to(dtype), to(device, dtype), to(tensor): convert in place.

        Only floating-point and complex tensors change dtype.
        Raises TypeError for a dtype that is neither, DeviceError for a device that is not there.
        Raises NotImplementedError for parameters on the device meta, which have no data to move.
        """
        device, dtype, _ = parse_to(*args, **kwargs)
        memory_format: Any = kwargs.get("memory_format")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, "
                f"but got desired dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            if device is not None and device.type != "meta" and tensor.is_meta:
                raise NoDataError(
                    "Cannot copy out of meta tensor; no data! Please use "
                    "torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                    "from meta to a different device."
                )
            changes = dtype is not None and _is_real_or_complex(tensor)
            if changes:
                tensor = tensor.to(device, dtype) if device is not None else tensor.to(dtype)
            elif device is not None:
                tensor = tensor.to(device)
            if memory_format is None or tensor.dim() not in (4, 5):
                return tensor
            return tensor.to(memory_format=memory_format)

        return self._apply(convert)

    def type(self, dst_type: DType | str) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.to(float32) if t.is_floating_point() else t)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.to(float64) if t.is_floating_point() else t)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.to(float16) if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.to(bfloat16) if t.is_floating_point() else t)

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: DeviceLike = None) -> Self:
        """Move to a CUDA device. Raises DeviceError if it is not there."""
        return self.to(device_of("cuda" if device is None else device))

    def xpu(self, device: DeviceLike = None) -> Self:
        """Move to an OpenCL device. Raises DeviceError if it is not there."""
        return self.to(device_of("xpu" if device is None else device))

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Move to a device without copying the values."""
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        """Share the parameters with other processes."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def compile(self, *args: object, **kwargs: Any) -> None:
        """As `torch.compile` with these settings, in place.

        Every module's work is compiled as it runs; `fullgraph=True` verifies that it has a static
        graph, before the first call for each kind of arguments.
        """
        if args:
            raise ArgumentTypeError("Module.compile: takes keyword arguments, as torch.compile")
        settings = Settings(**kwargs)
        before = self.__dict__.pop("_verified", None)
        if before is not None:
            before.remove()
        if settings.fullgraph and not settings.disable:
            owner: Any = self
            hook = CheckBefore(StaticCheck(owner))
            self.__dict__["_verified"] = owner.register_forward_pre_hook(hook, with_kwargs=True)


class CheckBefore:
    """A forward pre-hook that verifies that its module has a static graph."""

    def __init__(self, check: StaticCheck) -> None:
        self.check = check

    def __call__(self, module: ModuleBase, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.check(args, kwargs)


def _applied(parameter: Parameter, fn: Convert) -> Parameter:
    """The parameter after `fn`: itself, or a new one if `fn` gives it data or takes it away."""
    with no_grad():
        applied = fn(parameter)
    if applied is parameter:
        return parameter
    if is_lazy(parameter):
        parameter.data = applied.data
        return parameter
    if applied.is_meta is parameter.is_meta:
        successor = parameter
        parameter.data = applied
    else:
        successor = Parameter(applied, parameter.requires_grad)
    grad = parameter.grad
    if grad is not None:
        with no_grad():
            applied_grad = fn(grad)
        applied_grad.requires_grad_(grad.requires_grad)
        successor.grad = applied_grad
    return successor
