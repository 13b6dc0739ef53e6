"""What the examples share: options, equal starting weights, metrics as JSON, Python's own library.

Each example is an ordinary PyTorch program: ``python examples/x.py`` runs it with PyTorch,
``wend run examples/x.py`` runs the same file with Wend. ``--save-init`` in one run and ``--init``
in the other give both the same starting weights, so that their numbers can be compared.
"""

from __future__ import annotations

import argparse
import ast
import json
import sysconfig
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

# Not library code: tests, a GUI, and a grammar kept for old programs.
SKIPPED = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "ensurepip"}


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every example understands."""
    parser = argparse.ArgumentParser(
        description=(description or "").strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and data order")
    parser.add_argument("--init", metavar="PATH", help="start from the weights in this file")
    parser.add_argument("--save-init", metavar="PATH", help="write the starting weights here")
    parser.add_argument("--metrics", metavar="PATH", help="write the numbers here, as JSON")
    return parser


def same_start(model: torch.nn.Module, args: argparse.Namespace) -> None:
    """Load the starting weights named by ``--init``; write them where ``--save-init`` says."""
    if args.init:
        model.load_state_dict(torch.load(args.init))
    if args.save_init:
        torch.save(model.state_dict(), args.save_init)


def report(metrics: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Write the metrics where ``--metrics`` says, and return them."""
    if args.metrics:
        Path(args.metrics).write_text(json.dumps(metrics, indent=1), encoding="utf-8")
    return metrics


def progress(
    steps: Iterable[Any] | None = None, title: str = "", *, total: int | None = None, begun: int = 0
) -> tqdm[Any]:
    """Return the steps with a bar on standard error, or a bar to update, if that is a terminal.

    total: number of steps, if `steps` does not tell     begun: how many are done already
    """
    # disable=None: no bar where the output goes to a file or a pipe
    return tqdm(steps, title, total, initial=begun, leave=False, disable=None)


def library_modules(limit: int = 0) -> Iterator[tuple[str, ast.Module]]:
    """Yield (name, syntax tree) of the modules of Python's standard library, sorted by name.

    limit: how many modules, spread evenly over the library; 0 for all.
    """
    root = Path(sysconfig.get_path("stdlib"))
    paths = [
        path
        for path in sorted(root.rglob("*.py"))
        if not SKIPPED.intersection(path.relative_to(root).parts)
    ]
    for path in paths[:: max(1, len(paths) // limit) if limit else 1]:
        parts = path.relative_to(root).with_suffix("").parts
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # a template, or a file in another encoding
            continue
        yield ".".join(parts), tree


def held_out(module: str) -> bool:
    """Tell whether a module is for testing: one in five, by its name, whatever the seed."""
    return zlib.crc32(module.encode()) % 5 == 0
