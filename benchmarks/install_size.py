"""How much disk Wend and what it depends on take, from the installed packages' own lists.

python benchmarks/install_size.py
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from bench import HERE, publish

COLUMNS = ["package", "MB", "MiB", "aim"]
# Of the source tree, what an installation leaves out.
NOT_INSTALLED = {".c", ".pyc"}
NAME = re.compile(r"[A-Za-z0-9._-]+")


def required(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the names of requirements that hold without extras, on any system."""
    for requirement in requirements:
        name = NAME.match(requirement.strip())
        if name and "extra ==" not in requirement:
            yield name.group()


def closure(names: Iterable[str]) -> list[metadata.Distribution]:
    """Return the named packages and all that they need, as far as installed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        key = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if key in found:
            continue
        try:
            found[key] = metadata.distribution(key)
        except metadata.PackageNotFoundError:  # for another system, by a marker
            continue
        waiting += required(found[key].requires or [])
    return [found[key] for key in sorted(found)]


def size(distribution: metadata.Distribution) -> float:
    """Return the MB of a package's files, compiled Python included."""
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def own_size() -> float:
    """Return the MB of Wend itself: as installed, or else of the files that would be."""
    try:
        installed = metadata.distribution("wend")
        if any(str(file).startswith("wend/") for file in installed.files or []):
            return size(installed)
    except metadata.PackageNotFoundError:
        pass
    files = (path for path in (HERE.parent / "src" / "wend").rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files if path.suffix not in NOT_INSTALLED) / 1e6


def main() -> None:
    """Run the benchmark from the command line."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    needed = closure(required(project["project"]["dependencies"]))
    rows: list[dict[str, object]] = [{"package": "wend", "MB": own_size()}]
    rows += [{"package": package.name, "MB": size(package)} for package in needed]
    total = sum(float(str(row["MB"])) for row in rows)
    rows.append({"package": "all of these", "MB": total, "aim": "<= 400 MB"})
    torch = sum(size(package) for package in closure(["torch"]))
    rows.append({"package": "torch, with what it needs", "MB": torch or None})
    for row in rows:
        row["MiB"] = float(str(row["MB"])) / 1.048576 if row["MB"] else None
    publish("install_size", rows, COLUMNS)


if __name__ == "__main__":
    main()
