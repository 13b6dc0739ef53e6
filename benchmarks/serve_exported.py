"""One run of ``exported.py``: runs a command of a program, and exports the modules that it called.

python serve_exported.py RESULTS SCRIPT [ARGS ...]

At the end the process appends to the file RESULTS a line of JSON per module: what became of its
export. The modules are those called from outside of any module, at most three classes, those with
most parameters first. Losses are left out.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

MOST_CLASSES, MOST_SECONDS = 3, 300
CALLED: dict[str, tuple[Any, Any]] = {}


def watch(results: Path) -> None:
    """Note the first call of each class of modules from now on; export when the process ends."""
    from torch.nn.modules import module as hooks

    depth = [0]
    mine = os.getpid()  # a fork of the program, such as a loader's worker, exports nothing

    def before(module: Any, args: Any) -> None:
        kind = f"{type(module).__module__}.{type(module).__qualname__}"
        if depth[0] == 0 and kind not in CALLED and not kind.endswith("Loss"):
            CALLED[kind] = (module, copied(args))
        depth[0] += 1

    def after(module: Any, args: Any, result: Any) -> None:
        depth[0] -= 1

    handles = [
        hooks.register_module_forward_pre_hook(before),
        hooks.register_module_forward_hook(after),
    ]

    def write() -> None:
        if os.getpid() != mine:
            return
        for handle in handles:
            handle.remove()
        rows = sorted(CALLED.items(), key=lambda row: -n_parameters(row[1][0]))
        with results.open("a", encoding="utf-8") as file:
            for kind, (module, args) in rows[:MOST_CLASSES]:
                file.write(json.dumps({"module": kind, **exported(module, args)}) + "\n")

    atexit.register(write)


def copied(args: Any) -> Any:
    """The arguments with tensors of their own: the program may write to its own later."""
    if isinstance(args, torch.Tensor):
        return args.detach().clone()
    if isinstance(args, (list, tuple)) and type(args) in (list, tuple):
        return type(args)(copied(x) for x in args)
    return args


def n_parameters(module: Any) -> int:
    """The number of elements of all parameters."""
    return sum(p.numel() for p in module.parameters())


def exported(module: Any, args: Any) -> dict[str, Any]:
    """What became of the export of a module, in evaluation mode."""
    module.eval()
    start = time.process_time()

    def late(*unused: Any) -> None:
        raise TimeoutError(f"no graph after {MOST_SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(MOST_SECONDS)
    try:
        program = torch.export.export(module, args)
        model = torch.onnx.export(module, args)
    except Exception as error:
        text = str(error).replace(str(Path.cwd()), "")
        return {"result": "refused", "reason": f"{type(error).__name__}: {text}"}
    finally:
        signal.alarm(0)
    return {
        "result": "agrees",
        "sizes": len(model.compared),
        "points": len(program.program.points),
        "ops": program.program.n_ops(),
        "nodes": len(model.model_proto.graph.node),
        "seconds": time.process_time() - start,
    }


def main() -> None:
    """Run the command as Python itself would."""
    results, *sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    torch.set_num_threads(1)
    watch(Path(results))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
