"""Subclasses of Tensor and classes with a `__torch_function__`: what PyTorch does with them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")


def both(program: Any) -> None:
    """The program gives the same under both."""
    assert program(wend) == program(torch)


def test_results_of_a_subclass_are_instances_of_it():
    def program(T: Any) -> Any:
        class Marked(T.Tensor):
            pass

        x = Marked([1.0, 2.0])
        results = [x + 1, 1 - x, x[0], x[:1], T.ones(2) * x, x.sum(), x.detach(), T.stack([x, x])]
        results += [T.nn.functional.relu(x), x.max(0).values, x.as_subclass(T.Tensor)]
        return [type(result).__name__ for result in results]

    both(program)


def test_an_override_sees_functions_operators_methods_and_items():
    def program(T: Any) -> Any:
        seen = []

        class Logged(T.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        x = T.ones(2).as_subclass(Logged)
        results = [T.sin(x), x + 1, x.sum(), x[0], T.cat([x, x]), T.nn.functional.relu(x)]
        return seen, [type(result).__name__ for result in results]

    both(program)


def test_classes_that_are_no_tensors_override_too():
    def program(T: Any) -> Any:
        class Like:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__, [t.__name__ for t in types]

        x = Like()
        linear = T.nn.functional.linear
        return [T.sin(x), T.add(T.ones(2), x), T.ones(2) + x, T.stack([x]), linear(x, x)]

    both(program)


def test_nobody_knows_what_to_do():
    class Shy:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="sin: no implementation found for types"):
        wend.sin(Shy())
    with pytest.raises(TypeError):
        torch.sin(wend.ones(2))  # another framework's op asks for ours, and is told so at once


def test_overrides_of_threads_are_apart():
    """A function that another thread is calling is not taken for another framework's."""

    class Marked(wend.Tensor):
        pass

    def meet(x):
        barrier.wait(30)  # both are inside of the same call
        result = x + 1
        barrier.wait(30)
        return result

    barrier, kinds = threading.Barrier(2), []

    def call():
        x = wend.ones(2).as_subclass(Marked)
        kinds.append(type(Marked.__torch_function__(meet, (Marked,), (x,))))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kinds == [Marked, Marked]


def test_parameters_give_plain_tensors():
    def program(T: Any) -> Any:
        class Own(T.nn.Parameter):
            pass

        results = [p * 2 for p in (T.nn.Parameter(T.ones(2)), Own(T.ones(2)))]
        return [type(result).__name__ for result in results]

    both(program)


def test_results_with_names_print_as_pytorchs():
    def program(T: Any) -> str:
        return repr(T.max(T.tensor([[1.0, 2.0], [3.0, 0.0]]), 1))

    both(program)


def test_what_requires_grad_is_not_exported():
    for T in (wend, torch):
        with pytest.raises(BufferError, match="require gradient"):
            T.from_dlpack(T.ones(2, requires_grad=True))
    np.testing.assert_array_equal(wend.from_dlpack(wend.arange(3)).numpy(), [0, 1, 2])


def test_batch_norm_of_nothing():
    for T in (wend, torch):
        nothing = T.zeros(0)
        out = T.nn.functional.batch_norm(nothing, nothing, nothing, training=True)
        assert out.shape == (0,)
    with pytest.raises(IndexError, match="expected an input of"):
        wend.nn.functional.batch_norm(wend.ones(3), None, None, training=True)


def test_a_subclass_made_of_values_and_reversed():
    def program(T: Any) -> Any:
        class Marked(T.Tensor):
            @staticmethod
            def __new__(cls, data, note):
                made = T.Tensor._make_subclass(cls, data, True)
                made.note = note
                return made

            def __init__(self, data, note):
                pass

        x = Marked(T.arange(3.0), "n")
        told = [type(x).__name__, x.note, x.requires_grad, x.is_leaf, type(x * 2).__name__]
        return told, reversed(x.detach()).tolist(), reversed(T.tensor(1)).tolist()

    both(program)


