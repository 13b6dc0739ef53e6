"""A plan as its frames see it: code, leaves, results, and the args that move."""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.ir.dynamic_offsets import DynamicOffsets
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.kernels.matmul import matmul
from wend._engine.compiler.stages import CompiledPath
from wend._engine.runtime.compiled.arena import Placing
from wend._engine.runtime.devices.queue import Accelerator
from wend._engine.runtime.numpy_executor.plan import ReferencePlan


class FramedPlan:
    """A plan as its frames see it.

    libraries: text of a module -> its machine code
    device: the accelerator that runs the kernels; None for the processor
    moving: the args that move
    leaves: the operands of the plan. Leaves of which only extents are read count too: a plan is
        bound to the types of all.
    made: the values of the results that are arrays of their own
    out_of_base: base of such a result -> its number in `made`
    shown: the results that lie in other arrays
    donated: (number in `made`, leaf, place in a table) of each result that may take a leaf's memory
    wanted, saved: the values for handles, and for a later backward; given: the wanted results
    placings: places in the arena, by the lifetimes of the blocks
    """

    def __init__(
        self,
        reference: ReferencePlan,
        code: CompiledPath,
        libraries: dict[str, Any],
        moving: DynamicOffsets,
        device: Accelerator | None = None,
    ) -> None:
        self.code, self.libraries, self.moving = code, libraries, moving
        self.device = device
        self.leaves = (*code.function.inputs, *shown_only(code))
        owners = [r for r in code.results if r.owns]
        self.made = tuple([r.value for r in owners])
        self.out_of_base = {r.base: k for k, r in enumerate(owners)}
        self.shown = [r for r in code.results if not r.owns]
        self.donated = tuple(
            [
                (k, code.donations[i], 8 * (1 + len(self.leaves) + k))
                for k, i in enumerate(self.made)
                if i in code.donations
            ]
        )
        self.wanted, self.saved = reference.wanted, reference.saved
        self.given = [r.value for r in code.results if r.value in self.wanted]
        self.placings: dict[Any, Placing] = {}

    def address(self, kernel: Kernel, function: str) -> int:
        """Return the address of a function of a kernel's module."""
        text = kernel.text or matmul.core_text(kernel.source)
        return int(self.libraries[text].address(function))


def shown_only(code: CompiledPath) -> list[int]:
    """The leaves of which nothing but extents is read."""
    inputs = set(code.function.inputs)
    atoms = code.function.extents.atoms
    return sorted({key[1] for key in atoms if key[0] == "dim"} - inputs)
