"""Many held tensors are joined when the line runs: the length of a list hardly comes back."""

from __future__ import annotations

import numpy as np
import pytest

import wend as torch
from wend._engine.core import _hot

MANY = 20


def is_held(x):
    return _hot.value_of(x).buffer is not None


def rows(dtype=torch.float32, shape=(2, 3)):
    made = [torch.full(shape, float(k), dtype=dtype) for k in range(MANY)]
    for x in made:
        x.tolist()  # computes it
    return made


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_cat_and_stack(dtype, dim):
    given = rows(dtype)
    for function, reference in ((torch.cat, np.concatenate), (torch.stack, np.stack)):
        found = function(given, dim=dim)
        assert is_held(found) and not found.requires_grad and found.dtype == dtype
        expected = reference([x.numpy() for x in given], axis=dim)
        assert found.shape == expected.shape and found.stride() == expected_strides(expected)
        np.testing.assert_array_equal(found.numpy(), expected)


def expected_strides(array):
    return tuple(n // array.itemsize for n in np.ascontiguousarray(array).strides)


def test_half_precision():
    for dtype in (torch.float16, torch.bfloat16):
        given = rows(dtype)
        assert torch.equal(torch.cat(given), torch.cat(given[:10] + [torch.cat(given[10:])]))


def test_what_gradients_need_is_recorded():
    given = [x.clone().requires_grad_() for x in rows()]
    found = torch.cat(given)
    assert found.requires_grad
    (found * 2).sum().backward()
    assert all((x.grad == 2).all() for x in given)
    with torch.no_grad():
        found = torch.cat(given)
    assert is_held(found) and not found.requires_grad


def test_a_gradient_begins_at_what_was_joined():
    found = torch.stack(rows()).requires_grad_()
    (found * found).sum().backward()
    assert torch.equal(found.grad, 2 * found)


def test_what_is_pending_is_recorded():
    given = rows()
    given[5] = given[5] + 1
    found = torch.cat(given)
    assert not is_held(found)
    assert found[10].tolist() == [6, 6, 6]


def test_types_that_differ_are_recorded():
    given = rows()
    given[3] = given[3][:1]
    assert torch.cat(given).shape == (2 * MANY - 1, 3)
    given[3] = torch.ones(2, 3, dtype=torch.float64)
    assert torch.cat(given).dtype == torch.float64


def test_much_is_recorded(monkeypatch):
    given = rows(shape=(200, 128))
    assert not is_held(torch.cat(given))
    assert is_held(torch.cat(rows(shape=(20, 128))))


def test_errors_are_those_of_few():
    given = rows()
    for some in (given, given[:3]):
        with pytest.raises(IndexError, match="cat"):
            torch.cat(some, dim=2)
        with pytest.raises(IndexError, match="stack"):
            torch.stack(some, dim=3)
    with pytest.raises(RuntimeError, match="zero-dimensional"):
        torch.cat(rows(shape=()))


def test_later_changes_are_not_seen():
    memory = np.zeros((MANY, 3), np.float32)
    given = [torch.from_numpy(row) for row in memory]
    found = torch.stack(given)
    memory[:] = 1
    assert found.sum() == 0
    base = torch.zeros(MANY, 3)
    parts = [base[k] for k in range(MANY)]
    found = torch.stack(parts)
    base.add_(1)
    assert found.sum() == 0 and torch.stack(parts).sum() == 3 * MANY
    found = torch.stack(rows())
    found.zero_()
    assert torch.stack(rows()).sum() > 0


def test_mapped_functions_record_it():
    given = rows()

    def total(x):
        return torch.cat([x * k if k % 2 else g for k, g in enumerate(given)]).sum()

    xs = torch.ones(4, 2, 3)
    expected = [total(x).item() for x in xs]
    assert torch.func.vmap(total)(xs).tolist() == expected
    assert torch.func.vmap(lambda x: torch.stack(given).sum() + x.sum())(xs).shape == (4,)


def test_inference_mode_marks_it():
    given = rows()
    with torch.inference_mode():
        assert torch.cat(given).is_inference()
    assert not torch.cat(given).is_inference()
