"""Writes docs/kernels.md: who computes each op inside a plan. `python tests/ops/kernels_page.py`

Each op's own samples are recorded and lowered, as the compiler does it. Nothing here names an op.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import harness  # noqa: E402

import wend as torch  # noqa: E402
from tries import own_trie  # noqa: E402
from wend._engine.base import dtypes  # noqa: E402
from wend._engine.base.errors import WendError  # noqa: E402
from wend._engine.compiler.ir.loops import HOST, NESTED  # noqa: E402
from wend._engine.compiler.llvm_ir.jit import writing_for  # noqa: E402
from wend._engine.compiler.pipeline import lower  # noqa: E402
from wend._engine.compiler.stages import Inlined, finished  # noqa: E402
from wend._engine.core import _hot  # noqa: E402
from wend._engine.core.graph import path_at  # noqa: E402
from wend._engine.core.primitive import REGISTRY, Composite  # noqa: E402
from wend._engine.runtime.devices.opencl import TARGET  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "kernels.md"
HEAD = """# Who computes each op

<!-- Made by `python tests/ops/kernels_page.py`; a test compares the page with the registry. -->

A path that comes back becomes a plan of machine code. This page says what the plan has for each op
of Wend's registry. A kernel computes most ops. Between kernels a plan calls a library, or runs the
op's rule in NumPy: the *reference*. The class of an op without a kernel names the reason, and
`wend.debug.explain()` shows the reason beside the step.

The samples of each op decide, in all kinds of dtypes that the op takes. An op has PyTorch's name,
or a name for a part of a function of PyTorch's.
"""


HALVES = (dtypes.float16, dtypes.bfloat16)


class Steps(NamedTuple):
    """What lowering has made of an op's samples.

    kinds: kinds of steps that compute the op itself
    reasons: (name of an op, why a host step computes the op) of all steps
    """

    kinds: frozenset[str]
    reasons: frozenset[tuple[str, str]]


def dtypes_of(op: Any) -> Iterable[Any]:
    """Return the dtypes whose samples are looked at: one of each category, and a half float.

    Of a composite, one: the page says of the parts which dtypes have no kernel.
    """
    usual = sorted(harness.supported(op), key=lambda dtype: dtype is not dtypes.float32)
    found: dict[Any, Any] = {}
    for dtype in usual[:1] if is_composite(op) else usual:
        found.setdefault((dtype.category, dtype in HALVES), dtype)
    return found.values()


def lowered(op: Any, sample: Any) -> Any:
    """Return the loops of a sample of an op; None for an op that is computed when called."""
    with own_trie():
        given = harness.map_arrays(sample, lambda a: harness.tensor(a, False))
        torch.synchronize()
        results = harness.as_tuple(op.function(*given.args, **given.kwargs))
        trace = _hot.current_trace()
        values = [r.value for r in results if isinstance(r, torch.Tensor)]
        needed = frozenset(v.index for v in values if v.trace is trace)
        if not needed:
            return None
        path = path_at(trace.states, trace.values, trace.args)
        return finished(lower(Inlined(path, needed))).function


def steps_of(op: Any) -> Steps:
    """Return what lowering makes of an op's samples."""
    kinds, reasons = set(), set()
    for dtype in dtypes_of(op):
        for sample in harness.samples(op, dtype):
            try:
                function = lowered(op, sample)
            except WendError:  # a sample that is not for this dtype
                continue
            if function is None:
                continue
            own = [o for o in function.ops if o.node.prim.name == op.name or is_composite(op)]
            kinds |= {o.kind for o in own} or {"view"}
            reasons |= {
                (o.node.prim.name, function.reasons[o.outputs[0]])
                for o in function.ops
                if o.kind == HOST
            }
    return Steps(frozenset(kinds), frozenset(reasons))


def is_composite(op: Any) -> bool:
    return issubclass(op, Composite)


