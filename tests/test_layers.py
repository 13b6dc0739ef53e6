"""The walls of the house: who imports whom, and which libraries are named where.

base < core < ops < transforms < compiler < runtime < frontend < tools: the first six are the
engine (`wend._engine`), the last two `wend._frontend` and `wend._tools`. A module imports its own
layer or a lower one, imports inside functions included. The public packages (wend.nn, ...) count
as frontend; wend/__init__.py alone is exempt. Folders import each other in one direction.
"""

import ast
import fnmatch
import pkgutil
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import takewhile
from pathlib import Path

import pytest

from rooms import room_of, rooms
from wend._engine.base.modules import PRIVATE

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "wend"
LAYERS = ("base", "core", "ops", "transforms", "compiler", "runtime", "frontend", "tools")

# Which files may name a library; paths relative to the package. Nobody else may name torch.
ALLOWED = {
    "numpy": [
        "_engine/base/dtypes.py",
        "_engine/ops/*",
        "_engine/runtime/*",
        "_frontend/aliasing/*",
        "_frontend/interop/*",
        "_frontend/printing*",
        "_frontend/static/*",
        "onnx/*",
        "utils/data/*",
        "distributed/*",
        "utils/tensorboard/*",
        "serialization/*",
        "_tools/draws.py",  # numbers for Wend and PyTorch alike
    ],
    "llvmlite": ["_engine/compiler/llvm_ir/jit.py", "_engine/compiler/llvm_ir/spirv_server.py"],
    "ctypes": [
        "_engine/base/system.py",  # glibc's function for its heap
        "_engine/runtime/*",
        "_engine/compiler/llvm_ir/jit.py",
        "_engine/ops/linalg/lapack.py",
        "distributed/launcher/_guard.py",
        "_engine/transforms/exploring/counters.py",  # names of a function that is running
    ],
    "mpi4py": ["distributed/_mpi.py"],
    "scipy": [],  # asked for by `needed` of base/extras.py
    "threadpoolctl": ["_engine/runtime/compiled/threads.py"],
    # Of a run that Wend is compared with, and the demo's programs, which PyTorch runs too.
    "torch": ["_tools/journal.py", "_tools/demo/programs/*"],
}
ALLOWED["ml_dtypes"] = ALLOWED["numpy"]
MOST_MODULES = 25  # in one folder, its __init__.py included
# Heavy libraries load when first needed, never with `import wend`.
LAZY = (
    "greenlet",
    "llvmlite",
    "mpi4py",
    "onnx",
    "scipy",
    "sklearn",
    "tensorboardX",
    "threadpoolctl",
    "torch",
)


def module_name(path, package=PACKAGE):
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module):
    """Index of a module's layer; None for the package itself, which is exempt."""
    parts = module.split(".")
    if len(parts) == 1:
        return None
    if parts[1] in ("__main__", "_tools"):
        return LAYERS.index("tools")
    if parts[1] == "_engine":
        return LAYERS.index(parts[2]) if len(parts) > 2 else 0
    return LAYERS.index("frontend")


def is_type_checking(test):
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


class Imports(ast.NodeVisitor):
    """All imports of one module: (line, dotted name, whether only a type checker sees it)."""

    def __init__(self, module, is_package):
        self.module, self.is_package = module, is_package
        self.found = []
        self.typing = False

    def visit_If(self, node):
        before, self.typing = self.typing, self.typing or is_type_checking(node.test)
        for statement in node.body:
            self.visit(statement)
        self.typing = before
        for statement in node.orelse:
            self.visit(statement)

    def visit_Import(self, node):
        for alias in node.names:
            self.found.append((node.lineno, alias.name, self.typing))

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:
            parts = self.module.split(".")
            parts = parts[: len(parts) - node.level + self.is_package]
            base = ".".join([*parts, base] if base else parts)
        for alias in node.names:
            self.found.append((node.lineno, f"{base}.{alias.name}", self.typing))

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        first = node.args[0] if node.args else None
        if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
            self.found.append((node.lineno, str(first.value), self.typing))
        self.generic_visit(node)


