"""Summaries of values: range, mean, and how many are no numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from wend._engine.runtime.verify.bad_values import facts_of

#: Bars of a histogram.
BARS = 16


def summary(array: object) -> dict[str, Any]:
    """The smallest and largest finite number, mean and spread, counts of NaN and infinity.

    Numbers also have a histogram between the smallest and the largest.
    """
    values = np.asarray(array)
    if values.dtype.kind == "c":
        values = np.abs(values)
    if values.dtype.kind not in "fiub":
        values = values.astype(np.float32)  # bfloat16, for example
    values = values.astype(np.float64)
    facts = facts_of(values, "")
    statistics: dict[str, Any] = {
        "nan": facts.nans,
        "inf": facts.infinities,
        "elements": values.size,
    }
    if facts.low is not None and facts.high is not None:
        finite, least, most = values[np.isfinite(values)], facts.low, facts.high
        statistics |= {
            "min": least,
            "max": most,
            "mean": float(finite.mean()),
            "std": float(finite.std()),
        }
        if most - least > 0 and np.isfinite(most - least):
            counts, edges = np.histogram(finite, BARS)
            statistics["histogram"] = {"counts": counts.tolist(), "edges": edges.tolist()}
    return statistics
