"""Tensors that get other memory: their views stay, counts of writes go on, places are exchanged."""

import gc
import sys
import weakref

import numpy as np
import pytest

import wend
from wend._engine.base.errors import GraphError

pytestmark = pytest.mark.filterwarnings("ignore")


def assign_data(x, y):
    x.data = y


def assign_detached(x, y):
    x.data = y.detach()


def assign_view(x, y):
    x.data = y.view(-1).view(y.shape)


def set_memory(x, y):
    x.set_(y)


def write_out(x, y):
    """The view has four elements, and the result six."""
    wend.cat([y, y[:2]], out=x)


MOVES = (assign_data, assign_detached, assign_view, set_memory)
VIEWS = {
    "slice": (lambda x: x[1:3], [1, 2]),
    "step": (lambda x: x[::2], [0, 2]),
    "view": (lambda x: x.view(2, 2), [[0, 1], [2, 3]]),
    "transposed": (lambda x: x.view(2, 2).t(), [[0, 2], [1, 3]]),
    "select": (lambda x: x[3], 3),
    "unbind": (lambda x: x.unbind()[1], 1),
    "split": (lambda x: x.split(2)[1], [2, 3]),
    "expand": (lambda x: x[:1].expand(2), [0, 0]),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("pending", [False, True])
def test_a_view_keeps_the_memory_that_its_base_leaves(move, name, pending):
    """Without stand-ins the view shows what its base has got."""
    make, wanted = VIEWS[name]
    x = wend.arange(4.0)
    if pending:
        x = x * 1
    y = wend.full((4,), 50.0)
    view, sibling = make(x), x[:]
    if not pending:
        assert view.tolist() == wanted
    move(x, y)
    assert x.tolist() == [50.0] * 4
    assert view.tolist() == wanted
    x.add_(1)
    assert y.tolist() == [51.0] * 4 and view.tolist() == wanted
    sibling.mul_(2)
    assert np.array_equal(view.numpy(), 2 * np.array(wanted))
    view.fill_(-1)
    where = np.unique(wanted)
    assert all(sibling.tolist()[i] == -1 for i in where)
    assert x.tolist() == [51.0] * 4
    later = x[1:]
    later.zero_()
    assert y.tolist() == [51.0, 0, 0, 0]


def test_many_moves_with_views_of_each_time():
    x = wend.zeros(3)
    views = []
    for step in range(6):
        views.append(x[1:])
        x.data = wend.full((3,), float(step + 1))
        if step % 2:
            views[step - 1].add_(0.5)
    assert [v.tolist()[0] for v in views] == [0.5, 1, 2.5, 3, 4.5, 5]


def test_memory_that_was_left_ends_with_its_views():
    """A tensor that is given other memory in each step must not keep the earlier ones."""
    x = wend.zeros(4)
    freed = []
    for step in range(5):
        view = x[1:]
        x.data = x.data + 1
        base = view._base
        assert base is x and view.tolist() == [float(step)] * 3
        freed.append(weakref.ref(view.alias.base))
    assert [r() is None for r in freed] == [True] * 4 + [False]
    del view, base
    assert freed[-1]() is None
    assert not x._moved


def test_training_with_a_view_alive():
    """A parameter decayed by `p.data = p.data * 0.9`, and a view of what it was first."""
    p = wend.nn.Parameter(wend.tensor([1.0, 2.0]))
    first = p.view(2, 1)
    optimizer = wend.optim.SGD([p], lr=0.5)
    for _ in range(3):
        (p * p).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        p.data = p.data * 0.5
        p.data.add_(1)
    # 1 -> 1 and 2 -> 1: (p - 0.5 * 2 p) * 0.5 + 1
    assert p.tolist() == [1.0, 1.0]
    assert first.tolist() == [[0.0], [0.0]]


def test_data_of_a_result_is_replaced_and_its_history_stays():
    w = wend.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    y.data = wend.tensor([10.0, 20.0])
    (y * y).sum().backward()
    assert w.grad.tolist() == [60.0, 120.0]


def test_resize_within_the_memory_shares_it():
    x = wend.arange(6.0)
    other = x.detach()
    x.resize_(2, 2)
    x[1, 1] = -3
    assert other.tolist() == [0, 1, 2, -3, 4, 5]
    other.mul_(10)
    assert x.tolist() == [[0, 10], [20, -30]]
    assert x.resize_(6).tolist() == [0, 10, 20, -30, 40, 50]


def counts(*tensors):
    return [t._version for t in tensors]


def test_versions_count_writes_to_what_is_shared():
    """PyTorch's counter: views, detach and parameters share it, `.data` and NumPy do not."""
    x = wend.zeros(3, 4)
    detached, data, view = x.detach(), x.data, x[0]
    parameter, part = wend.nn.Parameter(x), wend.nn.Parameter(x[1:])
    x.add_(1)
    assert counts(x, detached, data, view, parameter, part) == [1, 1, 0, 1, 1, 1]
    data.add_(1)
    assert counts(x, detached, data, data[0]) == [1, 1, 1, 1]
    detached[0] = 5
    assert counts(x, detached, data) == [2, 2, 1]
    with wend.no_grad():
        part.mul_(2)
        parameter[0, 1] = 3
    assert counts(x, part, view) == [4, 4, 4]
    x.data = wend.ones(3, 4)
    assert counts(x, view, detached) == [4, 4, 4]
    x.add_(1)
    assert counts(x, view, detached) == [5, 5, 5]
    x.set_(wend.zeros(2))
    assert x._version == 6
    x.numpy()[0] = 1
    assert x._version == 6
    assert x.tolist() == [1, 0]


def test_a_lone_tensor_goes_on_counting():
    x = wend.zeros(3)
    x.add_(1)
    x.detach().add_(1)
    x.data.add_(1)
    assert x.tolist() == [3, 3, 3]
    x.add_(1)
    assert x._version == 3


def test_swap_tensors():
    a = wend.tensor([1.0, 2.0], requires_grad=True)
    b = wend.tensor([[5.0]])
    a.grad, a.name_of_mine = wend.ones(2), "mine"
    a.register_hook(lambda g: g * 10)
    memory, array = b.detach(), b.numpy()
    wend.utils.swap_tensors(a, b)
    assert a.tolist() == [[5.0]] and b.tolist() == [1, 2]
    assert b.requires_grad and not a.requires_grad
    assert b.grad.tolist() == [1, 1] and a.grad is None
    assert b.name_of_mine == "mine" and not hasattr(a, "name_of_mine")
    b.sum().backward()
    assert b.grad.tolist() == [11, 11]
    memory.add_(1)
    assert a.tolist() == [[6.0]] and array.tolist() == [[6.0]]


def test_swap_tensors_exchanges_classes():
    p, t = wend.nn.Parameter(wend.zeros(2)), wend.ones(3)
    for _ in range(3):
        wend.utils.swap_tensors(p, t)
    assert type(p) is wend.Tensor and type(t) is wend.nn.Parameter
    assert p.tolist() == [1, 1, 1] and t.tolist() == [0, 0]
    t.sum().backward()
    assert t.grad.tolist() == [1, 1]
    del p, t


def test_swap_tensors_refuses_views_and_weak_references():
    a, b = wend.zeros(3), wend.ones(3)
    view = a[1:]
    with pytest.raises(GraphError, match="use_count of t1"):
        wend.utils.swap_tensors(a, b)
    del view
    reference = weakref.ref(b)
    with pytest.raises(GraphError, match="Cannot swap t2"):
        wend.utils.swap_tensors(a, b)
    del reference
    wend.utils.swap_tensors(a, b)
    assert a.tolist() == [1, 1, 1]


def test_a_graph_made_before_a_swap_refuses():
    a, b = wend.zeros(3, requires_grad=True), wend.ones(3, requires_grad=True)
    loss = (a * 2).sum()
    wend.utils.swap_tensors(a, b)
    with pytest.raises(GraphError, match="poisoned by swap_tensors"):
        loss.backward()
    (b * 2).sum().backward()
    assert b.grad.tolist() == [2, 2, 2] and a.grad is None


def test_handles_that_the_collector_takes_apart_end_in_silence(monkeypatch):
    """A base in a circle loses its attributes before its views end."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    base = wend.zeros(2, 2)
    base.circle = [base, base[0]]
    base.set_(wend.ones(2, 2))
    del base
    gc.collect()
    assert not told
