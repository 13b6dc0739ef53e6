"""Reports in notebooks: well-formed HTML, escaped, once; and the text in a terminal."""

import io
import sys
from contextlib import redirect_stdout
from html.parser import HTMLParser

import pytest

import wend as torch
from wend import debug, nn
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._frontend.profiling.slow_step import SlowReason, WhySlow
from wend._frontend.seeing.path_map import PathMap, PathStretch
from wend.debug import NoGradient, WhyNoGradient
from wend.profiler import profile

VOID = {"br", "meta", "img", "hr"}
EVIL = "<script>alert('&')</script>"


class Checker(HTMLParser):
    """Tags that are open; texts and names of all tags."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"{tag} is closed before what is in it"

    def handle_data(self, data):
        self.texts.append(data)


def checked(html):
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert "script" not in checker.tags
    return checker


def step():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model(torch.ones(3, 4)).sum().backward()
    return model


def profiled():
    with profile(record_shapes=True, profile_memory=True) as recording:
        step()
    return recording


def differing():
    net, x = nn.Linear(4, 4), torch.ones(3, 4)

    def run(more):
        y = net(x).tanh() if more else net(x)
        return y.sum()

    return debug.diff(debug.graph(run, True), debug.graph(run, False))


def answers():
    recording = profiled()
    reason = SlowReason("host", f"a text {EVIL}\nof two lines", f"a remedy {EVIL}")
    stretch = PathStretch(3, EVIL, EVIL, EVIL, 4, 2, [EVIL], [PathStretch(1, "b", "b", "", 2, 2)])
    return {
        "key_averages": recording.key_averages(),
        "events": recording.events(),
        "by_line": recording.by_line(),
        "by_module": recording.by_module(),
        "recorded memory": recording.memory(),
        "held memory": debug.memory(),
        "paths": debug.paths(),
        "evil paths": PathMap([stretch]),
        "why_slow": debug.why_slow(),
        "evil why_slow": WhySlow([reason], 1),
        "nothing slow": WhySlow([], 3),
        "diff": differing(),
        "no gradient": WhyNoGradient([NoGradient(EVIL, "cut", EVIL, EVIL)], ["a"]),
        "summary": torch.summary(step(), torch.ones(3, 4), verbose=0),
        "graph": debug.graph(step),
    }


def test_all_answers_have_a_rich_form_beside_the_text():
    for name, answer in answers().items():
        html = answer._repr_html_()
        checked(html)
        assert EVIL not in html, name
        assert "\x1b" not in html
        if name.startswith("evil"):
            assert "&lt;script&gt;" in html
        assert "<" not in str(answer).replace(EVIL, "").split("\n")[0].replace("<locals>", ""), name


def test_numbers_of_tables_are_those_of_the_text():
    recording = profiled()
    rows = recording.key_averages()
    texts = "".join(checked(rows._repr_html_()).texts)
    assert all(row.key in texts for row in rows)
    lines = recording.by_line()
    texts = "".join(checked(lines._repr_html_()).texts)
    assert all(row.where in texts for row in lines)
    texts = checked(debug.paths()._repr_html_()).texts
    assert "taken" in texts and "run by" in texts


def test_reasons_are_a_list():
    html = WhySlow([SlowReason("host", "a\nb", "c")], 1)._repr_html_()
    assert checked(html).tags.count("dt") == 1
    assert "<dd>a<br>b" in html
    assert "nothing slowed" in WhySlow([], 3)._repr_html_()


def test_names_of_two_graphs():
    net, x = nn.Linear(4, 4), torch.ones(3, 4)
    old, new = debug.graph(net, x), debug.graph(net, x[:2])
    assert debug.diff(old, new).names == ("old", "new")
    # fmt: off
    assert debug.diff(
        old,
        debug.graph(net, x[:2]),
    ).names == ("old", "debug.graph(net, x[:2])")
    # fmt: on
    assert debug.diff(old, old).names == ("before", "after")
    assert debug.diff(*[old, new]).names == ("before", "after")
    assert debug.diff(old, new, names=("small", "large")).names == ("small", "large")
    old.title = "one"
    assert debug.diff(old, new).names == ("one", "Linear")
    assert str(debug.diff(old, new)).startswith("a: one, b: Linear: 1 ops in both")
    with pytest.raises(ArgumentTypeError, match="two strings"):
        debug.diff(old, new, names=("a",))


def test_two_graphs_side_by_side(tmp_path):
    difference = differing()
    html = difference._repr_html_()
    checker = checked(html)
    assert checker.tags.count("svg") == checker.tags.count("figure") == 2
    assert html.count("op gone") == 1 and "op new" not in html
    assert "− only here" in "".join(checker.texts)
    difference.save(tmp_path / "difference.html")
    page = (tmp_path / "difference.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "default-src 'none'" in page
    checked(page)
    difference.save(tmp_path / "difference.txt")
    assert (tmp_path / "difference.txt").read_text(encoding="utf-8") == str(difference)
    with pytest.raises(ArgumentError, match="ends in"):
        difference.save(tmp_path / "difference.png")


def test_hostile_names_of_graphs():
    graph = debug.graph(step)
    html = debug.diff(graph, graph, names=(EVIL, "b"))._repr_html_()
    checked(html)
    assert EVIL not in html


def printed(interactive, monkeypatch, **more):
    if interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    else:
        monkeypatch.delattr(sys, "ps1", raising=False)
    out = io.StringIO()
    with redirect_stdout(out):
        table = torch.summary(nn.Linear(2, 3), torch.ones(1, 2), **more)
    return out.getvalue(), table


def test_a_summary_is_shown_once(monkeypatch):
    text, table = printed(False, monkeypatch)
    assert text == f"{table}\n"
    assert printed(True, monkeypatch)[0] == ""  # the prompt shows the outcome
    assert printed(True, monkeypatch, verbose=1)[0] == text
    assert printed(False, monkeypatch, verbose=0)[0] == ""


def test_a_cell_shows_a_summary_once():
    shell_class = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    capture = pytest.importorskip("IPython.utils.capture").capture_output
    config = pytest.importorskip("traitlets.config").Config()
    config.HistoryManager.enabled = False
    missing = object()
    before = getattr(sys, "ps1", missing)
    shell = shell_class(config=config)
    try:
        source = "import wend; wend.summary(wend.nn.Linear(2, 3), wend.ones(1, 2))"
        with capture() as seen:
            assert shell.run_cell(source).success
    finally:
        if before is missing and hasattr(sys, "ps1"):
            del sys.ps1
    assert seen.stdout.count("parameters: 9") == 1
