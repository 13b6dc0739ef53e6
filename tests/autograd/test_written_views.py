"""Which tensor a gradient belongs to after views have been written, as in PyTorch."""

import gc

import pytest
from agreement import check_outcomes

import wend
from wend._engine.core._hot import synchronize
from wend._engine.transforms.hooks import forget_rewritten

VALUES = [1.0, 2.0, 3.0]


def gradients(torch, y, *of):
    return torch.autograd.grad(y, of, allow_unused=True, retain_graph=True)


def start(torch):
    a = torch.tensor(VALUES, requires_grad=True)
    return a, a * 1


def test_a_base_is_no_function_of_its_view(agree):
    def program(torch):
        a, x = start(torch)
        v = x[:2]
        v.mul_(0.5)
        return gradients(torch, (x * x).sum(), v, a)

    assert agree(program)[0] is None


def test_a_view_is_a_function_of_its_base(agree):
    def program(torch):
        a, x = start(torch)
        v = x[1:]
        v.zero_()
        v.add_(3.0)
        return gradients(torch, (v * v).sum(), x, v, a)

    assert agree(program)[0].tolist() == [0, 6, 6]


def test_a_view_of_a_view(agree):
    def program(torch):
        a, x = start(torch)
        v = x[1:]
        w = v[:1]
        w += 2
        found = gradients(torch, (v * v).sum() + (w * w).sum(), x, v, w, a)
        return [*found, x.detach(), v.detach(), w.detach()]

    agree(program)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, b: x.copy_(b),
        lambda x, b: x.__setitem__(..., b),
        lambda x, b: x.__setitem__(slice(None), b),
        lambda x, b: x.__setitem__((None, slice(None)), b),
        lambda x, b: x[:].copy_(b),
        lambda x, b: x.view(3, 1).copy_(b.view(3, 1)),
        lambda x, b: x.fill_(b[0]),
        lambda x, b: x[:2].copy_(b[:2]),
    ],
)
def test_what_was_overwritten_has_a_gradient_of_zeros(agree, write):
    def program(torch):
        a, x = start(torch)
        b = torch.tensor(VALUES, requires_grad=True)
        write(x, b)
        x[:2].sum().backward()
        return a.grad, b.grad

    assert agree(program)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("n", [0, 1])
def test_an_expanded_tensor_without_repetitions_can_be_written(agree, n):
    def program(torch):
        a, x = start(torch)
        v = x.expand(n, 3)
        v[torch.ones(n, 3, dtype=torch.bool)] = 0.5
        (x * x).sum().backward()
        return a.grad, x.detach()

    agree(program)


def test_a_view_of_a_detached_view_that_is_a_leaf(agree):
    def program(torch):
        v = torch.tensor(VALUES, requires_grad=True)
        d = v[:2].detach()
        d.requires_grad_()
        w = d[:1]
        (w * 3).sum().backward()
        return d.grad, w.requires_grad, v.grad is None

    agree(program)


def test_a_tensor_that_was_looked_at_through_numpy_stays_the_same_variable(agree):
    def program(torch):
        x = torch.tensor(VALUES, requires_grad=True)
        a = x * 2
        b = torch.cat([a, a])
        array = a.detach().numpy()
        first = gradients(torch, torch.sin(b).sum(), a)
        del array
        return [*first, *gradients(torch, torch.sin(b).sum(), a)]

    agree(program)


@pytest.mark.parametrize("read", ["view", "base before", "both", "operand before"])
@pytest.mark.parametrize("kind", ["unfold", "row", "transposed"])
def test_a_base_detached_after_a_write_through_its_view(kind, read):
    def work(torch):
        s = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        x = s * 1
        v = {"unfold": lambda: x.unfold(0, 1, 1), "row": lambda: x[0], "transposed": x.t}[kind]()
        y = (w * 2).reshape(1, 2, 1) if kind == "unfold" else w * 2
        before = (x * 3).sum()
        v.copy_(y.expand(v.shape))
        written = x.sum()
        x.detach_()
        loss = {
            "view": lambda: v.sum(), "base before": lambda: written,
            "both": lambda: (v * v).sum() + x.sum(), "operand before": lambda: before + v.sum(),
        }[read]()  # fmt: skip
        try:
            loss.backward()
        except RuntimeError:
            return "refused"
        grads = [None if g is None else g.tolist() for g in (s.grad, w.grad)]
        return grads, x.requires_grad, v.requires_grad

    assert work(wend) == work(pytest.importorskip("torch"))


@pytest.mark.parametrize("view", [((2,), (2,), None), ((2,), (2,), 1), ((3, 2), (1, 1), None)])
def test_as_strided_of_a_parameter_in_a_flat_buffer(agree, view):
    def program(torch):
        flat = torch.arange(6.0)
        p = torch.nn.Parameter(torch.zeros(2, 2))
        p.data = flat[1:5].view(2, 2)
        y = p.as_strided(*view)
        (y * y).sum().backward()
        with torch.no_grad():
            p.as_strided(*view)[:1].fill_(9.0)
        return [y, p.grad, flat]

    agree(program)


