"""The pages for users keep their word: their fences run, and the site can be built of them."""

import html
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

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


def test_the_way_back_to_pytorch_and_again_to_wend(tmp_path):
    """All fences of the page, those for PyTorch too."""
    pytest.importorskip("torch")
    page = (DOCS / "tutorial" / "leaving.md").read_text(encoding="utf-8")
    found = list(load(FENCES).fences(page))
    assert sum("needs PyTorch" in fence.reason for fence in found) == 3
    (tmp_path / "leaving.py").write_text("\n".join(fence.code for fence in found), "utf-8")
    assert run(tmp_path, "leaving.py") == (0, "")


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


def test_each_page_of_the_reference_has_a_topic(tmp_path):
    reference = load(DOCS / "make_reference.py")
    names = [*reference.modules(), "wend.Tensor"]
    pages = reference.subject_pages(names)
    listed = [re.findall(r"^   (wend[\w.]*)$", text, re.MULTILINE) for text in pages.values()]
    assert sorted(name for row in listed for name in row) == sorted(names)
    assert all(listed)
    assert listed[0][:2] == ["wend.Tensor", "wend"]  # most used first
    index = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^api/(\w+)$", index, re.MULTILINE) == [page[:-4] for page in pages]
    assert reference.subject_of("wend.autograd.profiler") == "seeing"
    with pytest.raises(ValueError, match="no place for other"):
        reference.subject_of("other")


def test_docstrings_become_text_as_it_stands():
    reference = load(DOCS / "make_reference.py")

    def op():
        """y = a * b_ of `x`s, and |x|.

        Prose that goes on
        in a second line, file:line.

        a: the first     b: the second
        """

    assert reference.body(op) == (
        "y = a \\* b\\_ of ``x``\\ s, and \\|x\\|.\n\n"
        "Prose that goes on in a second line, file\\:line.\n\n"
        "- ``a``: the first\n- ``b``: the second"
    )


def test_pages_of_modules_that_are_gone_go(tmp_path):
    (tmp_path / "wend.gone.rst").write_text("old\n")
    load(DOCS / "make_reference.py").write(tmp_path)
    assert not (tmp_path / "wend.gone.rst").exists()


# -- the site -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_site(tmp_path):
    """A single test, so that processes that share out tests build the site once."""
    site = built(tmp_path)
    assert_it_loads_nothing(site)
    assert_it_can_be_searched(site)
    assert sorted(set(broken_links(site))) == []
    assert_it_fits_a_phone(site)


def built(folder):
    """The folder of the built site, from a copy of its sources."""
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[docs]'")
    for name in SITE:  # a copy: the reference is written beside the pages
        if (ROOT / name).is_dir():
            skipped = shutil.ignore_patterns("api", "output", "__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, folder / name)
    status, said = run(folder, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "docs", "site")
    assert (status, said) == (0, "")
    return folder / "site"


def assert_it_loads_nothing(site):
    front = (site / "index.html").read_text(encoding="utf-8")
    for question in ("when-is-it-computed", "where-does-the-time-go"):
        assert f'id="{question}"' in front
    reference = (site / "reference/api/wend.html").read_text(encoding="utf-8")
    assert 'id="wend.tanh"' in reference
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        assert LOADED.findall(path.read_text(encoding="utf-8")) == [], path.name


def assert_it_can_be_searched(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("trie", "notebook", "why_slow", "softmax"):
        assert f'"{word}"' in index or f"{word}:" in index, word
    assert "search.html" in (site / "index.html").read_text(encoding="utf-8")


def broken_links(site):
    """Links of a site to pages, files and places that are not there; addresses that are none."""
    pages = {path.resolve(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    places = {
        path: set(re.findall(r'\b(?:id|name)="([^"]*)"', text)) for path, text in pages.items()
    }
    for path, text in pages.items():
        for link in re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', text):
            target, _, place = unquote(html.unescape(link)).partition("#")
            if re.match(r"[a-z]+:", target):
                if not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[\w./%~()+-]*)?", target):
                    yield path.name, link
                continue
            there = (path.parent / target).resolve() if target else path
            if not there.exists() or (place and place not in places.get(there, {place})):
                yield path.name, link


def test_broken_links_are_seen(tmp_path):
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>')
    good = ["b.html", "b.html#here", "#top", "https://wend.example/a", ""]
    bad = ["c.html", "b.html#there", "#bottom", "http://plain.example", "https://", "mailto:x"]
    text = '<p id="top">' + "".join(f'<a class="x" href="{link}">x</a>' for link in good + bad)
    (tmp_path / "a.html").write_text(text)
    assert sorted(broken_links(tmp_path)) == sorted(("a.html", link) for link in bad)


#: Elements of a page that stand out at the right, and in no box that scrolls.
TOO_WIDE = """
const found = [];
for (const element of document.querySelectorAll('article *')) {
  if (element.getBoundingClientRect().right <= innerWidth + 1) continue;
  let box = element;
  while (box && box.tagName !== 'ARTICLE'
         && !['auto', 'scroll', 'hidden'].includes(getComputedStyle(box).overflowX))
    box = box.parentElement;
  if (!box || box.tagName === 'ARTICLE') found.push(element.outerHTML.slice(0, 80));
}
return [document.documentElement.scrollWidth <= innerWidth, found.slice(0, 3)];
"""
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


def assert_it_fits_a_phone(site):
    """Skips the rest of the test where there is no browser."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install '.[browser]'")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        for path in sorted(site.rglob("*.html")):
            browser.get(path.as_uri())
            assert browser.execute_script(TOO_WIDE) == [True, []], path.relative_to(site)
    finally:
        browser.quit()
