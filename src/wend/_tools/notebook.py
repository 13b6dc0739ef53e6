"""`%load_ext wend`: in the cells of a notebook, `import torch` is Wend.

A notebook cannot be run by `wend run`, as Jupyter starts the kernel. The extension does the same
from a cell on, and `%unload_ext wend` ends that.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from wend._tools import alias

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Serve `import torch` from Wend in this kernel, as `wend run` does for a script.

    IPython calls this for `%load_ext wend`. shell: IPython's
    Raises IPython's UsageError, which shows as a line, if the real PyTorch is imported already.
    """
    if "torch" in sys.modules and not alias.is_installed():
        usage_error: type[Exception] = importlib.import_module("IPython.core.error").UsageError
        raise usage_error(
            "%load_ext wend: this kernel has imported PyTorch already, which cannot be replaced "
            "now. Restart the kernel, and load the extension before any cell imports torch."
        )
    alias.install(asker="%load_ext wend")


def unload_ipython_extension(shell: Any) -> None:
    """Serve `import torch` no longer. IPython calls this for `%unload_ext wend`.

    Names that cells have bound stay Wend's, as do libraries that were imported in between.
    """
    alias.uninstall()
