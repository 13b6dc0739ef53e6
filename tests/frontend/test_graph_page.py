"""The page of a graph, in a browser: nothing is loaded, everything unfolds, texts stay texts."""

import json
import random
import re
import shutil

import pytest
from tests.frontend.graphs_to_see import (
    HOSTILE,
    chain,
    digits,
    hostile,
    loop,
    transformer,
    tree,
)

from wend._frontend.seeing.folding import fold
from wend._frontend.seeing.op_graph import SHOWN, OpGraph
from wend._frontend.seeing.page import data_of, page_of

MOST_BYTES = 90_000  # of a page without its data
MOST_BOXES = 2000  # that a page shows at once

GRAPHS = {
    "digits": digits,
    "transformer": transformer,
    "tree": lambda: tree(random.Random(1)),
    "20 000 ops in modules": lambda: transformer(layers=196),
    "20 000 ops without modules": lambda: chain(random.Random(1), 20_000),
    "hostile": hostile,
    "empty": lambda: OpGraph("nothing"),
}


def data_in(page):
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize("name", GRAPHS)
def test_data_of_a_page(name):
    graph = GRAPHS[name]()
    page = page_of(graph)
    data = data_in(page)
    assert data["count"] == len(graph)
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    assert len(page.encode()) - len(packed.encode()) < MOST_BYTES
    column = data["op"] if isinstance(data["op"], list) else [data["op"]] * len(graph)
    ops = [node.op.encode("utf-8", "replace").decode() for node in graph]
    assert [data["texts"][i] for i in column] == ops


def test_a_page_of_many_ops_is_folded():
    graph = chain(random.Random(2), 100_000)
    data = data_of(graph)
    assert data["count"] == 100_000
    assert len(json.dumps(data)) < 60 * 100_000
    assert len(data["folds"]["opened"]) < 60
    lines = str(graph).splitlines()
    assert len(lines) == SHOWN + 3 and any("more" in line for line in lines)


def test_a_page_may_load_nothing():
    page = page_of(digits())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(r"\b(src|href)\s*=", page[: page.index("<script>")])


def test_a_page_has_no_text_of_users_outside_of_its_data():
    page = page_of(hostile())
    start = page.index('<script id="data"')
    data = page[start : page.index("</script>", start)]
    assert not re.search(r"[<>&\u2028\u2029]", data[data.index(">") + 1 :])
    assert "<script>window.hacked" not in page
    assert page.count("<script") == page.count("</script>") == 3


def test_values_become_plain():
    graph = digits()
    graph[5].values = {"range": (float("-inf"), 1), "what": object, "deep": {"a": [float("nan")]}}
    found = data_of(graph)["values"][5]
    assert found["range"] == ["-inf", 1]
    assert found["deep"] == {"a": ["nan"]}
    json.dumps(found, allow_nan=False)


