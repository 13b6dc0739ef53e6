"""fuse_modules: a convolution, the batch norm and the ReLU behind become a single module."""

from __future__ import annotations

import copy
from typing import Any

from wend._engine.base.errors import ArgumentError, NotImplementedInWend
from wend.ao.nn.intrinsic import fused
from wend.nn import modules
from wend.nn.modules.linear import Identity
from wend.nn.modules.module import Module
from wend.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]

_C1, _C2, _L = modules.Conv1d, modules.Conv2d, modules.Linear
_B1, _B2, _R = modules.BatchNorm1d, modules.BatchNorm2d, modules.ReLU
#: (what is fused, as one module): None for a batch norm that goes into the weight before.
_IN_EVALUATION: dict[tuple[Any, ...], Any] = {
    (_C1, _B1): None,
    (_C2, _B2): None,
    (_L, _B1): None,
    (_C1, _B1, _R): fused.ConvReLU1d,
    (_C2, _B2, _R): fused.ConvReLU2d,
    (_C1, _R): fused.ConvReLU1d,
    (_C2, _R): fused.ConvReLU2d,
    (_L, _R): fused.LinearReLU,
    (_B2, _R): fused.BNReLU2d,
}
_IN_TRAINING: dict[tuple[Any, ...], Any] = {
    (_C1, _B1): fused.ConvBn1d,
    (_C2, _B2): fused.ConvBn2d,
    (_L, _B1): fused.LinearBn1d,
    (_C1, _B1, _R): fused.ConvBnReLU1d,
    (_C2, _B2, _R): fused.ConvBnReLU2d,
    (_C1, _R): fused.ConvReLU1d,
    (_C2, _R): fused.ConvReLU2d,
    (_L, _R): fused.LinearReLU,
    (_B2, _R): fused.BNReLU2d,
}


def known_fusions(is_qat: bool) -> dict[tuple[Any, ...], Any]:
    """The fused types by the types of modules in a row; None where the first type stays."""
    return _IN_TRAINING if is_qat else _IN_EVALUATION


def fuse_known_modules(
    mod_list: list[Any], is_qat: bool, additional_fuser_method_mapping: Any = None
) -> list[Any]:
    """The fused module, and an Identity for each of the rest.

    Raises NotImplementedInWend for modules that nothing fuses, ArgumentError for the wrong mode.
    """
    types = tuple(type(m) for m in mod_list)
    table = known_fusions(is_qat)
    if types not in table:
        names = ", ".join(t.__name__ for t in types)
        raise NotImplementedInWend(f"fuse_modules: cannot fuse modules: ({names})")
    if any(m.training is not mod_list[0].training for m in mod_list):
        raise ArgumentError("fuse_modules: modules must all be in training or in evaluation mode")
    parts, kind = list(mod_list), table[types]
    norms = types[1:2] in ((_B1,), (_B2,))
    if norms and not is_qat:
        if parts[0].training:
            raise ArgumentError("fuse_modules: a batch norm in training mode; call model.eval()")
        fuse: Any = fuse_linear_bn_eval if types[0] is _L else fuse_conv_bn_eval
        parts = [fuse(parts[0], parts[1]), *parts[2:]]
    whole = parts[0] if kind is None else kind(*parts)
    for hook in mod_list[0]._forward_pre_hooks.values():
        whole.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in mod_list[-1]._forward_hooks.values():
        whole.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    whole.train(mod_list[0].training)
    return [whole, *(Identity() for _ in mod_list[1:])]


def _parent(model: Module, name: str) -> tuple[Any, str]:
    path, _, last = name.rpartition(".")
    return model.get_submodule(path), last


def _fuse(model: Module, names: Any, is_qat: bool, fuser: Any) -> None:
    places = [_parent(model, name) for name in names]
    olds = [getattr(parent, last) for parent, last in places]
    for (parent, last), new in zip(places, fuser(olds, is_qat), strict=True):
        setattr(parent, last, new)


def _fused(model: Module, lists: Any, is_qat: bool, inplace: bool, fuser: Any) -> Module:
    if not inplace:
        model = copy.deepcopy(model)
    for names in [lists] if all(isinstance(x, str) for x in lists) else lists:
        _fuse(model, names, is_qat, fuser)
    return model


def fuse_modules(
    model: Module, modules_to_fuse: Any, inplace: bool = False,
    fuser_func: Any = fuse_known_modules, fuse_custom_config_dict: Any = None,
) -> Module:  # fmt: skip
    """The model with modules of these names fused: [["conv", "bn", "relu"], ...].

    Raises NotImplementedInWend for modules that nothing fuses, ArgumentError for the wrong mode.
    """
    return _fused(model, modules_to_fuse, False, inplace, fuser_func)


def fuse_modules_qat(
    model: Module, modules_to_fuse: Any, inplace: bool = False,
    fuser_func: Any = fuse_known_modules, fuse_custom_config_dict: Any = None,
) -> Module:  # fmt: skip
    """As `fuse_modules`, for `prepare_qat`: batch norms stay, to be trained."""
    return _fused(model, modules_to_fuse, True, inplace, fuser_func)
