"""Random programs on handles of one memory, run by PyTorch and by Wend: all values agree."""

import copy
import random

import numpy as np
import pytest

import wend

torch = pytest.importorskip("torch")

PROGRAMS = 120
VIEWS = [
    lambda x: x[0],
    lambda x: x[1:],
    lambda x: x.t(),
    lambda x: x.reshape(-1),
    lambda x: x[..., ::2],
    lambda x: x.unsqueeze(0),
    lambda x: x.diagonal(),
    lambda x: x.narrow(0, 0, 1),
    lambda x: x[:1].expand(2, *x.shape[1:]),
    lambda x: x.unfold(0, 2, 2),
]
WRITES = [
    lambda t, v, n: v.add_(n),
    lambda t, v, n: v.mul_(2),
    lambda t, v, n: v.fill_(n),
    lambda t, v, n: v.__setitem__(0, n),
    lambda t, v, n: v.copy_(t.full(v.shape, n)),
    lambda t, v, n: v.zero_(),
    lambda t, v, n: v.__setitem__(v > n, n),
    lambda t, v, n: v.clamp_(0, n),
]


class Program:
    """One run: the same numbers from the same seed, whatever library runs it."""

    def __init__(self, t, seed):
        self.t, self.random = t, random.Random(seed)
        a = t.tensor([[float(i * 4 + j) for j in range(4)] for i in range(3)])
        self.handles = {"a": a, "b": t.full((3, 4), 100.0)}
        self.arrays = {}

    def run(self):
        log = []
        for step in range(self.random.randint(5, 14)):
            log.append(self.step(f"h{step}"))
        for name in sorted(self.handles):
            handle = self.handles[name]
            grad = handle.grad if handle.is_leaf else None
            log.append((name, handle.detach().tolist(), grad if grad is None else grad.tolist()))
        return log + [(name, array.tolist()) for name, array in sorted(self.arrays.items())]

    def step(self, new):
        pick = self.random.choice
        what = pick([name for name in vars(Program) if name.startswith("do_")])
        name, other = pick(sorted(self.handles)), pick(sorted(self.handles))
        self.new, self.name, self.x, self.y = new, name, self.handles[name], self.handles[other]
        self.view, self.write, self.number = pick(VIEWS), pick(WRITES), float(pick(range(1, 9)))
        self.array = pick(sorted(self.arrays)) if self.arrays else None
        try:
            getattr(self, what)()
        except (RuntimeError, IndexError, ValueError) as error:
            kinds = (IndexError, ValueError, RuntimeError)
            return what, name, next(k.__name__ for k in kinds if isinstance(error, k))
        seen = self.y.detach().tolist() if self.random.random() < 0.3 else None
        return what, name, seen

    def do_view(self):
        self.handles[self.new] = self.view(self.x)

    do_view_too = do_view

    def do_detach(self):
        self.handles[self.new] = self.x.detach()

    def do_data(self):
        self.handles[self.new] = self.x.data

    def do_parameter(self):
        self.handles[self.new] = self.t.nn.Parameter(self.x.detach())

    def do_leaf(self):
        self.handles[self.name] = self.x.detach().requires_grad_()

    def do_copy(self):
        if self.x.is_leaf:
            self.handles[self.new] = copy.deepcopy(self.x)

    def do_replace_data(self):
        self.x.data = (self.y.data * 0.5 + 1).contiguous()

    def do_share_data(self):
        self.x.data = self.y.detach()

    def do_set(self):
        with self.t.no_grad():
            self.x.set_(self.y.detach())

    def do_resize(self):
        if not self.x.requires_grad and self.x.dim() == 2 and self.x.is_contiguous():
            self.x.resize_(self.x.shape[1], self.x.shape[0])

    def do_transpose(self):
        if not self.x.requires_grad and self.x.dim() == 2:
            self.x.t_()

    def do_write(self):
        self.write(self.t, self.x, self.number)

    do_write_too = do_write_again = do_write

    def do_write_without_gradients(self):
        with self.t.no_grad():
            self.write(self.t, self.x, self.number)

    def do_write_data(self):
        self.write(self.t, self.x.data, self.number)

    def do_backward(self):
        (self.x * self.x).sum().backward()

    def do_optimizer_step(self):
        found = [h for h in self.handles.values() if h.is_leaf and h.grad is not None]
        if found:
            self.t.optim.SGD(found, lr=0.5).step()

    def do_array(self):
        self.arrays[self.new] = self.x.detach().numpy()

    def do_write_array(self):
        if self.array is not None and self.arrays[self.array].size:
            array = self.arrays[self.array]
            array[(0,) * array.ndim] = self.number

    def do_from_array(self):
        if self.array is not None:
            self.handles[self.new] = self.t.from_numpy(self.arrays[self.array])


@pytest.mark.parametrize("first", range(0, PROGRAMS, 20))
def test_programs_agree(first):
    for seed in range(first, first + 20):
        wanted, found = Program(torch, seed).run(), Program(wend, seed).run()
        assert len(wanted) == len(found)
        for a, b in zip(wanted, found, strict=True):
            assert a[0] == b[0] and all(map(same, a[1:], b[1:])), (seed, a, b)


def same(a, b):
    if a is None or isinstance(a, str):
        return a == b
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-5)
