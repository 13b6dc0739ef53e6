"""Layouts of whole graphs: no wider than a screen, nothing on top of another, every edge there."""

import json
import math
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.frontend.graphs_to_see import GRAPHS, chain, loop, transformer

import wend._frontend.seeing
from wend._frontend.seeing.folding import Fold, fold
from wend._frontend.seeing.frames import arranged
from wend._frontend.seeing.shelves import layered, shelves
from wend._frontend.seeing.svg import BOLD, size_of, svg_of, title_of, width_of
from wend._frontend.seeing.visible import view, view_of

SCREEN = 1600
ASSETS = Path(wend._frontend.seeing.__file__).parent / "assets"
ALL = {
    **GRAPHS,
    "chain": lambda: chain(random.Random(2), 2000),
    "40 layers": lambda: transformer(layers=40),
}


def unfolded(graph):
    """The view of a graph in which nothing is folded."""
    folding = fold(graph)
    return view_of(folding, set(range(len(folding.folds))))


def laid(seen, wide):
    """Pictures that are boxes, frames, ways, width and height."""
    columns, ways, width, height = arranged(
        seen, size_of, lambda item: width_of(title_of(item), BOLD), wide
    )
    drawn = [picture for column in columns for picture in column.inside()]
    boxes = [picture for picture in drawn if not picture.is_open]
    return boxes, [p for p in drawn if p.is_open], ways, width, height


