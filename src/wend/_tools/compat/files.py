"""The files of a program: a script and its own modules, a folder, or a package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path


@dataclass(frozen=True)
class Source:
    """A file that was read: the tree, or the fault in the way."""

    path: Path
    tree: ast.Module | None
    fault: str = ""


class UnknownTarget(Exception):
    """There is neither a file nor a package of that name."""


def sources(target: str) -> Iterator[Source]:
    """Yield the files of a script, a folder, a package or a module `package.module`.

    A folder and a package are read as a whole. A script and a module bring the imported modules
    of the same folder or package, and so on. Raises UnknownTarget.
    """
    path = Path(target)
    if path.is_dir():
        yield from map(read, sorted(path.rglob("*.py")))
    elif path.is_file():
        yield from followed(path, path.parent)
    else:
        file, root = module(target)
        if "." not in target and file.name == "__init__.py":
            yield from map(read, sorted(file.parent.rglob("*.py")))
        else:
            yield from followed(file, root)


def module(name: str) -> tuple[Path, Path]:
    """Return the file of a module on Python's path, and the folder of its package; run nothing."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top) if name.replace(".", "_").isidentifier() else None
    if spec is None or spec.origin is None:
        raise UnknownTarget(f"there is no file, folder or package {name!r}")
    path = Path(spec.origin)
    folder = path.parent if path.name == "__init__.py" else path.parent.parent
    if rest:
        file = beside(folder.joinpath(*rest))
        if file is None:
            raise UnknownTarget(f"the package {top!r} has no module {name!r}")
        path = file
    return path, folder.parent


def read(path: Path) -> Source:
    """Return the tree of a file."""
    try:
        return Source(path, ast.parse(path.read_bytes(), str(path)))
    except (OSError, SyntaxError, ValueError) as error:  # the report names the file and the fault
        return Source(path, None, f"{type(error).__name__}: {error}")


def followed(start: Path, root: Path) -> Iterator[Source]:
    """Yield a file and the files below a folder that are imported from there, each once."""
    waiting, seen = [start], set()
    while waiting:
        path = waiting.pop()
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        source = read(path)
        yield source
        if source.tree is not None:
            waiting += imported(source.tree, path, root)


def imported(tree: ast.Module, path: Path, root: Path) -> list[Path]:
    """Return the files below the folder that a file's imports name, at any place."""
    files = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            files += [file for alias in node.names for file in chain(root, alias.name)]
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = path.parents[node.level - 1]
            names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
            files += [file for name in names for file in chain(base, name)]
    return files


def chain(base: Path, name: str) -> Iterator[Path]:
    """Yield the files of the modules `a`, `a.b` and so on, as far as the folder has them."""
    parts = name.split(".")
    for n in range(1, len(parts) + 1):
        file = beside(base.joinpath(*parts[:n]))
        if file is None:
            return
        yield file


def beside(path: Path) -> Path | None:
    """Return the file of the module or package of that path, without a suffix."""
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file():
            return file
    return None
