"""The settings of the matrix, and the cases that are made of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from matrix.layers import LAYERS, Layer, Sizes
from training.covering import covering

#: The values of each setting, the plainest first.
CHOICES: dict[str, tuple[str, ...]] = {
    "layer": tuple(LAYERS),
    "mode": ("sgd", "adamw", "inference"),
    "length": ("5", "24", "100"),
    "batch": ("1", "16", "64"),
    "width": ("8", "64", "256"),
    "order": ("fixed", "varying", "repeated", "shuffled"),
}
#: About the most multiplications of a step forward: in the cases of CI, and in all cases. Larger
#: sizes take no other path, and 30 steps of them take minutes.
FEW, MANY = 20_000_000, 300_000_000
#: The most steps of recurrent cells, times gates, layers and directions, that cases of CI have: a
#: long loop takes no other path than a short one, and seconds to plan.
FEW_STEPS = 400


class Case(NamedTuple):
    """A layer in one setting.

    mode: training by an optimiser, or inference
    order: 'fixed' and 'varying' lengths of new batches; three batches of different lengths that
           come back, 'repeated' in order or 'shuffled'
    """

    layer: str
    mode: str
    length: str
    batch: str
    width: str
    order: str

    def __str__(self) -> str:
        return ",".join(self)

    @property
    def kind(self) -> Layer:
        return LAYERS[self.layer]

    @property
    def sizes(self) -> Sizes:
        return Sizes(int(self.length), int(self.batch), int(self.width))

    @property
    def work(self) -> int:
        """About how many multiplications a step forward has."""
        return self.kind.work(self.sizes)

    @property
    def is_quick(self) -> bool:
        """Whether CI runs the case: `FEW_STEPS`."""
        return self.kind.steps * int(self.length) <= FEW_STEPS


def parsed(text: str) -> Case:
    """The case that prints as the text."""
    case = Case(*text.split(","))
    for name, values in CHOICES.items():
        if getattr(case, name) not in values:
            raise ValueError(f"{name} {getattr(case, name)}: not one of {', '.join(values)}")
    return case


@functools.cache
def covered(strength: int = 2, most: int = FEW) -> Sequence[Case]:
    """Cases in which all values of any so many settings meet, of at most so much work."""
    rows = covering(CHOICES, strength, lambda row: Case(**row).work <= most, False)
    return tuple(sorted(Case(**row) for row in rows))


def every() -> Iterator[Case]:
    """All cases but the largest."""
    for values in itertools.product(*CHOICES.values()):
        if (case := Case(*values)).work <= MANY:
            yield case
