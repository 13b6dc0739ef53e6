"""Weight norm and spectral norm as hooks before `forward`: PyTorch's older form."""

from __future__ import annotations

from typing import Any

from wend._frontend.toolkit import Tensor, no_grad, ops
from wend.nn.modules.conv import _ConvTranspose
from wend.nn.modules.module import Module
from wend.nn.parameter import Parameter

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


# -- arithmetic ------------------------------------------------------------------------------


def except_dim(v: Tensor, dim: int) -> Tensor:
    """The norm over all dims but `dim`, kept with size 1; over all dims for dim -1."""
    if dim == -1:
        return ops.norm(v, 2)
    axes = tuple(d for d in range(v.dim()) if d != dim % v.dim())
    return ops.norm(v, 2, axes, True) if axes else v.abs()


def weight_from(g: Tensor, v: Tensor, dim: int) -> Tensor:
    """g v / |v|."""
    return v * (g / except_dim(v, dim))


def _unit(x: Tensor, eps: float) -> Tensor:
    return x / ops.norm(x, 2).clamp(min=eps)


def normalized_vector(like: Tensor, size: int, eps: float) -> Tensor:
    """A random vector of length 1."""
    return _unit(like.new_empty(size).normal_(0, 1), eps)


def power_iterations(
    matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Singular vectors of the largest singular value, made better `count` times."""
    with no_grad():
        for _ in range(count):
            u = _unit(matrix @ v, eps)
            v = _unit(matrix.t() @ u, eps)
    return u, v


def spectral_dim(module: Module) -> int:
    """The output dim of a module's weight."""
    return 1 if isinstance(module, _ConvTranspose) else 0


# -- weight norm -----------------------------------------------------------------------------


class WeightNorm:
    """The hook that computes a weight from length and direction."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return weight_from(g, v, self.dim)

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self.name, self.compute_weight(module))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for suffix in ("_g", "_v"):
            del module._parameters[self.name + suffix]
        setattr(module, self.name, Parameter(weight.detach()))


def _hook_of(module: Module, kind: type[Any], name: str) -> Any:
    hook: Any
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return key, hook
    return None


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learn length and direction of a weight apart (Salimans and Kingma, 2016)."""
    if _hook_of(module, WeightNorm, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    with no_grad():
        length = except_dim(weight, hook.dim)
    module.register_parameter(name + "_g", Parameter(length))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undo `weight_norm`."""
    entry = _hook_of(module, WeightNorm, name)
    if entry is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    key, hook = entry
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


# -- spectral norm ---------------------------------------------------------------------------


class SpectralNorm:
    """The hook that divides a weight by the largest singular value."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, "
                f"but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = (
            name,
            n_power_iterations,
            dim,
            eps,
        )

    def matrix(self, weight: Tensor) -> Tensor:
        """The weight with the output dim as rows."""
        if self.dim != 0:
            order = [self.dim, *(d for d in range(weight.dim()) if d != self.dim)]
            weight = weight.permute(*order)
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(_unit(matrix.t() @ u, self.eps))
                    u.copy_(_unit(matrix @ v, self.eps))
        return weight / u.clone().dot(matrix @ v.clone())

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al., 2018)."""
    if _hook_of(module, SpectralNorm, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    hook = SpectralNorm(name, n_power_iterations, spectral_dim(module) if dim is None else dim, eps)
    with no_grad():
        height, width = hook.matrix(weight).shape
        u = normalized_vector(weight, height, eps)
        v = normalized_vector(weight, width, eps)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo `spectral_norm`."""
    entry = _hook_of(module, SpectralNorm, name)
    if entry is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    key, hook = entry
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module
