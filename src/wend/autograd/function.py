"""torch.autograd.function: operations with a user-defined backward pass."""

from wend._frontend.autograd.function import (
    Function,
    FunctionCtx,
    NestedIOFunction,
    once_differentiable,
)

BackwardCFunction = FunctionCtx
InplaceFunction = Function

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