@cache
def survey() -> dict[str, Steps]:
    """Return the steps of all ops, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {op.name: steps_of(op) for op in harness.OPS}


@cache
def survey_of_devices() -> dict[str, Steps]:
    """Return the steps of all ops on an OpenCL device, by name."""
    with writing_for(TARGET), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {op.name: steps_of(op) for op in harness.OPS}


#: Reasons that say nothing about the op: its class, or the rule, has to name one.
NAMELESS = ("Wend has no kernel for it", "no kernel takes this form of it")


def faults(found: dict[str, Steps], ops: Iterable[Any]) -> list[str]:
    """Return what is wrong with ops: neither kernel nor named reason, or a reason without use."""
    told = []
    for op in ops:
        if is_composite(op):
            continue
        steps = found[op.name]
        mine = [reason for name, reason in steps.reasons if name == op.name]
        stated = bool(op.schedule.library or op.schedule.unlowered)
        if not steps.kinds:
            told.append(f"{op.name}: no sample is lowered")
        if any(reason in NAMELESS for reason in mine):
            told.append(f"{op.name}: a form has neither a kernel nor a named reason")
        if stated and not mine:
            told.append(f"{op.name}: a kernel computes each sample, and the class states a reason")
    return told


# -- as text --------------------------------------------------------------------------------


def label(op: Any) -> str:
    """Return an op's name, and PyTorch's name for the op where that is another."""
    names = op.torch.functions or op.torch.methods
    other = f" (`{names[0]}`)" if names and op.name not in names else ""
    return f"`{op.name}`{other}"


def row(head: str, names: Iterable[str]) -> str:
    return f"| {head} | {', '.join(names)} |\n"


def table(head: str, rows: dict[str, list[Any]]) -> str:
    """Return a table of (heading, ops), sorted."""
    body = "".join(row(key, map(label, rows[key])) for key in sorted(rows))
    return f"| {head} | ops |\n|---|---|\n{body}"


def sorted_out(ops: Iterable[Any], found: dict[str, Steps]) -> dict[str, dict[str, list[Any]]]:
    """Return primitives by way: {way: {heading of a row: ops}}."""
    ways: dict[str, dict[str, list[Any]]] = {"loops": {}, "own": {}, "library": {}, "reference": {}}
    for op in ops:
        kinds = found[op.name].kinds - {HOST}
        own = kinds - set(NESTED) - {"view"}
        if own:
            way, head = "own", ", ".join(f"`{kind}`" for kind in sorted(own))
        elif kinds & set(NESTED):
            way, head = "loops", KINDS[max(kinds & set(NESTED), key=list(KINDS).index)]
        elif kinds:
            way, head = "loops", KINDS["view"]
        elif op.schedule.library:
            way, head = "library", op.schedule.library
        else:
            way, head = "reference", op.schedule.unlowered
        ways[way].setdefault(head, []).append(op)
    return ways


#: What the loops of an op do, from the plainest on.
KINDS = {
    "view": "no loops: the result is the operand, or a part of it",
    "map": "a result for each turn",
    "fold": "a sum or an extreme of many turns",
    "scatter": "sums at places that an index names",
}


def forms(ops: Iterable[Any], found: dict[str, Steps]) -> dict[str, list[Any]]:
    """Return ops with kernels by the reason why a form of the op has none."""
    rows: dict[str, list[Any]] = {}
    for op in ops:
        if found[op.name].kinds - {HOST}:
            for name, reason in sorted(found[op.name].reasons):
                if name == op.name:
                    rows.setdefault(reason, []).append(op)
    return rows


def on_devices() -> str:
    """Return the section about accelerators."""
    found = survey_of_devices()
    rows: dict[str, list[Any]] = {"each form": [], "some forms": [], "no form": []}
    for op in harness.PRIMITIVES:
        steps = found[op.name]
        mine = any(name == op.name for name, _ in steps.reasons)
        has_kernels = bool(steps.kinds - {HOST})
        rows["no form" if not has_kernels else "some forms" if mine else "each form"].append(op)
    composites = [op for op in harness.OPS if is_composite(op)]
    whole = [op for op in composites if not found[op.name].reasons]
    return f"""## On accelerators

An OpenCL device has kernels for loops, and kernels of its own. The processor computes the other
steps of a path between these kernels, in the same memory. Each form of {len(rows["each form"])} of
{len(harness.PRIMITIVES)} ops has a kernel there, and so have all ops of {len(whole)} of
{len(composites)} composites.

| forms with a kernel | ops |
|---|---|
{row("no form", map(label, rows["no form"]))}{row("some forms", map(label, rows["some forms"]))}"""


def page() -> str:
    """Return the page."""
    found = survey()
    ways = sorted_out(harness.PRIMITIVES, found)
    count = {way: sum(map(len, rows.values())) for way, rows in ways.items()}
    composites = [op for op in harness.OPS if is_composite(op)]
    whole = {op.name: {name for name, _ in found[op.name].reasons} for op in composites}
    plain = [op for op in composites if not whole[op.name]]
    rest = "".join(
        row(label(op), (label(REGISTRY[name]) for name in sorted(whole[op.name])))
        for op in composites
        if whole[op.name]
    )
    return f"""{HEAD}
| way | ops |
|---|---|
| loops, which fuse with loops beside them | {count["loops"]} |
| a kernel of its own | {count["own"]} |
| a call of a library | {count["library"]} |
| the reference, for a reason | {count["reference"]} |
| composites: kernels alone | {len(plain)} |
| composites with other steps | {len(composites) - len(plain)} |

## Loops

{table("loops", ways["loops"])}
## Kernels of their own

{table("kernel", ways["own"])}
## Calls of a library

{table("library", ways["library"])}
## The reference

{table("reason", ways["reference"])}
## Forms without a kernel

Ops above that have kernels, and forms of these ops that the reference computes.

{table("reason", forms(harness.PRIMITIVES, found))}
## Composites

A composite is a function over other ops, and each op is computed as above. Some have steps between
kernels, in at least one form.

| composite | ops of such steps |
|---|---|
{rest}
| composites of kernels alone |
|---|
| {", ".join(map(label, plain))} |

{on_devices()}"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print("\n".join(faults(survey(), harness.OPS)) or f"{PAGE} is written")
