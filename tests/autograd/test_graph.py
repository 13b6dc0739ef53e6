"""The graph as users see it: grad_fn, nodes, edges, leaves."""

import gc
import weakref

import pytest

import wend as torch
from wend._engine.base import config
from wend._engine.base.errors import GraphError


def leaf(lib, *numbers):
    return lib.tensor(list(numbers), requires_grad=True)


def names(node, depth=0):
    """The graph below a node as nested names."""
    if node is None:
        return None
    return [type(node).__name__, *[(names(n), k) for n, k in node.next_functions]]


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        lambda lib, x, w: x + w,
        lambda lib, x, w: x + 2,
        lambda lib, x, w: x - w * 3,
        lambda lib, x, w: (x / w).exp(),
        lambda lib, x, w: x.sum(),
        lambda lib, x, w: x.mean(),
        lambda lib, x, w: x.view(2, 1) @ w.view(1, 2),
        lambda lib, x, w: x.reshape(2, 1),
        lambda lib, x, w: lib.cat([x, w]),
        lambda lib, x, w: x[0],
        lambda lib, x, w: x[0:1],
        lambda lib, x, w: lib.softmax(x, 0),
        lambda lib, x, w: x.relu(),
        lambda lib, x, w: x.sigmoid().tanh(),
        lambda lib, x, w: lib.where(x > 1, x, w),
        lambda lib, x, w: x.clone(),
        lambda lib, x, w: -x,
        lambda lib, x, w: x.unsqueeze(0).t(),
        lambda lib, x, w: x * w.detach(),
        lambda lib, x, w: lib.stack([x, x * 2]),
        lambda lib, x, w: x.pow(2).sqrt().log(),
        lambda lib, x, w: x.sum(0) + x.sum(),
        lambda lib, x, w: x.mean(0) + x.mean(),
        lambda lib, x, w: x.prod(0) * x.prod(),
    ],
)
def test_names_of_nodes(agree, body, read):
    def program(lib):
        x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
        y = body(lib, x, w)
        if read:
            y.tolist()
        return names(y.grad_fn)

    agree(program)


@pytest.mark.parametrize(
    "body",
    [
        lambda lib, x: lib.hstack([x, x]),
        lambda lib, x: lib.vstack([x, x]),
        lambda lib, x: lib.dstack([x, x]),
        lambda lib, x: lib.column_stack([x, x]),
        lambda lib, x: lib.fliplr(x),
        lambda lib, x: lib.flipud(x),
        lambda lib, x: x.tile(2, 2),
        lambda lib, x: lib.take_along_dim(x, lib.tensor([[0]]), 0),
        lambda lib, x: lib.msort(x),
        lambda lib, x: lib.outer(x[0], x[1]),
        lambda lib, x: lib.nn.functional.unfold(x[None, None], 1),
        lambda lib, x: lib.nn.functional.fold(x[None], (1, 2), 1),
    ],
)
def test_a_composition_is_named_by_the_last_op_that_pytorch_makes_it_of(agree, body):
    def program(lib):
        return type(body(lib, lib.ones(2, 2, requires_grad=True)).grad_fn).__name__

    agree(program)


def test_leaves_and_what_is_none(agree):
    def program(lib):
        x, c = leaf(lib, 1.0), lib.ones(1)
        y = x * 2
        with lib.no_grad():
            z = x * 2
        d = y.detach()
        ints = lib.tensor([1]) + 1
        return [
            (t.is_leaf, t.requires_grad, t.grad_fn is None, t.output_nr)
            for t in (x, c, y, z, d, ints, c + 1)
        ]

    agree(program)


def test_nodes_are_the_same_objects(agree):
    def program(lib):
        x = leaf(lib, 1.0)
        y = x * 2
        z = y + x
        node = y.grad_fn
        found = [
            node is y.grad_fn,
            z.grad_fn.next_functions[0][0] is node,
            node.next_functions[0][0] is z.grad_fn.next_functions[1][0],
        ]
        z.tolist()
        return [
            *found,
            node is y.grad_fn,
            z.grad_fn.next_functions[0][0] is node,
            node.next_functions[0][0].variable is x,
        ]

    assert agree(program) == [True] * 6


def test_results_of_one_op_share_a_node(agree):
    def program(lib):
        x = lib.tensor([[1.0, 5.0], [3.0, 2.0]], requires_grad=True)
        values, indices = x.max(dim=1)
        a, b = lib.topk(x, 1, dim=0)
        h = (values * 2).exp()
        return [
            indices.grad_fn is None,
            values.output_nr,
            b.grad_fn is None,
            type(a.grad_fn).__name__,
            names(h.grad_fn)[0],
        ]

    agree(program)


