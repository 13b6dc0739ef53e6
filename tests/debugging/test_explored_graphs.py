"""`wend.debug.graph` of functions explored: branches, loops, edits, files."""

import io

import numpy as np
import pytest

import wend as torch
from wend import debug, nn
from wend._engine.base.errors import ArgumentError, GraphError
from wend.debug._explored import program_of


class Reader(nn.Module):
    """Reads rows, and stops where a number is large."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = x.new_zeros(1, 4)
        for row in x:
            h = self.cell(row[None], h)
            if self.head(h).max() > 0.9:
                break
        return self.head(h)


@pytest.fixture(scope="module")
def reader():
    torch.manual_seed(0)
    return Reader().eval()


@pytest.fixture(scope="module")
def exported(reader):
    return torch.export.export(reader, (torch.randn(5, 3),))


def test_branches_and_loops_are_nodes(reader, exported):
    graph = debug.graph(exported)
    counts = graph.counts()
    assert counts["while"] >= 1 and counts["merge"] >= 1 and counts["linear"] >= 1
    assert {n.name for n in graph if n.is_leaf} == {"input 0", *dict(reader.named_parameters())}
    cells = graph.find(module="cell")
    assert cells and {n.module_class for n in cells} == {"RNNCell"}
    asked = graph.find("while")[0]
    inside = [n for n in graph if n.branch == f"%{asked.id} true"]
    assert inside
    assert all(n.function == "Reader.forward" for n in graph.find("linear"))
    again = [n for n in graph.find("merge") if any(i > n.id for i in n.inputs)]
    assert again, "an operand of a loop is made later"
    assert len(graph.outputs) >= 1 and all(graph[i].op == "linear" for i in graph.outputs)


def test_sizes_are_expressions():
    program = torch.export.export(lambda x: torch.cat([x, x]).sum(1), (torch.randn(5, 3),))
    graph = debug.graph(program)
    (cat,) = graph.find("cat")
    assert "d0.0" in cat.numbers and "d0.1" in cat.numbers and cat.shape == (10, 3)


def test_all_kinds_of_static_graphs(reader, exported):
    texts = set()
    scripted = torch.jit.script(reader, example_inputs=[(torch.randn(5, 3),)])
    traced = torch.jit.trace(reader, (torch.randn(5, 3),))
    session = torch.session(reader, torch.randn(5, 3), input_names=["rows"])
    for target in (exported, exported.module(), exported.graph, exported.program, session):
        texts.add(debug.graph(target).table(None))
    for target in (scripted, traced):
        assert debug.graph(target).counts() == debug.graph(exported).counts()
    assert len({text.split(":", 1)[1] for text in texts}) == 1
    with pytest.raises(GraphError, match="types of the arguments are not known"):
        debug.graph(torch.jit.script(lambda x: x * 2))
    with pytest.raises(ArgumentError, match="no further arguments"):
        debug.graph(exported.graph, torch.randn(5, 3))
    assert program_of(reader) is None


def test_a_scripted_function_with_arguments_is_watched(reader):
    scripted = torch.jit.script(reader)
    assert debug.graph(scripted, torch.randn(1, 3)).counts()["linear"] >= 2


def test_files_and_pages(exported, tmp_path):
    graph = debug.graph(exported)
    for ending, word in ((".html", "while"), (".svg", "while"), (".dot", "while"), (".txt", "{%")):
        graph.save(tmp_path / f"graph{ending}")
        assert word in (tmp_path / f"graph{ending}").read_text(encoding="utf-8")
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    again = debug.graph(torch.export.load(file))
    lines = [(n.op, n.line, n.function) for n in graph]
    assert [(n.op, n.line, n.function) for n in again] == lines
    assert not debug.diff(graph, graph)


def test_a_static_graph_runs(reader, exported):
    graph = debug.graph(exported)
    for n in (3, 5, 9):
        x = torch.randn(n, 3)
        (found,) = graph.run({"input 0": x})
        np.testing.assert_allclose(found.detach().numpy(), reader(x).detach().numpy(), rtol=1e-5)
    with pytest.raises(ArgumentError, match="no tensor is given for 'input 0'"):
        graph.run()
    with pytest.raises(ArgumentError, match="no leaf 'rows'"):
        graph.run({"rows": torch.randn(5, 3)})
    with pytest.raises(ArgumentError, match="has 2 dims of float32"):
        graph.run({"input 0": torch.randn(5)})


def test_edits_of_a_static_graph(reader, exported):
    graph = debug.graph(exported)
    x = torch.randn(6, 3) * 0.01
    seen = []
    for node in graph.find(module="cell", where=lambda n: n.op == "rnn_cell" or "cell" in n.op):
        graph.probe(node, lambda t: seen.append(tuple(t.shape)))
    graph.run({"input 0": x})
    assert seen == [(1, 4)] * 6
    graph.restore()
    for node in graph.find("linear"):
        graph.replace(node, lambda h, w, b: torch.zeros(1, 2) + 7)
    (found,) = graph.run({"input 0": x})
    assert found.tolist() == [[7.0, 7.0]]
    graph.restore()
    for node in graph.find("linear"):
        graph.replace(node, lambda h, w, b: torch.zeros(1, 3))
    with pytest.raises(GraphError, match=r"is float32\[1, 3\], where float32\[1, 2\] is needed"):
        graph.run({"input 0": x})
    with pytest.raises(ArgumentError, match="cannot be run by itself"):
        graph.replace(graph.find("while")[0], lambda: None)


def test_writes_and_errors_are_nodes():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            if x.sum() < 0:
                raise ValueError("negative")
            self.seen += 1
            return x * self.seen

    graph = debug.graph(torch.export.export(Counter(), (torch.ones(3),)))
    (failed,) = graph.find("raise")
    assert "negative" in failed.numbers and failed.branch.endswith("true")
    (write,) = graph.find("write")
    assert graph[write.inputs[0]].name == "seen" and write.phase == "update"
