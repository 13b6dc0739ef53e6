"""Float modules in a row, as `fuse_modules` makes them."""

from __future__ import annotations

from wend.nn.modules.container import Sequential

__all__ = [
    "BNReLU2d",
    "ConvBn1d",
    "ConvBn2d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvReLU1d",
    "ConvReLU2d",
    "FusedModule",
    "LinearBn1d",
    "LinearReLU",
]


class FusedModule(Sequential):
    """Base: modules in a row, which are observed and converted as a whole."""


class ConvReLU1d(FusedModule):
    """A convolution and a ReLU."""


class ConvReLU2d(FusedModule):
    """A convolution and a ReLU."""


class ConvBn1d(FusedModule):
    """A convolution and a batch norm, to be trained."""


class ConvBn2d(FusedModule):
    """A convolution and a batch norm, to be trained."""


class ConvBnReLU1d(FusedModule):
    """A convolution, a batch norm and a ReLU, to be trained."""


class ConvBnReLU2d(FusedModule):
    """A convolution, a batch norm and a ReLU, to be trained."""


class LinearReLU(FusedModule):
    """A linear layer and a ReLU."""


class LinearBn1d(FusedModule):
    """A linear layer and a batch norm, to be trained."""


class BNReLU2d(FusedModule):
    """A batch norm and a ReLU."""
