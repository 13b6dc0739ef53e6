"""Training programs that several ranks run on parts of the data, and one process runs on all of it.

A `Case` has a model, steps, and a loss of a part of the data. `train` runs it in this process: with
the part of a rank, or, in one process, with all parts, whose losses are averaged.
"""

import numpy as np

import wend
import wend as torch
import wend.nn.functional as F
from wend import nn
from wend.utils.checkpoint import checkpoint


class Case:
    """A training program. A step has several micro-batches; each is cut to a part per rank."""

    steps = 4
    micro = 1
    lr = 0.05

    def model(self):
        raise NotImplementedError

    def part(self, rng):
        """The data of a rank."""
        raise NotImplementedError

    def loss(self, model, part):
        raise NotImplementedError

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)

    def before_step(self, model, optimizer, k):
        optimizer.zero_grad()

    def before_update(self, model):
        pass

    def backward(self, loss):
        loss.backward()


class CNN(nn.Module):
    """(n, 1, 8, 8) -> (n, 10), as examples/digits.py."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.second = nn.Conv2d(6, 8, 3, padding=1)
        self.output = nn.Linear(8 * 2 * 2, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.output(x.flatten(1))


class Digits(Case):
    """Images of digits."""

    def model(self):
        return CNN()

    def part(self, rng):
        x = torch.tensor(rng.normal(size=(5, 1, 8, 8)).astype("f"))
        return x, torch.tensor(rng.integers(0, 10, 5))

    def loss(self, model, part):
        return F.cross_entropy(model(part[0]), part[1])


class TreeCell(nn.Module):
    """A TreeLSTM over nested pairs of words; a path of its own for each tree."""

    def __init__(self, width=12):
        super().__init__()
        self.words = nn.Embedding(20, width)
        self.gates = nn.Linear(2 * width, 5 * width)
        self.output = nn.Linear(width, 5)

    def state(self, tree):
        if isinstance(tree, int):
            h = self.words(torch.tensor(tree))
            return h, torch.zeros_like(h)
        (h1, c1), (h2, c2) = self.state(tree[0]), self.state(tree[1])
        i, f1, f2, o, u = self.gates(torch.cat([h1, h2])).chunk(5)
        c = i.sigmoid() * u.tanh() + f1.sigmoid() * c1 + f2.sigmoid() * c2
        return o.sigmoid() * c.tanh(), c

    def forward(self, trees):
        return torch.stack([self.output(self.state(tree)[0]) for tree in trees])


def random_tree(rng, leaves):
    if leaves == 1:
        return int(rng.integers(20))
    left = int(rng.integers(1, leaves))
    return random_tree(rng, left), random_tree(rng, leaves - left)


class Trees(Case):
    """Random trees: no two ranks take the same path."""

    def model(self):
        return TreeCell()

    def part(self, rng):
        trees = [random_tree(rng, int(rng.integers(2, 7))) for _ in range(3)]
        return trees, torch.tensor(rng.integers(0, 5, 3))

    def loss(self, model, part):
        return F.cross_entropy(model(part[0]), part[1])


class Experts(nn.Module):
    """A mixture: each part goes to one expert, and some experts to nobody."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(6, 8)
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(5)])
        self.unused = nn.Linear(8, 8)
        self.leave = nn.Linear(8, 3)

    def forward(self, x, which):
        x = self.enter(x).tanh()
        for k in which:
            x = x + self.experts[k](x).tanh()
        return self.leave(x)


class Mixture(Case):
    """Ranks use different experts, in different numbers; the last expert is never used."""

    steps = 6

    def model(self):
        return Experts()

    def part(self, rng):
        which = rng.permutation(4)[: int(rng.integers(0, 3))]
        x = torch.tensor(rng.normal(size=(4, 6)).astype("f"))
        return x, torch.tensor(rng.integers(0, 3, 4)), [int(k) for k in which]

    def loss(self, model, part):
        return F.cross_entropy(model(part[0], part[2]), part[1])


class Accumulated(Mixture):
    """Three micro-batches a step; ranks use different experts in each."""

    micro = 3


class Frozen(Digits):
    """A layer that is frozen, then trained, then frozen again."""

    steps = 6

    def before_step(self, model, optimizer, k):
        optimizer.zero_grad()
        for name, p in model.named_parameters():
            if "second" in name:
                p.requires_grad_(k in (2, 3))


