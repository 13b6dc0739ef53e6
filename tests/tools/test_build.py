"""Building: the compiled core, none, and none to be had."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from wend._engine.core._select import PARTS, PlainLoader

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("Cython")
pytest.importorskip("setuptools")


@pytest.fixture
def build(tmp_path):
    """A function that builds a copy of the project whose compiled modules are one line long."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "wend"
    core = package / "_engine" / "core"
    core.mkdir(parents=True)
    runtime = core.parent / "runtime"
    names = ("native", "batching", "fibers", "parts", "numpy_executor", "devices")
    rooms = native, batching, fibers, parts, executor, devices = [runtime / n for n in names]
    for folder in (runtime, *rooms):
        folder.mkdir()
    for folder in (package, core.parent, core, runtime, *rooms):
        (folder / "__init__.py").touch()
    shutil.copy(ROOT / "src" / "wend" / "version.py", package)
    for part in PARTS:
        (core / f"{part}.py").write_text("x = 3\n")
        (core / f"{part}.pxd").touch()
    shutil.copy(ROOT / "src" / "wend" / "_engine" / "core" / "tracebacks.h", core)
    (native / "_launch.py").write_text("x = 4\n")
    (native / "_launch.pxd").touch()
    (native / "_launch_shim.h").touch()
    (native / "_arrays.h").touch()
    (native / "_blocks.h").touch()
    (native / "_huge_pages.h").touch()
    (native / "_pool.h").touch()
    (batching / "_grouper.py").write_text("x = 5\n")
    (batching / "_grouper.pxd").touch()
    (batching / "_grouper_shim.h").touch()
    (batching / "_slabs.py").write_text("x = 6\n")
    (batching / "_slabs.pxd").touch()
    (batching / "_slabs_shim.h").touch()
    (fibers / "_lanes.py").write_text("x = 8\n")
    (fibers / "_lanes.pxd").touch()
    (parts / "_cutter.py").write_text("x = 9\n")
    (parts / "_cutter.pxd").touch()
    (devices / "_ring.py").write_text("x = 11\n")
    (devices / "_ring.pxd").touch()
    (devices / "_ring_shim.h").touch()
    (executor / "_step.py").write_text("x = 10\n")
    (executor / "_step.pxd").touch()
    (executor / "_step_shim.h").touch()
    (native / "_bind.py").write_text("x = 7\n")
    (native / "_bind.pxd").touch()

    def run(*command, **environment):
        return subprocess.run(
            [sys.executable, "setup.py", "-q", *(command or ("build_ext", "--inplace"))],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        ), sorted(
            path.name
            for folder in (core, *rooms)
            for path in folder.iterdir()
            if path.suffix in (".so", ".c")
        )

    return run


def test_without_a_compiler_the_remedy_is_named(build):
    done, built = build(CC="no-such-compiler", WEND_PURE="")
    assert done.returncode != 0 and built == []
    assert "Wend's hot core could not be compiled." in done.stderr
    assert "no-such-compiler" in done.stderr
    assert "  WEND_PURE=1 pip install .\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_core_can_be_left_uncompiled(build):
    done, built = build(CC="no-such-compiler", WEND_PURE="1")
    assert (done.returncode, built) == (0, []), done.stderr


def test_a_compiled_core_leaves_no_c_beside_the_sources(build):
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler")
    done, built = build(WEND_PURE="")
    assert done.returncode == 0, done.stderr
    assert [name.endswith(".so") for name in built] == [True] * (len(PARTS) + 8)


@pytest.mark.parametrize(("pure", "ending"), [("", ".plain"), ("1", ".py")])
def test_installers_find_no_python_beside_a_compiled_module(build, tmp_path, pure, ending):
    """They would make bytecode of it; an uncompiled core reads the source all the same."""
    done, _ = build("build_py", "--build-lib", str(tmp_path / "out"), WEND_PURE=pure)
    assert done.returncode == 0, done.stderr
    found = [path for path in (tmp_path / "out").rglob("_[!_]*.*") if path.suffix != ".pxd"]
    copied = {path.stem: path.suffix for path in found}
    runtime = "_launch", "_grouper", "_slabs", "_lanes", "_bind", "_cutter", "_step", "_ring"
    copies = [*PARTS, *runtime]
    assert copied == dict.fromkeys(copies, ending)
    for path in found:
        loader = PlainLoader(path.stem, str(path.with_suffix(".py")))
        source = tmp_path / "src" / path.relative_to(tmp_path / "out").with_suffix(".py")
        assert loader.get_source(path.stem) == source.read_text()