def test_across_flushes(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        y = x.exp()
        y.tolist()
        z = (y * x).sin()
        z.tolist()
        return names((z + y).grad_fn)

    agree(program)


def test_a_gradient_has_a_graph():
    x = leaf(torch, 2.0)
    (g,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    seen = set()
    stack = [g.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        stack.extend(n for n, _ in node.next_functions)
    kinds = {type(n).__name__ for n in seen}
    assert "AccumulateGrad" in kinds
    assert "MulBackward0" in kinds
    assert isinstance(g.grad_fn, torch.autograd.graph.Node)


def test_name_and_metadata():
    x = leaf(torch, 2.0)
    y = x * 3
    assert y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    assert repr(y.grad_fn).startswith("<torch.autograd.MulBackward0 object at 0x")
    y.grad_fn.metadata["mine"] = 3
    y.tolist()
    assert y.grad_fn.metadata == {"mine": 3}
    with pytest.raises(AttributeError, match="MulBackward0"):
        _ = y.grad_fn.nothing


def test_looking_at_the_graph_changes_no_gradient():
    for look in (False, True, False):
        x = leaf(torch, 2.0)
        y = (x * x).sum()
        if look:
            names(y.grad_fn)
        y.backward()
        assert x.grad.tolist() == [4.0]


def test_gradient_edges(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        y = x * x
        edge = lib.autograd.graph.get_gradient_edge(y)
        leaf_edge = lib.autograd.graph.get_gradient_edge(x)
        z = (y * 3).sum()
        gy, gx = lib.autograd.grad(z, [edge, leaf_edge])
        return gy, gx, edge.output_nr, edge.node is y.grad_fn

    agree(program)


def test_an_edge_needs_a_gradient():
    with pytest.raises(GraphError, match="does not require grad"):
        torch.autograd.graph.get_gradient_edge(torch.ones(1))


def test_increment_version():
    x = torch.ones(2)
    before = x._version
    torch.autograd.graph.increment_version(x)
    torch.autograd.graph.increment_version([x, x])
    assert x._version == before + 3
    with pytest.raises(TypeError, match="expected a Tensor"):
        torch.autograd.graph.increment_version([3])


def test_variable():
    x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    assert isinstance(x, torch.autograd.Variable)
    assert isinstance(x, torch.Tensor)
    assert x.requires_grad
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    called = []
    h = x * 2
    h.register_hook(
        lambda g: torch.autograd.Variable._execution_engine.queue_callback(
            lambda: called.append(x.grad.tolist())
        )
    )
    h.sum().backward()
    assert called == [[4.0, 4.0]]
    with pytest.raises(GraphError, match="volatile"):
        torch.autograd.Variable(torch.ones(1), volatile=True)


# -- memory ---------------------------------------------------------------------------------


class Marker:
    """Stands for what a graph keeps alive."""


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def marked(x, read):
    """A graph on x, one of whose nodes keeps a Marker alive."""
    marker = Marker()
    h = x * 2
    h.register_hook(lambda g, marker=marker: None)
    if read:
        h.tolist()
    return (h * h).sum(), weakref.ref(marker)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.usefixtures("no_collector")
def test_a_graph_goes_with_its_last_tensor(read):
    x = leaf(torch, 1.0)
    y, alive = marked(x, read)
    if read:
        y.item()
    torch.synchronize()
    assert alive() is not None
    del y
    torch.synchronize()
    assert alive() is None


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.usefixtures("no_collector")
def test_a_node_keeps_the_graph(read):
    x = leaf(torch, 1.0)
    y, alive = marked(x, read)
    node = y.grad_fn
    del y
    torch.synchronize()
    assert alive() is not None
    del node
    torch.synchronize()
    assert alive() is None


@pytest.mark.usefixtures("no_collector")
def test_backward_frees_what_was_saved():
    x = torch.ones(1000, requires_grad=True)
    h = x.exp()
    y = (h * h).sum()
    y.item()
    segment = y.value.segment
    assert sum(a.nbytes for _, a in segment.saved.values()) >= 4000
    y.backward()
    assert segment.saved == {}


@pytest.mark.usefixtures("no_collector")
def test_a_pass_leaves_no_cycles(own_trie):
    def work():
        x = leaf(torch, 1.0)
        for k in range(3):
            h = x * 2
            h.register_hook(lambda g: g * 2)
            h.retain_grad()
            if k:
                h.tolist()
            (g,) = torch.autograd.grad((h * h * h).sum(), x, create_graph=True)
            g.sum().backward()
            torch.synchronize()

    # llvmlite leaves ctypes' types, once a kernel; what verifies makes graphs of its own.
    with config.override(compile=False, wait=False, verify=False):
        work()
        work()
        gc.collect()
        work()
        torch.synchronize()
        assert gc.collect() == 0
