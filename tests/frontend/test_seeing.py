"""`wend.debug`: graphs of steps, their text, edits and differences; maps of paths; slow steps."""

import inspect
import sys

import numpy as np
import pytest

import wend as torch
from wend import debug, nn
from wend._engine.base.errors import ArgumentError, ArgumentTypeError, GraphError
from wend._engine.compiler.llvm_ir import jit
from wend.nn._base import hooked

F = nn.functional
#: The paths of other tests may have sealed the trie, or be compiled already.
pytestmark = pytest.mark.usefixtures("own_trie")


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a, self.b = nn.Linear(n, n), nn.Linear(n, n)

    def forward(self, x):
        h = F.relu(self.a(x))
        return x + self.b(h)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.blocks = nn.ModuleList([Block(8), Block(8)])
        self.last = nn.Linear(8, 3)

    def forward(self, x, squashed=False):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        if squashed:
            x = x.tanh()
        return self.last(x)


def ops_of(graph, **kwargs):
    return [node.op for node in graph.find(**kwargs) if not node.is_leaf]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def trainer(net, early=False):
    """A function that does a step; `early`: the loss is read before the backward pass."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(5, 4), torch.randn(5, 3)

    def step(n=5, squashed=False):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x[:n], squashed), y[:n])
        if early:
            loss.item()
        loss.backward()
        optimizer.step()
        return loss

    return step


# -- what is in a graph ---------------------------------------------------------------------------


def test_a_module_has_its_parts_lines_and_parameters(net):
    x = torch.randn(5, 4)
    graph = debug.graph(net, x)
    assert ops_of(graph) == ["linear", *["linear", "relu", "linear", "add"] * 2, "linear"]
    assert [n.module for n in graph.find("linear")] == [
        "first", "blocks.0.a", "blocks.0.b", "blocks.1.a", "blocks.1.b", "last",
    ]  # fmt: skip
    assert graph.modules["blocks.1"] == "Block" and graph.modules["last"] == "Linear"
    assert {n.name for n in graph if n.is_leaf} == {"input 0", *dict(net.named_parameters())}
    (relu,) = graph.find("relu", module="blocks.1")
    lines, start = inspect.getsourcelines(Block.forward)
    assert (relu.line, relu.function) == (start + 1, "Block.forward")
    assert relu.source == lines[1].strip()
    assert (relu.shape, relu.dtype, relu.nbytes) == ((5, 8), "float32", 160)
    (out,) = graph.outputs
    assert graph[out].module == "last" and graph.users(relu)[0].module == "blocks.1.b"


def test_a_step_has_three_parts(net):
    step = trainer(net)
    for _ in range(2):
        step()
    graph = debug.graph(step)
    assert ops_of(graph, phase="update") == ["sgd_step"] * 12
    loss = graph[graph.outputs[0]]
    assert loss.op == "mse_loss" and loss.shape == ()
    backward = graph.find(phase="backward")
    for node in backward:
        if node.partner is not None:
            forward = graph[node.partner]
            assert forward.phase == "forward"
            assert (node.module, node.line) == (forward.module, forward.line)
    parted = {n.module for n in backward if n.partner is not None}
    assert {"Net.first", "Net.blocks.0.a", "Net.blocks.1.b", "Net.last"} <= parted
    for node in graph.find(phase="update"):
        assert any(graph[i].name.startswith("Net.") for i in node.inputs)
        assert any(graph[i].phase == "backward" for i in node.inputs)


def test_a_read_in_the_middle_changes_nothing(net):
    torch.manual_seed(1)
    plain, early = trainer(net), trainer(net, early=True)
    a, b = debug.graph(plain), debug.graph(early)
    assert ops_of(a, phase="forward") == ops_of(b, phase="forward")
    assert ops_of(a, phase="update") == ops_of(b, phase="update")
    parts = [{(n.module, n.op) for n in g.find(phase="backward")} for g in (a, b)]
    assert {m for m, _ in parts[0]} == {m for m, _ in parts[1]}
    leaves = [sorted(n.name for n in g if n.is_leaf and n.name.startswith("Net")) for g in (a, b)]
    assert leaves[0] == leaves[1] == sorted(f"Net.{k}" for k, _ in net.named_parameters())


def test_ops_after_a_read_in_a_call_have_the_module():
    class Reads(nn.Module):
        def forward(self, x):
            y = x * 2
            return y + 1 if y.sum().item() > 0 else y

    graph = debug.graph(nn.Sequential(Reads(), nn.ReLU()), torch.ones(2))
    found = [(node.op, node.module) for node in graph if not node.is_leaf]
    assert found == [("mul", "0"), ("sum", "0"), ("add", "0"), ("relu", "1")]


def test_watching_changes_no_result():
    torch.manual_seed(3)
    results = []
    for watched in (False, True):
        torch.manual_seed(3)
        net = Net()
        step = trainer(net)
        for _ in range(5):
            if watched:
                debug.graph(step)
            else:
                step()
        results.append([p.detach().numpy() for p in net.parameters()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def line_of_next():
    return sys._getframe(1).f_lineno + 1


def test_the_line_is_that_of_the_call():
    lines = {}

    def function(x):
        lines["exp"] = line_of_next()
        y = x.exp()
        lines["topk"] = line_of_next()
        values, places = torch.topk(y, 2)
        y = F.layer_norm(
            y,
            (4,),
        )
        lines["sum"] = line_of_next()
        return (values * 2).sum() + y.mean() + places.sum()

    graph = debug.graph(function, torch.randn(3, 4))
    for op in ("exp", "topk", "sum"):
        node = graph.find(op)[0]
        assert (node.line, node.file) == (lines[op], __file__)
        assert node.function.endswith("function")
    assert graph.find("topk")[0].results == 2


def test_double_backward_belongs_to_the_forward_pass():
    x = torch.randn(4, requires_grad=True)

    def penalty():
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        loss = g.square().sum()
        loss.backward()
        return x.grad * 2

    graph = debug.graph(penalty)
    (square,) = graph.find("square", phase="forward")
    assert graph.users(square)
    assert graph[graph.outputs[0]].phase == "update"


def test_batched_functions_are_seen():
    net = nn.Linear(3, 2)

    def one(x):
        return net(x).tanh().sum()

    def step():
        return sum(torch.batched(one)([torch.randn(3) for _ in range(4)]))

    graph = debug.graph(step)
    assert len(graph.find("tanh")) == 4
    assert {n.module for n in graph.find("linear")} == {"Linear"}


def test_a_tensor_has_a_history():
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.synchronize()
    b = a * 2
    b.tolist()
    c = b.exp()
    c.tolist()
    d = (c + b).sum()
    assert ops_of(debug.graph(d)) == ["mul", "exp", "add", "sum"]
    d.item()
    assert ops_of(debug.graph(d)) == ["mul", "exp", "add", "sum"]
    unrelated = torch.ones(2) * 3
    assert ops_of(debug.graph(unrelated)) == ["full", "mul"]
    unrelated.tolist()
    assert ops_of(debug.graph(unrelated)) == []  # no gradient needs them any more


def test_the_last_step(net):
    step = trainer(net)
    torch.synchronize()
    for _ in range(3):
        step()
        torch.synchronize()
    graph = debug.graph()
    assert len(graph.find("linear", phase="forward")) == 6
    assert graph.find(phase="backward")
    x = torch.ones(3)
    x.cos().tolist()
    again = debug.graph()
    assert again.find("cos") or "are not kept" in again.title


def test_kernels_are_numbered():
    x = torch.randn(6, 7)

    def function():
        return (x.exp() * 2).sum(1).log()

    for _ in range(4):
        function().tolist()
    jit.drain(60)
    graph = debug.graph(function)
    kernels = [n.kernel for n in graph if not n.is_leaf]
    assert len(kernels) == 4 and set(kernels) == {0}


def test_values_are_summed_up():
    x = torch.tensor([1.0, -4.0, 9.0])
    with debug.watch("roots", values=True) as seen:
        y = x.sqrt() + 1
        z = (x > 0).sum()
    assert y.isnan().tolist() == [False, True, False]
    (root,) = seen.graph.find("sqrt")
    assert (root.values["nan"], root.values["min"], root.values["max"]) == (1, 1.0, 3.0)
    assert sum(root.values["histogram"]["counts"]) == 2 and root.values["elements"] == 3
    (count,) = seen.graph.find("sum")
    assert count.values["max"] == z.item() == 2 and "histogram" not in count.values


def test_times_and_operations():
    x, w = torch.randn(60, 70), torch.randn(70, 80)
    torch.synchronize()

    def product():
        return (x @ w).tanh().sum()

    for _ in range(4):
        product().item()
    jit.drain(60)
    with debug.watch("a product", times=True) as seen:
        product().item()
    (matmul,) = seen.graph.find("matmul")
    assert matmul.flops == 2 * 60 * 70 * 80
    times = [n.ns for n in seen.graph if not n.is_leaf]
    assert all(t is not None and t >= 0 for t in times) and sum(times) > 0
    with torch.profiler.profile(), pytest.raises(ArgumentError, match="while a profiler runs"):
        debug.watch("", times=True).__enter__()


# -- looking --------------------------------------------------------------------------------------


def test_text_is_a_table(net):
    text = str(debug.graph(net, torch.randn(5, 4)))
    head, names, first, *rest = text.splitlines()
    assert head == "Net: 10 ops (10 forward), 13 tensors from outside"
    assert names.split() == ["id", "op", "result", "operands", "module", "line"]
    assert "linear" in first and "input 0 first.weight first.bias" in first
    assert len(rest) == 9
    cut = debug.graph(net, torch.randn(5, 4)).table(4).splitlines()
    assert len(cut) == 2 + 4 + 1 and "... 6 more" in cut[4]


FILES = [(".html", "<!doctype html>"), (".svg", "<svg"), (".dot", "digraph"), (".txt", "train")]


@pytest.mark.parametrize(("ending", "begin"), FILES)
def test_files(net, tmp_path, ending, begin):
    graph = debug.graph(trainer(net))
    file = tmp_path / f"step{ending}"
    graph.save(file)
    text = file.read_text(encoding="utf-8").lower()
    assert text.startswith(begin) and "linear" in text


def test_other_files_are_refused(net, tmp_path):
    graph = debug.graph(net, torch.ones(2, 4))
    assert graph._repr_html_().startswith("<svg")
    with pytest.raises(ArgumentError, match=r"in \.html, \.svg, \.dot, \.txt, got 'a\.png'"):
        graph.save(tmp_path / "a.png")


def test_finding_and_parts(net):
    graph = debug.graph(net, torch.randn(5, 4))
    assert graph.counts() == {"linear": 6, "relu": 2, "add": 2}
    block = graph.find(module="blocks.0")
    assert [n.op for n in block] == ["linear", "relu", "linear", "add"]
    part = graph.part(block)
    assert [n.op for n in part if not n.is_leaf] == [n.op for n in block]
    for node in part:
        assert node.id == part.nodes.index(node)
        assert all(i < node.id for i in node.inputs)
    assert graph.find(where=lambda n: n.shape == (5, 3)) == graph.find(module="last")
    assert [n.name for n in graph.find(name="last.bias")] == ["last.bias"]
    with pytest.raises(ArgumentError, match="expected phase"):
        graph.find(phase="sideways")


@pytest.mark.parametrize("target", [3, "net", [1.0]])
def test_other_targets_are_refused(target):
    with pytest.raises(ArgumentTypeError, match="expected a module, a function, a tensor"):
        debug.graph(target)


def test_a_tensor_takes_no_arguments():
    with pytest.raises(ArgumentError, match="no further arguments"):
        debug.graph(torch.ones(2), 3)


def test_an_error_inside_ends_the_watch(net):
    def fails():
        net(torch.ones(2, 4))
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        debug.graph(fails)
    assert ops_of(debug.graph(net, torch.ones(2, 4)))[0] == "linear"
    assert not hooked._global_forward_hooks and not hooked._global_forward_pre_hooks


# -- running and editing --------------------------------------------------------------------------


def test_a_graph_runs(net):
    x = torch.randn(5, 4)
    graph = debug.graph(net, x)
    (found,) = graph.run()
    np.testing.assert_allclose(found.detach().numpy(), net(x).detach().numpy(), rtol=1e-5)
    other = torch.randn(5, 4)
    (found,) = graph.run({"input 0": other})
    np.testing.assert_allclose(found.detach().numpy(), net(other).detach().numpy(), rtol=1e-5)


def test_ops_of_several_results_run_again():
    x = torch.randn(4, 6)

    def function(x):
        a, b = torch.split(x, [2, 4], 1)
        values, places = b.max(1)
        return a.sum(1) + values, places

    graph = debug.graph(function, x)
    for a, b in zip(graph.run(), function(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_dropout_runs_again_with_the_same_mask():
    x = torch.ones(50)
    kept = []

    def function(x):
        kept.append(F.dropout(x, 0.5) * 1)
        return kept[-1]

    graph = debug.graph(function, x)
    np.testing.assert_array_equal(graph.run()[0].numpy(), kept[0].numpy())


def test_edits(net):
    x = torch.randn(5, 4)
    graph = debug.graph(net, x)
    seen = []
    first, second = graph.find("relu")
    graph.probe(first, lambda t: seen.append(tuple(t.shape)))
    graph.replace(second, torch.tanh)
    (found,) = graph.run()
    assert seen == [(5, 8)]
    h = net.blocks[0](net.first(x))
    expected = net.last(h + net.blocks[1].b(net.blocks[1].a(h).tanh()))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5)
    graph.restore()
    graph.drop(graph.find("add")[1])
    (found,) = graph.run()
    np.testing.assert_allclose(found.detach().numpy(), net.last(h).detach().numpy(), rtol=1e-5)


def test_gradients_flow_through_a_graph(net):
    x = torch.randn(5, 4)
    graph = debug.graph(net, x)
    graph.run()[0].sum().backward()
    found = net.first.weight.grad.numpy().copy()
    net.zero_grad()
    net(x).sum().backward()
    np.testing.assert_allclose(found, net.first.weight.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_wrong_edits_are_told(net):
    graph = debug.graph(net, torch.randn(5, 4))
    (last,) = graph.find(module="last")
    with pytest.raises(ArgumentError, match=r"linear\) gives float32\[5, 3\], its operand 0"):
        graph.drop(last)
    with pytest.raises(ArgumentError, match="there is no operand 7"):
        graph.drop(last, 7)
    with pytest.raises(ArgumentError, match="no node %900"):
        graph.probe(900, print)
    with pytest.raises(ArgumentTypeError, match="expected a function"):
        graph.replace(last, 3)
    with pytest.raises(ArgumentError, match="there is no leaf 'weights'"):
        graph.run({"weights": torch.ones(2)})
    with pytest.raises(ArgumentError, match="the graph is that of these sizes"):
        graph.run({"input 0": torch.ones(2, 4)})
    graph.replace(last, lambda x, *_: x)
    with pytest.raises(GraphError, match=r"returned float32\[5, 8\], where float32\[5, 3\]"):
        graph.run()
    graph.replace(last, lambda *_: None)
    with pytest.raises(GraphError, match="returned NoneType, not a tensor"):
        graph.run()
    graph = debug.graph(trainer(net))
    with pytest.raises(ArgumentError, match="only ops of the forward pass"):
        graph.replace(graph.find(phase="backward")[0], print)


# -- differences, paths, reasons ------------------------------------------------------------------


def test_where_two_steps_part(net):
    step = trainer(net)
    step()
    a, b, c = debug.graph(step), debug.graph(step, 5, True), debug.graph(step, 3)
    assert not debug.diff(a, a) and "no difference" in str(debug.diff(a, a))
    found = debug.diff(a, b)
    assert found and found.parting[1].op == "tanh"
    assert not found.only_a and found.only_b[0].op == "tanh"
    assert {n.module for n in found.only_b} == {"Net"}
    assert "x = x.tanh()" in str(found)
    sizes = debug.diff(a, c)
    assert sizes.parting is None and sizes.resized
    assert sizes.resized[0][0].shape[0] == 5 and sizes.resized[0][1].shape[0] == 3
    with pytest.raises(ArgumentTypeError, match="expected two graphs"):
        debug.diff(a, net)


def test_the_map_of_paths():
    x = torch.ones(3)
    torch.synchronize()
    for k in range(6):
        y = x.cos() * 2
        (y.sin() if k % 3 == 0 else y.exp()).tolist()
    found = debug.paths()
    (start,) = [s for s in found.stretches if s.first == "cos"]
    assert start.taken == 6 and "test_seeing.py" in start.place
    assert [(s.first, s.taken) for s in start.branches] == [("exp", 4), ("sin", 2)]
    assert [s.ended for s in start.branches] == [4, 2]
    text = str(found)
    assert "6 times: 2 ops, cos ... mul at " in text and "ends here 4 times" in text


def test_why_a_step_was_slow():
    x = torch.rand(4)
    torch.synchronize()
    (x.erf() + 1).tolist()
    # Where plans are verified, that is a reason by itself.
    kinds = [r.kind for r in debug.why_slow().reasons if r.kind != "mode"]
    assert kinds[0] == "new path"
    assert "took a path for the first time" in str(debug.why_slow())
    assert all(r.remedy.endswith(".") for r in debug.why_slow().reasons)


def read_one_by_one(rows, read):
    for _ in range(6):
        h = (rows * 2).tanh()
        total = 0.0
        if read == "each":
            for k in range(len(rows)):
                total += h[k].max().item()
        elif read == "once":
            total = sum(h.max(1).values.tolist())
        (h.sum() * (total * 0 + 3)).item()
    return debug.why_slow()


def test_values_asked_for_in_a_loop_are_a_reason():
    rows = torch.rand(32, 4)
    found = read_one_by_one(rows, "each")
    (reason,) = [r for r in found.reasons if r.kind == "values asked for"]
    assert "in 33 pieces" in reason.text
    assert "in read_one_by_one (32 times)" in reason.text
    assert "torch.stack" in reason.remedy
    kinds = [r.kind for r in read_one_by_one(rows, "once").reasons]
    assert "values asked for" not in kinds


def test_backward_ops_have_the_partner_of_their_own_flush():
    """Each iteration ends with a flush, on the same path; the pass goes through all of these."""
    model, x = nn.Linear(4, 4), torch.randn(5, 4)

    def step():
        h, total = x, 0
        for _ in range(3):
            h = model(h).tanh()
            if h.sum().item() < 1e9:
                total = total + h.square().mean()
        total.backward()

    for _ in range(4):  # the launcher knows the whole pass from the third time on
        graph = debug.graph(step)
        for op in ("linear", "tanh", "square", "mean"):
            forward = [node.id for node in graph.find(op)]
            backward = [node.partner for node in graph.find(f"{op}_backward")]
            assert backward == forward[::-1] and len(forward) == 3


def test_lines_inside_of_a_forward_pass_of_the_users():
    """Functions in Python look for the line further out: not as far as the call of the module."""

    class Padded(nn.Module):
        def forward(self, x):
            y = nn.functional.pad(x, (1, 1))
            return y + torch.randn_like(y)

    first = Padded.forward.__code__.co_firstlineno
    model = nn.Sequential(Padded(), nn.Softmax(-1))
    for _ in range(2):
        graph = debug.graph(model, torch.ones(2, 3))
        lines = {node.op: node.line - first for node in graph if not node.is_leaf}
        assert lines["pad"] == 1
        assert {lines[op] for op in lines if op not in ("pad", "softmax")} == {2}
