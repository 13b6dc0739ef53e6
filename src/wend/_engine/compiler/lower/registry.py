"""Which rule lowers an op, and which function makes the kernel of a kind of step.

Rules register themselves: a file with a rule needs no entry anywhere else. An op of a family
without a rule becomes a host op, which the NumPy executor runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.lower.lowering import Lowering
from wend._engine.core.graph import Node

Rule = Callable[[Lowering, Node], bool]
Maker = Callable[[Function, Op], Kernel]

_RULES: dict[type, Rule] = {}
#: Rules for kernels that accelerators lack, and that processors lack.
_ON_PROCESSORS: set[Rule] = set()
_ON_ACCELERATORS: set[Rule] = set()
_MAKERS: dict[str, Maker] = {}
R = TypeVar("R", bound="Callable[..., bool]")
M = TypeVar("M", bound="Callable[..., Kernel]")


def lowers(*families: type, accelerators: bool = True, processors: bool = True) -> Callable[[R], R]:
    """Register a rule for ops of these families.

    accelerators, processors: whether the rule may be asked for code of these

    `rule(lowering, node)` adds the loops of a node. For an unknown form of the op, the rule returns
    False and adds nothing: the NumPy executor runs the node then.

    Raises ValueError if a family has a rule already.
    """

    def register(rule: R) -> R:
        for family in families:
            if family in _RULES:
                raise ValueError(f"lowers: {family.__name__} has a rule already")
            _RULES[family] = rule
        if not accelerators:
            _ON_PROCESSORS.add(rule)
        if not processors:
            _ON_ACCELERATORS.add(rule)
        return rule

    return register


def rule_of(family: type) -> Rule | None:
    """Return the rule of the nearest base class with a rule, or None."""
    for base in family.__mro__:
        if base in _RULES:
            return _RULES[base]
    return None


def is_for(rule: Rule, is_device: bool) -> bool:
    """Whether a rule may be asked for code of an accelerator, or else of a processor."""
    return rule not in (_ON_PROCESSORS if is_device else _ON_ACCELERATORS)


def makes_kernel(kind: str) -> Callable[[M], M]:
    """Register the maker of the kernels of a kind of op: `maker(function, op)` returns a Kernel.

    Raises ValueError if the kind has a maker already.
    """

    def register(maker: M) -> M:
        if kind in _MAKERS:
            raise ValueError(f"makes_kernel: {kind} has a maker already")
        _MAKERS[kind] = maker
        return maker

    return register


def kernel_maker(kind: str) -> Maker | None:
    """The function that makes the kernels of a kind of op; None for host ops."""
    return _MAKERS.get(kind)
