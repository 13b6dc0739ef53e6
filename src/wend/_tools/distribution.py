"""The distribution `torch` under `wend run`, for programs that ask `importlib.metadata`."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import Distribution
from pathlib import Path


class ServedTorch(Distribution):
    """Metadata of `torch`: the version that Wend serves. The files are those of the package."""

    def __init__(self, package: str, version: str) -> None:
        self.package = package
        self.texts = {
            "METADATA": (
                f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
                f"Summary: torch as served by {package}\n"
            ),
            "top_level.txt": "torch\n",
        }

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """Return a text of the metadata, or None."""
        return self.texts.get(os.fspath(filename))

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return where a file of the distribution would lie."""
        folder = importlib.import_module(self.package).__file__
        return Path(folder or "").parent.parent / path