def test_as_strided_of_a_parameter_stays_within_it():
    flat = wend.arange(6.0)
    p = wend.nn.Parameter(wend.zeros(2, 2))
    p.data = flat[1:5].view(2, 2)
    with pytest.raises(NotImplementedError, match="the view leaves it"):
        p.as_strided((2,), (4,))


@pytest.mark.parametrize("threshold", range(2, 40, 6))
def test_the_collector_may_run_while_earlier_writes_are_forgotten(threshold):
    """Tensors written to without gradients are known by weak references, which end meanwhile."""
    x = wend.tensor(VALUES, requires_grad=True)
    before = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            ring = [x * 1]
            with wend.no_grad():
                ring[0].mul_(2)
            ring.append(ring)
        del ring
        synchronize()
        gc.set_threshold(gc.get_count()[0] + threshold)
        gc.enable()
        forget_rewritten()
    finally:
        gc.set_threshold(*before)
        gc.enable()


CHAINS = {
    "one": lambda x: x[1:],
    "two": lambda x: x.view(3, 1).t(),
    "three": lambda x: x[None][:, 1:].t(),
    "parts": lambda x: x.view(3, 1).split(2)[0],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_view_of_a_view_taken_without_gradients_has_none(agree, chain):
    """Also behind a change of the data, from which the view derives itself anew."""

    def program(torch):
        a, x = start(torch)
        with torch.no_grad():
            v = CHAINS[chain](x)
        x.data.mul_(2)
        return [v.detach(), *gradients(torch, (v * v).sum() + (x * x).sum(), a)]

    agree(program)


# -- parts of a tensor -------------------------------------------------------------------------

#: Functions that give several views at once, and the same part by an index.
PARTS = {
    "split": (lambda x: x.split(2)[0], slice(0, 2)),
    "split sizes": (lambda x: x.split([1, 3])[1], slice(1, 4)),
    "chunk": (lambda x: x.chunk(2)[1], slice(2, 4)),
    "unbind": (lambda x: x.unbind(0)[2], 2),
    "iteration": (lambda x: list(x)[1], 1),
    "tensor_split": (lambda x: x.tensor_split(3)[0], slice(0, 2)),
}
WRITES = {
    "mul_": lambda v: v.mul_(2),
    "+=": lambda v: v.__iadd__(1),
    "zero_": lambda v: v.zero_(),
    "copy_": lambda v: v.copy_(v * 3),
    "[...] =": lambda v: v.__setitem__(..., 5.0),
    "masked_fill_": lambda v: v.masked_fill_(v > 0, 0.5),
    "no_grad": lambda v: v.detach().mul_(3),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_part_can_be_written_as_the_same_slice(agree, part, write, requires_grad):
    """PyTorch refuses writes with gradients to views that come several at a time, not to slices."""

    def program(torch):
        a = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=requires_grad)
        x = a * 1
        taken, index = PARTS[part]
        v = taken(x) if torch is wend else x[index]
        WRITES[write](v)
        found = [x.detach(), v.detach(), x.requires_grad, v.requires_grad]
        if requires_grad:
            found += gradients(torch, (x * x).sum() + (v * v * v).sum(), a)
        return found

    agree(program)


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_a_leaf_are_written_without_gradients_alone(part, write, requires_grad):
    x = wend.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=requires_grad)
    before = x.tolist()
    if requires_grad and write != "no_grad":
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            WRITES[write](PARTS[part][0](x))
        assert x.tolist() == before
    with wend.no_grad():
        WRITES[write](PARTS[part][0](x))
    assert x.tolist() != before
    assert x.requires_grad is requires_grad
    assert x.is_leaf


@pytest.mark.parametrize("write", ["mul_", "+=", "zero_", "copy_", "[...] =", "masked_fill_"])
@pytest.mark.parametrize("place", ["leaf", "view", "expanded", "expanded plain", "detached"])
def test_refused_writes_are_torchs(place, write):
    torch = pytest.importorskip("torch")

    def program(lib):
        a = lib.tensor(VALUES, requires_grad=True)
        v = {
            "leaf": lambda: a,
            "view": lambda: a[1:],
            "expanded": lambda: (a * 1).expand(2, 3),
            "expanded plain": lambda: lib.tensor(VALUES).expand(2, 3),
            "detached": lambda: a.detach(),
        }[place]()
        WRITES[write](v)
        return a

    if place.startswith("expanded") and write in ("zero_", "masked_fill_", "[...] ="):
        return  # Wend fills: each element gets one value
    check_outcomes(program, wend, torch)
