"""The pages for users keep their word: their fences run, and the site can be built of them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCES = DOCS / "fences.py"
#: Pages with code that test_docs.py checks, or that include a page from elsewhere.
ELSEWHERE = {"architecture.md", "contributing.md", "changelog.md"}
PAGES = sorted(
    page
    for folder in (".", "tutorial", "howto", "explanation", "reference")
    for page in (DOCS / folder).glob("*.md")
    if page.name not in ELSEWHERE
)
WITH_CODE = [page for page in PAGES if re.search("^```py", page.read_text("utf-8"), re.MULTILINE)]
SITE = ("docs", "examples", "CONTRIBUTING.md", "CHANGELOG.md")
#: Addresses that a browser loads by itself: not the target of a link that somebody clicks.
LOADED = re.compile(r"""(?:\bsrc=|<link[^>]*href=|url\(|@import )["']?(?:https?:)?//[^"'>)]+""")


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # its dataclasses look there
    spec.loader.exec_module(module)
    return module


def by_name(page):
    return page.relative_to(DOCS).as_posix()


def run(folder, *command):
    """Run a command in a process of its own, with Wend as users have it; returns what it said."""
    environment = {**os.environ, "WEND_CACHE_DIR": str(folder / "cache")}
    for name in ("WEND_COMPILE", "WEND_EAGER", "WEND_VERIFY"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    return done.returncode, done.stdout + done.stderr


# -- fences ---------------------------------------------------------------------------------


@pytest.mark.parametrize("page", WITH_CODE, ids=by_name)
def test_fences_run(page, tmp_path):
    found = list(load(FENCES).fences(page.read_text(encoding="utf-8")))
    llvm = pytest.importorskip("wend._engine.compiler.llvm_ir.jit")
    if llvm.obstacle() is not None:
        pytest.skip("no machine code can be made here, which pages wait for")
    status, said = run(tmp_path, FENCES, page)
    assert status == 0, said
    assert f"{sum(not fence.reason for fence in found)} fences ran" in said


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_no_fence_is_overlooked(page):
    text = page.read_text(encoding="utf-8")
    told = re.findall(r"^\s*[`~]{3,}\s*\{?(?:code-block\}? )?py", text, re.MULTILINE)
    assert len(told) == len(list(load(FENCES).fences(text)))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", "page.md:2: 1 + 1"),
        ("```pycon\n>>> 1 / 0\n1\n```\n", "ZeroDivisionError"),
        ("```python\nx = 1\n", "the fence in line 1 is open"),
    ],
)
def test_a_wrong_fence_is_seen(text, fault, tmp_path):
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    status, said = run(tmp_path, FENCES, "page.md")
    assert status != 0
    assert fault in said


def test_fences_of_a_page_share_names_and_some_are_left_out(tmp_path):
    page = (
        "```python\nx = 1\n```\n```pycon\n>>> x + 1\n2\n>>> y = 3\n```\n"
        "<!-- not run: it needs another machine -->\n```python\nraise SystemExit\n```\n"
        "```text\n```python\n```\n"
        "```python\nassert x + y == 4\n```\n"
    )
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    assert run(tmp_path, FENCES, "page.md") == (0, "page.md: 3 fences ran\n")
    assert [fence.reason for fence in load(FENCES).fences(page)][2] == "it needs another machine"


def test_all_examples_are_on_their_page():
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    for example in (ROOT / "examples").glob("*.py"):
        assert f"examples/{example.name}" in text


# -- the reference --------------------------------------------------------------------------


def test_the_reference_has_all_public_names(tmp_path):
    reference = load(DOCS / "make_reference.py")
    pages = {page.stem: page.read_text(encoding="utf-8") for page in reference.write(tmp_path)}
    found = reference.modules()
    for name in ("wend", "wend.nn", "wend.nn.functional", "wend.optim", "wend.autograd"):
        assert name in found
    for name in ("wend.func", "wend.debug", "wend.utils.data", "wend.nested"):
        assert name in found
    for module, offered in found.items():
        for entry in offered:
            for name in entry.names:
                assert re.search(rf"^[ .].* {re.escape(name)}\b", pages[module], re.MULTILINE), name
    assert "max(input, dim, keepdim=False)" in pages["wend"]
    assert ".. py:method:: Tensor.backward(gradient=None" in pages["wend.Tensor"]
    assert ".. py:method:: load_state_dict(state_dict, strict=True" in pages["wend.nn"]
    assert pages["wend.nn"].count("py:method:: load_state_dict") == 1  # not for each layer again


def test_docstrings_become_text_as_it_stands():
    reference = load(DOCS / "make_reference.py")

    def op():
        """y = a * b_ of `x`s, and |x|.

        Prose that goes on
        in a second line.

        a: the first     b: the second
        """

    assert reference.body(op) == (
        "y = a \\* b\\_ of ``x``\\ s, and \\|x\\|.\n\n"
        "Prose that goes on in a second line.\n\n"
        "::\n\n    a: the first     b: the second"
    )


def test_pages_of_modules_that_are_gone_go(tmp_path):
    (tmp_path / "wend.gone.rst").write_text("old\n")
    load(DOCS / "make_reference.py").write(tmp_path)
    assert not (tmp_path / "wend.gone.rst").exists()


# -- the site -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing(tmp_path):
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[docs]'")
    for name in SITE:  # a copy: the reference is written beside the pages
        if (ROOT / name).is_dir():
            skipped = shutil.ignore_patterns("api", "output", "__pycache__")
            shutil.copytree(ROOT / name, tmp_path / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    status, said = run(tmp_path, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "docs", "site")
    assert (status, said) == (0, "")
    site = tmp_path / "site"
    front = (site / "index.html").read_text(encoding="utf-8")
    for question in ("when-is-it-computed", "where-does-the-time-go"):
        assert f'id="{question}"' in front
    reference = (site / "reference/api/wend.html").read_text(encoding="utf-8")
    assert 'id="wend.tanh"' in reference
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        assert LOADED.findall(path.read_text(encoding="utf-8")) == [], path.name
