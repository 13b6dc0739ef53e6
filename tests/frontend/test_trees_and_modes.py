"""Trees, dual tensors, and modes that are asked about every call: the same under PyTorch."""

from __future__ import annotations

import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")
Named = namedtuple("Named", "u v")


def of(T: Any, name: str) -> Any:
    return importlib.import_module(f"{T.__name__}.{name}")


def text(values: Any) -> str:
    return repr(values).replace("wend.", "torch.")


def trees(T: Any) -> list[Any]:
    P = of(T, "utils._pytree")
    tree = {
        "b": [1, (2, None)],
        "a": Named(3, OrderedDict(z=4)),
        "d": deque([5], maxlen=3),
        "f": defaultdict(list, g=6),
    }
    leaves, spec = P.tree_flatten(tree)
    again = P.treespec_loads(P.treespec_dumps(P.tree_structure({"a": [1, (2,)]})))
    seen = [leaves, P.tree_unflatten(leaves, spec) == tree, spec == P.tree_structure(tree)]
    seen += [spec.num_leaves, spec.num_nodes, spec.num_children, text(spec)]
    seen += [P.tree_map(lambda x, y: (x, y), [1, 2], [3, [4]]), P.tree_leaves(None)]
    seen += [[P.keystr(path) for path, _ in P.tree_leaves_with_path(tree)]]
    seen += [P.key_get(tree, path) for path, _ in P.tree_leaves_with_path(tree)]
    seen += [again == P.tree_structure({"a": [0, (0,)]}), P.treespec_pprint(again)]
    seen += [P.tree_map_only(int, lambda x: -x, [1, "a"]), P.tree_any(callable, [1, 2])]
    seen += [P._broadcast_to_and_flatten((0, 1), P.tree_structure(([1, 2], 3)))]
    seen += [P.tree_map_with_path(lambda path, x: len(path) + x, {"a": [1]})]
    seen += [P.tree_flatten([1, [2]], is_leaf=lambda x: x == [2])[0], P.arg_tree_leaves(1, a=[2])]
    for fault in (
        lambda: P.tree_unflatten([1], spec),
        lambda: P.tree_map(lambda x, y: x, [1], (1,)),
        lambda: P.tree_map(lambda x, y: x, [1], [1, 2]),
        lambda: P.tree_map(lambda x, y: x, {"a": 1}, {"b": 1}),
        lambda: P.treespec_dumps(3),
        lambda: P.register_pytree_node(list, None, None),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            fault()
        seen.append(type(caught.value).__name__)
    return seen


def test_trees():
    assert trees(wend) == trees(torch)


def test_classes_of_the_users_are_nodes_for_transforms_too():
    class Point:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    P = of(wend, "utils._pytree")
    P.register_pytree_node(Point, lambda p: ([p.a, p.b], None), lambda c, _: Point(*c))
    found = wend.func.grad(lambda p: (p.a * p.b).sum())(Point(wend.ones(2), 3 * wend.ones(2)))
    assert (found.a.tolist(), found.b.tolist()) == ([3.0, 3.0], [1.0, 1.0])


def duals(T: Any) -> list[Any]:
    fwAD = of(T, "autograd.forward_ad")
    x, w = T.tensor([1.0, 2, 3]), T.tensor([0.5, 0.1, 2.0], requires_grad=True)
    layer = T.nn.Linear(3, 2)
    layer.load_state_dict({"weight": T.arange(6.0).reshape(2, 3), "bias": T.ones(2)})
    with fwAD.dual_level():
        d = fwAD.make_dual(x, T.tensor([1.0, 0, 2]))
        e = fwAD.make_dual(w.detach(), T.arange(3.0))
        primal, tangent = fwAD.unpack_dual((d * w).sin() * d)
        tangent.sum().backward()
        found = [primal, tangent, w.grad]
        for y in (d, d * e, e.exp(), layer(d).softmax(0), d.cumsum(0)[1:], (d @ e) ** 2):
            found += fwAD.unpack_dual(y)
        assert fwAD.unpack_dual(x).tangent is None
        assert fwAD.unpack_dual(w).tangent is None
        with pytest.raises(RuntimeError, match="Nested"):
            fwAD.enter_dual_level()
        with pytest.raises(RuntimeError, match="size"):
            fwAD.make_dual(x, T.ones(2))
    with pytest.raises(RuntimeError, match="no level"):
        fwAD.make_dual(x, x)
    return [y.detach().numpy() for y in found]


def test_dual_tensors():
    for a, b in zip(duals(wend), duals(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def asked(T: Any) -> list[Any]:
    class Log(of(T, "overrides").TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Product(of(T, "overrides").TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is T.add:
                return T.mul(*args)
            return func(*args, **(kwargs or {}))

    with Log() as log:
        a = T.ones(3)
        b = T.add(a, a)
        T.nn.functional.relu((b * 2).sum())
        a.exp()
        T.cat([a, b])
    with Log() as outer, Product(), Log() as inner:
        found = T.add(T.full((2,), 3.0), T.full((2,), 3.0))
    return [log.names, outer.names, inner.names, found.tolist(), T.add(a, a).tolist()]


def test_modes_are_asked_about_every_call():
    assert asked(wend) == asked(torch)


def test_modes_and_autocast_together_and_apart():
    a = wend.ones(2, 2)
    with wend.autocast("cpu"), wend.overrides.BaseTorchFunctionMode():
        assert (a @ a).dtype is wend.bfloat16
        assert wend.mm.general is not None
    assert wend.mm.general is None
    assert wend.add.general is None
    with pytest.raises(TypeError, match="NotImplemented"), Refusing():
        a + a


class Refusing(wend.overrides.TorchFunctionMode):
    """A mode without answers."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented
