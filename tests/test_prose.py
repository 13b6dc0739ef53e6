"""Docstrings, comments and pages are plain: few pronouns, short sentences, nouns as subjects."""

import ast
import functools
import io
import math
import re
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "wend"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")]
SMALL = 1000  # words; smaller packages are counted together

WORDS = {"what": "what", "it": "it|its|they|their|them", "one": "one|others?"}
LONGEST = 25  # words of a sentence in a docstring: "long" counts longer sentences
START = re.compile(r"(What|Of|That)\b")  # "start" counts sentences that begin so
#: Per 1 000 words: the larger rate of JAX 0.10.2 and Equinox 0.13.8, measured in the same way.
MOST = {"what": 0.6, "it": 12.0, "one": 3.0, "long": 0, "start": 0}

WORD = re.compile(r"[A-Za-z][\w'-]*")
CODE = re.compile(r"``[^`]*``|`[^`]*`")
EXAMPLE = re.compile(r"^\s*>>>.*?(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
OPERAND = re.compile(r"(?<=[-+*/|&^@=<>(])\s?other\b(?! \w)|\bother(?=\s?[-+*/|&^@=<>\[)])")
BREAK = re.compile(r"\n\s*\n|\s{3,}|\n\s*(?=- |Raises |[\w*]+(?:, [\w*]+)*: )")
DIRECTIVE = re.compile(r"(noqa|type:|fmt:|pragma|cython:|ruff:|!)")


def docstrings(source):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(n) for n in ast.walk(ast.parse(source)) if isinstance(n, kinds)]
    return [text for text in texts if text]


def comments(source):
    """Comments; lines of comments alone that follow each other at an indent are a single text."""
    found, end = [], None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("#: ")
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(text):
            row, column = token.start
            if end == (row, column):
                found[-1] += f"\n{text}"
            else:
                found.append(text)
            end = (row + 1, column) if token.line.lstrip().startswith("#") else None
    return found


def faults(text, is_docstring=False):
    """Counts of words and of faults in a text."""
    text = OPERAND.sub(" x", CODE.sub("code", EXAMPLE.sub("\n\n", text)))
    found = Counter(words=len(WORD.findall(text)))
    for kind, words in WORDS.items():
        found[kind] = len(re.findall(rf"\b(?:{words})\b", text, re.IGNORECASE))
    for part in BREAK.split(text):
        for sentence in re.split(r"(?<=[.:?!;])\s+", " ".join(part.split())):
            found["start"] += START.match(sentence) is not None
            found["long"] += is_docstring and len(WORD.findall(sentence)) > LONGEST
    return found


def prose_of(page):
    """The text of a page: no blocks of code, headings, tables or pictures; no marks of lists."""
    text = re.sub(r"^```.*?^```|^<!--.*?-->", "", page, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^\s*(?:[|#!:].*)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE).replace("*", "")


def package_of(path):
    """The package that a module counts to: of the engine, the layer."""
    parts = path.relative_to(PACKAGE).parts
    return parts[1] if parts[0] == "_engine" and len(parts) > 1 else parts[0]


@functools.cache
def packages():
    """{package or folder of pages: {kind of fault: words per 1 000, rounded up, or sentences}}."""
    found = defaultdict(Counter)
    for path in sorted(PACKAGE.rglob("*.py")):
        source, package = path.read_text(encoding="utf-8"), package_of(path)
        for text in docstrings(source):
            found[package].update(faults(text, True))
        for text in comments(source):
            found[package].update(faults(text))
    for path in sorted(PAGES):
        if "api" not in path.parts:  # made from docstrings
            folder = path.relative_to(ROOT).parent.as_posix()
            found[f"{folder}/*.md"].update(faults(prose_of(path.read_text(encoding="utf-8")), True))
    for name in [name for name, counts in found.items() if counts["words"] < SMALL]:
        found["small packages"].update(found.pop(name))
    for counts in found.values():
        for kind in WORDS:
            counts[kind] = math.ceil(10_000 * counts[kind] / counts["words"]) / 10
    return found


@pytest.mark.parametrize("kind", MOST)
def test_prose_is_plain(kind):
    assert len(packages()) > 8  # the tree was read
    assert {name: n[kind] for name, n in packages().items() if n[kind] > MOST[kind]} == {}


def test_bad_prose_is_seen():
    text = f"What it is. That one.\n\n{'word ' * 26}. `what` y = input + other"
    assert faults(text, True) == Counter(what=1, it=1, one=1, start=2, long=1, words=35)
    assert comments("x = 1  # a\n# b\n# c\n# noqa\n") == ["a", "b\nc"]
