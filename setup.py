"""Builds the hot core and what runs on it: Python sources, compiled with the types in their .pxd.

`WEND_PURE=1 pip install .` leaves them uncompiled: slower recording, the same results.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


ENGINE = Path("src") / "wend" / "_engine"
CORE = ENGINE / "core"
# Parts of the core: the hot one first, and those that it reaches, or that reach it, as C functions.
PARTS = (
    *("_hot", "_types", "_trie_policy", "_siblings", "_calls", "_indexing", "_backward"),
    "_modules",
)
NATIVE = ENGINE / "runtime" / "native"
BATCHING = ENGINE / "runtime" / "batching"
FIBERS = ENGINE / "runtime" / "fibers"
STEP = ENGINE / "runtime" / "numpy_executor" / "_step"
CUTTER = ENGINE / "runtime" / "parts" / "_cutter"
READY_KERNELS = Path("wend") / "_tools" / "ready_kernels.py"
# Python's own flags ask for debug information, which would be six sevenths of the libraries, and
# for -O3, which makes them a sixth larger and not faster (benchmarks/recording.py).
# No exception passes through this code: it needs no tables for unwinding, a fourteenth of it.
COMPILE = ["-O2", "-g0", "-fno-plt", "-Wno-unused-function"]
if sys.platform == "linux":
    COMPILE.append("-fno-asynchronous-unwind-tables")
    # That functions and labels start at round addresses would be a twentieth.
    COMPILE += [f"-fno-align-{what}" for what in ("functions", "jumps", "labels", "loops")]
# Code and data in one piece of the file: pages of zeros between them would be a hundredth.
LINK = ["-Wl,--strip-all", "-Wl,-z,noseparate-code"] if sys.platform == "linux" else []
if platform.libc_ver()[0] == "glibc" and _version(platform.libc_ver()[1]) >= (2, 36):
    # Addresses to be relocated as a list of bits, which loaders before 2.36 do not know: a
    # twentieth. Linkers before binutils 2.38 say that they leave it.
    LINK.append("-Wl,-z,pack-relative-relocs")
PURE_REMEDY = """
Wend's hot core could not be compiled.

  {reason}

Either install a C compiler and Python's headers (Debian, Ubuntu: apt install gcc python3-dev;
Fedora: dnf install gcc python3-devel; macOS: xcode-select --install), and install again, or do
without: the uncompiled core gives the same results, and records operations more slowly:

  WEND_PURE=1 pip install .
