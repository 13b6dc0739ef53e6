"""torch.fx: traced graphs, modules of graphs, interpreters; PyTorch's nodes for the same code."""

import copy
import math
import operator
import pickle
import subprocess
import sys

import numpy as np
import pytest

import wend as torch
from wend import fx, nn
from wend.fx.passes.shape_prop import ShapeProp

F = nn.functional


class Net(nn.Module):
    """Layers, functions, methods, operators, a parameter, an unpacked value and a tree."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x, factor=2, *, negate=True):
        y = F.softmax(self.first(x), dim=-1) + self.scale * factor - self.shift
        y = y.view(y.size(0), -1)[:, 1:]
        rows, _ = y.shape
        z = self.rest(self.first(x))
        a, b = torch.split(z, 2, 1)
        return {"out": torch.cat([y, 1 - a], 1), "rest": (a.neg() + rows, -b, math.sqrt(2) * b)}


def outputs(result):
    return [result["out"], *result["rest"]]


def same(found, wanted):
    for a, b in zip(outputs(found), outputs(wanted), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


def rows_of(graph):
    return [(n.op, n.name, [m.name for m in n.all_input_nodes], len(n.users)) for n in graph.nodes]


def test_a_traced_module_computes_the_same_at_all_sizes():
    net = Net().eval()
    traced = fx.symbolic_trace(net)
    for rows in (1, 2, 5):
        x = torch.randn(rows, 3)
        same(traced(x), net(x))
        same(traced(x, factor=3), net(x, 3))
    assert dict(traced.named_parameters()).keys() == dict(net.named_parameters()).keys()
    assert traced.first is net.first
    assert not traced.training
    outputs(traced(x))[0].sum().backward()
    assert net.scale.grad is not None
    traced.graph.lint()


def test_nodes_equal_pytorchs():
    real = pytest.importorskip("torch")
    import torch.fx as real_fx

    def body(torch, F, x, w, flag=True):
        y = torch.relu(x) @ w + 1
        z = F.gelu(y).reshape(y.shape[0], -1).sum(dim=1, keepdim=True)
        values, _ = torch.topk(z, 1)
        return [values**2, {"c": torch.stack((z, values)) if flag else z}, (2 - z) / ~(z > 0)]

    ours = fx.symbolic_trace(lambda x, w: body(torch, F, x, w))
    theirs = real_fx.symbolic_trace(lambda x, w: body(real, real.nn.functional, x, w))
    assert rows_of(ours.graph) == rows_of(theirs.graph)
    for a, b in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        if a.op in ("call_method", "placeholder", "output") or a.target in vars(operator).values():
            assert a.target == b.target
        else:
            assert a.target.__name__ == b.target.__name__
    x, w = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    found, wanted = ours(torch.tensor(x), torch.tensor(w)), theirs(real.tensor(x), real.tensor(w))
    np.testing.assert_allclose(found[0].numpy(), wanted[0].numpy(), rtol=1e-5)


MODELS = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.norm(self.conv(x))
        out += x
        return self.relu(out)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3)
        self.blocks = nn.Sequential(Block(), Block())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = self.blocks(F.max_pool2d(F.relu(self.stem(x)), 2))
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        return F.log_softmax(self.head(torch.flatten(self.pool(x), 1)), dim=1)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        q, k, v = [t.unsqueeze(1) for t in (y, y + self.bias, y)]
        a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        a = a.masked_fill(a > 5, float("-inf"))
        return F.softmax(a, dim=-1) @ v, h.squeeze(0), torch.einsum("bij,bkj->bik", y, y)


class Functions(nn.Module):
    def forward(self, x, y):
        a = torch.where(x > 0, x, torch.zeros_like(x)), torch.add(x, y, alpha=2)
        b = torch.clamp(x, min=0.0, max=1.0), x.mean(dim=(0, 1), keepdim=True).expand_as(x)
        c = F.cross_entropy(x, y.argmax(1)), x[..., None].squeeze(-1), x // y, abs(x) % 3
        d = torch.arange(x.shape[1]), torch.max(x, dim=1)[0], x.new_zeros(x.shape), x.t().detach()
        return a, b, c, d, F.dropout(x, p=0.1, training=self.training), torch.cat([x, y], dim=1)
"""


