"""torch.compile, torch.compiler and torch._dynamo: arguments, modules, verified graphs."""

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._dynamo.exc import InvalidBackend, Unsupported


def double(x):
    """Twice."""
    return x * 2


def test_functions_with_and_without_arguments():
    x = torch.ones(2)

    @torch.compile
    def plain(x):
        return x + 1

    @torch.compile(backend="eager", dynamic=True, mode="max-autotune")
    def given(x):
        return x + 2

    assert plain(x).tolist() == [2.0, 2.0]
    assert given(x).tolist() == [3.0, 3.0]
    found = torch.compile(double)
    assert found.__doc__ == "Twice."
    assert torch.compiler.disable(found) is double
    assert torch.compile(double, disable=True) is double
    assert torch.compile(nn.Linear) is nn.Linear


WRONG = [
    {"mode": "fast"},
    {"mode": 3},
    {"mode": "default", "options": {}},
    {"options": [1]},
    {"dynamic": "a"},
    {"backend": "nope"},
]


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_settings_that_pytorch_refuses(settings):
    with pytest.raises(RuntimeError):
        torch.compile(double, **settings)
    with pytest.raises(RuntimeError):
        nn.Linear(2, 2).compile(**settings)


def test_other_arguments_that_pytorch_refuses():
    with pytest.raises(AssertionError, match="callable function is expected"):
        torch.compile(3)
    with pytest.raises(RuntimeError, match="Model can't be None"):
        torch.compile()(None)
    with pytest.raises(TypeError):
        torch.compile(double, True)
    with pytest.raises(InvalidBackend, match="list_backends"):
        torch.compile(double, backend="nope")


def test_signatures_are_pytorchs():
    real = pytest.importorskip("torch")
    from torch._higher_order_ops import associative_scan, scan

    ours = torch._higher_order_ops
    pairs = [
        (torch.compile, real.compile),
        (torch.cond, real.cond),
        (torch.while_loop, real.while_loop),
        (ours.scan, scan),
        (ours.associative_scan, associative_scan),
    ]
    import torch.compiler as compiler

    for name in ("disable", "list_backends", "set_stance", "nested_compile_region"):
        pairs.append((getattr(torch.compiler, name), getattr(compiler, name)))
    for a, b in pairs:
        assert set(inspect.signature(b).parameters) <= set(inspect.signature(a).parameters), a


