"""Pruning: parameters whose entries are masked out, chosen by size or at random.

A pruned parameter `weight` becomes `weight_orig`, a buffer `weight_mask`, and an attribute
`weight`, their product, which a hook computes before each forward.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wend._frontend.random import rand
from wend._frontend.toolkit import Tensor, ones_like, ops, zeros_like
from wend.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A way to choose entries, and the hook that masks a parameter of a module.

    A subclass says PRUNING_TYPE ('unstructured', 'structured' or 'global') and `compute_mask`.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, of t's shape: 0 where an entry is pruned, also where `default_mask` is 0."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, name + "_orig")
        masked: Tensor = getattr(module, name + "_mask").to(dtype=original.dtype) * original
        return masked

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prune the parameter `name`; further pruning goes on from the mask that is there.

        importance_scores: entries with small scores are pruned, instead of small entries
        """
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = _hooks_of(module, name)
        if len(earlier) > 1:
            raise AssertionError(f"several pruning hooks on {name}: {earlier}")
        for key, hook in earlier:
            container = hook
            if not isinstance(hook, PruningContainer):
                container = PruningContainer()
                container._tensor_name = name
                container.add_pruning_method(hook)
            container.add_pruning_method(method)
            method = container
            del module._forward_pre_hooks[key]
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name}: "
                f"{tuple(original.shape)}, not {tuple(scores.shape)}"
            )
        before = ones_like(original).detach()
        if earlier:
            before = getattr(module, name + "_mask").detach().clone().to(dtype=original.dtype)
        mask = method.compute_mask(scores.detach(), default_mask=before)
        if not earlier:
            module.register_parameter(name + "_orig", module._parameters[name])
            del module._parameters[name]
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """A pruned copy of a tensor that belongs to no module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        before = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Make the masked values the parameter."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        masked = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        original.data = masked.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        module.register_parameter(name, original)


def _hooks_of(module: Module, name: str) -> list[tuple[int, Any]]:
    return [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]


class PruningContainer(BasePruningMethod):
    """Several prunings of a parameter, each of what those before have left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        for method in args:
            if len(args) == 1:
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Append a pruning of the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that is there, with what the last pruning takes of the entries left."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        kind = getattr(method, "PRUNING_TYPE", None)
        if kind == "global":
            return method.compute_mask(t, default_mask=mask) * mask
        if kind == "unstructured":
            left = mask == 1
            part = method.compute_mask(t[left], default_mask=mask[left])
            return mask.masked_scatter(left, part.to(dtype=mask.dtype))
        if kind != "structured":
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
        dim = method.dim + t.dim() if method.dim < 0 else method.dim
        others = [d for d in range(t.dim()) if d != dim]
        left = mask.sum(dim=others) != 0
        rows = ops.nonzero(left)[:, 0]
        part = method.compute_mask(
            ops.index_select(t, dim, rows), default_mask=ops.index_select(mask, dim, rows)
        )
        return ops.index_copy(mask, dim, rows, part.to(dtype=mask.dtype))  # type: ignore[no-any-return]


class Identity(BasePruningMethod):
    """No entry is pruned."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that is there."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        """Mask the parameter `name` with ones."""
        return super().apply(module, name)


class _Amount(BasePruningMethod):
    """Prunes a number of entries, or a part of all."""

    def __init__(self, amount: int | float) -> None:
        if not isinstance(amount, int | float):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        whole = isinstance(amount, int)
        if (whole and amount < 0) or (not whole and not 0.0 <= amount <= 1.0):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a "
                "non-negative integer"
            )
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of `size` to prune."""
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to "
                f"prune={size}"
            )
        return self.amount


class _Unstructured(_Amount):
    PRUNING_TYPE = "unstructured"

    def scores(self, t: Tensor) -> Tensor:
        """Entries with the smallest scores are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the entries of the smallest scores."""
        count = self._count(t.numel())
        mask = default_mask.clone()
        if count == 0:
            return mask
        worst = ops.topk(self.scores(t).reshape(-1), count, largest=False).indices
        flat = mask.reshape(-1)
        return ops.index_fill(flat, 0, worst, 0).reshape(mask.shape)  # type: ignore[no-any-return]


class RandomUnstructured(_Unstructured):
    """Entries at random."""

    def scores(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return rand(t.shape, device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Any:  # type: ignore[override]
        """Prune the parameter `name`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """The smallest entries."""

    def scores(self, t: Tensor) -> Tensor:
        """The absolute values."""
        return t.abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> Any:
        """Prune the parameter `name`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor) -> Tensor:
        """A score per channel."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the channels of the smallest scores."""
        shape = t.shape
        if len(shape) <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found "
                f"tensor of shape {shape} with {len(shape)} dims"
            )
        if not -len(shape) <= self.dim < len(shape):
            raise IndexError(f"Invalid index {self.dim} for tensor of size {shape}")
        count = self._count(shape[self.dim])
        if count == 0:
            return default_mask
        best = ops.topk(self.scores(t), shape[self.dim] - count, largest=True).indices
        kept = ops.index_fill(zeros_like(t), self.dim, best, 1)
        return default_mask * kept.to(dtype=default_mask.dtype)


class RandomStructured(_Structured):
    """Channels at random."""

    def scores(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return rand(t.shape[self.dim], device=t.device)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, dim: int = -1
    ) -> Any:
        """Prune the parameter `name` along a dim."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """The channels with the smallest norms of order n."""

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        """The norms."""
        dim = self.dim + t.dim() if self.dim < 0 else self.dim
        others = tuple(d for d in range(t.dim()) if d != dim)
        return ops.norm(t, p=self.n, dim=others)  # type: ignore[no-any-return]

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: float | str,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> Any:
        """Prune the parameter `name` along a dim."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """The entries where the user's mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError("mask and default_mask must have the same shape")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """Mask the parameter `name`."""
        return super().apply(module, name, mask=mask)


# -- functions ------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Mask the parameter `name` with ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune entries of the parameter `name` at random; amount: a number, or a part of all."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the smallest entries of the parameter `name`."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels of the parameter `name` along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: float | str,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune the channels of the parameter `name` along `dim` that have the smallest norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any,
    pruning_method: Callable[..., Any],
    importance_scores: Any = None,
    **kwargs: object,
) -> None:
    """Prune entries of several parameters together, by a common order.

    parameters: pairs (module, name)
    importance_scores: tensors by such pairs
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores_by_pair = {} if importance_scores is None else importance_scores
    if not isinstance(scores_by_pair, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    tensors = [getattr(module, name) for module, name in pairs]
    scores = [scores_by_pair.get(pair, t) for pair, t in zip(pairs, tensors, strict=True)]
    masks = [
        getattr(module, name + "_mask", ones_like(t))
        for (module, name), t in zip(pairs, tensors, strict=True)
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    joined = ops.cat([s.detach().reshape(-1) for s in scores])
    mask = container.compute_mask(joined, ops.cat([m.reshape(-1) for m in masks]))
    start = 0
    for (module, name), t in zip(pairs, tensors, strict=True):
        part = mask[start : start + t.numel()].reshape(t.shape)
        start += t.numel()
        custom_from_mask(module, name, mask=part)


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the parameter `name` where the mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make pruning of the parameter `name` final.  Raises ValueError if there is none."""
    for key, hook in _hooks_of(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of a module inside, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
