"""Which tensor a gradient belongs to after views have been written, as in PyTorch."""

import pytest

import wend

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
