"""Plans the op suite for NVIDIA's cards without running it there, and assembles the kernels.

`written` runs samples on the processor, as other tests do, and has each path planned a second time
for a target. `assembled` gives the kernels to NVIDIA's assembler, many to a file.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import harness
import numpy as np

from tries import own_trie
from wend._engine.base import config, dtypes
from wend._engine.base.dtypes import DType
from wend._engine.compiler.ir.kernel import Kernel
from wend._engine.compiler.llvm_ir import jit
from wend._engine.compiler.llvm_ir.jit import Target
from wend._engine.compiler.stages import finished
from wend._engine.runtime.compiled.plan import kernel_texts, planning_of
from wend._engine.runtime.tiers import TieredPlan

#: Modules in a file of the assembler: it takes as long to start as for a few kernels.
TOGETHER = 64
_DEFINED = re.compile(
    r"^(?:\.visible |\.weak )?\.(?:entry|func)\s+(?:\(.*?\)\s*)?([\w$]+)\("
    r"|^(?:\.visible )?\.(?:global|const|shared)\b.*?([\w$]+)(?:\[\d*\])*(?: =.*)?;",
    re.MULTILINE,
)
_NAME = re.compile(r"Compiling entry function '([\w$]+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


class Report(NamedTuple):
    """What a kernel takes: registers of a thread, bytes of spills, and shared memory of a block."""

    kernel: str
    registers: int
    spilled: int
    shared: int


class Suite:
    """The kernels of paths.

    texts: the modules as LLVM's text, each with the sample that it was first written for
    hosted: nodes that the processor computes, and how often
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.hosted: dict[str, int] = {}

    def add(self, plan: TieredPlan, job: Any, target: Target, sample: str) -> None:
        """Plan a path for a target, and note its kernels."""
        plan.reference.restore(job, short=False)
        with jit.writing_for(target):
            code = finished(planning_of(plan.reference))
        for text in kernel_texts(code):
            self.texts.setdefault(text, sample)
        for step in code.steps:
            if not isinstance(step, Kernel):
                self.hosted[step.name] = self.hosted.get(step.name, 0) + 1


@contextmanager
def watched(suite: Suite, target: Target, sample: list[str]) -> Iterator[None]:
    """Plan all paths that run within for a target too."""
    run = TieredPlan.run_reference

    def run_reference(self: TieredPlan, job: Any) -> None:
        suite.add(self, job, target, sample[-1])
        run(self, job)

    TieredPlan.run_reference = run_reference  # type: ignore[method-assign]
    try:
        yield
    finally:
        TieredPlan.run_reference = run  # type: ignore[method-assign]


def written(target: Target, ops: Iterable[Any], kinds: Iterable[DType] | None = None) -> Suite:
    """Return the kernels of all samples of ops, and of their gradients.

    kinds: the dtypes; None: float32, or an op's first dtype where it does not take that
    """
    suite, name = Suite(), [""]
    # Deterministic: groups and parts leave all paths to plans.
    with (
        watched(suite, target, name),
        config.override(compile=True, wait=False, deterministic=True),
    ):
        for op in ops:
            taken = harness.supported(op)
            first = dtypes.float32 if dtypes.float32 in taken else taken[0]
            for dtype in [first] if kinds is None else [d for d in kinds if d in taken]:
                for k, sample in enumerate(harness.samples(op, dtype)):
                    name.append(f"{op.name} {dtype.name} {k}")
                    with own_trie():
                        run_both_ways(op, sample, dtype)
    return suite


def run_both_ways(op: Any, sample: Any, dtype: DType) -> None:
    """Compute a sample and its gradients on the processor."""
    leaves = []

    def operand(array: np.ndarray) -> Any:
        wants = dtype.category == dtypes.FLOAT and harness.is_float(array)
        leaf = harness.tensor(array, wants)
        leaves.extend([leaf] if wants else [])
        return leaf

    operands = harness.map_arrays(sample, operand)
    with np.errstate(all="ignore"):
        results = harness.as_tuple(op.function(*operands.args, **operands.kwargs))
        results = [r for r in results if hasattr(r, "dtype")]
        for result in results:
            harness.value(result)
        roots = [r for r in results if r.requires_grad and not r.dtype.is_complex]
        if leaves and roots:
            sum((r * 0.5).sum() for r in roots).backward()
            for leaf in leaves:
                if leaf.grad is not None:
                    harness.value(leaf.grad)


# -- the assembler ----------------------------------------------------------------------------


def assembler() -> str | None:
    """The path of `ptxas`: that of the package nvidia-cuda-nvcc, or the system's."""
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations or () if package else ():
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


def merged(modules: list[str]) -> str:
    """Several modules of PTX for one target as one, their names numbered."""
    head, mark, _ = modules[0].partition(".address_size 64")
    parts = [head + mark]
    for k, module in enumerate(modules):
        _, _, body = module.partition(".address_size 64")
        names = {a or b for a, b in _DEFINED.findall(body)}
        if names:
            every = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
            # Parameters are named after their function.
            body = re.sub(rf"(?<![\w$])({every})(?![\w$])", rf"\1__{k}", body)
            body = re.sub(rf"(?<![\w$])({every})_param_", rf"\1__{k}_param_", body)
        parts.append(body)
    return "\n".join(parts)


def assembled(path: str, modules: Iterable[str], target: Target, folder: Path) -> list[Report]:
    """Return what the kernels of modules take. Raises AssertionError if one is refused.

    modules: of PTX     folder: for the files
    """
    unique = sorted(set(modules))
    batches = [unique[k : k + TOGETHER] for k in range(0, len(unique), TOGETHER)]

    def assemble(k: int) -> list[Report]:
        file = folder / f"{target.cpu}_{k}.ptx"
        file.write_text(merged(batches[k]))
        command = [path, "-v", "-arch", target.cpu, "-o", f"{file}.cubin", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{file}: {(run.stderr or run.stdout)[:2000]}"
        return list(reports_of(run.stderr))

    with ThreadPoolExecutor(2) as pool:
        return [report for part in pool.map(assemble, range(len(batches))) for report in part]


def reports_of(log: str) -> Iterator[Report]:
    """Read what the assembler tells of each kernel, with the functions that it calls."""
    for part in log.split("Compiling entry function")[1:]:
        name = _NAME.search("Compiling entry function" + part)
        used = _USED.search(part)
        assert name and used, part
        spilled = sum(int(row[2]) + int(row[3]) for row in _STACK.finditer(part))
        yield Report(name[1], int(used[1]), spilled, int(used[2] or 0))
