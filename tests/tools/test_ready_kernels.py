"""The kernels of common programs come with an installation."""

import json
import math
import os
import subprocess
import sys

import pytest

from wend._engine.compiler.llvm_ir import jit, ready_objects
from wend._tools import common_programs

#: A program in a process of its own: how many kernels it compiles, and how many it finds.
COUNT = """
import json, sys
from pathlib import Path
from wend._engine.compiler.llvm_ir import jit, ready_objects
from wend._tools import common_programs

if len(sys.argv) > 2:
    ready_objects.FOLDER = Path(sys.argv[2])
build, variant = common_programs._PROGRAMS[int(sys.argv[1])]
step = build(*variant)
for _ in range(3):
    for _ in range(16):
        step()
    jit.drain()
print(json.dumps([jit.counters.compiled, jit.counters.ready]))
"""
#: Make the kernels of one program.
MAKE = """
import sys
from pathlib import Path
from wend._tools import common_programs, ready_kernels

common_programs._PROGRAMS = [common_programs._PROGRAMS[int(sys.argv[1])]]
ready_kernels.ready_made.texts = lambda: iter(())
print(ready_kernels.make(Path(sys.argv[2])))
"""


def output(script, cache, program, *folder):
    """Return what a script prints about a program, in a process with an empty cache."""
    environment = {**os.environ, "WEND_CACHE_DIR": str(cache), "WEND_COMPILE": "1"}
    command = [sys.executable, "-c", script, str(program), *map(str, folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def level():
    """Skip where no kernels are made."""
    if not ready_objects.level_of(jit.host().names):
        pytest.skip("this processor is below all levels")


@pytest.mark.parametrize("number", range(len(common_programs._PROGRAMS)))
def test_each_program_takes_steps(number):
    build, variant = common_programs._PROGRAMS[number]
    step = build(*variant)
    assert math.isfinite(step()) and math.isfinite(step())


def test_kernels_that_a_program_asks_for_are_kept(tmp_path):
    folder = tmp_path / "ready"
    builds = [build.__name__ for build, _ in common_programs._PROGRAMS]
    number = builds.index("losses")
    n = output(MAKE, tmp_path / "of making", number, folder)
    (path,) = folder.iterdir()
    written = path.stat().st_mtime_ns
    assert n == len(ready_objects.index_of(path)) > 2
    compiled, ready = output(COUNT, tmp_path / "of counting", number, folder)
    assert ready > 2 and compiled == 0
    again = output(MAKE, tmp_path / "of making again", number, folder)
    assert again == n and path.stat().st_mtime_ns == written


def test_programs_made_of_the_usual_blocks_compile_nothing(tmp_path):
    """Of this installation: the kernels of its generator, not of an older one."""
    level = ready_objects.level_of(jit.host().names)
    if not ready_objects.index_of(ready_objects.path_of(ready_objects.FOLDER, level)):
        pytest.skip("Wend was installed without ready kernels")
    compiled, ready = output(COUNT, tmp_path, 0)
    assert ready >= 10 and compiled <= 2