@pytest.mark.parametrize("name", ["Images", "Words", "Functions"])
def test_models_have_the_nodes_of_pytorch(name):
    real = pytest.importorskip("torch")
    import torch.fx as real_fx

    def rows(module, layers, tracing):
        space = {"torch": module, "nn": layers, "F": layers.functional, "math": math}
        space["__name__"] = "models"
        exec(MODELS, space)
        graph = tracing.symbolic_trace(space[name]()).graph
        targets = [getattr(n.target, "__name__", n.target) for n in graph.nodes]
        return list(zip(rows_of(graph), targets, strict=True))

    assert rows(torch, nn, fx) == rows(real, real.nn, real_fx)


def test_nodes():
    graph = fx.symbolic_trace(Net()).graph
    ops = {n.op for n in graph.nodes}
    assert ops == {
        "placeholder",
        "get_attr",
        "call_function",
        "call_module",
        "call_method",
        "output",
    }
    assert [n.target for n in graph.find_nodes(op="get_attr")] == ["scale", "shift"]
    first, second = graph.find_nodes(op="call_module", target="first")
    assert (first.name, second.name) == ("first", "first_1")
    assert first.args[0] is graph.nodes[0]
    assert first in graph.nodes[0].users
    assert first.prev is graph.nodes[2]
    assert first.prev.next is first
    assert "test_fx.py" in first.stack_trace
    (inner,) = graph.find_nodes(op="call_module", target="rest.1")
    assert [kind for _, kind in inner.meta["nn_module_stack"].values()] == [nn.Sequential, nn.ReLU]
    assert graph.output_node() is graph.nodes[-1]
    softmax = graph.find_nodes(op="call_function", target=F.softmax)[0]
    assert softmax.kwargs == {"dim": -1}
    assert fx.map_arg(softmax.args, lambda n: n.name) == ("first",)


def test_texts(capsys):
    traced = fx.symbolic_trace(Net())
    text = str(traced.graph)
    assert "%first : [num_users=1] = call_module[target=first](args = (%x,), kwargs = {})" in text
    assert "softmax = torch.nn.functional.softmax(first, dim = -1)" in traced.code
    assert 'rest_0 = getattr(self.rest, "0")(first_1)' in traced.code
    traced.graph.print_tabular()
    assert "opcode" in capsys.readouterr().out
    assert traced.print_readable(print_output=False).startswith("class Net(torch.nn.Module):")
    code = traced.graph.python_code("self")
    space = {"torch": torch, "operator": operator}
    exec(code.src, space)
    traced.eval()
    x = torch.randn(2, 3)
    same(space["forward"](traced, x), traced(x))


def branching(x):
    if x.sum() > 0:
        return x
    return -x


REFUSED = [
    branching,
    lambda x: list(iter(x)),
    lambda x: int(x),
    lambda x: x.__len__(),
    lambda x: dict(**x),
]


@pytest.mark.parametrize("function", REFUSED, ids=range(len(REFUSED)))
def test_questions_about_values_name_the_line(function):
    with pytest.raises(fx.TraceError, match=r"(?s)torch\.fx.*test_fx\.py:\d+"):
        fx.symbolic_trace(function)
    assert "__call__" not in vars(nn.Module)
    assert torch.relu(torch.ones(1)).item() == 1


def test_concrete_arguments():
    def function(x, flag, scale=3):
        return x * scale if flag else x

    traced = fx.symbolic_trace(function, concrete_args={"flag": True})
    x = torch.ones(2)
    assert traced(x, True).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="specialized"):
        traced(x, False)
    tree = fx.symbolic_trace(
        lambda d: d["a"] + 1 if d["b"] else d["a"], {"d": {"a": fx.PH, "b": 1}}
    )
    assert tree({"a": x, "b": 1}).tolist() == [2.0, 2.0]
    stars = fx.symbolic_trace(lambda *a, **k: a[1] - k["b"])
    assert stars(1, x, b=x).tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="missing"):
        traced()
    with pytest.raises(TypeError, match="does not take"):
        traced(x, True, 3, 4)


