"""Builds the hot core and what runs on it: Python sources, compiled with the types in their .pxd.

    WEND_PURE=1             leave them uncompiled: slower recording, the same results
    WEND_READY_KERNELS=DIR  take the kernels that another build has made, and make none

A build for another processor takes CC and LDSHARED as always, `_PYTHON_HOST_PLATFORM` for the name
of the wheel, and SETUPTOOLS_EXT_SUFFIX for the names of the modules (scripts/wheels).
"""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
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
RING = ENGINE / "runtime" / "devices" / "_ring"
READY_KERNELS = Path("wend") / "_tools" / "ready_kernels.py"
# Read first in each module: what errors show of the compiled functions.
TRACEBACKS = str(CORE / "tracebacks.h")
#: Flags for the compiler and for the linker, by system. Python's own flags ask for debug
#: information, which would be six sevenths of the libraries, and for -O3, which makes them a sixth
#: larger and not faster (benchmarks/recording.py).
GNU = ["-O2", "-g0", "-Wno-unused-function", "-include", TRACEBACKS]
COMPILE = {
    # No exception passes through this code: it needs no tables for unwinding, a fourteenth of it.
    # That functions and labels start at round addresses would be a twentieth.
    "linux": [
        *(*GNU, "-fno-plt", "-fno-asynchronous-unwind-tables"),
        *(f"-fno-align-{what}" for what in ("functions", "jumps", "labels", "loops")),
    ],
    "darwin": GNU,
    "win32": ["/O2", "/utf-8", "/FI", TRACEBACKS],
}.get(sys.platform, GNU)
# Code and data in one piece of the file: pages of zeros between them would be a hundredth.
LINK = {"linux": ["-Wl,--strip-all", "-Wl,-z,noseparate-code"]}.get(sys.platform, [])
if platform.libc_ver()[0] == "glibc" and _version(platform.libc_ver()[1]) >= (2, 36):
    # Addresses to be relocated as a list of bits, which loaders before 2.36 do not know: a
    # twentieth. Linkers before binutils 2.38 say that they leave it.
    LINK.append("-Wl,-z,pack-relative-relocs")
#: Flags of what runs once for new sizes: a quarter smaller.
SMALL = {"win32": ["/O1"]}.get(sys.platform, ["-Os"])
#: Flags of what starts threads.
THREADS = {"win32": []}.get(sys.platform, ["-pthread"])
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

    def build_extensions(self) -> None:
        """Build all, without the linker's flags that save space where the linker lacks these."""
        for extension in self.extensions:
            extension.extra_link_args = [
                flag for flag in extension.extra_link_args if self.links_with(flag)
            ]
        super().build_extensions()

    @functools.cache  # noqa: B019 (there is a single builder)
    def links_with(self, flag: str) -> bool:
        """Whether the linker knows a flag; an empty library is made to find out."""
        if not flag.startswith("-Wl,-z,"):
            return True
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "empty.c"
            source.write_text("int wend_empty;\n", encoding="utf-8")
            command = [*self.compiler.linker_so, str(source), "-o", f"{folder}/empty.so", flag]
            if not hasattr(os, "fork") or shutil.which(command[0]) is None:
                return True
            tried = subprocess.run(command, capture_output=True, check=False)
        return tried.returncode == 0

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
        Nor is anything made for another kind of processor: its code would have to run here.
        """
        folder = str(root / "wend" / "_engine" / "compiler" / "ready")
        if os.environ.get("WEND_READY_KERNELS"):
            shutil.copytree(os.environ["WEND_READY_KERNELS"], folder, dirs_exist_ok=True)
            return
        if not sysconfig.get_platform().endswith(platform.machine().lower()):
            self.announce(f"ready-made kernels: none for {sysconfig.get_platform()}", 2)
            return
        paths = [str(root), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, "-m", "wend._tools.ready_kernels", folder],
            # pip shows a build its packages by PYTHONPATH. Bytecode would come into the wheel, and
            # be a third of it: installers make their own.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
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

    headers = [*map(str, sorted(CORE.glob("*.h"))), *map(str, sorted(CORE.glob("*.pxd")))]
    core, *parts = [
        Extension(
            f"wend._engine.core.{name}",
            [str(CORE / f"{name}.py")],
            include_dirs=[str(CORE)],
            depends=headers,
            extra_compile_args=COMPILE,
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
        extra_compile_args=COMPILE,
        extra_link_args=[*LINK, *THREADS],
    )
    grouper = Extension(
        "wend._engine.runtime.batching._grouper",
        [str(BATCHING / "_grouper.py")],
        include_dirs=runtime,
        depends=[str(BATCHING / "_grouper.pxd"), str(BATCHING / "_grouper_shim.h")],
        extra_compile_args=COMPILE,
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
        extra_compile_args=COMPILE,
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
        extra_compile_args=COMPILE,
        extra_link_args=launcher.extra_link_args,
    )
    binding = Extension(
        "wend._engine.runtime.native._bind",
        [str(NATIVE / "_bind.py")],
        include_dirs=runtime,
        depends=[str(NATIVE / "_bind.pxd"), str(BATCHING / "_slabs_shim.h")],
        extra_compile_args=[*COMPILE, *SMALL],
        extra_link_args=LINK,
    )
    cutter = Extension(
        "wend._engine.runtime.parts._cutter",
        [str(CUTTER.with_suffix(".py"))],
        include_dirs=runtime,
        depends=[str(CUTTER.with_suffix(".pxd")), str(BATCHING / "_grouper_shim.h")],
        extra_compile_args=COMPILE,
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
        extra_compile_args=COMPILE,
        extra_link_args=LINK,
    )
    ring = Extension(
        "wend._engine.runtime.devices._ring",
        [str(RING.with_suffix(".py"))],
        include_dirs=[*runtime, str(RING.parent)],
        depends=[
            *(str(RING.with_suffix(".pxd")), str(RING.with_name("_ring_shim.h"))),
            *(str(BATCHING / name) for name in ("_slabs_shim.h", "_grouper_shim.h")),
        ],
        extra_compile_args=COMPILE,
        extra_link_args=LINK,
    )
    last = [launcher, grouper, slabs, lanes, binding, cutter, step, ring]
    for module in last:
        module.depends.append(TRACEBACKS)
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
    return [*found, *cythonize(last, **shared)]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildCore, "build_py": BuildModules})