def near(boxes, size=300.0):
    """Pairs of boxes that may touch."""
    cells = {}
    for box in boxes:
        for i in range(int(box.x // size), int((box.x + box.width) // size) + 1):
            for j in range(int(box.y // size), int((box.y + box.height) // size) + 1):
                cells.setdefault((i, j), []).append(box)
    for members in cells.values():
        for place, box in enumerate(members):
            yield from ((box, other) for other in members[:place])


def covers(a, b):
    """Whether two boxes lie on each other."""
    return (
        a.x + a.width > b.x + 0.2
        and b.x + b.width > a.x + 0.2
        and a.y + a.height > b.y + 0.2
        and b.y + b.height > a.y + 0.2
    )


@pytest.mark.parametrize("wide", [400, 1600])
@pytest.mark.parametrize("name", ALL)
def test_an_unfolded_graph(name, wide):
    graph = ALL[name]()
    seen = unfolded(graph)
    boxes, frames, ways, width, height = laid(seen, wide)
    assert width <= 3 * SCREEN
    # Narrower than that where names of frames in frames leave the room.
    assert width <= max(2 * wide, 1000 + 24 * max((len(f.around()) for f in frames), default=0))
    shown = {node.id for node in graph if node.id not in seen.folding.parameters}
    assert {b.number for b in boxes if b.number < len(graph)} == shown
    assert not any(covers(a, b) for a, b in near(boxes))
    for picture in [*boxes, *frames]:
        frame = picture.parent
        if frame is not None:
            assert picture.x >= frame.x and picture.x + picture.width <= frame.x + frame.width
            assert picture.y >= frame.y and picture.y + picture.height <= frame.y + frame.height
    assert {(way.start.number, way.end.number) for way in ways} == set(seen.links)
    for way in ways:
        check_way(way, width, height)


def check_way(way, width, height):
    """From rim to rim, within the picture."""
    for x, y in way.points:
        assert -1 <= x <= width + 1 and -1 <= y <= height + 1
    for picture, (x, y) in ((way.start, way.points[0]), (way.end, way.points[-1])):
        assert picture.x <= x <= picture.x + picture.width
        assert min(abs(y - picture.y), abs(y - picture.y - picture.height)) < 0.01


@pytest.mark.parametrize("name", ALL)
def test_edges_with_a_lane_pass_between_the_boxes(name):
    boxes, _, ways, _, _ = laid(unfolded(ALL[name]()), 1400)
    shelf_of = {}  # boxes by the stretch of 200 pixels in which they lie
    for box in boxes:
        for k in range(int(box.y // 200), int((box.y + box.height) // 200) + 1):
            shelf_of.setdefault(k, []).append(box)
    for way in ways[:: max(1, len(ways) // 200)]:
        if way.kind:
            continue
        for (x, y), (u, v) in zip(way.points, way.points[1:], strict=False):
            if abs(x - u) > 0.1 or abs(y - v) < 1:
                continue  # a bend, in the room between rows
            low, high = min(y, v) + 1, max(y, v) - 1
            shelves_passed = range(int(low // 200), int(high // 200) + 1)
            close = [b for k in shelves_passed for b in shelf_of.get(k, ())]
            crossed = [b for b in close if b.x + 1 < x < b.x + b.width - 1]
            crossed = [b for b in crossed if b.y < high and b.y + b.height > low]
            assert set(crossed) <= {way.start, way.end}


def test_most_edges_have_a_lane():
    for name in ("digits", "transformer", "chain"):
        ways = laid(unfolded(GRAPHS[name]()), 1400)[2]
        assert sum(way.kind != "" for way in ways) <= len(ways) // 4


def test_twenty_thousand_ops_take_seconds():
    graph = chain(random.Random(3), 20_000)
    seen = unfolded(graph)
    begin = time.process_time()
    boxes, _, _, width, height = laid(seen, SCREEN)
    assert time.process_time() - begin < 20  # about 3 on a single core of 2024
    assert len(boxes) == 20_000
    assert width <= 3 * SCREEN
    assert width * height < 30 * sum(box.width * box.height for box in boxes)


def test_long_chains_stand_in_columns():
    n = 60
    links = [(k, k + 1) for k in range(n - 1)]
    done = layered([(100.0, 40.0)] * n, links, most=1200.0)
    columns = sorted({x for x, _ in done.corners})
    assert len(columns) > 3
    assert done.width <= 1200
    assert done.height < 2000
    narrow = layered([(100.0, 40.0)] * n, links, most=150.0)
    assert len({x for x, _ in narrow.corners}) == 1
    assert len(layered([(100.0, 40.0)] * 10, links[:9], most=1200.0).corners) == 10
    for a, b in links:  # downward, or at the top of the next column
        (x, y), (u, v) = done.corners[a], done.corners[b]
        assert (x == u and y < v) or x < u


def test_wide_rows_are_several_rows():
    links = [(k, 40) for k in range(40)]
    done = layered([(100.0, 40.0)] * 41, links, most=600.0)
    assert done.width <= 620
    assert len({y for _, y in done.corners[:40]}) >= 8
    assert all(done.corners[k][1] < done.corners[40][1] for k in range(40))


def test_unlinked_items_stand_on_shelves():
    rng = random.Random(1)
    sizes = [(rng.uniform(20, 300), rng.uniform(20, 300)) for _ in range(50)]
    places, width, height = shelves(sizes, 900.0)
    assert width <= 900
    assert sum(w * h for w, h in sizes) > 0.3 * width * height
    for i, ((x, y), (w, h)) in enumerate(zip(places, sizes, strict=True)):
        assert x >= 0 and x + w <= width and y >= 0 and y + h <= height
        for (u, v), (s, t) in list(zip(places, sizes, strict=True))[:i]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y


def test_regions_are_frames():
    graph = loop()
    seen = view(fold(graph), 60)
    boxes, frames, ways, _, _ = laid(seen, 1400)
    titles = [title_of(f.item) for f in frames if f.item.kind in ("region", "branch")]
    assert titles == ["while h.sum() > 1", "true", "if h.mean() > 0", "true", "false"]
    op_of = {box.item.id: box for box in boxes if not isinstance(box.item, Fold)}
    homes = {node.op: title_of(op_of[node.id].parent.item) for node in graph if node.id in op_of}
    assert homes["merge"] == "while h.sum() > 1" and homes["while"] == "while h.sum() > 1"
    assert homes["mean"] == "true" and homes["if"] == "if h.mean() > 0"
    assert (homes["div"], homes["add"], homes["exp"]) == ("true", "false", "forward")
    words = sorted((way.start.item.op, way.label) for way in ways if way.label)
    assert words == [
        ("add", "h"), ("div", "h"), ("gt", "condition"), ("if", "false"), ("if", "true"),
        ("while", "true"),
    ]  # fmt: skip
    back = [way for way in ways if way.kind == "back"]
    assert [way.end.item.op for way in back] == ["merge"] * 3
    assert all(way.start.y > way.end.y for way in back)
    text = svg_of(graph)
    assert 'class="frame region"' in text and "while h.sum() &gt; 1" in text


NODE = """
const layout = require(process.argv[1]);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([sizes, links, upward, most, first, last]) => {
  const done = layout.layered(sizes, links, upward, most === null ? Infinity : most,
    new Set(first), new Set(last));
  return [done.corners, done.routes, done.width, done.height];
})));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_pages_lay_out_as_pictures_do():
    rng = random.Random(6)
    cases = []
    for k in range(80):
        n = rng.randrange(1, 70)
        sizes = [(float(rng.randrange(20, 200)), float(rng.randrange(20, 90))) for _ in range(n)]
        links = [(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randrange(2 * n))]
        links = list(dict.fromkeys((min(pair), max(pair)) for pair in links if len({*pair}) == 2))
        first = {0} if k % 3 == 0 else set()
        last = {n - 1} - first if k % 4 == 0 else set()
        cases.append((sizes, links, k % 2 == 0, rng.choice([300.0, 900.0, math.inf]), first, last))
    told = [
        (s, links, up, None if most == math.inf else most, [*a], [*b])
        for s, links, up, most, a, b in cases
    ]
    done = subprocess.run(
        ["node", "-e", NODE, str(ASSETS / "layout.js")],
        input=json.dumps(told), capture_output=True, text=True, check=True,
    )  # fmt: skip
    for case, (corners, routes, width, height) in zip(cases, json.loads(done.stdout), strict=True):
        here = layered(*case)
        assert [tuple(pytest.approx(x) for x in pair) for pair in here.corners] == [
            tuple(pair) for pair in corners
        ]
        assert (here.width, here.height) == (pytest.approx(width), pytest.approx(height))
        assert {(a, b): len(points) for a, b, points in routes} == {
            pair: len(points) for pair, points in here.routes.items()
        }
