"""Breaks the rules of ops on purpose and shows which breaks the tests do not notice.

    WEND_PURE=1 python tests/ops/mutation.py            # every primitive (minutes)
    WEND_PURE=1 python tests/ops/mutation.py atan2 pow  # some

A mutant is one rule with one small change: an operator, a constant, a comparison, a gradient left
out. A mutant that survives is a gap in the tests, or a change that changes nothing (`x + 0`).
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import harness
import pytest
import test_batching
import test_gradients
import test_registry

from wend._engine.core.primitive import NO_GRADIENT, PUBLIC, ops

RULES = ("vjp", "emit", "reference", "batch", "infer")
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
RENAMED = {
    "add": "sub",
    "sub": "add",
    "mul": "add",
    "div": "mul",
    "lt": "le",
    "le": "lt",
    "gt": "ge",
    "ge": "gt",
    "eq": "ne",
    "ne": "eq",
    "sin": "cos",
    "cos": "sin",
    "sinh": "cosh",
    "cosh": "sinh",
    "maximum": "minimum",
    "minimum": "maximum",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
}


def mutants(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(what was changed, changed copy) for every small change of a function."""
    for i, node in enumerate(ast.walk(tree)):
        for text, change in _changes(node):
            twin = copy.deepcopy(tree)
            change(list(ast.walk(twin))[i])
            yield f"line {getattr(node, 'lineno', '?')}: {text}", ast.fix_missing_locations(twin)


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
        new = SWAPS[type(node.op)]
        yield (
            f"{type(node.op).__name__} -> {new.__name__} in `{ast.unparse(node)}`",
            lambda n: setattr(n, "op", new()),
        )
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        new = SWAPS[type(node.ops[0])]
        yield (
            f"{type(node.ops[0]).__name__} -> {new.__name__} in `{ast.unparse(node)}`",
            lambda n: setattr(n, "ops", [new()]),
        )
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield f"minus dropped in `{ast.unparse(node)}`", lambda n: setattr(n, "op", ast.UAdd())
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield (
            f"constant {node.value} -> {node.value + 1}",
            lambda n: setattr(n, "value", n.value + 1),
        )
    elif isinstance(node, ast.Attribute) and node.attr in RENAMED:
        new_name = RENAMED[node.attr]
        yield (
            f"{node.attr} -> {new_name}",
            lambda n: setattr(n, "attr", new_name),
        )
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        for k in range(len(node.value.elts)):
            yield f"gradient {k} left out", lambda n, k=k: _drop(n, k)


def _drop(node: Any, k: int) -> None:
    node.value.elts[k] = ast.Constant(None)


# -- running one mutant -----------------------------------------------------------------------


def forget(op: Any) -> None:
    """Drop what was derived from the op's rules."""
    op._interned.clear()
    functions = [op.function, *vars(ops).values(), *PUBLIC.values()]
    for function in functions:
        serves = getattr(function, "overloads", None) or (getattr(function, "primitive", None),)
        if op in serves:
            function.plans.clear()
            function.plan0 = None


def killed(op: Any) -> bool:
    """Whether any test of the op fails now."""
    checks: list[tuple[Any, ...]] = []
    for dtype in harness.supported(op):
        checks.append((test_registry.test_reference_has_the_inferred_type, op, dtype))
        if test_registry.comparable([op]):
            checks.append((test_registry.test_results_agree_with_torch, op, dtype))
        if op.facts.elementwise:
            checks.append((test_registry.test_emit_agrees_with_reference, op, dtype))
            if test_registry.comparable([op]) and harness.has_grid(op):
                checks.append((test_registry.test_special_values_agree_with_torch, op, dtype))
    if op.vjp is not NO_GRADIENT and "float" in op.facts.supports and not op.facts.random:
        checks.append((test_gradients.test_gradient, op))
        checks.append((test_gradients.test_second_derivative, op))
        if harness.has_grid(op):
            checks.append((test_gradients.test_gradient_at_special_values, op))
    if op in [p.values[0] for p in test_batching.batchable()]:
        checks.append((test_batching.test_batch, op))
    for check, *arguments in checks:
        try:
            check(*arguments)
        except pytest.skip.Exception:
            continue
        except Exception:
            return True
    return False


def rules_of(op: Any) -> Iterator[tuple[str, Any]]:
    """The rules that the class itself defines as Python functions."""
    for name in RULES:
        rule = op.__dict__.get(name)
        rule = getattr(rule, "__wrapped__", rule)
        if inspect.isfunction(rule) and rule.__module__ == op.__module__:
            yield name, rule


def run(op: Any) -> tuple[int, list[str]]:
    """(mutants tried, descriptions of those that survived)."""
    tried, survivors = 0, []
    for name, rule in rules_of(op):
        original = op.__dict__[name]
        tree = ast.parse(textwrap.dedent(inspect.getsource(rule)))
        module = sys.modules[op.__module__]
        for text, mutant in mutants(tree):
            scope = {**vars(module), "__class__": op}
            try:
                exec(compile(mutant, "<mutant>", "exec"), scope)
            except Exception:
                continue
            if rule.__name__ not in scope:
                continue
            setattr(op, name, _wrapped(op, name, scope[rule.__name__]))
            forget(op)
            tried += 1
            if not killed(op):
                survivors.append(f"{op.name}.{name}: {text}")
        setattr(op, name, original)
        forget(op)
    return tried, survivors


def _wrapped(op: Any, name: str, function: Any) -> Any:
    if name == "reference" and op.facts.elementwise:
        from wend._engine.ops.elementwise.family import _with_casts

        return _with_casts(function)
    return function


def main(names: list[str]) -> int:
    warnings.simplefilter("ignore")
    chosen = [op for op in harness.PRIMITIVES if not names or op.name in names]
    total, alive = 0, 0
    for op in chosen:
        if killed(op):
            print(f"{op.name}: its tests fail without a mutation")
            forget(op)
            continue
        tried, survivors = run(op)
        total, alive = total + tried, alive + len(survivors)
        for line in survivors:
            print("survives:", line, flush=True)
    print(f"{total} mutants of {len(chosen)} ops, {alive} survive")
    return 1 if alive else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
