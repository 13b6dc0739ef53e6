"""Modules that `import torch` alone makes attributes are attributes in Wend too."""

import importlib.util
import subprocess
import sys

import pytest

from wend._engine.base.lazy_modules import load_when_named

#: Prints each module of PyTorch's that can be named after `import torch`.
LIST = """
import sys, torch
for name in sorted(sys.modules):
    found = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if name.startswith("torch.") and found is sys.modules[name]:
        print(name)
"""
#: Prints each of the modules among the arguments that cannot be named after `import wend`.
NAME = """
import sys, wend
for name in sys.argv[1:]:
    found = wend
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if found is None:
        print(name)
"""


def lines_of(program, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout.split()


def is_here(name):
    """Whether Wend has a module of the same address."""
    try:
        return importlib.util.find_spec("wend" + name.removeprefix("torch")) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.slow
def test_modules_need_no_import_of_their_own():
    pytest.importorskip("torch")
    ours = [name for name in lines_of(LIST) if is_here(name)]
    assert {"torch.distributed.distributed_c10d", "torch.nn.attention"} <= set(ours)
    assert lines_of(NAME, *ours) == []


def test_a_module_loads_when_named(monkeypatch, tmp_path):
    package = tmp_path / "shelf"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "book.py").write_text("pages = 3")
    monkeypatch.syspath_prepend(str(tmp_path))
    shelf = importlib.import_module("shelf")
    try:
        load_when_named("shelf", "book")
        assert "shelf.book" not in sys.modules
        assert shelf.book.pages == 3 and sys.modules["shelf.book"] is shelf.book
        with pytest.raises(AttributeError, match="module 'shelf' has no attribute 'paper'"):
            _ = shelf.paper
    finally:
        for name in ("shelf", "shelf.book"):
            sys.modules.pop(name, None)
