"""The kernels of common programs, made when Wend is built (see `compiler/ready_made.py`).

python -m wend._tools.ready_kernels FOLDER       make them for this processor's level and lower ones

`setup.py` runs this at the end of a build. Each program of `common_programs` takes steps until no
further kernel is asked for. WEND_CPU names a level: the kernels are made for that level alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wend._engine.base.config import processor_level
from wend._engine.compiler import ready_made
from wend._engine.compiler.llvm_ir import jit, ready_objects

#: Steps of a round, after which all kernels are compiled, and the most rounds.
STEPS, ROUNDS = 16, 12
#: A program has asked for all its kernels if so many rounds brought none.
QUIET = 2


def run_programs(file: ready_made.ReadyFile) -> None:
    """Run the common programs; each kernel that is asked for comes into the file."""
    from wend._tools.common_programs import programs

    for step in programs():
        quiet = 0
        for _ in range(ROUNDS):
            before = len(file.wanted)
            for _ in range(STEPS):
                step()
            jit.drain()
            quiet = 0 if len(file.wanted) > before else quiet + 1
            if quiet == QUIET:
                break


def make(path: Path) -> int:
    """Write the ready kernels of this processor's level into a folder; return how many."""
    with ready_made.making(path) as file:
        if file is None:
            return 0
        for text in ready_made.texts():
            file.add(text)
        run_programs(file)
    return len(file.wanted)


def main(path: Path) -> str:
    """Write the kernels of all levels up to this processor's own; return a message.

    Raises RuntimeError if a lower level fails.
    """
    lower = None
    if not processor_level() and ready_objects.is_above_avx2(jit.host().names):
        command = [sys.executable, "-m", __spec__.name, str(path)]
        environment = {**os.environ, "WEND_CPU": "avx2"}
        lower = subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True)
    said = [f"{make(path)} kernels are ready"]
    if lower is not None:
        output, faults = lower.communicate()
        if lower.returncode:
            raise RuntimeError(f"kernels for AVX2: {faults.strip() or output.strip()}")
        said.append(f"for AVX2: {output.strip()}")
    return "; ".join(said)


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
