"""Folding: modules, equal blocks, parts; nothing is lost and nothing unequal is a repeat."""

import pytest
from tests.frontend.graphs_to_see import GRAPHS, Writer, transformer

from wend._frontend.seeing.folding import MOST_ITEMS, MOST_LEAVES, Fold, fold


def repeats_of(folding):
    return [item for item in folding.folds if item.kind == "repeat"]


@pytest.mark.parametrize("name", GRAPHS)
def test_each_op_lies_in_one_fold(name):
    graph = GRAPHS[name]()
    folding = fold(graph)
    ids = [op.id for root in folding.roots for op in root.ops()]
    assert sorted(ids) == list(range(len(graph)))
    for index, item in enumerate(folding.folds):
        assert item.index == index
        assert item.parent is None or item.parent.index < index
        assert len(item.items) <= 2 * MOST_ITEMS + MOST_LEAVES
    for node in graph:
        assert folding.homes[node.id].phase == folding.phases[node.id]
        assert node.is_leaf or node.phase == folding.phases[node.id]
        assert any(x is node for x in folding.homes[node.id].items)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("most", [10, 60, 400])
def test_unfolding_stays_below_a_number(name, most):
    folding = fold(GRAPHS[name]())
    opened = folding.opened(most)
    boxes = 0
    for item in folding.folds:
        if item.index in opened:
            assert item.parent is None or item.parent.index in opened
            boxes += folding.visible(item) - (item.parent is not None)
    assert boxes <= max(most, sum(folding.visible(root) for root in folding.roots))


def test_equal_layers_are_a_repeat_in_each_phase():
    found = repeats_of(fold(transformer(layers=12)))
    layers = [item for item in found if item.class_name == "EncoderLayer"]
    assert [(item.phase, item.times) for item in layers] == [
        ("forward", 12),
        ("backward", 12),
        ("update", 12),
    ]
    assert {item.label for item in layers} == {"encoder.layers.0 … 11"}
    assert len({item.key for item in layers}) == 1


def layers(changes=()):
    """Eight modules with equal ops; `changes` are done to the ops of the modules, by number."""
    w = Writer("layers")
    x = w.parameter("x", (4, 4))
    for number in range(8):
        with w.inside(f"layer{number}", "Layer"):
            y = w.linear("a", x, 4, 4, 4)
            ids = [w.add("tanh", (y,), (4, 4)), w.add("add", (len(w.graph) - 1, y), (4, 4))]
            x = ids[-1]
            for which, change in changes:
                if which == number:
                    change(w.graph, ids)
    return w.graph


def change_op(graph, ids):
    graph[ids[0]].op = "sigmoid"


def change_shape(graph, ids):
    graph[ids[0]].shape = (4, 1)


def change_dtype(graph, ids):
    graph[ids[0]].dtype = "float64"


def change_operands(graph, ids):
    graph[ids[1]].inputs = (ids[0], ids[0])


def change_class(graph, ids):
    graph.modules[graph[ids[0]].module] = "OtherLayer"


def test_layers_without_changes():
    (found,) = repeats_of(fold(layers()))
    assert found.times == 8
    assert [item.path for item in found.items] == [f"layer{i}" for i in range(8)]


@pytest.mark.parametrize(
    "change", [change_op, change_shape, change_dtype, change_operands, change_class]
)
def test_a_layer_that_differs_is_no_part_of_a_repeat(change):
    found = repeats_of(fold(layers([(4, change)])))
    assert [(item.label, item.times) for item in found] == [
        ("layer0 … layer3", 4),
        ("layer5 … layer7", 3),
    ]


def test_numbers_do_not_part_a_repeat():
    graph = layers()
    for node in graph:
        node.numbers = str(node.id)
    assert [item.times for item in repeats_of(fold(graph))] == [8]


def test_blocks_of_several_steps():
    w = Writer("loop")
    x = w.parameter("x", (4,))
    for _ in range(10):
        x = w.add("tanh", (w.add("mul", (x, x), (4,)),), (4,))
    (found,) = repeats_of(fold(w.graph))
    assert found.times == 10
    assert found.class_name == "mul, tanh"
    assert [item.label for item in found.items] == [f"{i} of 10" for i in range(1, 11)]
    assert all([op.op for op in item.ops()] == ["mul", "tanh"] for item in found.items)


def test_few_equal_ops_are_no_repeat():
    w = Writer("few")
    x = w.parameter("x", (4,))
    for _ in range(5):
        x = w.add("tanh", (x,), (4,))
    assert repeats_of(fold(w.graph)) == []