@pytest.fixture(scope="module")
def browser():
    """A Chromium without a window, which keeps a log of requests and of its console."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield Window(found)
    found.quit()


class Window:
    """A browser with the questions that the tests ask."""

    def __init__(self, driver):
        self.driver, self.path = driver, None

    def open(self, folder, graph):
        self.path = folder / "page.html"
        self.path.write_text(page_of(graph), encoding="utf-8")
        self.logs()
        self.driver.get(self.path.as_uri())
        return self

    def ask(self, script, *values):
        return self.driver.execute_script(f"return {script}", *values)

    def boxes(self):
        """{number of a box: its first line}, as drawn."""
        script = """[...document.querySelectorAll('.box')].map(
            (b) => [Number(b.dataset.id), b.querySelector('.head').textContent])"""
        return dict(self.ask(script))

    def click(self, number):
        """Click on a box or on a heading, as a pointer does."""
        self.driver.execute_script(
            """const item = document.querySelector(`[data-id="${arguments[0]}"] rect`);
            for (const type of ['pointerdown', 'pointerup']) item.dispatchEvent(new PointerEvent(
                type, {bubbles: true, pointerId: 1, pointerType: 'mouse', button: 0}));""",
            number,
        )

    def press(self, selector):
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def search(self, text):
        """Texts of the hits."""
        self.driver.execute_script(
            "const q = document.getElementById('query'); q.value = arguments[0]; q.focus();", text
        )
        self.keys("query", "Enter")
        return self.ask(
            "[...document.querySelectorAll('#hits [role=option]')].map((x) => x.textContent)"
        )

    def keys(self, identity, key):
        self.driver.execute_script(
            "document.getElementById(arguments[0]).dispatchEvent("
            "new KeyboardEvent('keydown', {key: arguments[1], bubbles: true}))",
            identity,
            key,
        )

    def panel(self):
        return self.ask("document.getElementById('panel').innerText")

    def colour(self, name):
        self.driver.execute_script(
            "const c = document.getElementById('colour'); c.value = arguments[0];"
            "c.dispatchEvent(new Event('change'))",
            name,
        )
        return self.ask("document.getElementById('legend').innerText")

    def logs(self):
        """Lines of the console, and addresses of requests."""
        lines = [entry["message"] for entry in self.driver.get_log("browser")]
        messages = [json.loads(x["message"])["message"] for x in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == REQUEST]
        return lines, sent

    def check(self):
        """No error, and no request but that for the page."""
        lines, sent = self.logs()
        assert lines == []
        assert set(sent) <= {self.path.as_uri(), "about:blank"}

    def overlaps(self):
        """Pairs of boxes that lie on each other."""
        return self.ask(
            """(() => {
            const all = [...document.querySelectorAll('.box .face')].map((b) => b.getBBox());
            let found = 0;
            for (let i = 0; i < all.length; i++) for (let j = 0; j < i; j++) {
                const a = all[i], b = all[j];
                if (a.x + a.width > b.x + 1 && b.x + b.width > a.x + 1
                    && a.y + a.height > b.y + 1 && b.y + b.height > a.y + 1) found++;
            }
            return found; })()"""
        )


VIEW = "document.getElementById('world').getAttribute('transform')"
REQUEST = "Network.requestWillBeSent"


@pytest.mark.parametrize("name", GRAPHS)
def test_a_page_opens_without_an_error(browser, tmp_path, name):
    page = browser.open(tmp_path, GRAPHS[name]())
    assert len(page.boxes()) <= MOST_BOXES
    assert (len(page.boxes()) > 0) == (name != "empty")
    assert page.overlaps() == 0
    page.check()


@pytest.mark.parametrize("name", ["digits", "transformer", "tree", "20 000 ops without modules"])
def test_everything_unfolds(browser, tmp_path, name):
    graph = GRAPHS[name]()
    page = browser.open(tmp_path, graph)
    rng = random.Random(3)
    seen = set()
    for _ in range(12):
        boxes = page.boxes()
        seen.update(number for number in boxes if number < len(graph))
        folded = [number for number in boxes if number >= len(graph)]
        if not folded:
            break
        page.click(rng.choice(folded))
        assert page.overlaps() == 0
        assert len(page.boxes()) <= MOST_BOXES
    assert len(seen) > 8
    page.press("#more")
    page.press("#leaves")
    assert page.overlaps() == 0
    page.press("#less")
    assert len(page.boxes()) <= len(fold(graph).roots) * 60
    page.check()


def test_a_fold_opens_and_closes(browser, tmp_path):
    graph = transformer()
    page = browser.open(tmp_path, graph)
    before = page.boxes()
    repeat = next(number for number, text in before.items() if text == "EncoderLayer")
    badge = "document.querySelector(`.box[data-id='${arguments[0]}'] .badge`).textContent"
    assert page.ask(badge, repeat) == "× 12"
    page.click(repeat)
    opened = page.boxes()
    assert repeat not in opened
    # Forward, backward and update open together.
    assert list(opened.values()).count("EncoderLayer") == 3 * 12
    page.click(repeat)  # its heading
    assert page.boxes() == before
    page.check()


def test_details_of_an_op(browser, tmp_path):
    graph = digits()
    logits = next(node for node in graph if node.values)
    page = browser.open(tmp_path, graph)
    page.driver.get(f"{page.path.as_uri()}#{logits.id}")
    text = page.panel()
    for part in ("linear", "model.py:16", "[64, 10]", "float32", "2.50 KiB", "164 kflop", "fc"):
        assert part in text
    assert "Operands (3)" in text and "fc.weight" in text
    assert "Gradient ops (3)" in text
    assert page.ask("document.querySelectorAll('#panel .histogram rect').length") == 8
    assert page.ask("document.querySelector('#panel dd.bad').textContent") == "2"
    page.driver.execute_script(
        "[...document.querySelectorAll('#panel .link')].find("
        "(x) => x.textContent.includes('fc.weight')).click()"
    )
    assert "fc.weight" in page.panel()  # a parameter: shown from now on
    assert "fc.weight" in page.boxes().values()
    page.check()


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("layers.7.attn softmax", "softmax"),
        ("model.py:17", "softmax"),
        ("[256, 512]", "transpose"),
        ("encoder.layers.3.mlp.0.weight", "weight"),
        ("GELU", "GELU"),
        ("layer_norm backward", "layer_norm_backward"),
    ],
)
def test_search_finds_and_shows(browser, tmp_path, text, hit):
    page = browser.open(tmp_path, transformer())
    hits = page.search(text)
    assert hits
    assert any(hit in found for found in hits)
    selected = "document.querySelectorAll('.box.selected, .cluster.selected').length"
    assert page.ask(selected) > 0
    assert len(page.boxes()) <= MOST_BOXES
    page.check()


def test_a_search_without_hits(browser, tmp_path):
    page = browser.open(tmp_path, transformer())
    assert page.search("no such op") == []
    assert page.ask("document.getElementById('hits').innerText") == "0 hits"
    page.check()


def test_colours(browser, tmp_path):
    page = browser.open(tmp_path, digits())
    assert page.colour("phase").split() == ["phase", "forward", "backward", "update"]
    assert "KiB" in page.colour("bytes")
    assert "µs" in page.colour("time")
    assert page.colour("dtype").split() == ["dtype", "float32", "int64"]
    assert "conv2d_backward" in page.colour("op")
    for name in ("kernel", "group"):
        assert len(page.colour(name).split()) > 3
    fills = """new Set([...document.querySelectorAll('.box .face')].map(
        (x) => getComputedStyle(x).fill)).size"""
    assert page.ask(fills) > 3
    page.check()


def test_unknown_times_are_not_offered(browser, tmp_path):
    graph = digits()
    for node in graph:
        node.ns = node.kernel = None
    page = browser.open(tmp_path, graph)
    disabled = "[...document.querySelectorAll('#colour option:disabled')].map((x) => x.value)"
    assert page.ask(disabled) == ["time", "kernel"]


def test_light_and_dark(browser, tmp_path):
    page = browser.open(tmp_path, digits())
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(ground)
    page.press("#theme")
    dark = page.ask(ground)
    assert light != dark
    page.press("#theme")
    assert page.ask(ground) == light
    scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    try:
        browser.open(tmp_path, digits())
        assert page.ask(ground) == dark
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_narrow_window(browser, tmp_path):
    size = {"width": 400, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page = browser.open(tmp_path, digits())
        page.click(next(iter(page.boxes())))
        assert page.ask("document.documentElement.scrollWidth") <= 400
        assert page.ask("document.querySelector('header').scrollWidth") <= 400
        left = page.ask(
            "Math.min(...[...document.querySelectorAll('header *')].map("
            "(x) => x.getBoundingClientRect().left))"
        )
        assert left >= 0
        assert page.ask("document.getElementById('panel').getBoundingClientRect().height") <= 330
        page.check()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_keyboard(browser, tmp_path):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    graph = transformer()
    page = browser.open(tmp_path, graph)

    def press(*sent):
        page.driver.switch_to.active_element.send_keys(*sent)

    focused = "document.activeElement.dataset.id"
    page.driver.execute_script("document.querySelector('.box').focus()")
    first = page.ask(focused)
    press(keys.ARROW_DOWN)
    second = page.ask(focused)
    assert second is not None and second != first
    repeat = next(number for number, text in page.boxes().items() if text == "EncoderLayer")
    page.driver.execute_script(
        "document.querySelector(arguments[0]).focus()", f"[data-id='{repeat}']"
    )
    press(keys.ENTER)
    assert repeat not in page.boxes()
    assert page.ask(focused) == str(repeat)  # the heading
    press(keys.ENTER)
    assert repeat in page.boxes()
    press("/")
    assert page.ask("document.activeElement.id") == "query"
    press(keys.ESCAPE)
    scale = "document.getElementById('world').getAttribute('transform')"
    page.driver.execute_script("document.getElementById('canvas').focus()")
    before = page.ask(scale)
    press("+")
    assert page.ask(scale) != before
    unnamed = (
        "[...document.querySelectorAll('.box, .title, button, input, select')].filter((x) => !"
    )
    unnamed += "(x.getAttribute('aria-label') || x.textContent).trim()).length"
    assert page.ask(unnamed) == 0
    page.check()


def test_hostile_texts_stay_texts(browser, tmp_path):
    page = browser.open(tmp_path, hostile())
    page.press("#more")
    page.press("#leaves")
    for number in page.boxes():
        page.click(number)
        assert page.panel()
    for text in HOSTILE:
        page.search(text.replace("\ud800", "?"))
    for name in ("dtype", "op", "kernel"):
        page.colour(name)
    assert page.ask("window.hacked === undefined && document.querySelector('img') === null")
    assert page.ask("document.title") == HOSTILE[0]
    assert page.ask("document.querySelector('h1').textContent") == HOSTILE[0]
    page.check()


def test_a_page_of_100_000_ops_unfolds_and_searches(browser, tmp_path):
    graph = chain(random.Random(5), 100_000)
    page = browser.open(tmp_path, graph)
    assert 0 < len(page.boxes()) <= MOST_BOXES
    page.search("#77777")
    assert 77_777 in page.boxes()
    assert page.ask("document.querySelector('.box.selected').dataset.id") == "77777"
    assert "77777" in page.panel()
    assert len(page.boxes()) <= MOST_BOXES
    page.check()


def test_pan_and_zoom(browser, tmp_path):
    page = browser.open(tmp_path, digits())
    view = "document.getElementById('world').getAttribute('transform')"

    def point(kind, identity, x, y):
        page.driver.execute_script(
            "document.getElementById('canvas').dispatchEvent(new PointerEvent(arguments[0], {"
            "bubbles: true, pointerId: arguments[1], clientX: arguments[2], clientY: arguments[3],"
            "pointerType: 'touch', button: 0}))",
            kind,
            identity,
            x,
            y,
        )

    def numbers():
        return [float(x) for x in re.findall(r"-?[\d.]+(?:e-?\d+)?", page.ask(view))]

    x, y, k = numbers()
    point("pointerdown", 1, 300, 300)
    point("pointermove", 1, 340, 280)
    point("pointerup", 1, 340, 280)
    assert numbers() == pytest.approx([x + 40, y - 20, k])
    point("pointerdown", 1, 300, 300)  # two fingers
    point("pointerdown", 2, 400, 300)
    point("pointermove", 2, 500, 300)
    point("pointerup", 2, 500, 300)
    point("pointerup", 1, 300, 300)
    assert numbers()[2] == pytest.approx(2 * k)
    wheel = (
        "document.getElementById('canvas').dispatchEvent(new WheelEvent('wheel', {bubbles: true,"
        "cancelable: true, deltaY: 100, clientX: 300, clientY: 300, ctrlKey: arguments[0]}))"
    )
    before = numbers()
    page.driver.execute_script(wheel, False)  # a graph is read downward
    assert numbers() == pytest.approx([before[0], before[1] - 100, 2 * k])
    page.driver.execute_script(wheel, True)
    assert numbers()[2] < 2 * k
    page.press("#fit")
    assert numbers() == pytest.approx([x, y, k])
    page.check()


@pytest.mark.parametrize("wide", [400, 800, 1600])
@pytest.mark.parametrize("name", ["digits", "transformer", "tree", "20 000 ops in modules"])
def test_an_unfolded_graph_is_no_wider_than_the_window_needs(browser, tmp_path, name, wide):
    size = {"width": wide, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page = browser.open(tmp_path, GRAPHS[name]())
        for _ in range(6):
            page.press("#more")
        assert len(page.boxes()) > 30
        rims = "[...document.querySelectorAll('.box .face, .frame')].map((b) => b.getBBox())"
        width = page.ask(
            f"(() => {{ const all = {rims}; return Math.max(...all.map((b) => b.x + b.width))"
            " - Math.min(...all.map((b) => b.x)); })()"
        )
        assert width <= 3 * wide
        scale = float(re.search(r"scale\((.*)\)", page.ask(VIEW))[1])
        assert scale >= 0.5, "texts are too small to read"
        assert width * scale <= 1.5 * wide
        page.check()
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_regions_of_a_static_graph(browser, tmp_path):
    page = browser.open(tmp_path, loop())
    headings = "[...document.querySelectorAll('.title text')].map((x) => x.textContent)"
    assert page.ask(headings) == ["while h.sum() > 1", "true", "if h.mean() > 0", "true", "false"]
    words = page.ask("[...document.querySelectorAll('.word')].map((x) => x.textContent)")
    assert sorted(words) == ["condition", "false", "h", "h", "true", "true"]
    assert page.ask("document.querySelectorAll('.edge.back').length") == 3
    assert page.ask("document.querySelectorAll('.frame').length") == 5
    assert page.overlaps() == 0
    page.press("#less")
    assert "while h.sum() > 1" in page.boxes().values()
    page.check()


def test_parameters_are_shown_on_demand(browser, tmp_path):
    page = browser.open(tmp_path, digits())
    page.press("#more")
    assert "fc.weight" not in page.boxes().values()
    page.press("#leaves")
    assert "fc.weight" in page.boxes().values()
    assert page.overlaps() == 0
    page.press("#leaves")
    assert "fc.weight" not in page.boxes().values()
    page.check()
