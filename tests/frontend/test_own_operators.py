# ruff: noqa: UP006, UP007, UP035, UP045 (annotations as users write them)
"""`torch.library` and `torch.overrides`: schemas, autocast, functions by key, redispatch."""

import inspect
from collections.abc import Sequence
from typing import List, Optional, Tuple, Union

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402
from wend import ops as _ops  # noqa: E402

BOTH = pytest.mark.parametrize("t", [wend, torch], ids=["wend", "torch"])
NUMBER = Union[int, float, bool]
SERIAL = iter(range(1000))


def fresh(t):
    """A name of an operator that nobody has."""
    return f"{t.__name__}_tests::op{next(SERIAL)}"


# -- schemas --------------------------------------------------------------------------------


def functions(t):
    """Functions with annotations of each kind."""
    T = t.Tensor

    def plain(x: T) -> T: ...

    def many(
        x: T, n: int, p: float = 0.5, *, flag: bool = False, s: str = "a"
    ) -> Tuple[T, int]: ...

    def optional(x: Optional[T], n: Optional[int] = None, y: "int | None" = None) -> None: ...

    def lists(x: List[T], y: Sequence[int], z: list[float], w: Sequence[bool]) -> List[T]: ...

    def rare(x: List[Optional[T]], y: Optional[List[int]], z: Sequence[T]) -> T: ...

    def numbers(x: NUMBER, y: int | float | bool = 2) -> NUMBER: ...

    def facts(
        d: t.dtype, v: t.device, e: t.dtype = t.int8, w: Optional[t.device] = None
    ) -> bool: ...

    def spelled(x: "T", n: "int" = 3) -> "float": ...

    spelled.__globals__["T"] = T
    return [plain, many, optional, lists, rare, numbers, facts, spelled]


@pytest.mark.parametrize("which", range(8))
@pytest.mark.parametrize("mutated", ["none", "unknown"])
@pytest.mark.parametrize("name", [None, "mine"])
def test_schemas(which, mutated, name):
    given = "unknown" if mutated == "unknown" else ()
    texts = [
        t.library.infer_schema(functions(t)[which], mutates_args=given, op_name=name)
        for t in (wend, torch)
    ]
    assert texts[0] == texts[1]


def test_schemas_of_functions_that_write():
    texts = [t.library.infer_schema(functions(t)[3], mutates_args={"x"}) for t in (wend, torch)]
    assert texts[0] == texts[1]
    assert "Tensor(a0!)[] x" in texts[0]


@BOTH
def test_schemas_that_no_operator_has(t):
    T = t.Tensor

    def bare(x): ...
    def of_dict(x: dict) -> T: ...
    def of_tuple(x: Tuple[int, int]) -> T: ...
    def starred(*x: T) -> T: ...
    def named(**x: T) -> T: ...
    def no_result(x: T): ...
    def odd_result(x: T) -> dict: ...
    def odd_default(x: T, n: int = object()) -> T: ...
    def unknown(x: "NoSuchName") -> T: ...  # noqa: F821

    for function in (
        bare, of_dict, of_tuple, starred, named, no_result, odd_result, odd_default, unknown
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"infer_schema|return type"):
            t.library.infer_schema(function, mutates_args=())
    for mutated in ("x", {"missing"}, {"n"}):

        def fine(x: T, n: int) -> T: ...

        with pytest.raises(ValueError):
            t.library.infer_schema(fine, mutates_args=mutated)


# -- operators ------------------------------------------------------------------------------


@BOTH
def test_autocast_of_an_operator(t):
    name = fresh(t)
    seen = []

    def function(x, n, y):
        seen.append((x.dtype, y.dtype, t.is_autocast_enabled("cpu")))
        return x * n

    function.__annotations__ = {"x": t.Tensor, "n": int, "y": t.Tensor, "return": t.Tensor}
    op = t.library.custom_op(name, function, mutates_args=())
    t.library.register_autocast(name, "cpu", t.bfloat16)
    x, y = t.ones(2), t.ones(2, dtype=t.int64)
    assert op(x, 3, y).dtype == t.float32
    with t.autocast("cpu", dtype=t.bfloat16):
        assert op(x, 3, y).dtype == t.bfloat16
        assert op(x.double(), 3, y).dtype == t.float64
    assert seen == [
        (t.float32, t.int64, False),
        (t.bfloat16, t.int64, False),
        (t.float64, t.int64, False),
    ]
    with pytest.raises((ValueError, RuntimeError), match="no_such_device"):
        t.library.register_autocast(name, "no_such_device", t.bfloat16)
    if t is wend:  # PyTorch finds this out at a call
        with pytest.raises(ValueError, match="no dtype"):
            t.library.register_autocast(name, "cpu", "bfloat16")