def test_an_override_sees_what_is_no_op():
    """Attributes, methods and special methods: what they are called, and by which accessor."""

    def program(T: Any) -> Any:
        seen = []
        names = (
            "shape grad T mT requires_grad dtype is_leaf data device ndim is_cuda grad_fn".split()
        )

        class Logged(T.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                known = [n for n in names if func == getattr(T.Tensor, n).__get__]
                known += ["set"] if func == T.Tensor.requires_grad.__set__ else []
                seen.append((func.__name__, *known))
                return super().__torch_function__(func, types, args, kwargs or {})

        x = T.ones(2, 2).as_subclass(Logged)
        for name in names:
            seen.append(isinstance(getattr(x, name), Logged))
        x[0] = 3.0
        y = T.zeros(2, 2)
        y[1] = x[0]
        results = [x.size(), x.dim(), x.numel(), len(x), float(x[1, 1]), 3.0 in x, x.tolist()]
        results += [[type(row).__name__ for row in x], f"{x[1, 1]}", repr(x), y.tolist()]
        results += [
            T.split(x, 1)[1].tolist(),
            x.chunk(2)[0].shape,
            type(T.ones_like(x)).__name__,
        ]
        results += [reversed(x).tolist(), x.stride(), x.is_floating_point()]
        x.requires_grad = True
        (x * 2).sum().backward()
        results += [type(x.grad).__name__, x.grad.tolist(), x.detach().zero_().tolist()]
        return seen, results

    both(program)


def test_overrides_that_are_switched_off_and_members_of_other_bases():
    def program(T: Any) -> Any:
        seen = []

        class Sized:
            @property
            def is_cuda(self):
                return "mine"

        class Logged(Sized, T.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        class Derived(Logged):
            pass

        x = T.ones(3).as_subclass(Derived)
        results = [x.is_cuda, x.dim()]
        with (
            T.overrides.DisableTorchFunctionSubclass()
            if T is wend
            else T._C.DisableTorchFunctionSubclass()
        ):
            results += [x.dim(), x.numel()]
        return results, seen

    both(program)


def test_overrides_of_functions_of_the_users():
    def program(T: Any) -> Any:
        class Like:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__, [t.__name__ for t in types], args[1:], kwargs

        o = T.overrides

        def twice(a, b=1):
            if o.has_torch_function_unary(a):
                return o.handle_torch_function(twice, (a,), a, b=b)
            return a * 2

        wrapped = o.wrap_torch_function(lambda a: (a,))(lambda a: a + 1)
        like, x = Like(), T.ones(1)
        results = [twice(like, b=3), twice(x).item(), wrapped(x).item(), len(wrapped(like))]
        results += [o.has_torch_function((x, 1)), o.has_torch_function_variadic(x, like)]
        results += [o.is_tensor_like(x), o.is_tensor_like(like), o.is_tensor_like(3)]
        results += [o.resolve_name(f) for f in (T.sin, T.nn.functional.relu, T.Tensor.size)]
        results += [o.resolve_name(T.Tensor.shape.__get__), o.resolve_name(print)]
        results += [o.is_tensor_method_or_property(f) for f in (T.Tensor.shape.__get__, print)]
        return [*results, T.Tensor.grad.__get__ in o.get_default_nowrap_functions()]

    both(program)
    functions = wend.overrides.get_overridable_functions()
    assert wend.sin in functions[wend] and wend.nn.functional.relu in functions[wend.nn.functional]
    assert wend.Tensor.shape.__get__ in functions[wend.Tensor]


def test_parameters_of_a_subclass_keep_it():
    def program(T: Any) -> Any:
        class Marked(T.Tensor):
            pass

        class Forgetful(T.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                made = super().__torch_function__(func, types, args, kwargs or {})
                return made.as_subclass(T.Tensor) if isinstance(made, T.Tensor) else made

        p = T.nn.Parameter(T.ones(2, 2).as_subclass(Marked))
        layer = T.nn.Linear(2, 2, bias=False)
        layer.weight = p
        optimizer = T.optim.SGD(layer.parameters(), 0.5)
        layer(T.ones(1, 2)).sum().backward()
        optimizer.step()
        told = [isinstance(p, T.nn.Parameter), isinstance(p, Marked), isinstance(1, T.nn.Parameter)]
        told += [type(q).__name__ for q in layer.parameters()] + [p.tolist(), p.requires_grad]
        told += [isinstance(q, T.nn.Parameter) for q in (T.ones(1), T.nn.Parameter(T.ones(1)))]
        try:
            T.nn.Parameter(T.ones(2).as_subclass(Forgetful))
        except RuntimeError as error:
            return [*told, "detach() " in str(error)]
        return told

    both(program)
