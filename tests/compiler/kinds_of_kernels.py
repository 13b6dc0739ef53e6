"""Small programs that meet each kind of kernel, compared with the NumPy rules.

python tests/compiler/kinds_of_kernels.py           # the code of this processor
PYTHONPATH=tests python tests/compiler/kinds_of_kernels.py neon     # see tests/neon.py

Prints what was made of each program, as JSON: {program: kernels}.
"""

import importlib
import json
import sys

import numpy as np

PROGRAMS = {}


def program(function):
    """A function of (torch, F, x) that returns tensors. x: makes normal numbers of a shape."""
    PROGRAMS[function.__name__] = function
    return function


@program
def elementwise(torch, F, x):
    a, b = x(7, 33), x(7, 33)
    y = torch.tanh(a * 2) + torch.exp(b).clamp(max=3) - torch.where(a > 0, b, torch.erf(a))
    return y, torch.log1p(a.abs()), torch.sin(b) ** 2, (a * 9).to(torch.int32) // 3, a > b


@program
def doubles(torch, F, x):
    a = x(5, 21).double()
    return torch.exp(a), torch.sigmoid(a).sum(0), torch.lgamma(a.abs() + 1)


@program
def halves(torch, F, x):
    a, b = x(17, 40), x(40, 12)
    found = []
    for dtype in (torch.float16, torch.bfloat16):
        c, d = a.to(dtype), b.to(dtype)
        found += [(c * 2 + 1).float(), c.sum(1).float(), (c @ d).float(), c.softmax(-1).float()]
    return found


@program
def reductions(torch, F, x):
    a = x(9, 70)
    return a.sum(), a.mean(0), a.amax(1), a.argmin(1), a.std(1), a.cumsum(1), (a > 0).any(0)


@program
def products(torch, F, x):
    found = [x(m, k) @ x(k, n) for m, k, n in ((1, 64, 70), (40, 50, 60), (33, 3, 21), (50, 9, 40))]
    found += [x(4, 90) @ x(30, 90).T, x(60, 40).T @ x(60, 3), x(3, 8, 20) @ x(3, 20, 31)]
    return [*found, F.linear(x(12, 32), x(48, 32), x(48)).relu(), x(90) @ x(90)]


@program
def convolutions(torch, F, x):
    image, found = x(2, 8, 14, 14), []
    for weight, more in (
        (x(12, 8, 3, 3), {"padding": 1}),
        (x(24, 8, 5, 5), {"stride": 2}),
        (x(8, 1, 3, 3), {"groups": 8, "padding": 1}),
        (x(20, 8, 1, 1), {}),
    ):
        weight.requires_grad_()
        given = image.clone().requires_grad_()
        y = F.conv2d(given, weight, **more)
        found += [y.detach(), *torch.autograd.grad((y * y).sum(), (given, weight))]
    many = F.conv2d(x(2, 32, 16, 16), x(48, 32, 3, 3), padding=1)
    return [*found, many, F.max_pool2d(F.conv2d(image, x(16, 8, 3, 3)).relu(), 2)]


@program
def softmax(torch, F, x):
    a = x(11, 53).requires_grad_()
    loss = F.cross_entropy(a, torch.arange(11) * 4)
    return a.softmax(-1).detach(), a.log_softmax(0).detach(), *torch.autograd.grad(loss, a)


@program
def attention(torch, F, x):
    q, k, v = (x(2, 3, 19, 16).requires_grad_() for _ in range(3))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.detach(), *torch.autograd.grad((y * y).sum(), (q, k, v))


@program
def layer_norm(torch, F, x):
    a, w, b = x(6, 45).requires_grad_(), x(45).requires_grad_(), x(45).requires_grad_()
    y = F.layer_norm(a, (45,), w, b)
    return y.detach(), *torch.autograd.grad((y * y * y).sum(), (a, w, b))


@program
def batch_norm(torch, F, x):
    a = x(4, 6, 5, 5).requires_grad_()
    y = F.batch_norm(a, torch.zeros(6), torch.ones(6), training=True)
    return y.detach(), *torch.autograd.grad((y * y * y).sum(), a)


@program
def random_numbers(torch, F, x):
    torch.manual_seed(3)
    found = [torch.rand(5, 41), torch.randn(5, 41), torch.randint(0, 9, (77,))]
    return [*found, F.dropout(x(30, 30), 0.3), torch.rand(40, dtype=torch.float64)]


@program
def movement(torch, F, x):
    a, table = x(6, 10, 7), x(20, 9).requires_grad_()
    rows = torch.arange(30) % 20
    y = F.embedding(rows, table)
    parts = [a.permute(2, 0, 1).contiguous(), torch.cat([a, a * 2], 1), a.flip(1).roll(2, 0)]
    return [*parts, y.detach(), *torch.autograd.grad((y * y).sum(), table), a.sort(-1)[0]]


@program
def rows_of_a_leaf(torch, F, x):
    table, places = x(20, 37), torch.arange(15) % 9
    return table.index_add(0, places, x(15, 37)), table.index_copy(0, places[:9], x(9, 37))


def results(function):
    """What a program returns, as arrays."""
    import wend
    from wend.nn import functional

    rng = np.random.default_rng(5)

    def normal(*shape):
        return wend.from_numpy(rng.normal(size=shape).astype(np.float32))

    found = function(wend, functional, normal)
    wend.synchronize()
    return [each.detach().numpy().copy() for each in found]


def compare(function):
    """Run a program by machine code and by rules. Returns how many modules were made."""
    from tries import own_trie
    from wend._engine.base import config
    from wend._engine.compiler.llvm_ir import jit

    before = jit.counters.compiled + jit.counters.loaded
    with own_trie(), config.override(compile=True, wait=True, verify=True, strict=True):
        found = results(function)
    made = jit.counters.compiled + jit.counters.loaded - before
    with own_trie(), config.override(compile=False, wait=False):
        expected = results(function)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3, err_msg=function.__name__)
    return made


if __name__ == "__main__":
    for plugin in sys.argv[1:]:
        importlib.import_module(plugin)
    print(json.dumps({name: compare(function) for name, function in PROGRAMS.items()}))
