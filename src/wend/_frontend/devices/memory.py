"""Numbers of a device's memory, by PyTorch's names."""

from __future__ import annotations

from typing import Any

from wend._engine.runtime.devices.pool import Pool, readable
from wend._engine.runtime.devices.queue import Accelerator

#: PyTorch's name of a quantity -> the members of the pool: now, and at the most.
_QUANTITIES = {
    "allocated_bytes": ("allocated", "peak"),
    "active_bytes": ("allocated", "peak"),
    "requested_bytes": ("allocated", "peak"),
    "reserved_bytes": ("reserved", "most_reserved"),
}


def stat(pool: Pool | None, name: str) -> int:
    """A number of a pool; 0 for a device that has not been used."""
    return 0 if pool is None else int(getattr(pool, name))


def reset_peak(pool: Pool | None) -> None:
    """Let the greatest numbers of bytes begin anew."""
    if pool is not None:
        pool.peak, pool.most_reserved = pool.allocated, pool.reserved


def reset_count(pool: Pool | None) -> None:
    """Let the count of arrays begin anew."""
    if pool is not None:
        pool.count = 0


def stats(pool: Pool | None) -> dict[str, Any]:
    """The numbers of a pool; {} for a device that has not been used."""
    if pool is None:
        return {}
    numbers: dict[str, Any] = {"allocation.all.allocated": pool.count}
    for name, (now, most) in _QUANTITIES.items():
        numbers[f"{name}.all.current"] = getattr(pool, now)
        numbers[f"{name}.all.peak"] = getattr(pool, most)
    return dict(sorted(numbers.items()))


def nested(numbers: dict[str, Any]) -> dict[str, Any]:
    """Numbers with dots in their names as dicts of dicts."""
    tree: dict[str, Any] = {}
    for name, number in numbers.items():
        *path, last = name.split(".")
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
        branch[last] = number
    return tree


def summary(unit: Accelerator) -> str:
    """The numbers of a device's pool as a table, and a line about its work so far."""
    pool = unit.pool
    rows = [
        ("", "now", "most"),
        ("in tensors", readable(pool.allocated), readable(pool.peak)),
        ("reserved", readable(pool.reserved), readable(pool.most_reserved)),
        ("not in use", readable(pool.reserved - pool.allocated), ""),
    ]
    lines = [f"memory of {unit.place}: {pool.count} arrays so far"]
    if pool.limit is not None:
        lines.append(f"limit: {readable(pool.limit)}")
    lines += [f"{name:12}{now:>12}{most:>12}" for name, now, most in rows]
    work = f"{unit.launches} launches, {unit.waits} waits, {unit.host_steps} host steps"
    return "\n".join([*lines, f"work: {work}, {readable(unit.copied_in)} copied in"])
