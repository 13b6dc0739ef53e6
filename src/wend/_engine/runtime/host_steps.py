"""Ops on an accelerator that only the processor has kernels for: told, or raised.

The processor computes such an op, and the device is waited for. Each op is told once per line of
the user's, or raised under `WEND_STRICT=1`, where nothing is half done. The setting `host_steps`
(`WEND_HOST_STEPS=1`) allows these ops without a word. Ops that run by NumPy everywhere are not
meant.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

from wend._engine.base import config
from wend._engine.base.errors import DeviceError


class HostStep(NamedTuple):
    """An op that a device leaves to the processor.

    place: the device     op: as recorded     step: the step of the plan, with dtypes
    site: the user's line
    """

    place: str
    op: str
    step: str
    site: object

    def __str__(self) -> str:
        inside = "" if self.step.partition(" ")[0] == self.op else f"{self.op}: "
        told = f"{inside}{self.place} has no kernel for {self.step}; the processor computes it"
        return f"{told}\n  at {self.site}"

    @property
    def subject(self) -> tuple[str, str, str]:
        """Device, op and line: told once."""
        return self.place, self.op, str(self.site)


#: Steps that were noted, and not told yet.
UNTOLD: list[HostStep] = []
#: The subjects that warnings have told of, at most so many: beyond, all may be told again.
_TOLD: set[tuple[str, str, str]] = set()
MOST_TOLD = 1024


def note(step: HostStep) -> None:
    """Note a step of a new plan; `tell` speaks of the step later. Any thread may call."""
    if not config.settings.host_steps:
        UNTOLD.append(step)


def tell(stacklevel: int = 1) -> None:
    """Raise or warn of steps noted and not told yet. To be called where nothing is half done.

    stacklevel: as for a warning of the caller
    Raises DeviceError under WEND_STRICT=1.
    """
    steps = list({step.subject: step for step in reversed(UNTOLD)}.values())[::-1]
    UNTOLD.clear()
    if steps and config.settings.strict:
        text = "\n".join(map(str, steps))
        raise DeviceError(
            f"{text}\nThe results are right, and WEND_STRICT=1 raises this. WEND_HOST_STEPS=1 "
            "allows it; tensors on the CPU, or of another dtype, avoid it"
        )
    for step in steps:
        if step.subject not in _TOLD:
            if len(_TOLD) >= MOST_TOLD:
                _TOLD.clear()
            _TOLD.add(step.subject)
            warnings.warn(
                f"wend: {step}\nWEND_HOST_STEPS=1 allows this without a word; WEND_STRICT=1 "
                "raises it",
                RuntimeWarning,
                stacklevel=stacklevel + 1,
            )
