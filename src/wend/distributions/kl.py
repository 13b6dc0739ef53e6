"""Kullback-Leibler divergences between distributions, by a table of pairs of classes.

The rules themselves are in `_divergences.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from wend._engine.core._hot import Tensor
from wend.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
#: Rules that were found before, by the classes of p and q.
_KL_MEMOIZE: dict[tuple[type, type], Rule | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorate the function that computes the divergence for these classes of p and q."""
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(given, type):  # as PyTorch, which takes classes of any kind
            raise TypeError(f"Expected {name} to be a class, such as a Distribution's, not {given}")

    def put(function: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return put


def _found(type_p: type, type_q: type) -> Rule | None:
    """The rule of the most derived pair of classes.

    Warns where the most derived class of p and that of q are in different pairs: the pair closest
    to p counts.
    """
    pairs = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), rule)
        for (p, q), rule in _KL_REGISTRY.items()
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not pairs:
        return None
    by_p = min(pairs, key=lambda pair: pair[:2])
    by_q = min(pairs, key=lambda pair: (pair[1], pair[0]))
    if by_p[2] is not by_q[2]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            "register_kl a rule for this pair",
            RuntimeWarning,
            stacklevel=3,
        )
    return by_p[2]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean under p of log p - log q, for each distribution of the batch.

    Raises NotImplementedError for pairs of classes without a rule.
    """
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _found(*key)
    rule = _KL_MEMOIZE[key]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}; add one with register_kl"
        )
    return rule(p, q)
