"""The tutorial as a notebook, run by Jupyter's own kernel: pictures, tables, lines of errors."""

import doctest
import re
import sys
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="runs notebooks")
pytest.importorskip("ipykernel", reason="is what runs the cells")
import nbformat  # noqa: E402  (comes with nbclient)

import wend  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL, SECOND = [ROOT / "docs" / "tutorial" / f"{n}.md" for n in ("first-model", "from-pytorch")]
SECONDS = 240  # for a cell


def fences(page):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from fences import fences as found
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return list(found(page.read_text(encoding="utf-8")))


def cells_of(page):
    """The fences of a page as sources of cells, and whether each is to raise."""
    for fence in fences(page):
        if fence.reason:  # why it is not run
            continue
        if fence.language == "python":
            yield fence.code, False
        else:
            for example in doctest.DocTestParser().get_examples(fence.code):
                yield example.source, example.exc_msg is not None


def run(cells):
    """Run cells in a kernel; return them with their outputs.  cells: (source, whether it raises)"""
    book = nbformat.v4.new_notebook()
    for source, raises in cells:
        cell = nbformat.v4.new_code_cell(source.rstrip())
        cell.metadata["tags"] = ["raises-exception"] if raises else []
        book.cells.append(cell)
    nbclient.NotebookClient(book, timeout=SECONDS, kernel_name="python3").execute()
    return book.cells


def shown(cell, kind="text/html"):
    """The results of a cell as HTML or text."""
    return "".join(out["data"].get(kind, "") for out in cell.outputs if "data" in out)


def error(cell):
    """The last lines of a cell's error, and the whole traceback."""
    (out,) = [out for out in cell.outputs if out.output_type == "error"]
    return out["evalue"], re.sub("\x1b\\[[0-9;]*m", "", "\n".join(out["traceback"]))


PAGE = ROOT / "docs" / "howto" / "notebooks.md"


def test_cells_of_the_page_about_notebooks():
    """In one kernel PyTorch's name is Wend's from `%load_ext` to `%unload_ext`."""
    text = PAGE.read_text(encoding="utf-8")
    shown_cells = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    load, unload = (cell for cell in shown_cells if cell.startswith("%"))
    cells = run(
        [
            (load, False),
            *((fence.code, False) for fence in fences(PAGE)),
            ("torch.zeroes", True),
            ("%reload_ext wend\nimport torch\ntorch.zeroes", True),
            ("import wend\ntorch is wend, torch.__version__", False),
            (unload, False),
            (
                "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
                "torch is wend, wend.__version__",
                False,
            ),
        ]
    )
    assert "near: torch.zeros" in error(cells[-5])[0] and "near: torch.zeros" in error(cells[-4])[0]
    assert shown(cells[-3], "text/plain") == "(True, '2.13.0+wend')"
    assert shown(cells[-1], "text/plain") == f"(False, '{wend.__version__}')"
    assert any("<table" in shown(cell) for cell in cells)


def test_a_kernel_that_has_pytorch_already_is_told_so():
    cells = run(
        [
            ("import sys, types\nsys.modules['torch'] = types.ModuleType('torch')", False),
            ("%load_ext wend", True),
            ("import wend\nwend.ones(2).sum().item()", False),
        ]
    )
    (said,) = [out["text"] for out in cells[1].outputs]  # a line, no traceback
    assert "imported PyTorch already" in said and "Restart the kernel" in said
    assert "Traceback" not in said
    assert shown(cells[2], "text/plain") == "2.0"


EXPLAIN = """
from wend._engine.base import config
with config.override(compile=True, wait=True):
    model(points).tolist()
wend.debug.explain()
"""
AFTER = [
    ("graph = wend.debug.graph(model, points[:4])\ngraph", False),
    ("wend.debug.graph(nn.functional.cross_entropy(model(points[:5]), label[:5]))", False),
    (EXPLAIN, False),
    ("wend.debug.memory(model)", False),
    ("wend.summary(model, points[:4], verbose=0)", False),
    ("places = wend.arange(4) * 2\nrows = wend.ones(4)[places]\nprint(rows)", True),
    ("x = wend.ones(2, 3)\n\nmodel(x)", True),
    ("print(graph)", False),
]


@pytest.fixture(scope="module")
def book():
    given = [*cells_of(TUTORIAL), *AFTER]
    return run(given), given


def test_the_tutorial_runs_as_a_notebook(book):
    cells, given = book
    assert len(cells) > 15
    for cell, (source, raises) in zip(cells, given, strict=True):
        failed = any(out.output_type == "error" for out in cell.outputs)
        assert failed == raises, source
    printed = "".join(out.get("text", "") for cell in cells for out in cell.outputs)
    assert "of the test points are right" in printed


def test_the_second_tutorial_runs_as_a_notebook():
    given = list(cells_of(SECOND))
    assert len(given) > 4
    for cell, (source, raises) in zip(run(given), given, strict=True):
        assert any(out.output_type == "error" for out in cell.outputs) == raises, source


def test_graphs_show_as_pictures(book):
    cells = book[0][-len(AFTER) :]
    for cell in cells[:2]:
        picture = shown(cell)
        assert picture.startswith("<svg") and picture.rstrip().endswith("</svg>")
        assert "<script" not in picture
    assert "Classifier" in shown(cells[0], "text/plain")  # where no picture can be shown
    assert len(shown(cells[0], "text/plain").splitlines()) < 12


@pytest.mark.parametrize("k", [2, 3, 4], ids=["explain", "memory", "summary"])
def test_tables_show_as_tables(book, k):
    assert "<table" in shown(book[0][-len(AFTER) + k])


def test_tensors_show_as_tables(book):
    cells, given = book
    k = next(k for k, (source, _) in enumerate(given) if source == "x @ x\n")
    assert "<td" in shown(cells[k]) and "[ 7., 10.]" in shown(cells[k], "text/plain")


def test_errors_show_the_line_of_the_cell(book):
    cells = book[0]
    text, traceback = error(cells[-3])
    number = cells[-3].execution_count
    assert "index 4 is out of bounds" in text
    assert f"at Cell In[{number}]:2 in <module>" in text  # printed by line 3, indexed by line 2
    assert f"In[{number}], line 3" in traceback
    text, traceback = error(cells[-2])
    defined = next(c.execution_count for c in cells if "class Classifier" in c.source)
    assert "3 features" in text
    assert re.search(rf"at Cell In\[{defined}\]:\d+ in Classifier.forward \(enter\)", text)
    assert f"In[{cells[-2].execution_count}], line 3" in traceback


def test_lines_of_graphs_are_those_of_cells(book):
    (printed,) = [out["text"] for out in book[0][-1].outputs]
    assert re.search(r"Cell In\[\d+\]:\d+ in Classifier.forward", printed)
    assert "ipykernel" not in printed
