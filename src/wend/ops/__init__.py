"""All ops.  Importing the package registers every primitive and composite of its modules."""

from __future__ import annotations

import importlib
import os


def _import_families() -> None:
    """Import each module below this folder: a new file of ops needs no entry anywhere."""
    root = os.path.dirname(os.path.abspath(__file__))
    for package, folder in (("wend.ops", root), ("wend.ops.composites", f"{root}/composites")):
        for name in sorted(os.listdir(folder)):
            stem, extension = os.path.splitext(name)
            if extension == ".py" and stem != "__init__":
                importlib.import_module(f"{package}.{stem}")


_import_families()
