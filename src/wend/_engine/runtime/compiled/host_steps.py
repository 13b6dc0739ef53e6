"""Finds the steps of a plan that only the processor has kernels for, not the plan's device."""

from __future__ import annotations

from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.ir.loops import Function, Op
from wend._engine.compiler.lower.path import NO_DEVICE_KERNEL
from wend._engine.core.graph import PathGraph
from wend._engine.core.provenance import Site, Sites, step_site
from wend._engine.runtime import host_steps
from wend._engine.runtime.compiled.plan import CompiledPlan
from wend._engine.runtime.host_steps import HostStep


def note_host_steps(plan: CompiledPlan, sites: Sites | None) -> None:
    """Note the steps of a new plan that its device has no kernel for, and the processor has.

    sites: the user's lines of this visit that differ from those of the path
    """
    function = plan.code.function
    steps = [s for s in plan.code.steps if not isinstance(s, Kernel)]
    steps = [s for s in steps if function.reasons.get(s.outputs[0]) == NO_DEVICE_KERNEL]
    if steps:
        path: PathGraph = plan.reference.path
        makers = path.makers()
        for step in steps:
            k, node = makers[step.outputs[0]]
            source = node.source
            if source is None or source.code is None:
                op, site = str(path.states[k].prim.name), step_site(path.states, sites, k)
            else:
                op, site = f"{source.name}_backward", Site(source.code, source.lasti)
            host_steps.note(HostStep(str(plan.reference.place), op, text_of(step, function), site))


def text_of(step: Op, function: Function) -> str:
    """A step with the dtypes of its operands and results: "abs of complex128 -> float64"."""
    reads = [str(function.dtypes[read.value]) for read in step.reads]
    outs = [str(function.dtypes[i]) for i in step.outputs]
    results = f" -> {', '.join(outs)}" if reads and {*outs} - {*reads} else ""
    return f"{step.name} of {', '.join(reads or outs)}{results}".replace("torch.", "")