"""


def pure() -> bool:
    """Whether the uncompiled core is asked for."""
    return os.environ.get("WEND_PURE", "").strip().lower() in {"1", "true", "yes", "on"}


class BuildModules(build_py):
    """build_py, which compresses the source of a compiled module: see `_engine/core/_select.py`."""

    def get_module_outfile(self, build_dir: str, package: list[str], module: str) -> str:
        path = str(super().get_module_outfile(build_dir, package, module))
        compiled = [extension.name for extension in self.distribution.ext_modules or ()]
        if ".".join([*package, module]) in compiled:
            return path.removesuffix(".py") + ".plain"
        return path

    def build_module(self, module: str, module_file: str, package: Any) -> Any:
        outfile, copied = super().build_module(module, module_file, package)
        if copied and outfile.endswith(".plain"):
            Path(outfile).write_bytes(zlib.compress(Path(module_file).read_bytes(), 9))
        return outfile, copied


class BuildCore(build_ext):
    """build_ext, ending in a message that says what to do where there is no compiler.

    Kernels that most programs share are compiled too: see `_tools/ready_kernels.py`.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.parallel is None:
            self.parallel = processors()

    def run(self) -> None:
        try:
            super().run()
        except (Exception, SystemExit) as error:
            raise SystemExit(PURE_REMEDY.format(reason=_one_line(error))) from error
        if (Path("src") / READY_KERNELS).exists():
            in_sources = self.inplace or self.editable_mode
            self.make_kernels(Path("src" if in_sources else self.build_lib).resolve())

    def make_kernels(self, root: Path) -> None:
        """Compile kernels for this processor's level, and for AVX2 too where that is below.

        root: the folder of the package. Without LLVM nothing is made: users compile as they go.
        """
        folder = str(root / "wend" / "_engine" / "compiler" / "ready")
        done = subprocess.run(
            [sys.executable, "-m", "wend._tools.ready_kernels", folder],
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        self.announce(f"ready-made kernels: {' '.join(said)}", 2)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def processors() -> int:
    """How many modules are translated and compiled at a time."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def extensions() -> list[Any]:
    """The compiled modules, or none."""
    if pure() or not (CORE / "_hot.py").exists():
        return []
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    flags = [] if os.name == "nt" else COMPILE
    headers = [*map(str, sorted(CORE.glob("*.h"))), *map(str, sorted(CORE.glob("*.pxd")))]
    core, *parts = [
        Extension(
            f"wend._engine.core.{name}",
            [str(CORE / f"{name}.py")],
            include_dirs=[str(CORE)],
            depends=headers,
            extra_compile_args=flags,
            extra_link_args=LINK,
        )
        for name in PARTS
    ]
    # The launcher and the binder, which know plans; the grouper, the slabs and the
    # lanes, which know flushes.
    runtime = [str(CORE), str(NATIVE), str(BATCHING)]
    launcher = Extension(
        "wend._engine.runtime.native._launch",
        [str(NATIVE / "_launch.py")],
        include_dirs=runtime,
        depends=[
            *map(str, sorted(NATIVE.glob("_*.h"))),
            str(NATIVE / "_launch.pxd"),
            str(BATCHING / "_grouper_shim.h"),
        ],
        extra_compile_args=flags,
        extra_link_args=LINK if os.name == "nt" else [*LINK, "-pthread"],
    )
    grouper = Extension(
        "wend._engine.runtime.batching._grouper",
        [str(BATCHING / "_grouper.py")],
        include_dirs=runtime,
        depends=[str(BATCHING / "_grouper.pxd"), str(BATCHING / "_grouper_shim.h")],
        extra_compile_args=flags,
        extra_link_args=LINK,
    )
    slabs = Extension(
        "wend._engine.runtime.batching._slabs",
        [str(BATCHING / "_slabs.py")],
        include_dirs=runtime,
        depends=[
            *(str(BATCHING / name) for name in ("_slabs.pxd", "_slabs_shim.h", "_grouper.pxd")),
            str(NATIVE / "_launch.pxd"),
        ],
        extra_compile_args=flags,
        extra_link_args=launcher.extra_link_args,
    )
    lanes = Extension(
        "wend._engine.runtime.fibers._lanes",
        [str(FIBERS / "_lanes.py")],
        include_dirs=runtime,
        depends=[
            str(FIBERS / "_lanes.pxd"),
            *(str(BATCHING / name) for name in ("_slabs.pxd", "_slabs_shim.h", "_grouper.pxd")),
            str(NATIVE / "_launch.pxd"),
        ],
        extra_compile_args=flags,
        extra_link_args=launcher.extra_link_args,
    )
    binding = Extension(
        "wend._engine.runtime.native._bind",
        [str(NATIVE / "_bind.py")],
        include_dirs=runtime,
        depends=[str(NATIVE / "_bind.pxd"), str(BATCHING / "_slabs_shim.h")],
        # What runs once for new sizes: a quarter smaller.
        extra_compile_args=[*flags, *([] if os.name == "nt" else ["-Os"])],
        extra_link_args=LINK,
    )
    cutter = Extension(
        "wend._engine.runtime.parts._cutter",
        [str(CUTTER.with_suffix(".py"))],
        include_dirs=runtime,
        depends=[str(CUTTER.with_suffix(".pxd")), str(BATCHING / "_grouper_shim.h")],
        extra_compile_args=flags,
        extra_link_args=LINK,
    )
    step = Extension(
        "wend._engine.runtime.numpy_executor._step",
        [str(STEP.with_suffix(".py"))],
        include_dirs=[*runtime, str(STEP.parent)],
        depends=[
            *(str(STEP.with_suffix(".pxd")), str(STEP.with_name("_step_shim.h"))),
            str(NATIVE / "_arrays.h"),
        ],
        extra_compile_args=flags,
        extra_link_args=LINK,
    )
    shared = {
        "language_level": 3,
        "build_dir": "build/cython",
        "annotate": False,
        "include_path": ["src"],
        # In processes, which are forks here; elsewhere each would run this file anew.
        "nthreads": processors() if sys.platform == "linux" else 0,
    }
    found = cythonize([core, *parts], **shared)
    # Nobody asks for help on the others: their docstrings would be 25 kB. Cython takes this for
    # all that it is given at once.
    Options.docstrings = False
    return [*found, *cythonize([launcher, grouper, slabs, lanes, binding, cutter, step], **shared)]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore, "build_py": BuildModules})
