"""First gradients of piecewise linear functions: they require grad where PyTorch's do."""

import pytest

import wend as torch
from wend.autograd import grad


def leaf(lib, *size):
    count = 1
    for n in size:
        count *= n
    return (lib.arange(float(count)) - 3.5).reshape(size).requires_grad_()


READERS = {
    "relu": (lambda F, x: F.relu(x), (6,)),
    "relu, written": (lambda F, x: F.relu(x.clone(), inplace=True), (6,)),
    "relu in a chain": (lambda F, x: F.relu(x * 2) + 1, (6,)),
    "leaky_relu": (lambda F, x: F.leaky_relu(x, 0.1), (6,)),
    "relu6": (lambda F, x: F.relu6(x), (9,)),
    "hardtanh": (lambda F, x: F.hardtanh(x), (6,)),
    "hardshrink": (lambda F, x: F.hardshrink(x), (6,)),
    "softshrink": (lambda F, x: F.softshrink(x), (6,)),
    "threshold": (lambda F, x: F.threshold(x, 0, 1), (6,)),
    "max_pool1d": (lambda F, x: F.max_pool1d(x, 2), (1, 2, 4)),
    "max_pool2d": (lambda F, x: F.max_pool2d(x, 2), (1, 2, 4, 4)),
    "max_pool3d": (lambda F, x: F.max_pool3d(x, 2), (1, 1, 2, 2, 4)),
    "avg_pool2d": (lambda F, x: F.avg_pool2d(x, 2), (1, 2, 4, 4)),
    "adaptive_avg_pool2d": (lambda F, x: F.adaptive_avg_pool2d(x, 2), (1, 2, 4, 4)),
    "adaptive_max_pool1d": (lambda F, x: F.adaptive_max_pool1d(x, 2), (1, 2, 4)),
    "reflection": (lambda F, x: F.pad(x, (1, 1), mode="reflect"), (1, 2, 4)),
    "replication": (lambda F, x: F.pad(x, (1, 1, 1, 1), mode="replicate"), (1, 2, 4, 4)),
}
OTHERS = {  # gradients that PyTorch computes from the incoming gradient alone
    "clamp": (lambda F, x: x.clamp(-1, 1), (6,)),
    "zero padding": (lambda F, x: F.pad(x, (1, 1)), (1, 2, 4)),
    "amax": (lambda F, x: x.amax(0), (4, 2)),
    "sort": (lambda F, x: x.sort()[0], (6,)),
    "nearest": (lambda F, x: F.interpolate(x, 6), (1, 2, 4)),
    "unfold": (lambda F, x: F.unfold(x, 2), (1, 1, 3, 3)),
}


@pytest.mark.parametrize("name", [*READERS, *OTHERS])
def test_a_first_gradient_requires_grad_as_in_pytorch(agree, name):
    function, size = (READERS | OTHERS)[name]

    def program(lib):
        x = leaf(lib, *size)
        y = function(lib.nn.functional, x)
        (g,) = lib.autograd.grad(y, x, lib.ones_like(y), create_graph=True)
        if not g.requires_grad:
            return g, False
        (second,) = lib.autograd.grad(g.sum(), x)
        return g, True, second

    result = agree(program)
    assert result[1] == (name in READERS)
    assert name in OTHERS or not result[2].any()


def test_a_gradient_that_depends_on_parameters_keeps_its_history(agree):
    def program(lib):
        x, w = leaf(lib, 3, 4), leaf(lib, 2, 4)
        y = lib.relu(lib.nn.functional.linear(x, w)).sum()
        (g,) = lib.autograd.grad(y, x, create_graph=True)
        return lib.autograd.grad((g * g).sum(), w)

    assert agree(program)[0].any()


@pytest.mark.parametrize("needed", ["all", "the bias"])
def test_the_gradient_of_a_bias_requires_grad_if_the_convolution_reads_what_does(needed, agree):
    def program(lib):
        x, w, bias = leaf(lib, 1, 2, 4), leaf(lib, 3, 2, 2), leaf(lib, 3)
        if needed == "the bias":
            x, w = x.detach(), w.detach()
        y = lib.nn.functional.conv1d(x, w, bias)
        (g,) = lib.autograd.grad(y.sum(), bias, create_graph=True)
        return g, g.requires_grad

    assert agree(program)[1] == (needed == "all")


def test_the_gradient_of_a_value_inside_of_the_graph_gets_the_edge_too(agree):
    def program(lib):
        x = leaf(lib, 6)
        inner = x * 3
        y = lib.relu(inner)
        (g,) = lib.autograd.grad(y.sum(), inner, create_graph=True)
        return g, g.requires_grad, *lib.autograd.grad(g.sum(), [inner, x])

    assert agree(program)[1]


def test_no_edge_without_create_graph_and_none_for_no_gradient():
    x, other = leaf(torch, 6), leaf(torch, 6)
    y = torch.relu(x).sum()
    (g,) = grad(y, x, retain_graph=True)
    assert not g.requires_grad
    first, second = grad(y, [x, other], create_graph=True, allow_unused=True)
    assert first.requires_grad and second is None


def test_a_second_gradient_goes_on_with_the_incoming_gradient(agree):
    def program(lib):
        x, v = leaf(lib, 6), leaf(lib, 6)
        (g,) = lib.autograd.grad(lib.relu(x), x, v, create_graph=True)
        return lib.autograd.grad(g.sum(), [v, x], allow_unused=True)[0]

    assert agree(program).tolist() == [0, 0, 0, 0, 1, 1]
