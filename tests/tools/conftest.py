"""A small package that stands in for Wend, so that the alias is tested by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wend

# Where this process found Wend: a child elsewhere must find the same one.
SOURCE = Path(wend.__path__[0]).resolve().parent

FILES = {
    "shop/__init__.py": (
        "import shop._engine.core\nfrom shop import nn\nfrom shop.version import __version__\n"
        "class Tensor: pass\n"
        "def zeros(n): return [0] * n\n"
        "def __getattr__(name):\n"
        "    if name == 'late': return 'late value'\n"
        "    if name == 'announced':\n"
        "        import importlib\n"
        "        return importlib.import_module('shop.' + name)\n"
        "    raise AttributeError(name)\n"
    ),
    "shop/version.py": "__version__ = '0.5'\ncuda = None\n",
    "shop/nn/__init__.py": "from shop.nn.linear import Linear\n",
    "shop/nn/linear.py": "class Linear: pass\n",
    "shop/nn/functional.py": "def gelu(x): return x\ndef relu(x): return x\n",
    "shop/utils/__init__.py": "",
    "shop/utils/data.py": "class DataLoader: pass\nclass Dataset: pass\n",
    "shop/_engine/__init__.py": "",
    "shop/_engine/core/__init__.py": "from shop._engine import ops\n",
    "shop/_engine/ops.py": "x = 3\n",
    "shop/ops.py": "aten = 4\n",
    "shop/broken.py": "import a_module_that_nobody_has\n",
    "shop/faulty.py": "1 / 0\n",
}


def run_python(*arguments, cwd=None, path=(), check=True, env=None):
    """Run Python with Wend importable; returns the finished process (text)."""
    search = os.pathsep.join(map(str, [*path, SOURCE]))
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": search, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def python():
    return run_python


@pytest.fixture
def shop(tmp_path):
    """A function that runs a program with `torch` served by the package `shop`."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(program, check=True):
        script = tmp_path / "program.py"
        script.write_text(program)
        start = (
            "import sys; from wend._tools import alias, launch; alias.install('shop'); "
            f"sys.exit(launch.run_script({str(script)!r}, []))"
        )
        return run_python("-c", start, cwd=tmp_path, path=[tmp_path], check=check)

    return run
