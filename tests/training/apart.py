"""How far apart two results are."""

from __future__ import annotations

from typing import Any

import numpy as np


def distance(a: Any, b: Any) -> tuple[float, str]:
    """How far apart two results are, relative to the larger numbers of the second."""
    numbers = (np.ndarray, int, float)
    if not isinstance(b, numbers) or not isinstance(a, numbers) or isinstance(b, bool):
        return (0.0 if a == b else np.inf), f"{a!r}, wanted {b!r}"
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype != b.dtype:
        return np.inf, f"{a.dtype}, wanted {b.dtype}"
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape:
        return np.inf, f"shape {x.shape}, wanted {y.shape}"
    if x.size == 0:
        return 0.0, ""
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return (0.0 if np.array_equal(x, y, equal_nan=True) else np.inf), f"{x}, wanted {y}"
    apart = np.abs(x.astype("f8") - y.astype("f8"))
    k = np.unravel_index(int(apart.argmax()), apart.shape)
    size = float(apart[k]) / max(float(np.abs(y).max()), 1e-3)
    place = "".join(f"[{i}]" for i in k)
    return size, f"{place} is {x[k]:.10g}, wanted {y[k]:.10g} (apart by {size:.1e} of the largest)"