def test_functions_by_key():
    library = wend.library.Library("keys_of_tests", "DEF")
    library.define("scale(Tensor x) -> Tensor")
    library.impl("scale", lambda x: x * 2, "CPU")
    kernel = wend.library.get_kernel("keys_of_tests::scale", "CPU")
    assert kernel(wend.ones(1)).tolist() == [2]
    library.impl("scale", lambda x: kernel(x) + 1, "CPU")
    assert _ops.namespace("keys_of_tests").scale(wend.ones(1)).tolist() == [3]
    assert wend.library.get_kernel("aten::sin", "CPU")(wend.zeros(1)).tolist() == [0]
    library.impl("scale", lambda keys, x: (keys, x), "Autograd", with_keyset=True)
    assert wend.library.get_kernel("keys_of_tests::scale", "Autograd")(1) == (None, 1)
    library.impl("scale", wend.library.fallthrough_kernel, "Autograd")
    assert _ops.namespace("keys_of_tests").scale(wend.ones(1)).tolist() == [3]
    with pytest.raises(RuntimeError, match="allow_override"):
        library.impl("scale", lambda x: x, "CPU", allow_override=False)
    with pytest.raises(ValueError, match="no dispatch key"):
        wend.library.get_kernel("keys_of_tests::scale", "NoSuchKey")
    with pytest.raises(ValueError, match="unexpected type"):
        wend.library.get_kernel(3, "CPU")
    for missing in ("keys_of_tests::absent", "aten::no_such_operator"):
        with pytest.raises((RuntimeError, AttributeError)):
            wend.library.get_kernel(missing, "CPU")
    with pytest.raises(NotImplementedError):
        wend.library.fallthrough_kernel()


def test_descriptions_of_results():
    name = fresh(wend)
    wend.library.define(name, "(Tensor x) -> Tensor")
    first = wend.library.impl_abstract(qualname=name, func=lambda x: x)
    assert first(3) == 3

    @wend.library.register_fake(name)
    def second(x):
        return x

    with pytest.raises(RuntimeError, match="allow_override"):
        wend.library.register_fake(name, lambda x: x, allow_override=False)


# -- overrides ------------------------------------------------------------------------------


@BOTH
def test_a_call_goes_on_and_ops_inside_ask(t):
    log = []

    class Logging(t.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args, kwargs=None):
            log.append(func.__name__)
            return t.overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if t.overrides.has_torch_function((a, b)):
            return t.overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    x, y = (t.tensor([v]).as_subclass(Logging) for v in (3.0, 4.0))
    log.clear()
    result = scaled(x, y)
    assert log == ["scaled", "mul"]
    assert type(result) is t.Tensor
    assert result.tolist() == [13]
    log.clear()
    assert t.overrides.has_torch_function((x,))  # a skip does not last


@BOTH
def test_lists_of_functions(t):
    ignored = t.overrides.get_ignored_functions()
    assert {t.typename, t.Tensor.as_subclass, t.get_default_dtype} <= ignored
    assert t.add not in ignored
    stand_ins = t.overrides.get_testing_overrides()
    assert stand_ins[t.add](1, 2) == -1
    assert stand_ins[t.Tensor.sum](1) == -1
    assert next(iter(inspect.signature(stand_ins[t.add]).parameters)) == "input"
    assert not set(stand_ins) & ignored


def test_stand_ins_take_all_arguments():
    stand_ins = wend.overrides.get_testing_overrides()
    assert len(stand_ins) > 500
    assert np.all([f(1, 2, 3, out=4) == -1 for f in stand_ins.values()])
