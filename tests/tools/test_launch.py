"""`wend run` against `python` itself: what the program sees, and what is printed when it fails."""

import signal
import textwrap
import zipfile

import pytest

LOOK = """
import sys, os
print(sys.argv)
print(sys.path[0])
print(__name__, __file__, __spec__ if __spec__ is None else __spec__.name, __package__)
print(sorted(name for name in globals()), type(__builtins__).__name__, __annotations__)
print(sys.modules["__main__"].__dict__ is globals(), type(__loader__).__name__, __doc__)
x: "not evaluated" = 1
print(__annotations__)
class A: pass
import pickle
print(pickle.loads(pickle.dumps(A())).__class__ is A)
"""


def both(python, folder, *arguments, **keywords):
    """What `python ARGS` and `wend run ARGS` did."""
    plain = python(*arguments, cwd=folder, check=False, **keywords)
    ours = python("-m", "wend", "run", *arguments, cwd=folder, check=False, **keywords)
    return plain, ours


def assert_same(pair):
    plain, ours = pair
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr
    assert ours.returncode == plain.returncode


@pytest.fixture
def write(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return name

    return write


def test_a_script_sees_what_it_sees_under_python(python, tmp_path, write):
    write(LOOK, "inner/program.py")
    assert_same(both(python, tmp_path, "inner/program.py", "--flag", "-m", "x y"))


def test_a_linked_script_finds_its_neighbours(python, tmp_path, write):
    write("print('neighbour')", "inner/neighbour.py")
    write("import neighbour, sys; print(__file__, sys.argv)", "inner/program.py")
    (tmp_path / "link.py").symlink_to(tmp_path / "inner" / "program.py")
    assert_same(both(python, tmp_path, "link.py"))


def test_a_module_sees_what_it_sees_under_python(python, tmp_path, write):
    write("", "package/__init__.py")
    write(LOOK + "from . import sibling", "package/program.py")
    write("print('sibling')", "package/sibling.py")
    write(LOOK, "package/__main__.py")
    assert_same(both(python, tmp_path, "-m", "package.program", "a", "-b"))
    assert_same(both(python, tmp_path, "-m", "package", "a"))


def test_a_missing_module(python, tmp_path):
    plain, ours = both(python, tmp_path, "-m", "no_such_module")
    assert ours.returncode == plain.returncode == 1
    assert ours.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]


def test_folders_and_archives(python, tmp_path, write):
    write(LOOK, "folder/__main__.py")
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
        archive.write(tmp_path / "folder" / "__main__.py", "__main__.py")
    assert_same(both(python, tmp_path, "folder", "a"))
    assert_same(both(python, tmp_path, "program.zip", "a"))


ENDS = {
    "fails": "def f(x):\n    return 1 / x\nprint('before')\nf(0)",
    "chained": "try:\n    {}[1]\nexcept KeyError as e:\n    raise ValueError('no') from e",
    "syntax": "x = (1,\nprint(",
    "status": "import sys; sys.exit(3)",
    "message": "raise SystemExit('the end')",
    "import": "import no_such_module_anywhere",
    "hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno)\n1 / 0",
    "atexit": "import atexit\natexit.register(print, 'last')\n1 / 0",
    "thread": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread done'))).start()\n1 / 0"
    ),
    "group": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "interrupted": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_as_under_python(python, tmp_path, write, name):
    pair = both(python, tmp_path, write(ENDS[name]))
    assert_same(pair)
    if name == "interrupted":
        assert pair[1].returncode == -signal.SIGINT


def test_a_missing_script(python, tmp_path):
    done = python("-m", "wend", "run", "nothing.py", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "can't open file" in done.stderr and "nothing.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_part_is_named_with_the_users_line_only(python, tmp_path, write):
    script = write("import torch\ntorch.versoin\n")
    done = python("-m", "wend", "run", script, cwd=tmp_path, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert [line for line in lines if line.startswith("  File")] == [
        f'  File "{tmp_path / script}", line 2, in <module>'
    ]
    assert lines[-1].startswith("wend.errors.NotAvailable: torch.versoin: not part of Wend")
    assert "near: torch.version" in lines[-1]


def test_a_missing_import_is_named_with_the_users_line_only(python, tmp_path, write):
    script = write("def f():\n    from torch.spam import x\nf()\n")
    done = python("-m", "wend", "run", script, cwd=tmp_path, check=False)
    assert done.stderr.count("  File") == 2
    assert "ModuleNotAvailable: torch.spam: not part of Wend" in done.stderr.splitlines()[-1]


def test_a_missing_method_is_noted(python, tmp_path, write):
    script = write("import torch\ntorch.device('cpu').tipe\n")
    done = python("-m", "wend", "run", script, cwd=tmp_path, check=False)
    if "torch.device: not part" in done.stderr:
        pytest.skip("the front end has no device yet")
    assert "torch.device.tipe: not part of Wend" in done.stderr
    assert "near: torch.device.type" in done.stderr
    script = write("import torch\nclass M(torch.Tensor): pass\nM([1.0]).expandas(3)\n")
    done = python("-m", "wend", "run", script, cwd=tmp_path, check=False)
    assert "torch.Tensor.expandas: not part of Wend" in done.stderr
    assert "near: torch.Tensor.expand_as" in done.stderr


def test_safe_path_is_honoured(python, tmp_path, write):
    script = write("import sys; print(sys.path[:2])")
    plain = python("-P", script, cwd=tmp_path)
    ours = python("-P", "-m", "wend", "run", script, cwd=tmp_path)
    assert ours.stdout == plain.stdout