def test_containers_that_nobody_calls_are_no_folds():
    folding = fold(transformer(layers=2))
    paths = {item.path for item in folding.folds if item.kind == "module"}
    assert "encoder.layers.0.attn" in paths
    assert not paths & {"encoder", "encoder.layers"}


def test_owners():
    graph = transformer(layers=2)
    folding = fold(graph)
    for node in graph:
        home = folding.homes[node.id].path
        if node.is_leaf and "." in node.name:
            assert home == node.name.rpartition(".")[0]
            assert node.id in folding.parameters
        elif node.is_leaf:
            assert node.id not in folding.parameters
        elif node.phase == "update":  # of the parameter
            root = node
            while not root.is_leaf:
                root = graph[root.inputs[0]]
                if root.partner is not None:
                    break
            assert home == (root.module or folding.homes[root.id].path)


def test_constants_lie_with_their_users():
    w = Writer("constant")
    x = w.parameter("x", (4,))
    with w.inside("scale", "Scale"):
        two = w.add("input", (), ())
        w.add("mul", (x, two), (4,))
    folding = fold(w.graph)
    assert folding.homes[two].path == "scale"
    assert folding.parameters == {two}


def test_many_inputs_are_together():
    w = Writer("sum")
    leaves = [w.parameter(f"x{i}", (4,)) for i in range(100)]
    w.add("stack", leaves, (100, 4))
    folding = fold(w.graph)
    first, last = folding.roots[0].items
    assert isinstance(first, Fold) and first.label == "100 inputs"
    assert last.op == "stack"
    assert max(len(item.items) for item in folding.folds) <= MOST_ITEMS


def recursion(steps, newer=True):
    """A module `cell` with an inner module, called again and again by the program."""
    w = Writer("recursion")
    x = w.parameter("x", (4,))
    for _ in range(steps):
        with w.inside("cell", "Cell"):
            y = w.linear("inner", x, 4, 4, 1)
            y = w.add("tanh", (y,), (4,))
        z = w.add("mul", (y, y), (4,))
        x = z if newer else x
    loss = w.add("sum", (x,), ())
    w.update(w.backward(loss))
    return w.graph


def test_calls_of_a_module_are_apart():
    folding = fold(recursion(3))
    (found,) = [x for x in repeats_of(folding) if x.phase == "forward"]
    assert [
        [x.label if isinstance(x, Fold) else x.op for x in item.items] for item in found.items
    ] == [[f"cell (call {number})", "mul"] for number in (1, 2, 3)]
    calls = {item.path for item in folding.folds if item.kind == "module"}
    assert {"cell (call 1)", "cell (call 2)", "cell (call 3)", "cell (call 2).inner"} <= calls
    for item in folding.folds:
        if item.path.startswith("cell"):
            assert item.class_name in ("Cell", "Linear") or item.kind != "module"


def test_the_backward_pass_lies_in_the_call_of_the_forward_op():
    graph = recursion(3)
    folding = fold(graph)
    for node in graph:
        if node.partner is not None:
            assert folding.homes[node.id].path == folding.homes[node.partner].path


def test_calls_are_equal_blocks():
    (found,) = [x for x in repeats_of(fold(recursion(30))) if x.phase == "forward"]
    assert found.times == 30
    assert [item.op if not isinstance(item, Fold) else "cell" for item in found.items[0].items] == [
        "cell",
        "mul",
    ]


def test_calls_on_older_values_stay_together():
    paths = {item.path for item in fold(recursion(3, newer=False)).folds}
    assert paths >= {"cell", "cell.inner"}
    assert not any("call" in path for path in paths)


def test_modules_that_are_called_once_by_each_caller_have_no_numbers():
    paths = {item.path for item in fold(recursion(30)).folds}
    assert not any("inner (call" in path for path in paths)


def test_state_of_an_optimizer_lies_in_the_update():
    w = Writer("state")
    with w.inside("layer", "Linear"):
        weight = w.parameter("weight", (4,))
    loss = w.add("sum", (weight,), ())
    state = w.add("input", (), (4,))
    w.phase = "update"
    w.add("add_", (weight, state), (4,))
    folding = fold(w.graph)
    assert folding.phases[state] == "update"
    assert folding.homes[state].path == "layer"
    assert folding.parameters == {weight, state}
    assert folding.homes[loss].phase == "forward"
