"""Importing all modules of a folder: a new file there needs no entry anywhere."""

from __future__ import annotations

import importlib
import os

#: Packages inside `wend` that are no part of the public names.
PRIVATE = frozenset({"_engine", "_frontend", "_tools"})


def import_folder(package: str, folder: str) -> None:
    """Import each module of a package that lies directly in `folder`, in the order of names."""
    for name in sorted(os.listdir(folder)):
        stem, extension = os.path.splitext(name)
        if extension == ".py" and stem != "__init__":
            importlib.import_module(f"{package}.{stem}")


def import_tree(package: str, folder: str) -> None:
    """Import each module of a package and of the packages inside, in the order of names."""
    import_folder(package, folder)
    for name in sorted(os.listdir(folder)):
        inside = os.path.join(folder, name)
        if os.path.isfile(os.path.join(inside, "__init__.py")):
            import_tree(f"{package}.{name}", inside)
