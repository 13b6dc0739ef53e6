"""The command `wend`.

wend run SCRIPT [ARGS]       run a PyTorch program on Wend, unchanged
wend run -m MODULE [ARGS]    the same for a module
wend launch SCRIPT [ARGS]    the same in many processes, with torchrun's flags
wend verify SCRIPT [ARGS]    run on Wend, on the reference, on PyTorch: where do the runs part?
wend compat SCRIPT|PACKAGE   read a program: which names of PyTorch's does Wend lack?
wend demo                    three programs by Wend and by PyTorch, and a table
wend env                     versions, machine and settings, for a bug report
wend --version, wend --help
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from wend._engine.base.system import system
from wend.version import __version__

USAGE = """\
usage: wend run SCRIPT [ARGS ...]      run an unchanged PyTorch program: `import torch` is Wend
       wend run -m MODULE [ARGS ...]   the same for a module
       wend launch [FLAGS] SCRIPT ...  run it in many processes, as torchrun
       wend verify SCRIPT [ARGS ...]   compare it with the reference, and with PyTorch
       wend compat SCRIPT|PACKAGE      read it: which names that it uses are missing or differ
       wend demo [OPTIONS]             run three programs by Wend and by PyTorch, print a table
       wend env                        print what a bug report needs
       wend --version
       wend --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status. 2 means that the command was called wrongly."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["run"]:
        return _run(words[1:])
    if words[:1] == ["launch"] and not system.launches:
        print(f"wend launch: needs Linux; there are no ranks on {system.name}", file=sys.stderr)
        return 2
    if words[:1] == ["launch"]:
        from wend.distributed.launcher import main as start_ranks

        return start_ranks(words[1:])
    if words[:1] == ["verify"]:
        from wend._tools.verify import main as verify

        return verify(words[1:])
    if words[:1] == ["compat"]:
        from wend._tools.compat import main as compat

        return compat(words[1:])
    if words[:1] == ["demo"]:
        from wend._tools.demo import main as demo

        return demo(words[1:])
    try:
        status = _answer(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # `wend env | head`: the reader has seen enough. Nothing is left to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _answer(words: list[str]) -> int:
    command = words.pop(0) if words else ""
    if command in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if command in ("-V", "--version", "version"):
        print(f"wend {__version__}")
        return 0
    if command == "env" and not words:
        from wend._tools.environment import text

        print(text())
        return 0
    if not command:
        return _misused("a command is needed")
    if command == "env":
        return _misused(f"env takes no arguments, and was given {words[0]!r}")
    return _misused(f"there is no command {command!r}")


def _run(words: list[str]) -> int:
    if words and words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    as_module = bool(words) and words[0] == "-m"
    if as_module:
        words.pop(0)
    if not words:
        return _misused(f"run needs a {'module' if as_module else 'script'}")
    target, *arguments = words
    if not as_module and target.startswith("-"):
        return _misused(f"run has no option {target!r}; options of the script go behind it")
    # Imported here: `wend --version` needs neither.
    from wend._tools import alias, launch

    alias.install()
    start = launch.run_module if as_module else launch.run_script
    if "WEND_LAUNCH_CHANNEL" not in os.environ:
        return start(target, arguments)
    from wend.distributed.launcher import _rank as rank
    from wend.distributed.launcher import _watchdog as watchdog

    rank.begin()
    watchdog.begin()
    return rank.leave_by(lambda: start(target, arguments))


def _misused(fault: str) -> int:
    print(f"wend: {fault}\n{USAGE}", end="", file=sys.stderr)
    return 2
