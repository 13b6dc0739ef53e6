"""Start a program in many processes: `wend launch`, with torchrun's flags.

`python -m wend.distributed.run` is the same command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent", "main"]


def __getattr__(name: str) -> Any:
    if name in ("LaunchConfig", "elastic_launch", "launch_agent"):
        from wend.distributed.launcher import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main(arguments: Sequence[str]) -> int:
    """Run `wend launch` with these arguments; returns the exit status of the run.

    The status is that of the rank that failed first, 128 + n if signal n ended that rank, and 2 if
    the command line is wrong. Within ranks that `mpirun` has started the program runs here.
    """
    from wend.distributed.launcher import _options

    try:
        orders = _options.read(arguments)
    except SystemExit as wrong:
        # The command line is wrong, or asks for help: its status is returned.
        return int(wrong.code or 0)
    from wend.distributed.launcher import _agent, _report, _start

    for notice in orders.notices:
        _report.say(notice)
    if is_started(os.environ):
        command = _start.guard_command(orders, [], None)
        os.execvp(command[0], command)
    try:
        return _agent.run(orders, _start.find_starter(orders, os.environ))
    except _start.StartError as error:
        # Nothing can start the ranks: the error is told, and the status is 2.
        _report.say(str(error).removeprefix("wend launch: "))
        return 2


def is_started(variables: Mapping[str, str]) -> bool:
    """Whether mpirun, or srun with several tasks, has started this process as a rank already."""
    if "OMPI_COMM_WORLD_SIZE" in variables or "PMI_SIZE" in variables:
        return True
    return "SLURM_STEP_ID" in variables and int(variables.get("SLURM_STEP_NUM_TASKS", "1")) > 1
