"""Code for 64-bit Arm processors: made here for each kind of kernel, and run where that can be."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kinds_of_kernels import PROGRAMS

from wend._engine.base.config import LEVELS
from wend._engine.base.errors import ArgumentError
from wend._engine.compiler.llvm_ir import jit

TESTS = Path(__file__).resolve().parent.parent
KINDS = str(TESTS / "compiler" / "kinds_of_kernels.py")
SWITCHES = {"WEND_COMPILE": "", "WEND_STRICT": "1", "WEND_CACHE_DIR": ""}
here_only = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or not jit.host().has("avx2"),
    reason="Arm's code is run as this processor's: needs an x86-64 processor with AVX2",
)

#: What the plugin finds wrong, each in a module of its own.
LOOKING = """
import neon, pytest
from wend._engine.compiler.llvm_ir import jit
adding = "define i64 @k(i64 %x) {\\n  %y = add i64 %x, 3\\n  ret i64 %y\\n}\\n"
i64 = jit.ctypes.c_int64
assert jit.compile_module(adding, ["k"]).function("k", i64, result=i64)(4) == 7
assert len(neon.looked_at) == 1
fence = "declare void @llvm.x86.sse.sfence()\\n"
for text, why in ((fence + adding, "some processors only"), ("@x = global i64 0\\n", "no code")):
    with pytest.raises(AssertionError, match=why):
        jit.compile_module(text, [])
sine = adding.replace("i64", "double").replace("add double %x, 3", "call double @sin(double %x)")
found = jit._translate("declare double @sin(double)\\n" + sine, neon.ARM)
assert neon.undefined(found) == {"sin"}
print("fine")
"""


def outcome(command, env):
    done = subprocess.run(
        command, env={**os.environ, **SWITCHES, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def search_path(*more):
    return os.pathsep.join([*map(str, more), *sys.path])


@here_only
@pytest.mark.slow
def test_every_kind_of_kernel_is_compiled_for_arm_and_its_loops_are_right():
    made = json.loads(outcome([sys.executable, KINDS, "neon"], {"PYTHONPATH": search_path(TESTS)}))
    assert made.keys() == PROGRAMS.keys()
    assert min(made.values()) > 0


@here_only
def test_objects_for_arm_are_looked_at():
    assert outcome([sys.executable, "-c", LOOKING], {"PYTHONPATH": search_path(TESTS)}) == "fine\n"


@pytest.mark.slow
def test_the_code_for_arm_runs_there():
    """Wend as it is, its core uncompiled, on an emulated processor: takes some minutes."""
    emulator, root = shutil.which("qemu-aarch64"), os.environ.get("ARM_ROOT")
    if not emulator or not root:
        pytest.skip("needs qemu-aarch64, and in ARM_ROOT what scripts/arm-root makes")
    (python,) = Path(root, "usr", "bin").glob("python3.[0-9]*[0-9]")
    # Its own library and packages: those of this process are made for this processor.
    path = os.pathsep.join(map(str, (TESTS.parent / "src", TESTS, Path(root, "packages"))))
    found = outcome(
        [emulator, "-L", root, "-E", f"PYTHONPATH={path}", "-E", "WEND_PURE=1", str(python), KINDS],
        {},
    )
    assert json.loads(found).keys() == PROGRAMS.keys()


def test_levels_are_refused_on_other_processors(monkeypatch):
    binding = jit._binding()
    monkeypatch.setattr(binding, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: {"neon": True})
    for level in LEVELS:
        monkeypatch.setenv("WEND_CPU", level)
        told = f"WEND_CPU: {level} is a level of x86-64 processors, and this one is aarch64; unset"
        with pytest.raises(ArgumentError, match=told):
            jit.host.__wrapped__()
    monkeypatch.delenv("WEND_CPU")
    found = jit.host.__wrapped__()
    assert (found.vector_bytes, found.registers, found.fused) == (16, 32, True)