def read_imports(package=PACKAGE):
    """{module: (path, imports)} of the whole package; names resolved to modules where they are."""
    paths = {module_name(path, package): path for path in sorted(package.rglob("*.py"))}
    graph = {}
    for module, path in paths.items():
        visitor = Imports(module, path.name == "__init__.py")
        visitor.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
        imports = []
        for line, name, typing in visitor.found:
            if name.split(".")[0] == package.name:
                while name not in paths and "." in name:
                    name = name.rpartition(".")[0]
            imports.append((line, name, typing))
        graph[module] = (path, imports)
    return graph


def upward_imports(graph):
    for module, (path, imports) in graph.items():
        own = layer_of(module)
        if own is None:
            continue
        for line, target, _ in imports:
            if target.split(".")[0] != "wend":
                continue
            layer = layer_of(target)
            if layer is None:
                layer = LAYERS.index("frontend")  # `import wend` is the whole public API
            if layer > own:
                yield f"{path.name}:{line}: {module} ({LAYERS[own]}) imports {target}"


def imports_between_rooms(graph):
    """Imports of a higher room of the same layer, and modules without a room."""
    for module, (path, imports) in graph.items():
        own = room_of(module)
        if own is None:
            continue
        if own[1] < 0:
            yield f"{module} is in no room: see ROOMS"
        for line, target, _ in imports:
            other = room_of(target) if target in graph else None
            if other is not None and other[0] == own[0] and other[1] > own[1]:
                yield f"{path.name}:{line}: {module} ({own[2]}) imports {target} ({other[2]})"


def cycles(graph):
    """Cycles between modules, `if TYPE_CHECKING` and the package's own __init__ aside."""
    edges = {
        module: [
            t for _, t, typing in imports if t in graph and t not in ("wend", module) and not typing
        ]
        for module, (_, imports) in graph.items()
        if module != "wend"
    }
    done, path = set(), []

    def walk(module):
        if module in path:
            yield " -> ".join([*path[path.index(module) :], module])
            return
        if module in done:
            return
        path.append(module)
        for target in edges[module]:
            yield from walk(target)
        path.pop()
        done.add(module)

    for module in edges:
        yield from walk(module)