class Kept(Digits):
    """Gradients set to zero, not to None; clipped; and AdamW."""

    def optimizer(self, model):
        # Where a gradient is nothing but rounding, a small eps would make a whole step of that.
        return torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)

    def before_step(self, model, optimizer, k):
        optimizer.zero_grad(set_to_none=False)

    def before_update(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


class Never(Digits):
    """Gradients that are never set to zero: those of earlier steps are averages already."""

    lr = 0.01

    def before_step(self, model, optimizer, k):
        pass


class Shared(nn.Module):
    """A weight used twice, under two names, and a checkpointed part."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.c = nn.Linear(6, 3)

    def forward(self, x):
        x = checkpoint(lambda t: self.b(self.a(t).tanh()).tanh(), x, use_reentrant=True)
        return self.c(x)


class Tied(Case):
    """Shared weights, and a checkpoint, whose backward pass begins another one."""

    def model(self):
        return Shared()

    def part(self, rng):
        x = torch.tensor(rng.normal(size=(4, 6)).astype("f"), requires_grad=True)
        return x, torch.tensor(rng.integers(0, 3, 4))

    def loss(self, model, part):
        return F.cross_entropy(model(part[0]), part[1])


def halve(parameter):
    parameter.grad.mul_(0.5)


class Read(Digits):
    """Losses that are read before the backward pass, and hooks that change gradients."""

    def model(self):
        made = CNN()
        made.output.weight.register_hook(lambda g: 2 * g)
        made.first.weight.register_post_accumulate_grad_hook(halve)
        return made

    def loss(self, model, part):
        loss = super().loss(model, part)
        assert loss.item() == loss.item()
        return loss


class Twice(Digits):
    """Two backward passes through one graph, and a second loss of the same results."""

    def loss(self, model, part):
        y = model(part[0])
        return F.cross_entropy(y, part[1]), 0.1 * y.pow(2).mean()

    def backward(self, loss):
        loss[0].backward(retain_graph=True)
        loss[1].backward()


class Scaled(Digits):
    """A scaled loss under autocast, unscaled before the update."""

    def backward(self, loss):
        torch.amp.GradScaler("cpu", init_scale=1024.0).scale(loss).backward()

    def before_update(self, model):
        for p in model.parameters():
            p.grad.div_(1024.0)


class Batched(Trees):
    """Each example by itself, its backward pass too, by `wend.batched`."""

    def model(self):
        return TreeCell()

    def loss(self, model, part):
        trees, labels = part

        def one(tree, label):
            loss = F.cross_entropy(model([tree]), label.reshape(1)) / len(trees)
            if loss.item() > 0:
                loss.backward()
            return loss.detach()

        return sum(wend.batched(one)(trees, list(labels)))

    def backward(self, loss):
        pass


CASES = {
    case.__name__: case
    for case in (
        Digits, Trees, Mixture, Accumulated, Frozen, Kept,
        Never, Tied, Read, Twice, Scaled, Batched,
    )
}  # fmt: skip


def train(name, ranks, rank=None, wrap=None):
    """Train a case; returns parameters and gradients by name, and which gradients are None.

    ranks: into how many parts the data is cut
    rank: the part that this process takes; None for all, in one process
    wrap: makes the module of a rank
    """
    case = CASES[name]()
    torch.manual_seed(3 + (rank or 0))
    model = case.model()
    if rank is not None:
        made = torch.manual_seed(3) and case.model()
        if rank == 0:
            model = made  # the others take over these weights
    net = model if wrap is None else wrap(model)
    optimizer = case.optimizer(model)
    for k in range(case.steps):
        case.before_step(model, optimizer, k)
        for m in range(case.micro):
            rng = np.random.default_rng([k, m])
            parts = [case.part(rng) for _ in range(ranks)]
            if rank is not None:
                parts = parts[rank : rank + 1]

            def go(parts=parts):
                case.backward(mean([case.loss(net, part) for part in parts]))

            if rank is not None and m < case.micro - 1:
                with net.no_sync():
                    go()
            else:
                go()
        if name == "Batched" and rank is None:
            for p in model.parameters():
                p.grad.div_(ranks)
        case.before_update(model)
        optimizer.step()
    state = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}
    given = {n: p.grad for n, p in model.named_parameters()}
    grads = {n: None if g is None else g.numpy().copy() for n, g in given.items()}
    return {"parameters": state, "gradients": grads}


def mean(losses):
    """The mean of the losses of parts; of each of several losses, where a part has several."""
    if isinstance(losses[0], tuple):
        return tuple(mean(list(some)) for some in zip(*losses, strict=True))
    return sum(losses) / len(losses)