def test_shapes():
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(torch.randn(5, 3))
    (first, _) = traced.graph.find_nodes(op="call_module", target="first")
    meta = first.meta["tensor_meta"]
    assert (meta.shape, meta.dtype, meta.stride) == ((5, 4), torch.float32, (4, 1))
    assert traced.graph.output_node().meta["tensor_meta"]["out"].shape == (5, 5)


def test_interpreters():
    net = Net().eval()
    traced = fx.symbolic_trace(net)
    seen = []

    class Watching(fx.Interpreter):
        def run_node(self, n):
            seen.append(n.name)
            return super().run_node(n)

        def call_function(self, target, args, kwargs):
            if target is F.softmax:
                return torch.zeros_like(args[0])
            return super().call_function(target, args, kwargs)

    x = torch.randn(2, 3)
    found = Watching(traced).run(x)
    assert seen == [n.name for n in traced.graph.nodes]
    np.testing.assert_allclose(found["out"][:, :3].detach().numpy(), np.full((2, 3), 2.0))
    same(fx.Interpreter(traced).boxed_run([x]), net(x))
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(traced).run(torch.randn(2, 7))
    assert "call_module[target=first]" in "".join(caught.value.__notes__)
    program = torch.export.export(branching, (x,)).module()
    with pytest.raises(TypeError, match="branches"):
        fx.Interpreter(program)


