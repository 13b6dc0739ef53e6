"""Machine code comes by itself: when, where it cannot be made, and when a process ends or forks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wend
from wend._engine.base.config import Settings

SOURCES = Path(wend.__file__).parent.parent
STEPS = """
import sys
import wend as torch
from wend._engine.base import config
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime import tiers
from wend._engine.runtime.native.launcher import launcher

def steps(count, depth=1):
    for _ in range(count):
        y = torch.ones(3)
        for _ in range(depth):
            y = torch.tanh(y + 0.5)
        y.sum().item()
"""


def run(program: str, **environment: str) -> tuple[str, str, int]:
    """Output, errors and exit code of a program in a process of its own, without a cache."""
    given = {k: v for k, v in os.environ.items() if not k.startswith("WEND_") or k == "WEND_PURE"}
    given |= {"PYTHONPATH": str(SOURCES), "WEND_CACHE_DIR": "", **environment}
    done = subprocess.run(
        [sys.executable, "-c", STEPS + program], env=given, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr.strip(), done.returncode


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("asked", "compiles", "waits"),
    [(None, True, False), ("", True, False), ("0", False, False), ("1", True, False),
     (" Force ", True, True)],
)  # fmt: skip
def test_machine_code_is_asked_for_or_not(asked, compiles, waits):
    made = Settings({} if asked is None else {"WEND_COMPILE": asked})
    assert (made.compile, made.wait) == (compiles, waits)


def test_a_path_that_comes_back_is_compiled_and_nothing_before():
    out, err, code = run("""
steps(1)
assert "llvmlite" not in sys.modules
steps(9)
assert jit.drain(60)
steps(3)
assert tiers.COUNTS["compiled"] == 1 and launcher.runs() >= 2
before = launcher.runs()
torch.use_deterministic_algorithms(True)
steps(3)
assert launcher.runs() == before
""")
    assert (out, err, code) == ("", "", 0)


def test_without_llvmlite_there_is_one_warning():
    program = """
sys.modules["llvmlite"] = None
steps(9)
steps(9, depth=2)
print(torch.exp(torch.zeros(2)).tolist(), config.settings.compile)
"""
    out, err, code = run(program)
    assert (out, code) == ("[1.0, 1.0] False", 0)
    assert err.count("no machine code can be made here: llvmlite cannot be imported") == 1
    out, err, code = run(program, WEND_COMPILE="0")
    assert (out, err, code) == ("[1.0, 1.0] False", "", 0)


def test_an_unknown_processor_is_left_to_the_reference():
    out, err, code = run("""
import platform
platform.machine = lambda: "riscv64"
steps(9)
print(tiers.COUNTS["compiled"])
""")
    assert (out, code) == ("0", 0)
    assert err.count("no code is generated for this processor (riscv64)") == 1


BROKEN = """
def broken(*args):
    raise ArithmeticError("broken")

def work():
    return (x @ (x @ x).tanh()).sum().item()

x = torch.ones(40, 40, requires_grad=True)
with config.override(compile=False, wait=False):
    before = work()
"""


def test_a_plan_that_fails_is_left_to_the_reference_with_one_warning():
    program = (
        BROKEN
        + """
from wend._engine.runtime.compiled import arena  # fills the place, once
launcher.fill("arena", broken)  # asked for when a ready plan runs that has temporaries
for _ in range(5):
    work()
assert jit.drain(60)
print([work() == before for _ in range(3)], launcher.runs())
"""
    )
    out, err, code = run(program)
    assert (out, code) == ("[True, True, True] 0", 0)
    assert err.count("Warning: wend: ArithmeticError: broken, in ") == 1
    out, err, code = run(program, WEND_VERIFY="1")
    assert code == 1 and "DefectError: ArithmeticError: broken, in " in err


def test_regions_that_fail_are_left_to_others_with_one_warning():
    program = (
        BROKEN
        + """
from wend._engine.core import _hot
from wend._engine.runtime.batching import executor
_hot.current_trace().root.gained = 1 << 40  # what is new leaves the trie at once
asked = []

def forward(self, *args):
    asked.append(True)
    broken()

executor.Execution.forward = executor.PerOpExecution.forward = forward
print([work() == before for _ in range(3)], len(asked) > 0)
"""
    )
    for way in ("0", "force"):
        out, err, code = run(program, WEND_COMPILE=way)
        assert (out, code) == ("[True, True, True] True", 0)
        assert err.count("Warning: wend: ArithmeticError: broken, in ") == 1


def test_errors_of_the_program_are_no_defects():
    """An op that fails in a ready plan fails in the reference as well, which names the line."""
    out, err, code = run(
        """
import warnings
warnings.simplefilter("error")
table = torch.ones(3, 2)
for index in (1, 2, 1, 7):
    try:
        print(table[(torch.tensor([index]) * 1)].sum().item())
    except IndexError as error:
        print(str(error).splitlines()[0])
""",
        WEND_COMPILE="force",
    )
    assert (err, code) == ("", 0)
    assert out.splitlines()[:3] == ["2.0"] * 3 and "index 7 is out of bounds" in out


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("raise SystemExit(3)", 3), ("raise ValueError", 1)]
)
def test_a_process_may_end_while_plans_are_compiled(end, code):
    out, _, found = run(f"""
for depth in range(1, 6):
    steps(5, depth)
print("done", flush=True)
{end}
""")
    assert (out, found) == ("done", code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_child_forked_while_plans_are_compiled_goes_on():
    out, err, code = run("""
import os
for depth in range(1, 6):
    steps(5, depth)
child = os.fork()
steps(5, 6)
assert jit.drain(60)
steps(5)
assert launcher.runs() > 0
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("parent")
""")
    assert (out, err, code) == ("parent", "", 0)
