"""chunk, split and unbind, whose plain calls the core answers: as the same functions in Python."""

import pickle

import numpy as np
import pytest

import wend
from tries import own_trie
from wend._engine.core import _hot

CALLS = [
    (wend.chunk, (3, 1)),
    (wend.chunk, (3,)),
    (wend.chunk, (2, -2)),
    (wend.chunk, (4, 1)),  # leaves a remainder
    (wend.chunk, (100, 1)),
    (wend.split, (2, 1)),
    (wend.split, (5, 1)),
    (wend.split, ([1, 0, 5], 1)),
    (wend.split, ((2, 4), -1)),
    (wend.unbind, (0,)),
    (wend.unbind, (-1,)),
    (wend.unbind, ()),
]


def grad_of(call, given):
    """Results of a call, and the gradient of a sum in which each of them counts differently."""
    x = wend.arange(24.0).reshape(4, 6).requires_grad_()
    parts = call(x * 1, *given)
    sum((k + 1) * (p * p).sum() for k, p in enumerate(parts)).backward()
    return [p.detach().numpy() for p in parts], x.grad.numpy()


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(("call", "given"), CALLS, ids=[f"{c.__name__}{g}" for c, g in CALLS])
def test_plain_calls_are_those_of_the_python_function(call, given, sealed):
    with own_trie(sealed=sealed):
        for _ in range(3):
            parts, grad = grad_of(call, given)
            expected, expected_grad = grad_of(call.plain, given)
            assert len(parts) == len(expected)
            for a, b in zip(parts, expected, strict=True):
                np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(grad, expected_grad)


def test_equal_parts_are_one_step_and_views():
    with own_trie(sealed=True):
        trace = _hot.current_trace()
        x = wend.zeros(2, 6) + 1
        wend.chunk(x, 3, 1)
        before = trace.ops
        a, b, c = x.chunk(3, dim=1)
        assert trace.ops == before + 1
        b.fill_(5.0)
        a.add_(1.0)
        assert x.tolist() == [[2.0, 2.0, 5.0, 5.0, 1.0, 1.0]] * 2
        x.mul_(2.0)
        assert c.tolist() == [[2.0, 2.0]] * 2
        assert a.tolist() == [[4.0, 4.0]] * 2


def test_sizes_may_change_from_step_to_step():
    with own_trie():
        for n in (6, 9, 7, 6, 12):
            x = wend.arange(2.0 * n).reshape(2, n)
            for a, b in zip(
                wend.chunk(x, 3, 1), np.array_split(x.numpy(), [-(-n // 3), -(-n // 3) * 2], 1)
            ):
                np.testing.assert_array_equal(a.numpy(), b)


def test_by_name_and_kept_by_name():
    x = wend.arange(6.0).reshape(2, 3)
    assert [p.tolist() for p in x.chunk(chunks=2)] == [[[0.0, 1.0, 2.0]], [[3.0, 4.0, 5.0]]]
    assert [p.tolist() for p in wend.unbind(input=x, dim=1)] == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert pickle.loads(pickle.dumps(wend.split)) is wend.split
    assert wend.split.__name__ == "split" and wend.chunk.__doc__
    with pytest.raises(TypeError):
        x.chunk()
