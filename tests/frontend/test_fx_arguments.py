"""`torch.fx`: arguments in a normal form, facts of tensors as nodes, arguments of a tracer."""

import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

BOTH = pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])


def scaled(x, factor=2.0, *, shift=0.5):
    return x * factor + shift


torch.fx.wrap("scaled")
wend.fx.wrap("scaled")


def starred(*args):
    return args[0]


def traced(t):
    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = t.nn.ReLU()
            self.parts = t.nn.Sequential(t.nn.Linear(2, 2))

        def forward(self, x, y):
            x = self.act(self.parts(x))
            x = t.nn.functional.leaky_relu(x, 0.25)
            return scaled(x, shift=1.0).reshape(-1) + y

    return t.fx.symbolic_trace(Net())


@BOTH
@pytest.mark.parametrize("by_word", [False, True])
def test_normalized_arguments(t, by_word):
    module = traced(t)
    found = {}
    for node in module.graph.nodes:
        pair = node.normalized_arguments(module, normalize_to_only_use_kwargs=by_word)
        found[node.name] = None if pair is None else (
            [str(a) for a in pair.args], {k: str(v) for k, v in pair.kwargs.items()}
        )  # fmt: skip
    first, named = found["leaky_relu"]
    assert found["x"] is None
    assert found["reshape"] is None
    assert found["act"] == (([], {"input": "parts_0"}) if by_word else (["parts_0"], {}))
    everything = {"input": "act", "negative_slope": "0.25"}
    named.pop("inplace", None)  # of PyTorch's function
    assert {**dict(zip(everything, first, strict=False)), **named} == everything
    assert len(first) <= (0 if by_word else 2)  # PyTorch hands the slope on by keyword
    first, named = found["scaled"]
    assert (first, named) == (
        ([], {"x": "leaky_relu", "factor": "2.0", "shift": "1.0"})
        if by_word
        else (["leaky_relu"], {"factor": "2.0", "shift": "1.0"})
    )


@BOTH
def test_calls_that_have_no_normal_form(t):
    from importlib import import_module

    schemas = import_module(f"{t.__name__}.fx.operator_schemas")
    assert schemas.normalize_function(starred, (1,)) is None
    assert schemas.normalize_function(scaled, (1, 2)) == ((1, 2), {"shift": 0.5})
    root = t.nn.Sequential(t.nn.Sequential(), traced(t))
    assert schemas.normalize_module(root, "1", (1, 2)) is None
    with pytest.raises(RuntimeError, match="missing"):
        schemas.normalize_module(root, "missing", ())


def test_functions_without_a_signature_have_no_normal_form():
    schemas = wend.fx.operator_schemas
    assert schemas.normalize_function(dict.fromkeys, ([1],)) is None
    assert schemas.normalize_function(scaled, ()) is None


@BOTH
def test_facts_of_tensors_as_nodes(t):
    graph = t.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = t.ones(2, 3).t()
    nodes = [
        graph.create_size_node(x, 0),
        graph.create_stride_node(x, 1),
        graph.create_storage_offset_node(x),
    ]
    assert [n.meta["val"] for n in nodes] == [3, 3, 0]
    graph.output(tuple(nodes))
    module = t.fx.GraphModule(t.nn.Module(), graph)
    given = t.arange(12.0).reshape(3, 4)[1:]
    assert tuple(module(given)) == (2, 1, 4)
    assert graph.owning_module is module
    assert tuple(graph.process_inputs(1, 2)) == (1, 2)
    assert graph.process_outputs(3) == 3
    bare = t.fx.Graph()
    assert "val" not in bare.create_size_node(bare.placeholder("y"), 0).meta


@BOTH
def test_a_tracer_makes_the_arguments(t):
    seen = []

    class Tracer(t.fx.Tracer):
        def create_args_for_root(self, root_fn, is_module, concrete_args=None):
            function, args = super().create_args_for_root(root_fn, is_module, concrete_args)
            seen.append((is_module, len(args)))
            return function, args

    def function(a, b=3):
        return a + b

    graph = Tracer().trace(function)
    assert [n.name for n in graph.nodes if n.op == "placeholder"] == ["a", "b"]
    Tracer().trace(t.nn.Sequential(t.nn.ReLU()))
    assert seen == [(False, 2), (True, 2)]


@BOTH
def test_constants_in_the_order_of_the_arguments(t):
    def function(a, b):
        return a * 2 if b else a * 3

    tracer = t.fx.Tracer()
    graph = tracer.trace(function, (t.fx.PH, True))
    module = t.fx.GraphModule(tracer.root, graph)
    assert module(t.ones(1), True).tolist() == [2]
    with pytest.raises((RuntimeError, ValueError), match="expected 2 arguments but got 1"):
        t.fx.Tracer().trace(function, (t.fx.PH,))


@BOTH
def test_arguments_by_keyword_only(t):
    def function(a, *, b):
        return a - b

    graph = t.fx.symbolic_trace(function)
    assert [n.name for n in graph.graph.nodes if n.op == "placeholder"] == ["a", "b"]


@BOTH
def test_fresh_names(t):
    tracer = t.fx.Tracer()
    tracer.root = t.nn.Module()
    assert tracer.get_fresh_qualname("part") == "part0"
    tracer.root.part0 = tracer.root.part1 = 1
    assert tracer.get_fresh_qualname("part") == "part2"
