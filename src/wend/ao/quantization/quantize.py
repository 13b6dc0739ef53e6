"""From a float model to a quantised model: prepare, calibrate or train, convert."""

from __future__ import annotations

import copy
from typing import Any

from wend._engine.base.dtypes import ABSENT
from wend._engine.base.errors import ArgumentError, NotImplementedInWend
from wend.ao.nn.intrinsic.fused import FusedModule
from wend.ao.nn.quantized import FloatFunctional, QFunctional
from wend.ao.quantization.fake_quantize import FakeQuantizeBase
from wend.ao.quantization.observer import ObserverBase
from wend.ao.quantization.qconfig import default_dynamic_qconfig
from wend.ao.quantization.quantization_mappings import (
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
)
from wend.ao.quantization.stubs import DeQuantStub, QuantWrapper
from wend.nn import modules
from wend.nn.modules.container import Sequential
from wend.nn.modules.linear import Identity
from wend.nn.modules.module import Module

__all__ = [
    "add_quant_dequant",
    "convert",
    "default_eval_fn",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]

OBSERVER = "activation_post_process"


def propagate_qconfig_(
    module: Module, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None
) -> None:
    """Give each module below the qconfig of the modules around it.

    qconfig_dict: qconfigs by names, or types, of modules; the name "" is for all
    """
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module: Module, table: dict[Any, Any], parent: Any, prefix: str) -> None:
    own = table.get(type(module), parent)
    own = table.get(prefix, own)
    own = getattr(module, "qconfig", own)
    module.qconfig = own
    for name, child in module.named_children():
        if not isinstance(child, (ObserverBase, FakeQuantizeBase)):
            _propagate(child, table, own, f"{prefix}.{name}" if prefix else name)


def _observed(self: Any, input: Any, output: Any) -> Any:
    """The hook that shows a module's result to the observer."""
    return self.activation_post_process(output)


def _insert(module: Any) -> None:
    """Give a module an observer, if the qconfig names an observer."""
    if getattr(module, "qconfig", None) is None or hasattr(module, OBSERVER):
        return
    module.add_module(OBSERVER, module.qconfig.activation())
    module.register_forward_hook(_observed)


def _add_observers(module: Module, observed: set[Any], whole: set[Any]) -> None:
    """Insert observers below. whole: modules that are observed although they have children"""
    for child in module.children():
        if isinstance(child, modules.Dropout):
            continue
        if isinstance(child, (FloatFunctional, QFunctional)):
            if getattr(child, "qconfig", None) is not None:
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, FusedModule) or type(child) in whole:
            _insert(child)
        elif not isinstance(child, (ObserverBase, FakeQuantizeBase)):
            _add_observers(child, observed, whole)
    if isinstance(module, DeQuantStub):
        return
    leaf = not any(True for _ in module.children()) and not isinstance(module, Sequential)
    if leaf and type(module) in observed:
        _insert(module)


def prepare(
    model: Module, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> Module:  # fmt: skip
    """The model with observers behind the modules that have a qconfig. Run data through the result.

    inplace: whether the model itself is changed, and not a copy
    """
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    observed = allow_list or get_default_qconfig_propagation_list()
    _add_observers(model, observed, set(observer_non_leaf_module_list or ()))
    return model


def prepare_qat(model: Module, mapping: Any = None, inplace: bool = False) -> Module:
    """The model with weights and results rounded in the forward pass: then train the model.

    Raises ArgumentError for a model in evaluation mode.
    """
    if not model.training:
        raise ArgumentError("prepare_qat only works on models in training mode; call model.train()")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping=mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def convert(
    module: Module, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True,
    is_reference: bool = False, convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:  # fmt: skip
    """The model with quantised modules in the place of those that were observed.

    mapping: quantised modules by float modules     inplace: whether the model itself is changed
    """
    if is_reference:
        raise NotImplementedInWend("convert: is_reference=True; leave is_reference away")
    if not inplace:
        module = copy.deepcopy(module)
    table = get_default_static_quant_module_mappings() if mapping is None else mapping
    _convert(module, table)
    if remove_qconfig:
        forget_observers(module)
    return module


def _convert(module: Module, table: dict[Any, Any]) -> None:
    for name, child in list(module.named_children()):
        if not isinstance(child, FusedModule) and type(child) not in table:
            _convert(child, table)
        changed = swap_module(child, table)
        if changed is not child:
            module._modules[name] = changed


def swap_module(
    mod: Any, mapping: dict[Any, Any], custom_module_class_mapping: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """The quantised module for a module with a qconfig, with all hooks; else the module itself."""
    if getattr(mod, "qconfig", None) is None or type(mod) not in mapping:
        return mod
    changed = mapping[type(mod)].from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        changed.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observed:
            changed.register_forward_hook(hook)
    return changed


def forget_observers(module: Any) -> None:
    """Take qconfigs, and observers of modules that stay floats, away."""
    for child in module.children():
        forget_observers(child)
    module.__dict__.pop("qconfig", None)
    observer = module._modules.get(OBSERVER)
    if isinstance(observer, (ObserverBase, FakeQuantizeBase, Identity)) and not isinstance(
        module, FakeQuantizeBase
    ):
        del module._modules[OBSERVER]
        for key, hook in list(module._forward_hooks.items()):
            if hook is _observed:
                del module._forward_hooks[key]


def quantize_dynamic(
    model: Module, qconfig_spec: Any = None, dtype: Any = ABSENT["qint8"], mapping: Any = None,
    inplace: bool = False,
) -> Module:  # fmt: skip
    """The model with int8 weights in its linear and recurrent layers; results stay floats.

    qconfig_spec: types, or names, of the modules; or a dict of their qconfigs
    Raises NotImplementedInWend for dtypes other than torch.qint8.
    """
    table = get_default_dynamic_quant_module_mappings() if mapping is None else mapping
    if dtype is not ABSENT["qint8"]:
        raise NotImplementedInWend(f"quantize_dynamic: dtype {dtype}; there is torch.qint8")
    if qconfig_spec is None:
        qconfig_spec = dict.fromkeys(table, default_dynamic_qconfig)
    elif not isinstance(qconfig_spec, dict):
        qconfig_spec = dict.fromkeys(qconfig_spec, default_dynamic_qconfig)
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, table, inplace=True)


def add_quant_dequant(module: Module) -> Module:
    """The model with each leaf that has a qconfig between a QuantStub and a DeQuantStub."""
    if not any(True for _ in module.children()) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module


def default_eval_fn(model: Module, calib_data: Any) -> None:
    """Run a model on pairs of data and target."""
    for data, _target in calib_data:
        model(data)


def quantize(
    model: Module, run_fn: Any, run_args: Any, mapping: Any = None, inplace: bool = False
) -> Module:
    """prepare, run_fn(model, *run_args) and convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Module, run_fn: Any, run_args: Any, inplace: bool = False) -> Module:
    """prepare_qat, run_fn(model, *run_args) and convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)