def test_a_transformer_makes_a_new_graph():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is torch.sin:
                return super().call_function(torch.cos, args, kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return super().call_method("neg" if target == "abs" else target, args, kwargs)

    traced = fx.symbolic_trace(lambda x: torch.sin(x).abs() + 1)
    changed = Swap(traced).transform()
    x = torch.tensor([0.0, 0.5])
    assert torch.equal(changed(x), 1 - torch.cos(x))
    assert torch.equal(traced(x), torch.sin(x).abs() + 1)


def test_graphs_are_built_by_hand_and_copied():
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("layer", (x,))
    graph.output(graph.call_function(torch.relu, (hidden,)))
    layer = nn.Linear(2, 2)
    module = fx.GraphModule({"layer": layer}, graph)
    x = torch.randn(3, 2)
    assert torch.equal(module(x), torch.relu(layer(x)))
    further = fx.Graph()
    value = further.graph_copy(graph, {})
    further.output(further.call_method("neg", (value,)))
    assert torch.equal(fx.GraphModule(module, further)(x), -torch.relu(layer(x)))
    proxy = fx.Proxy(further.placeholder("y"))
    assert (proxy + 1).node.target is operator.add


def test_graph_modules_are_copied_and_pickled():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    x = torch.randn(4, 2)
    for again in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert torch.equal(again(x), traced(x))
        assert again.graph is not traced.graph
        assert getattr(again, "0").weight is not getattr(traced, "0").weight
        assert list(again.state_dict()) == list(traced.state_dict())


def appended(lib):
    """A graph that grows by the calls of proxies, without a function that is traced."""
    graph = lib.fx.Graph()
    tracer = lib.fx.proxy.GraphAppendingTracer(graph)
    a, b = (lib.fx.Proxy(graph.placeholder(name), tracer) for name in "ab")
    first, second = lib.broadcast_tensors(a, b)[0], lib.meshgrid(a, b, indexing="ij")[0]
    graph.output((first + lib.atleast_2d(a) + lib.cartesian_prod(a, b).sum()).node)
    return graph, second


@pytest.mark.parametrize("lib", ["wend", "torch"])
def test_proxies_append_variadic_functions_and_unused_nodes_are_erased(lib):
    lib = pytest.importorskip(lib)
    graph, unused = appended(lib)
    made = lib.fx.GraphModule(lib.nn.Module(), graph)
    x, y = lib.arange(3.0), lib.ones(3)
    assert (made(x, y) - (x + x + 18.0)).abs().max() < 1e-6
    before = len(list(graph.nodes))
    kept = next(n for n in graph.nodes if n.name == "broadcast_tensors")
    with pytest.raises(RuntimeError, match=r"[Uu]sers|use it"):
        graph.erase_node(kept)
    source = unused.node.all_input_nodes[0]
    graph.erase_node(unused.node)
    assert len(list(graph.nodes)) == before - 1 and not source.users
    graph.erase_node(source)
    assert [n.name for n in graph.nodes if "meshgrid" in n.name] == []
    assert (lib.fx.GraphModule(lib.nn.Module(), graph)(x, y) - (x + x + 18.0)).abs().max() < 1e-6
    with pytest.raises(RuntimeError):
        lib.fx.Graph().erase_node(kept)


EDITS = [
    lambda m, n: m.graph.inserting_after(n),
    lambda m, n: m.graph.eliminate_dead_code(),
    lambda m, n: n.replace_all_uses_with(n),
    lambda m, n: setattr(n, "args", ()),
    lambda m, n: setattr(m, "graph", m.graph),
    lambda m, n: m.add_submodule("a", m),
    lambda m, n: fx.replace_pattern(m, m, m),
]


@pytest.mark.parametrize("edit", EDITS, ids=range(len(EDITS)))
def test_edits_are_refused_with_the_remedy(edit):
    traced = fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(NotImplementedError, match=r"read-only.*Transformer"):
        edit(traced, traced.graph.nodes[1])


class Block(nn.Module):
    """A module that a tracer may keep whole."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def helper(x, n):
    return x * n if x.sum() > 0 else x


fx.wrap("helper")
fx.wrap("len")


def test_leaves_and_wrapped_functions():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)

    net = nn.Sequential(Block(), nn.Linear(2, 2))
    with pytest.raises(fx.TraceError):
        fx.symbolic_trace(net)
    tracer = Whole()
    graph = tracer.trace(net)
    traced = fx.GraphModule(tracer.root, graph)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["0", "1"]
    x = torch.ones(3, 2)
    assert torch.equal(traced(x), net(x))
    wrapped = fx.symbolic_trace(lambda x: helper(x, len(x)))
    assert [n.name for n in wrapped.graph.nodes] == ["x", "len_1", "helper", "output"]
    assert wrapped(x).tolist() == (x * 3).tolist()
    assert len([1]) == 1


def test_functions_that_a_module_has_imported_by_name():
    space = {"dropout": F.dropout, "pad": F.pad, "group_norm": F.group_norm}
    exec("def f(x):\n    return group_norm(pad(dropout(x, 0.5, False), (1, 1)), 1)", space)
    traced = fx.symbolic_trace(space["f"])
    names = [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"]
    assert names == ["dropout", "pad", "group_norm"]
    assert space["pad"] is F.pad
    x = torch.randn(2, 3, 4)
    assert torch.equal(traced(x), space["f"](x))


def test_names_under_the_alias(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch.fx\n"
        "from torch.fx import symbolic_trace, GraphModule, Interpreter\n"
        "from torch.fx.node import Node, map_arg\n"
        "from torch.fx.proxy import TraceError\n"
        "from torch.fx.graph_module import GraphModule as G\n"
        "from torch.fx.passes.shape_prop import ShapeProp\n"
        "m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())\n"
        "g = symbolic_trace(m)\n"
        "assert isinstance(g, G) and G is GraphModule\n"
        "assert [n.target for n in g.graph.nodes][1:3] == ['0', '1']\n"
        "ShapeProp(g).propagate(torch.ones(1, 2))\n"
    )
    subprocess.run([sys.executable, "-m", "wend", "run", str(program)], check=True, timeout=60)