def test_a_compiled_module_is_pytorchs_optimized_module():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout())
    found = torch.compile(model)
    assert type(found).__name__ == "OptimizedModule"
    assert isinstance(found, nn.Module)
    assert list(found.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [name for name, _ in found.named_children()] == ["_orig_mod"]
    assert found._orig_mod is model
    assert len(found) == 2
    found.label = 7
    assert model.label == 7
    found.eval()
    assert not model.training
    x = torch.randn(4, 2)
    assert torch.equal(found(x), model(x))
    assert torch.compile(found)._orig_mod is model
    assert torch._dynamo.disable(found) is model
    found.load_state_dict(found.state_dict())
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert again._orig_mod is not model
        assert torch.equal(again(x), model(x))
    found.train()
    found(x).sum().backward()
    assert model[0].weight.grad is not None
    with pytest.raises(AttributeError):
        found.nothing  # noqa: B018


class Reading(nn.Module):
    """Reads values by NumPy."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x)
        return y * float(y.detach().numpy().max())


def test_fullgraph_is_verified():
    def branching(x):
        return x * 2 if x.sum() > 0 else x - 1

    found = torch.compile(branching, fullgraph=True)
    for sign in (1.0, -1.0):
        x = torch.full((3,), sign)
        assert torch.equal(found(x), branching(x))
    x = torch.ones(1, 2)
    model = Reading()
    for refused in (
        torch.compile(model, fullgraph=True),
        torch.compile(model.forward, fullgraph=True),
    ):
        with pytest.raises(Unsupported, match=r"(?s)fullgraph.*NumPy.*test_compile\.py:\d+"):
            refused(x)
    model.compile(fullgraph=True)
    with pytest.raises(Unsupported, match="fullgraph"):
        model(x)
    model.compile()
    assert model(x).shape == (1, 2)


def test_fullgraph_explores_once_for_each_kind_of_arguments():
    explored = []

    @torch.compile(fullgraph=True)
    def function(x, scale=1):
        explored.append(torch.compiler.is_compiling())
        return x * scale

    def n_explored(*args):
        explored.clear()
        function(*args)
        return any(explored)

    assert n_explored(torch.ones(2))
    assert not n_explored(torch.ones(5))
    assert n_explored(torch.ones(2, 2))
    assert n_explored(torch.ones(2), 3)
    assert n_explored(torch.ones(2, dtype=torch.float64))
    assert not n_explored(torch.ones(7), 3)


def test_modules_compiled_in_place_train():
    model = nn.Linear(2, 1)
    model.compile(fullgraph=True, mode="reduce-overhead")
    model(torch.ones(3, 2)).sum().backward()
    np.testing.assert_allclose(model.weight.grad.numpy(), [[3.0, 3.0]])
    assert list(model.state_dict()) == ["weight", "bias"]
    assert copy.deepcopy(model)(torch.ones(3, 2)).shape == (3, 1)


def test_backends_are_names():
    def own(module, inputs):
        raise AssertionError("it was called")

    x = torch.ones(2)
    assert torch.compile(double, backend=own)(x).tolist() == [2.0, 2.0]
    torch._dynamo.register_backend(own)
    try:
        assert "own" in torch._dynamo.list_backends()
        assert torch._dynamo.lookup_backend("own") is own
        assert torch.compile(double, backend="own")(x).tolist() == [2.0, 2.0]
    finally:
        from wend._frontend.static.compiling import BACKENDS

        del BACKENDS["own"]
    assert "eager" in torch.compiler.list_backends(None)


def test_switches_that_change_nothing():
    x = torch.ones(2, 3)
    torch._dynamo.mark_dynamic(x, 0, min=1, max=5)
    torch._dynamo.maybe_mark_dynamic(x, [0, 1])
    torch._dynamo.mark_static(x)
    torch._dynamo.reset()
    torch.compiler.reset()
    torch.compiler.cudagraph_mark_step_begin()
    with torch.compiler.set_stance("force_eager"):
        assert double(x).sum() == 12

    @torch.compiler.set_stance("eager_on_recompile")
    def held(x):
        return x

    assert held(x) is x
    with pytest.raises(RuntimeError):
        torch.compiler.set_stance("dance")

    @torch.compiler.disable(recursive=False)
    def plain(x):
        return x

    assert torch.compiler.allow_in_graph(plain)(x) is x
    with pytest.raises(AssertionError):
        torch.compiler.allow_in_graph(3)
    with torch._dynamo.config.patch(suppress_errors=True, verbose=True):
        assert torch._dynamo.config.suppress_errors
    assert not torch._dynamo.config.suppress_errors
    with pytest.raises(AttributeError), torch._dynamo.config.patch(nothing=1):
        pass
    torch._inductor.config.triton.unique_kernel_names = True
    squares = torch.compiler.wrap_numpy(lambda a: a**2)
    assert squares(torch.arange(3)).tolist() == [0, 1, 4]


def test_explain_tells_whether_there_is_a_graph():
    found = torch._dynamo.explain(double)(torch.ones(2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 1)
    assert "mul" in str(found)
    found = torch._dynamo.explain(Reading())(torch.ones(1, 2))
    assert (found.graph_count, found.graph_break_count) == (0, 1)
    assert "NumPy" in str(found)


def test_names_under_the_alias(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch._dynamo, torch.compiler as c\n"
        "from torch._higher_order_ops.while_loop import while_loop\n"
        "from torch._higher_order_ops import scan, associative_scan\n"
        "from torch._dynamo.eval_frame import OptimizedModule\n"
        "from torch.compiler import is_compiling, set_stance\n"
        "assert torch.compiler is c and not c.is_compiling()\n"
        "assert torch.while_loop is while_loop and torch.compile(len)\n"
        "torch._dynamo.config.suppress_errors = True\n"
        "import torch._inductor.config as config\n"
        "config.coordinate_descent_tuning = True\n"
        "@torch.compile(mode='reduce-overhead')\n"
        "def f(x):\n"
        "    return x + 1\n"
        "assert f(torch.zeros(1)).item() == 1\n"
        "assert isinstance(torch.compile(torch.nn.Linear(1, 1)), OptimizedModule)\n"
    )
    subprocess.run([sys.executable, "-m", "wend", "run", str(program)], check=True, timeout=60)
