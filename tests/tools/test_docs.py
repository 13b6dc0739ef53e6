"""The pages for maintainers keep their word: examples print what they say, files are there."""

import ast
import doctest
import re
from pathlib import Path

import pytest

import wend
from rooms import rooms
from tries import own_trie

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "wend"
DOCS = ROOT / "docs"
ARCHITECTURE = DOCS / "architecture.md"
INTERNALS = sorted((DOCS / "internals").glob("*.md"))
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
# 001 lists handlers in a table of its own, which tests/base/test_swallowed.py checks.
PAGES = [ARCHITECTURE, *INTERNALS, *DECISIONS[1:]]
# Pages for users whose prose is held to the same rules; test_site.py runs them.
FOR_USERS = sorted(
    page for folder in ("tutorial", "howto", "explanation") for page in (DOCS / folder).glob("*.md")
)
PROSE = [*PAGES, DOCS / "index.md", *FOR_USERS, DOCS / "examples.md", DOCS / "maintainers.md"]

FILE = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*[\w.-]+\.(?:py|pxd|h|txt|md))(?![\w/])")
FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
WORD = re.compile(r"\w[\w'./%-]*")
MOST_IN_A_SENTENCE = 25


def read(page):
    return page.read_text(encoding="utf-8")


def by_name(page):
    return page.relative_to(DOCS).as_posix()


def n_words(text):
    return len(WORD.findall(text))


def rows(text, heading):
    """The cells of the table whose first heading is `heading`."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {heading} |"):
            next(lines)
            found = []
            for row in lines:
                if not row.startswith("|"):
                    return found
                found.append([cell.strip() for cell in row.strip("|").split(" | ")])
    raise AssertionError(f"no table begins with {heading}")


def missing_files(text, *folders):
    """Names in a text of files and folders that are not in the engine, the package, the project."""
    places = (PACKAGE / "_engine", PACKAGE, ROOT, *folders)
    named = {found[1] for found in (*FILE.finditer(text), *FOLDER.finditer(text))}
    named |= {found[1] for found in LINK.finditer(text)}
    return sorted(name for name in named if not any((place / name).exists() for place in places))


def sentences(text):
    """Sentences of prose: no code blocks, tables or headings; code in the line is one word."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^[|#].*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    for paragraph in re.split(r"\n\s*\n|^- ", text, flags=re.MULTILINE):
        for sentence in re.split(r"(?<=[.:?!;])\s+", " ".join(paragraph.split())):
            if sentence:
                yield sentence.lstrip("*-( ")


def faults_of_prose(text):
    for sentence in sentences(text):
        if n_words(sentence) > MOST_IN_A_SENTENCE:
            yield f"{n_words(sentence)} words: {sentence}"
        if re.match(r"(What|Of|That)\b", sentence):
            yield f"begins with a pronoun or a preposition: {sentence}"


# -- examples -------------------------------------------------------------------------------


def test_the_architecture_prints_what_it_says():
    llvm = pytest.importorskip("wend._engine.compiler.llvm_ir.jit")
    if llvm.obstacle() is not None:
        pytest.skip("no machine code can be made here")
    with own_trie(), wend.eager(False):
        failed, tried = doctest.testfile(str(ARCHITECTURE), module_relative=False)
    assert tried > 15
    assert failed == 0


# -- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_files_are_where_the_pages_say(page):
    assert missing_files(read(page), page.parent) == []


def test_rooms_are_those_of_the_layers_test():
    text = read(ARCHITECTURE)
    for layer, order in rooms().items():
        assert [row[0].strip("`") for row in rows(text, f"{layer} room")] == order


CORE_SETTERS = ("set_slot", "install")


def slots_filled(path, setters=(*CORE_SETTERS, "fill")):
    """Names of the slots that a module fills: those of the core, the launcher and the grouper."""
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            owner = getattr(getattr(node.func, "value", None), "id", "")
            first = getattr(node.args[0], "value", None) if node.args else None
            is_setter = name in setters and (
                name in CORE_SETTERS or owner in ("launcher", "_launch")
            )
            if is_setter and isinstance(first, str):
                yield first
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
            if getattr(target, "id", "") == "_SLOTS":
                yield from (key.value for key in node.value.keys)
            elif "fill" in setters and getattr(getattr(target, "value", None), "attr", "") == "ASK":
                yield target.slice.value


def test_slots_are_those_of_the_sources():
    """Prints the table as it should be where it differs; purposes are written by hand."""
    told = {row[0].strip("`"): row for row in rows(read(ARCHITECTURE), "filled by")}
    lines = []
    for path in PACKAGE.rglob("*.py"):
        names = ", ".join(sorted(set(slots_filled(path))))
        if names:
            module = path.relative_to(PACKAGE).as_posix().removeprefix("_engine/")
            lines.append([f"`{module}`", names, told.get(module, ("", "", "?"))[2]])
    lines.sort()
    print("\n".join(f"| {' | '.join(row)} |" for row in lines))
    assert list(told.values()) == lines
    assert all(purpose not in ("", "?") for *_, purpose in lines)


def test_each_slot_of_the_core_is_a_field_with_its_arguments_and_is_filled():
    text = read(PACKAGE / "_engine" / "core" / "_types.py")
    fields = re.findall(r"^        self\.(\w+) = None  # \S", text, flags=re.M)
    declared = next(
        [n.attr for n in ast.walk(c) if isinstance(n, ast.Attribute)]
        for c in ast.parse(text).body
        if isinstance(c, ast.ClassDef) and c.name == "CoreSlots"
    )
    filled = {name for path in PACKAGE.rglob("*.py") for name in slots_filled(path, CORE_SETTERS)}
    assert sorted(declared) == sorted(filled)
    assert set(declared) <= set(fields)


# -- size and prose -------------------------------------------------------------------------


def test_the_architecture_is_short():
    assert n_words(read(ARCHITECTURE)) <= 3000


@pytest.mark.parametrize("page", INTERNALS, ids=by_name)
def test_a_page_about_one_part_is_short(page):
    assert n_words(read(page)) <= 800


@pytest.mark.parametrize("page", PROSE, ids=by_name)
def test_sentences_are_short(page):
    assert list(faults_of_prose(read(page))) == []


def test_internals_and_decisions_are_linked():
    text = read(DOCS / "internals" / "README.md")
    for page in INTERNALS:
        assert page.name == "README.md" or f"({page.name})" in text
    text = read(DOCS / "decisions" / "README.md")
    for page in DECISIONS:
        assert page.name == "README.md" or f"({page.name})" in text


# -- the checks themselves are checked ------------------------------------------------------


def test_a_missing_file_is_seen():
    text = "`core/_hot.py`, `gone/away.py`, `ops/`, `nowhere/`, [x](architecture.md), [y](no.md)"
    assert missing_files(text, DOCS) == ["gone/away.py", "no.md", "nowhere/"]


def test_bad_prose_is_seen():
    long = " ".join(["word"] * 26)
    assert len(list(faults_of_prose(f"{long}. What is pending waits. Fine: short."))) == 2
    assert list(faults_of_prose(f"| {long} |\n```text\n{long}\n```\nA `What is` word.")) == []
