"""backward and grad: which gradients, of what, in which order, how often."""

import pytest

import wend as torch
from wend._engine.base.errors import GraphError, ShapeError


def leaf(lib, *numbers):
    return lib.tensor(list(numbers), requires_grad=True)


def test_a_product_and_a_sum(agree):
    def program(lib):
        x, y = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, -1.0)
        z = (x * y + x).sum()
        z.backward()
        return z, x.grad, y.grad

    agree(program)


def test_gradients_add_up_over_backward_calls(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        for k in range(3):
            (x * x * k).sum().backward()
        first = x.grad
        (x * 3).sum().backward()
        assert x.grad is first
        return x.grad

    agree(program)


def test_gradients_of_leaves_do_not_share_data(agree):
    def program(lib):
        x, y = leaf(lib, 1.0), leaf(lib, 2.0)
        (x + y).backward(lib.tensor([4.0]))
        x.grad.add_(1)
        return x.grad, y.grad

    agree(program)


def test_the_gradient_given_is_not_aliased(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        g = lib.tensor([1.0, 5.0])
        x.backward(g)
        x.grad.mul_(10)
        return g, x.grad

    agree(program)


def test_several_roots_with_gradients_given(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        a, b = x * 2, (x * x).sum()
        lib.autograd.backward([a, b, b], [lib.tensor([1.0, 3.0]), None, lib.tensor(2.0)])
        return x.grad

    agree(program)


def test_a_root_of_one_element_but_one_dim(agree):
    def program(lib):
        x = leaf(lib, 3.0)
        (x * x).backward()
        return x.grad

    agree(program)


def test_a_leaf_as_root(agree):
    def program(lib):
        x = leaf(lib, 3.0)
        x.backward()
        y = leaf(lib, 4.0)
        (gy,) = lib.autograd.grad(y, y)
        return x.grad, gy

    agree(program)


def test_the_gradient_given_is_cast(agree):
    def program(lib):
        x = leaf(lib, 3.0)
        (x * 2).backward(lib.tensor([1.0], dtype=lib.float64))
        return x.grad

    agree(program)


def test_grad_with_respect_to_intermediate_values(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        h = x * 3
        y = h * h
        z = (y * h).sum()
        gh, gy, gx = lib.autograd.grad(z, [h, y, x])
        assert x.grad is None
        return gh, gy, gx

    agree(program)


def test_grad_of_a_root_with_respect_to_itself(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        h = x * 3
        z = h.sum()
        return lib.autograd.grad([z, h], [z, h, x], [None, lib.ones(2)])

    agree(program)


def test_grad_with_respect_to_values_of_earlier_flushes(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0)
        h = x * x
        h.tolist()
        y = h * x
        y.tolist()
        z = (y + h).sum()
        return lib.autograd.grad(z, [h, x, y], retain_graph=True) + lib.autograd.grad(z, [x])

    agree(program)


def test_unused_inputs():
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    z = x * 2
    with pytest.raises(GraphError, match="appears to not have been used in the graph"):
        torch.autograd.grad(z, [x, y], retain_graph=True)
    gx, gy = torch.autograd.grad(z, [x, y], allow_unused=True, retain_graph=True)
    assert gy is None
    assert gx.tolist() == [2.0]
    gx, gy = torch.autograd.grad(z, [x, y], materialize_grads=True)
    assert gy.tolist() == [0.0]
    with pytest.raises(ValueError, match="allow_unused"):
        torch.autograd.grad(z, [x], materialize_grads=True, allow_unused=False)


def test_grad_walks_no_further_than_its_inputs(agree):
    """What is not on the way to the inputs is neither freed nor called."""

    def program(lib):
        calls = []
        x = leaf(lib, 2.0)
        h = x.exp()
        h.register_hook(lambda g: calls.append("h"))
        k = h * h
        k.register_hook(lambda g: calls.append("k"))
        k.tolist()
        z = (k * 3).sum()
        (gk,) = lib.autograd.grad(z, [k])
        first = list(calls)
        k.sum().backward()
        return gk, first, calls, x.grad

    agree(program)


def test_backward_with_inputs(agree):
    def program(lib):
        x, y = leaf(lib, 1.0), leaf(lib, 2.0)
        h = x * y
        z = (h * x).sum()
        z.backward(inputs=[x, h])
        return x.grad, h.grad, y.grad, h.retains_grad

    agree(program)


def test_inputs_must_not_be_empty():
    x = leaf(torch, 1.0)
    with pytest.raises(GraphError, match="cannot be empty"):
        (x * 2).backward(inputs=[])


def test_an_input_that_needs_no_gradient():
    x, y = leaf(torch, 1.0), torch.tensor([2.0])
    with pytest.raises(GraphError, match="does not require grad"):
        torch.autograd.grad(x * y, [y])


def test_roots_that_cannot_be():
    x = leaf(torch, 1.0, 2.0)
    with pytest.raises(GraphError, match="only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(GraphError, match="element 0 of tensors does not require grad"):
        torch.ones(()).backward()
    with pytest.raises(GraphError, match="element 1 of tensors does not require grad"):
        torch.autograd.backward([x.sum(), torch.ones(())])
    with pytest.raises(ShapeError, match=r"grad_output\[0\] has a shape of \(3,\)"):
        (x * 2).backward(torch.ones(3))
    with pytest.raises(RuntimeError, match="2 tensors and 1 gradients"):
        torch.autograd.backward([x.sum(), x.sum()], [None])


def test_sharing_one_value():
    """Two variables may share one value: what counts is which variable was used."""
    p = leaf(torch, 1.0, 2.0)
    q = p.detach().requires_grad_()
    (p * p + q * 3).sum().backward()
    assert p.grad.tolist() == [2.0, 4.0]
    assert q.grad.tolist() == [3.0, 3.0]
    p.grad = q.grad = None
    p.tolist()
    (p * q).sum().backward()
    assert p.grad.tolist() == [1.0, 2.0]
    assert q.grad.tolist() == [1.0, 2.0]


def test_a_difference_with_a_constant_of_the_same_value(agree):
    def program(lib):
        s = leaf(lib, 3.0)
        d = s - s.detach()
        d.backward()
        t = leaf(lib, 3.0)
        h = t * t
        e = h - h.detach()
        e.backward()
        return d, s.grad, e, t.grad

    assert agree(program)[1] == [1.0]


def test_accumulation_rebinds_the_same_tensor(agree):
    def program(lib):
        x = leaf(lib, 1.0)
        (x * 2).backward()
        kept = x.grad
        view = x.grad.view(1, 1)
        (x * 5).backward()
        return kept, x.grad, view, kept is x.grad

    agree(program)


def test_set_to_none_and_zeroing(agree):
    def program(lib):
        x = leaf(lib, 1.0)
        (x * 2).backward()
        kept = x.grad
        x.grad = None
        (x * 5).backward()
        x.grad.zero_()
        (x * 7).backward()
        return kept, x.grad

    agree(program)


def test_freezing_before_backward_suppresses_accumulation(agree):
    def program(lib):
        x, w = leaf(lib, 1.0), leaf(lib, 2.0)
        y = x * w
        w.requires_grad_(False)
        y.backward()
        return x.grad, w.grad

    assert agree(program)[1] is None


def test_unfreezing_is_not_retroactive(agree):
    def program(lib):
        x, w = leaf(lib, 1.0), lib.tensor([2.0])
        y = x * w
        w.requires_grad_(True)
        y.backward()
        first = w.grad
        (x * w).backward()
        return x.grad, first, w.grad

    assert agree(program)[1] is None


def test_frozen_and_unfrozen_passes_alternate():
    """The same ops with a frozen parameter are another path."""
    for _ in range(3):
        w, x = leaf(torch, 2.0), leaf(torch, 3.0)
        for frozen in (False, True, False, True, True, False):
            w.requires_grad_(not frozen)
            w.grad = x.grad = None
            (x * w * w).backward()
            assert x.grad.tolist() == [4.0]
            assert (w.grad is None) if frozen else (w.grad.tolist() == [12.0])


def test_the_same_ops_without_gradient_are_another_path():
    x = leaf(torch, 2.0)
    for on in (True, False, True, False, True):
        x.grad = None
        with torch.set_grad_enabled(on):
            y = (x * x).sum()
        assert y.requires_grad is on
        if on:
            y.backward()
            assert x.grad.tolist() == [4.0]
        else:
            with pytest.raises(GraphError, match="does not require grad"):
                y.backward()


# -- freed graphs ---------------------------------------------------------------------------


@pytest.mark.parametrize("read", [False, True])
def test_a_second_backward_needs_retain_graph(read):
    for _ in range(2):
        x = leaf(torch, 2.0)
        y = (x * x).sum()
        if read:
            y.item()
        y.backward()
        with pytest.raises(GraphError, match="retain_graph=True"):
            y.backward()


@pytest.mark.parametrize("read", [False, True])
def test_retain_graph(read):
    for _ in range(2):
        x = leaf(torch, 2.0)
        y = (x * x).sum()
        if read:
            y.item()
        y.backward(retain_graph=True)
        y.backward(retain_graph=True)
        if read:
            x.grad.tolist()
        y.backward()
        assert x.grad.tolist() == [12.0]
        with pytest.raises(GraphError, match="second time"):
            y.backward()


@pytest.mark.parametrize("read", [False, True])
def test_nodes_that_saved_nothing_can_be_passed_again(read):
    """As in PyTorch: only a node that saved something raises."""
    x = leaf(torch, 2.0)
    y = (x + 1).sum()
    if read:
        y.item()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_a_shared_part_is_freed_with_the_first_root():
    x = leaf(torch, 2.0)
    h = x * x
    a, b = h.sum(), (h * 2).sum()
    a.backward()
    with pytest.raises(GraphError, match="second time"):
        b.backward()


def test_parts_that_backward_has_not_passed_stay(agree):
    def program(lib):
        x, w = leaf(lib, 2.0), leaf(lib, 5.0)
        a, b = (x * x).sum(), (w * w).sum()
        total = a + b
        total.tolist()
        a.backward()
        b.backward()
        return x.grad, w.grad

    agree(program)


def test_backward_between_two_uses_in_one_flush(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        h = x.exp()
        a = (h * h).sum()
        (gh,) = lib.autograd.grad(a, [h])
        b = (h * 3).sum()
        b.backward()
        return gh, x.grad

    agree(program)


# -- higher orders --------------------------------------------------------------------------


@pytest.mark.parametrize("read", [(), (0,), (1,), (2,), (0, 1, 2)])
def test_third_derivative_across_flushes(agree, read):
    def program(lib):
        x = lib.tensor([0.5, -1.0], dtype=lib.float64, requires_grad=True)
        y = (x.exp() * x.sin()).sum()
        if 0 in read:
            y.item()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        if 1 in read:
            g.tolist()
        (h,) = lib.autograd.grad(g.sum(), x, create_graph=True)
        if 2 in read:
            h.tolist()
        (k,) = lib.autograd.grad(h.sum(), x)
        return y, g, h, k

    agree(program)


def test_gradient_penalty(agree):
    def program(lib):
        w = lib.tensor([[0.3, -0.2], [0.1, 0.5]], requires_grad=True)
        x = lib.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
        y = (x @ w).tanh().sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        loss = y + ((g * g).sum(dim=1).sqrt() - 1).pow(2).mean()
        loss.backward()
        return w.grad, x.grad

    agree(program)


def test_backward_with_create_graph_gives_grads_with_history(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        y = (x * x * x).sum()
        y.backward(create_graph=True)
        g = x.grad
        x.grad = None
        (g * g).sum().backward()
        return g, x.grad, g.requires_grad

    agree(program)


def test_create_graph_accumulates_out_of_place(agree):
    def program(lib):
        x = leaf(lib, 2.0)
        (x * x).sum().backward(create_graph=True)
        first = x.grad
        (x * x * x).sum().backward(create_graph=True)
        result = [first, x.grad, first is x.grad]
        (z,) = lib.autograd.grad(x.grad.sum(), x)
        return [*result, z]

    agree(program)


def test_second_order_through_in_place_and_views(agree):
    def program(lib):
        x = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        h = x * 2
        v = h[0]
        v.mul_(x[1])
        h[:, 1].add_(x[:, 0] * x[:, 0])
        y = (h * h * h).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        (gg,) = lib.autograd.grad((g * g).sum(), x)
        return h, g, gg

    agree(program)


def test_in_place_then_flush_then_backward(agree):
    def program(lib):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        h = x.sin()
        t = h.sum()
        h.mul_(2)
        h.tolist()
        w = h[1:]
        w += x[:2] * x[:2]
        w.tolist()
        (h.sum() + t).backward()
        return x.grad

    agree(program)


def test_the_gradient_is_that_of_the_values_that_were_used():
    """Where PyTorch refuses, or goes silently wrong, the values as they were count."""
    x = leaf(torch, 3.0)
    h = x * 1
    y = h * h
    h.add_(100)
    y.backward()
    assert x.grad.tolist() == [6.0]
    a = leaf(torch, 3.0)
    z = a * a
    a.data.mul_(10)
    z.backward()
    assert a.grad.tolist() == [6.0]


def test_mixed_dtypes(agree):
    def program(lib):
        x = lib.tensor([1.5, 2.0], dtype=lib.float64, requires_grad=True)
        w = lib.tensor([3.0, 4.0], requires_grad=True)
        i = lib.tensor([2, 3])
        (x * w * i).sum().backward()
        return x.grad, w.grad

    agree(program)


def test_is_grads_batched(agree):
    def program(lib):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * x
        rows = lib.eye(3)
        return lib.autograd.grad(y, x, rows, is_grads_batched=True)

    agree(program)


def test_a_backward_inside_of_a_loop_with_data_dependent_length(agree):
    def program(lib):
        x = leaf(lib, 1.1)
        found = []
        for _ in range(4):
            h = x * 1
            while h.sum() < 10:
                h = h * h + x
            h.backward()
            found.append(h)
        return found, x.grad

    agree(program)


def test_a_leaf_written_to_between_its_uses_gets_the_gradients_of_all(agree):
    """Also where the pass goes on into an earlier flush, and when it comes back."""

    def program(lib):
        gradients = []
        for _ in range(4):
            w, x = leaf(lib, 0.5), leaf(lib, 1.0, 2.0)
            early = w**3
            early.item()
            y = x.tanh()
            with lib.no_grad():
                x.sub_(0.1)
            ((x * x).sum() + y.sum() + early.sum()).backward()
            gradients += [w.grad, x.grad]
        return gradients

    agree(program)
