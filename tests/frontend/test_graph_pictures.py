"""Static pictures and DOT: well-formed, folded, without overlaps, hostile texts as texts."""

import random
import re
import shutil
import subprocess
from xml.etree import ElementTree

import pytest
from tests.frontend.graphs_to_see import GRAPHS, HOSTILE, hostile, transformer

from wend._frontend.seeing.dot import dot_of, quoted
from wend._frontend.seeing.shelves import layered
from wend._frontend.seeing.svg import svg_of

SVG = "{http://www.w3.org/2000/svg}"


def rectangles(svg):
    """x, y, width and height of each box and each frame."""
    root = ElementTree.fromstring(svg)
    found = {"box": [], "frame": []}
    for group in root.iter(f"{SVG}g"):
        found["box"].append(group.findall(f"{SVG}rect")[-1])
    found["frame"] = [x for x in root.iter(f"{SVG}rect") if x.get("class") == "frame"]
    return {
        kind: [tuple(float(x.get(k)) for k in ("x", "y", "width", "height")) for x in all_of]
        for kind, all_of in found.items()
    }


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("most", [20, 60, 300])
def test_a_picture_has_no_overlaps(name, most):
    found = rectangles(svg_of(GRAPHS[name](), most))
    boxes = found["box"]
    assert (len(boxes) > 0) == (name != "empty")
    assert len(boxes) <= max(most, 60)
    for place, (x, y, w, h) in enumerate(boxes):
        for u, v, s, t in boxes[:place]:
            assert x + w <= u + 0.2 or u + s <= x + 0.2 or y + h <= v + 0.2 or v + t <= y + 0.2
        for u, v, s, t in found["frame"]:  # in a frame, or outside
            inside = u <= x and x + w <= u + s and v <= y and y + h <= v + t
            assert inside or x + w <= u or u + s <= x or y + h <= v or v + t <= y


def test_a_picture_shows_the_repeat_and_the_line():
    text = svg_of(transformer(layers=12))
    root = ElementTree.fromstring(text)
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert shown.count("× 12") == 3
    assert {"forward", "backward", "update"} <= set(shown)
    hints = [element.text for element in root.iter(f"{SVG}title")]
    assert any(hint.endswith("model.py:23") for hint in hints)
    assert "prefers-color-scheme:dark" in text
    assert "<script" not in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_hostile_picture():
    text = svg_of(hostile())
    root = ElementTree.fromstring(text)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == (
        {"svg", "title", "style", "rect", "path", "text", "g"}
    )
    assert root.find(f"{SVG}title").text == HOSTILE[0]


@pytest.mark.parametrize("upward", [False, True])
def test_layers_of_random_graphs(upward):
    rng = random.Random(4)
    for _ in range(60):
        n = rng.randrange(1, 25)
        sizes = [(rng.uniform(20, 200), rng.uniform(20, 90)) for _ in range(n)]
        links = {(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randrange(2 * n))}
        links = [(a, b) for a, b in links if a < b or (rng.random() < 0.1 and a != b)]
        done = layered(sizes, links, upward)
        for i, ((x, y), (w, h)) in enumerate(zip(done.corners, sizes, strict=True)):
            assert x >= -0.01 and x + w <= done.width + 0.01
            assert y >= -0.01 and y + h <= done.height + 0.01
            for (u, v), (s, t) in list(zip(done.corners, sizes, strict=True))[:i]:
                assert x + w <= u or u + s <= x or y + h <= v or v + t <= y
        for a, b in done.routes:
            upper, lower = (b, a) if upward else (a, b)
            assert done.corners[upper][1] < done.corners[lower][1]


def test_layers_of_nothing():
    done = layered([], [])
    assert (done.corners, done.width, done.height) == ([], 0.0, 0.0)


def tokens_of(text):
    """Quoted texts, names and signs of a text in DOT; the remainder if there is any."""
    pattern = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[A-Za-z_0-9.]+|->|[{}\[\];,=])', re.DOTALL)
    found, at = [], 0
    while match := pattern.match(text, at):
        found.append(match[1])
        at = match.end()
    return found, text[at:].strip()


@pytest.mark.parametrize("name", GRAPHS)
def test_dot_is_well_formed(name):
    text = dot_of(GRAPHS[name]())
    tokens, rest = tokens_of(text)
    assert rest == ""
    assert tokens.count("{") == tokens.count("}") and tokens.count("[") == tokens.count("]")
    boxes = set(re.findall(r"^\s*(n\d+) \[", text, re.MULTILINE))
    edges = re.findall(r"^  (n\d+) -> (n\d+)", text, re.MULTILINE)
    assert {end for pair in edges for end in pair} <= boxes
    assert (len(boxes) > 0) == (name != "empty")
    if shutil.which("dot"):
        done = subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a "b"', r'"a \"b\""'),
        ("a\\nb", r'"a\\nb"'),
        ("a\nb", r'"a\nb"'),
        ("&lt;", '"&amp;lt;"'),
        ("ends with \\", r'"ends with \\"'),
        ("\ud800\0é", '"?\ufffdé"'),
    ],
)
def test_quoting(text, expected):
    assert quoted(text) == expected
