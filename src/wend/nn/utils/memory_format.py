"""Weights of convolutions in another order of memory."""

from __future__ import annotations

from typing import Any

from wend._frontend.formats import memory_format
from wend.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from wend.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, memory_format: memory_format, kinds: tuple[Any, ...]) -> Module:
    if isinstance(module, kinds):
        module.weight.data = module.weight.detach().clone().contiguous(memory_format=memory_format)
    for child in module.children():
        _convert(child, memory_format, kinds)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: memory_format) -> Module:
    """Weights of all Conv2d and ConvTranspose2d in the module say that they lie in this format."""
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Module, memory_format: memory_format) -> Module:
    """Weights of all Conv3d and ConvTranspose3d in the module say that they lie in this format."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
