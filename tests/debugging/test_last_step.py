"""`wend.debug.graph()` after a step: every op, with its kernel or its group of like ops."""

import pytest

import wend as torch
from tries import own_trie
from wend import debug, nn
from wend._engine.base import config
from wend._engine.compiler.llvm_ir import jit
from wend._engine.runtime.batching import signatures

#: Batching and machine code are settings that a whole run of the tests may turn off.
plain = pytest.mark.skipif(
    config.settings.deterministic or not config.settings.autobatch or config.settings.nan_guard,
    reason="flushes do not run by groups under these settings",
)


@pytest.fixture(autouse=True)
def _own_regions():
    """Regions are looked for, although other tests may have had structure that never repeats."""
    signatures.BOOK.clear()
    signatures.BOOK.strikes = signatures.BOOK.pause = 0
    signatures.BOOK.next_pause = signatures.PAUSE


def tree(cell, depth, x):
    """A model whose structure depends on the data."""
    if depth == 0:
        return x
    return torch.tanh(cell(tree(cell, depth - 1, x) + tree(cell, depth // 2, x)))


def ops_of(graph):
    return [node.op for node in graph if not node.is_leaf]


@plain
@pytest.mark.usefixtures("groups_alone")
def test_groups_of_regions():
    """Ops of like regions have the group's number, and the number of its members."""
    torch.manual_seed(0)
    cell, x = nn.Linear(4, 4), torch.randn(1, 4)
    torch.synchronize()
    with own_trie(sealed=True), torch.autobatch(True), torch.no_grad():
        for depths in ((2, 3), (3, 4, 2), (4, 3, 3)):
            loss = sum(tree(cell, d, x).sum() for d in depths)
            loss.item()
        graph = debug.graph()
    cells = graph.find("linear")
    calls = {0: 0}
    for d in range(1, 5):
        calls[d] = 1 + calls[d - 1] + calls[d // 2]
    assert len(cells) == sum(calls[d] for d in (4, 3, 3))
    assert all(node.group is not None for node in cells)
    by_group = {}
    for node in cells:
        by_group.setdefault(node.group, []).append(node)
    assert len(by_group) < len(cells) / 2
    for number, nodes in by_group.items():
        assert len({node.line for node in nodes}) == 1
        # Equal calls on the same input may run as a single member.
        assert nodes[0].members <= len(graph.find("linear", where=lambda n, k=number: n.group == k))
    assert max(node.members for node in cells) > 1
    assert graph[graph.users(cells[0])[0].id].op == "tanh"


@plain
@pytest.mark.usefixtures("groups_alone")
def test_a_step_whose_gradients_run_by_groups():
    """The title says which part is not there op by op."""
    cell = nn.Linear(4, 4)
    x = torch.randn(1, 4)
    with own_trie(sealed=True), torch.autobatch(True):
        for depths in ((2, 3), (3, 4, 2), (4, 3, 3)):
            loss = sum(tree(cell, d, x).sum() for d in depths)
            loss.backward()
            cell.weight.grad.sum().item()
        graph = debug.graph()
    assert graph.find("linear", where=lambda n: n.group is not None) or "left out" in graph.title
    assert graph.find("sum")


@pytest.mark.usefixtures("own_trie")
def test_a_new_path_is_there_at_once():
    """The first visit of a path has its ops, their lines and shapes, and the backward pass."""
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    torch.synchronize()
    loss = (x @ w).sigmoid().sum()
    loss.backward()
    torch.synchronize()
    graph = debug.graph()
    assert ops_of(graph)[:3] == ["matmul", "sigmoid", "sum"]
    (product,) = graph.find("matmul")
    assert product.shape == (3, 5) and product.line == graph.find("sum")[0].line
    assert {node.op for node in graph.find(phase="backward")} >= {"sigmoid_backward"}
    assert {node.shape for node in graph if node.is_leaf} >= {(3, 4), (4, 5)}


@pytest.mark.usefixtures("own_trie")
def test_kernels_of_the_last_step():
    if not config.settings.compile:
        pytest.skip("no machine code in this run")
    x = torch.randn(6, 7)
    for _ in range(5):
        (x.exp() * 2).sum(1).log().tolist()
        jit.drain(60)
    graph = debug.graph()
    numbers = {node.kernel for node in graph if not node.is_leaf}
    assert None not in numbers and len(numbers) >= 1


@plain
def test_lanes_of_fibers():
    """A lane of the last step stands for all; a watched step has each fiber's ops."""
    net = nn.Linear(3, 2)

    def one(x):
        y = net(x).tanh().sum()
        return y * 2 if y.item() > -9 else y

    def step():
        return sum(torch.batched(one)([torch.randn(3) for _ in range(6)])).item()

    def together():
        with torch.autobatch(True):
            return step()

    with own_trie(), config.override(weigh=False), torch.no_grad():
        for _ in range(4):
            step()
        graph = debug.graph()
        watched = debug.graph(together)
    (tanh,) = graph.find("tanh")
    assert "each of 6 fibers" in graph.title
    assert (tanh.members, graph.find("linear")[0].group) == (6, tanh.group)
    each = watched.find("tanh")
    assert len(each) == 6 and {node.members for node in each} == {6}
    assert len({node.group for node in each}) == 1
    assert watched.find("mul")[0].group not in (None, each[0].group)


def test_the_page_colours_by_group(tmp_path):
    cell, x = nn.Linear(4, 4), torch.randn(1, 4)
    with own_trie(sealed=True), torch.autobatch(True), torch.no_grad():
        for depths in ((2, 3), (3, 4, 2), (4, 3, 3)):
            sum(tree(cell, d, x).sum() for d in depths).item()
        graph = debug.graph()
    graph.save(tmp_path / "step.html")
    page = (tmp_path / "step.html").read_text(encoding="utf-8")
    assert '"group":[' in page or all(node.group is None for node in graph)
    assert '"members":' in page and '"branch":' in page
