"""Which calls a mode of `torch.overrides` is asked about: those that PyTorch's is asked about.

Every overridable function of PyTorch's is called with arguments of kinds that its parser takes; the
mode answers for the function, so nothing is computed.
"""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import wend

torch = pytest.importorskip("torch")


def mode(T: Any, answer: Callable[..., Any]) -> Any:
    """A mode of a framework that keeps the functions it is asked about."""

    class Mode(T.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(func)
            return answer(func, args, kwargs or {})

    return Mode()


def arguments(T: Any) -> dict[str, Any]:
    t = T.ones(2, 2)
    return {
        "tensor": t, "int": 1, "ints": (2, 2), "tensors": [t, t], "text": "mean",
        "dtype": T.float32, "flag": True, "function": lambda *a: a[0],
    }  # fmt: skip


def questions(T: Any, call: Callable[[], Any]) -> list[Any]:
    """What a mode is asked while `call` is made; the mode's answer is -1, which may not suit."""
    asked = mode(T, lambda func, args, kwargs: -1)
    with asked:
        try:
            call()
        except Exception:
            pass
    return asked.seen


_TENSORS = "input self other x tensor mat2 weight target input1 input2 mat".split()
_KINDS = "tensor int ints tensors text dtype flag function".split()


def caller(T: Any, name: str, kinds: tuple[str, ...]) -> tuple[Any, Callable[[], Any]]:
    """The function of a name, and a call of it as users write one."""
    *path, last = name.split(".")[1:]
    owner: Any = T
    for part in path:
        owner = getattr(owner, part)
    given = [arguments(T)[k] for k in kinds]
    if path[:1] != ["Tensor"]:
        return getattr(owner, last), lambda: getattr(owner, last)(*given)
    x = arguments(T)["tensor"]
    if last in ("__get__", "__set__", "__delete__"):
        return getattr(owner, last), lambda: getattr(x, path[1])
    return getattr(owner, last), lambda: getattr(x, last)(*given[1:])


def overridable() -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Each function of PyTorch's by its name, and kinds of arguments to try."""
    stand_ins = torch.overrides.get_testing_overrides()
    for functions in torch.overrides.get_overridable_functions().values():
        for f in functions:
            name = torch.overrides.resolve_name(f)
            if name is None or f not in stand_ins:
                continue
            needed = [
                p.name
                for p in inspect.signature(stand_ins[f]).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ]
            kinds = [["tensor"] if n in _TENSORS else _KINDS for n in needed]
            yield name, list(itertools.islice(itertools.product(*kinds), 100))


#: The mode is asked about the op that does the work, of another name.
OTHER_OPS = {
    "torch.spmm": "mm",
    **{
        f"torch.Tensor.__{sign}__": op
        for sign, op in {
            "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not",
            "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
            "rlshift": "bitwise_left_shift", "rrshift": "bitwise_right_shift", "eq": "eq",
            "floordiv": "floor_divide", "rfloordiv": "floor_divide", "rsub": "sub", "rpow": "pow",
            "rmod": "remainder", "rmatmul": "matmul", "rtruediv": "div",
        }.items()
    },
}  # fmt: skip


def same(ours: Any, function: Any, theirs: Any, name: str) -> bool:
    """Whether a question is about the function called, or bears the name of PyTorch's."""
    named = getattr(ours, "__name__", "")
    return ours == function or named == theirs.__name__ or named == OTHER_OPS.get(name)


def test_modes_are_asked_about_what_pytorchs_modes_are_asked_about():
    compared, silent, other = 0, [], []
    for name, _ in overridable():  # rare names are loaded when first used
        name.startswith("torch.Tensor") or getattr(wend, name.removeprefix("torch."), None)
    for name, tries in overridable():
        try:
            caller(wend, name, ())
        except AttributeError:
            continue  # names that Wend lacks: docs/names.md
        for kinds in tries:
            theirs = questions(torch, caller(torch, name, kinds)[1])
            if theirs:
                function, call = caller(wend, name, kinds)
                ours = questions(wend, call)
                compared += 1
                if not ours:
                    silent.append(name)
                elif not same(ours[0], function, theirs[0], name):
                    other.append((name, theirs[0].__name__, ours[0]))
                break
    assert silent == []
    assert other == []
    assert compared > 1200


def in_words(T: Any) -> dict[str, Callable[[Any], Any]]:
    """Calls by the language's own syntax, and calls whose functions were imported long before."""

    def assign(x: Any) -> None:
        x[0, :] = 2.0

    def add(x: Any) -> Any:
        x += 1
        return x

    def loop(x: Any) -> list[Any]:
        return [row for row in x]  # noqa: C416 (the loop itself is under test)

    def set_grad(x: Any) -> None:
        x.grad = None

    return {
        "x[1]": lambda x: x[1], "x[:, 1:]": lambda x: x[:, 1:], "x[x > 0]": lambda x: x[x > 0],
        "x[0, :] = 2": assign, "x += 1": add, "for row in x": loop, "len(x)": len,
        "bool": lambda x: bool(x.sum()), "float": lambda x: float(x.sum()),
        "in": lambda x: 1.0 in x, "a, b = x": lambda x: tuple(x), "x.chunk": lambda x: x.chunk(2),
        "x.split": lambda x: x.split(1), "x.shape": lambda x: x.shape, "x.T": lambda x: x.T,
        "x.grad": lambda x: x.grad, "x.grad = None": set_grad, "x @ x": operator.matmul,
        "x.data": lambda x: x.data, "x.requires_grad_": lambda x: x.requires_grad_(),
        "F.dropout": lambda x: T.nn.functional.dropout(x), "item": lambda x: x.sum().item(),
        "numpy": lambda x: x.numpy(), "tolist": lambda x: x.tolist(), "x.to": lambda x: x.to(T.int),
        "torch.tensor": lambda x: T.tensor([1.0]), "stack": lambda x: T.stack([x, x]),
        "backward": lambda x: (x.requires_grad_() * 2).sum().backward(),
    }  # fmt: skip


@pytest.mark.parametrize("words", in_words(wend))
def test_syntax_is_asked_about(words):
    found = []
    for T in (torch, wend):
        asked = mode(T, lambda func, args, kwargs: func(*args, **kwargs))
        call, x = in_words(T)[words], T.ones(2, 2)
        with asked:
            call(x) if words != "x @ x" else call(x, x)
        found.append([f.__name__ for f in asked.seen])
    assert found[1] == found[0]


def test_a_mode_may_replace_indexing_and_attributes():
    def answer(func, args, kwargs):
        if func is wend.Tensor.__getitem__:
            return "a part"
        if func == wend.Tensor.shape.__get__:
            return "a shape"
        return func(*args, **kwargs)

    x = wend.ones(2, 3)
    with mode(wend, answer):
        assert (x[0], x.shape) == ("a part", "a shape")
    assert (x[0].tolist(), tuple(x.shape)) == ([1.0] * 3, (2, 3))


def test_modes_come_before_classes():
    order = []

    class Own(wend.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append("class")
            return super().__torch_function__(func, types, args, kwargs)

    x = wend.ones(2).as_subclass(Own)

    def answer(func, args, kwargs):
        order.append("mode")
        return func(*args, **kwargs)

    for call in (lambda: x + 1, lambda: x[0], lambda: x.numel(), lambda: x.chunk(2)):
        order.clear()
        with mode(wend, answer):
            call()
        assert order == ["mode", "class"]


def test_nothing_stays_behind():
    members, code = dict(vars(wend.Tensor)), wend.allclose.__code__
    functions = {n: f for n, f in vars(wend).items() if callable(f)}
    with wend.overrides.BaseTorchFunctionMode(), wend.overrides.BaseTorchFunctionMode():
        assert dict(vars(wend.Tensor)) != members
        assert wend.allclose.__code__ is not code
    assert dict(vars(wend.Tensor)) == members
    assert wend.allclose.__code__ is code
    assert {n: f for n, f in vars(wend).items() if n in functions} == functions


def test_rules_of_ops_do_not_ask():
    asked = mode(wend, lambda func, args, kwargs: func(*args, **kwargs))
    x = wend.ones(3, requires_grad=True)
    with asked:
        y = wend.nn.functional.softmax(x, 0)
        y.sum().backward()
    assert [f.__name__ for f in asked.seen] == ["softmax", "sum", "backward"]


def test_has_torch_function_is_true_inside():
    with wend.overrides.BaseTorchFunctionMode():
        assert wend.overrides.has_torch_function((wend.ones(1),))
        assert not wend.overrides.has_torch_function(())
    assert not wend.overrides.has_torch_function((wend.ones(1),))
