"""Importing all modules of a folder: a new file there needs no entry anywhere."""

from __future__ import annotations

import importlib
import os

__all__ = ["import_folder"]


def import_folder(package: str, folder: str) -> None:
    """Import each module of a package that lies directly in `folder`, in the order of names."""
    for name in sorted(os.listdir(folder)):
        stem, extension = os.path.splitext(name)
        if extension == ".py" and stem != "__init__":
            importlib.import_module(f"{package}.{stem}")
