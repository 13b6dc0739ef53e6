"""`wend compat`: which names of PyTorch's a program uses that Wend lacks, or that differ.

The program is read, never run. `files` finds the modules, `reading` the names in use and the lines.
`lookup` asks Wend for each name, `differences` has those that differ on purpose.
"""

from __future__ import annotations

from wend._tools.compat.report import main as main

__all__ = ["main"]