def circles_of_folders(graph):
    """Circles among the children of a package in which a folder takes part, type imports included.

    Modules that lie side by side in one folder may know each other's types.
    """
    edges = defaultdict(set)
    folders = {module.rpartition(".")[0] for module in graph}
    for module, (_, imports) in graph.items():
        for _, target, _ in imports:
            if target not in graph or "wend" in (module, target):
                continue
            own, other = module.split("."), target.split(".")
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(own, other)))
            if same < min(len(own), len(other)):
                edges[".".join(own[: same + 1])].add(".".join(other[: same + 1]))
    for child in sorted(folders & edges.keys()):
        seen, todo = set(), [child]
        while todo:
            for target in edges[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        if child in seen:
            yield child


def sizes_of_folders(package=PACKAGE):
    """{folder: how many modules lie directly in it}."""
    return Counter(path.parent.relative_to(package).as_posix() for path in package.rglob("*.py"))


def forbidden_libraries(graph, package=PACKAGE):
    for path, imports in graph.values():
        relative = path.relative_to(package).as_posix()
        for line, target, _ in imports:
            patterns = ALLOWED.get(target.split(".")[0])
            if patterns is not None and not any(fnmatch.fnmatch(relative, p) for p in patterns):
                yield f"{relative}:{line} imports {target}, which only {patterns} may"


@pytest.fixture(scope="module")
def graph():
    return read_imports()


def test_every_layer_is_there(graph):
    assert {layer_of(module) for module in graph} == {None, *range(len(LAYERS))}


def test_imports_point_down(graph):
    assert list(upward_imports(graph)) == []


def test_imports_between_rooms_point_down(graph):
    assert list(imports_between_rooms(graph)) == []


def test_every_room_is_there(graph):
    found = {room_of(module)[::2] for module in graph if room_of(module)}
    assert found == {(layer, room) for layer, order in rooms().items() for room in order}


def test_no_cycles(graph):
    assert list(cycles(graph)) == []


def test_folders_import_each_other_in_one_direction(graph):
    assert list(circles_of_folders(graph)) == []


def test_a_folder_has_at_most_25_modules():
    sizes = sizes_of_folders()
    assert len(sizes) > 40
    assert {folder: n for folder, n in sizes.items() if n > MOST_MODULES} == {}


#: Public modules of Wend's own, beside PyTorch's.
OWN_MODULES = {"__main__", "aot", "debug", "errors", "xp"}


def test_the_package_holds_pytorchs_names_and_few_of_its_own():
    """A private package is for the rest: a name of the engine's might be PyTorch's one day."""
    torch = pytest.importorskip("torch")
    modules = {found.name for found in pkgutil.iter_modules([str(PACKAGE)])}
    theirs = {found.name for found in pkgutil.iter_modules(torch.__path__)}
    assert {n for n in modules - theirs if not hasattr(torch, n)} == {*OWN_MODULES, *PRIVATE}


def test_libraries_are_named_where_they_may_be(graph):
    assert list(forbidden_libraries(graph)) == []


def test_import_loads_no_heavy_library():
    code = f"import wend, sys; print([name for name in {LAZY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


# --- the checks themselves are checked -----------------------------------------


def made_package(folder, files):
    package = folder / "wend"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for parent in path.relative_to(package).parents:
            (package / parent / "__init__.py").touch()
    return read_imports(package), package


@pytest.mark.parametrize(
    "text",
    [
        "import wend._engine.ops.math",
        "from wend._engine.ops import math",
        "from wend._engine.ops.math import sin",
        "from ..ops import math",
        "def f():\n    from wend._engine.ops.math import sin",
        "import importlib\nimportlib.import_module('wend._engine.ops.math')",
        "import wend",
        "from wend.nn import Linear",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import wend._engine.ops.math",
    ],
)
def test_an_upward_import_is_seen(tmp_path, text):
    files = {"_engine/core/low.py": text, "_engine/ops/math.py": "", "nn/__init__.py": ""}
    graph, _ = made_package(tmp_path, files)
    assert len(list(upward_imports(graph))) == 1


def test_an_import_of_a_higher_room_is_seen(tmp_path):
    """Also where only a type checker sees it; and a module in no room."""
    kernels = "wend._engine.compiler.kernels"
    text = f"import typing\nif typing.TYPE_CHECKING:\n    from {kernels} import scan"
    files = {
        "_engine/compiler/ir/loops.py": text,
        "_engine/compiler/kernels/scan.py": f"from {kernels}.matmul import matmul",
        "_engine/compiler/kernels/matmul/matmul.py": f"from {kernels}.scan import x",
        "_engine/compiler/stray.py": "",
    }
    graph, _ = made_package(tmp_path, files)
    assert [found.partition(" ")[0] for found in imports_between_rooms(graph)] == [
        "loops.py:3:",
        "matmul.py:1:",
        "wend._engine.compiler.stray",
    ]


def test_a_downward_import_is_fine(tmp_path):
    files = {
        "_engine/base/a.py": "",
        "_engine/core/b.py": "from wend._engine.base import a\nfrom . import c",
        "_engine/core/c.py": "import numpy",
        "nn/__init__.py": "import wend\nfrom wend._frontend.nn import x",
        "_frontend/nn.py": "from wend._engine.core.b import y",
        "_tools/d.py": "import wend.nn",
        "__init__.py": "import wend._tools.d",
    }
    graph, package = made_package(tmp_path, files)
    assert list(upward_imports(graph)) == [] == list(cycles(graph))
    assert len(list(forbidden_libraries(graph, package))) == 1


def test_a_cycle_is_seen(tmp_path):
    files = {
        "_engine/core/a.py": "from wend._engine.core import b",
        "_engine/core/b.py": "def f():\n    from wend._engine.core.c import x",
        "_engine/core/c.py": "import wend._engine.core.a",
    }
    graph, _ = made_package(tmp_path, files)
    assert list(cycles(graph)) == [
        "wend._engine.core.a -> wend._engine.core.b -> wend._engine.core.c -> wend._engine.core.a"
    ]
    files["_engine/core/c.py"] = "if TYPE_CHECKING:\n    import wend._engine.core.a"
    assert list(cycles(made_package(tmp_path, files)[0])) == []


def test_a_circle_of_folders_is_seen(tmp_path):
    """Also between a folder and a module beside it, and where only a type checker sees it."""
    files = {
        "_engine/core/a/x.py": "import wend._engine.core.b",
        "_engine/core/b.py": "if TYPE_CHECKING:\n    from wend._engine.core.a.y import z",
        "_engine/core/a/y.py": "",
        "_engine/core/c.py": "import wend._engine.core.d",
        "_engine/core/d.py": "import wend._engine.core.c",
    }
    graph, package = made_package(tmp_path, files)
    assert list(circles_of_folders(graph)) == ["wend._engine.core.a"]
    assert sizes_of_folders(package)["_engine/core/a"] == 3


# --- nothing of one machine in the project ---------------------------------------

HERE_ONLY = re.compile(r"(?<![\w./~$}-])/(?:home|root|work|tmp|Users|mnt)/\w")


def project_files():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [ROOT / name for name in listed.stdout.splitlines()]
    # Not a checkout (an unpacked archive): everything but what tools leave behind.
    skipped = {"build", "dist", "__pycache__"}
    return [
        path
        for path in ROOT.rglob("*")
        if not any(
            part in skipped or part.endswith(("env", "_cache", ".egg-info", ".hypothesis"))
            for part in path.relative_to(ROOT).parts
        )
    ]


def test_no_file_names_a_path_of_one_machine():
    found = []
    for path in project_files():
        if not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if HERE_ONLY.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize("folder", ["home", "work", "tmp", "root", "Users"])
def test_such_a_path_is_seen(folder):
    assert HERE_ONLY.search(f'open("/{folder}/me/x")')
    assert not HERE_ONLY.search(f"docs/{folder}/me") and not HERE_ONLY.search(f"$X/{folder}/me")


def test_files_with_smoke_tests_do_not_load_pytorch():
    """Loading it takes longer than all smoke tests: those of such a part are in a test_smoke.py."""
    loading = re.compile(
        r"^(torch = |import torch|from torch|try:\n    import torch)"
        r"|^(import|from) (hypothesis|onnx|onnxruntime|scipy|sklearn|llvmlite)\b|, frameworks\(\)",
        re.M,
    )
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "mark.smoke" in path.read_text()
    ]
    assert len(files) > 15
    assert [str(path) for path in files if loading.search(path.read_text())] == []


def modules_of_several_folders(tests):
    """Modules that tests import by a bare name, where two folders mean different files by it."""
    meant = defaultdict(set)
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                file = path.parent / f"{name}.py"
                if file.is_file() and path.parent != tests:
                    meant[name].add(str(file.relative_to(tests)))
    return {name: files for name, files in meant.items() if len(files) > 1}


def test_no_two_folders_of_tests_import_modules_of_one_name():
    """In one process of pytest, the second folder would be handed the module of the first."""
    assert modules_of_several_folders(ROOT / "tests") == {}


def test_modules_of_one_name_are_seen(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "made.py").write_text("")
        (tmp_path / folder / "test_it.py").write_text("from made import x")
    assert modules_of_several_folders(tmp_path) == {"made": {"a/made.py", "b/made.py"}}
    (tmp_path / "b" / "test_it.py").write_text("from b.made import x")
    assert modules_of_several_folders(tmp_path) == {}
