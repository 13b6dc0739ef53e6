"""Threads that share parameters: no gradient and no write is lost, and nothing is raised."""

import sys
import threading

import numpy as np
import pytest

import wend as torch
from wend import nn
from wend._engine.core import _hot, _siblings, _types

N_THREADS, TURNS = 4, 12


@pytest.fixture(autouse=True, params=[5e-3, 1e-5], ids=["seldom", "often"])
def switches(request):
    """How often the interpreter goes from one thread to another."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(request.param)
    yield
    sys.setswitchinterval(before)


def together(work):
    """work(k) in four threads at once; raises what one of them has raised."""
    errors = []
    gate = threading.Barrier(N_THREADS)

    def run(k):
        try:
            gate.wait()
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "they wait for each other"
    if errors:
        raise errors[0]


def rows(k):
    return torch.tensor(np.random.default_rng(k).normal(size=(3, 4)))


def network():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def test_gradients_add_up_in_shared_parameters():
    """Hogwild: each thread adds its gradients."""
    for _ in range(5):
        model = network()

        def work(k, model=model):
            for _ in range(TURNS):
                model(rows(k)).sum().backward()

        together(work)
        found = [p.grad.numpy().copy() for p in model.parameters()]
        model.zero_grad()
        for k in range(N_THREADS):
            (model(rows(k)).sum() * TURNS).backward()
        for g, p in zip(found, model.parameters(), strict=True):
            np.testing.assert_allclose(g, p.grad.numpy(), rtol=1e-9)


def test_gradients_add_up_where_types_are_let_go_of():
    """Found in a long run: beside many other types, equal types are not one object."""
    _types.bound_types(4)
    try:
        test_gradients_add_up_in_shared_parameters()
    finally:
        _types.bound_types(2048)


def test_steps_add_up_in_shared_parameters():
    """A3C: each thread has gradients of its own, which its optimizer writes into the model."""
    model = network()
    start = [np.array(p.tolist()) for p in model.parameters()]

    def work(k):
        shadows = [nn.Parameter(p.detach()) for p in model.parameters()]
        opt = torch.optim.SGD(shadows, lr=0.5)
        for _ in range(TURNS):
            for p in shadows:
                p.grad = torch.ones(*p.shape).double()
            opt.step()

    together(work)
    for p, before in zip(model.parameters(), start, strict=True):
        expected = before - 0.5 * TURNS * N_THREADS
        np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-9)


def test_writes_in_place_add_up():
    """`p.add_` in several threads, whose operands are pending in other threads."""
    total, steps = torch.zeros(3).double(), torch.zeros(()).double()

    def work(k):
        for n in range(TURNS):
            total.add_(torch.ones(3).double() * (k + 1))
            steps.add_(1)
            if n % 3 == k % 3:
                float(total.sum())

    together(work)
    assert steps.item() == TURNS * N_THREADS
    assert total.tolist() == [TURNS * 10.0] * 3


def test_values_of_other_threads():
    """Each thread reads and differentiates what others have pending."""
    made = [[] for _ in range(N_THREADS)]

    def work(k):
        for n in range(TURNS):
            x = torch.full((2,), float(n + 1), requires_grad=True)
            made[k].append((x, (x * x).sum() * (k + 1)))
            other = made[(k + 1) % N_THREADS]
            if n < len(other):
                assert other[n][1].item() == 2.0 * (n + 1) ** 2 * ((k + 1) % N_THREADS + 1)

    together(work)
    for k in range(N_THREADS):
        for n, (x, y) in enumerate(made[k]):
            y.backward()
            assert x.grad.tolist() == [2.0 * (n + 1) * (k + 1)] * 2


def test_first_use_of_an_op_in_several_threads():
    """Rules are traced once, whoever comes first."""
    for n in range(3):
        found = [None] * N_THREADS

        def work(k, n=n, found=found):
            x = torch.tensor(np.linspace(0.1, 0.9, 5 + n), requires_grad=True)
            y = torch.nn.functional.softmax(torch.special.expit(x.erf()) * (n + 2), -1)
            (y * y).sum().backward()
            found[k] = x.grad.numpy()

        together(work)
        for g in found[1:]:
            # By machine code or by the reference, as each has come to it: sums differ in order.
            np.testing.assert_allclose(g, found[0], rtol=1e-12)


def test_training_beside_threads_that_load():
    """What other threads record is theirs, and the loop's numbers are as without them."""

    def train():
        torch.manual_seed(0)
        model = network()
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.1)
        opt = torch.optim.Adam(model.parameters(), lr=0.01)
        for k in range(10):
            opt.zero_grad()
            model(rows(k)).pow(2).sum().backward()
            opt.step()
        return [p.detach().numpy() for p in model.parameters()]

    alone = train()
    stop = threading.Event()

    def load():
        while not stop.is_set():
            torch.stack([torch.ones(2) * k for k in range(4)]).sum().item()

    loader = threading.Thread(target=load)
    loader.start()
    try:
        beside = train()
    finally:
        stop.set()
        loader.join()
    for a, b in zip(alone, beside, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_rules_are_traced_while_another_thread_has_the_turn():
    """A flush may trace a rule, and the thread that has the turn may wait for that flush."""

    class Traced:
        def record(self, prim, tensors, args):
            return prim.name

    x, ready, held, found = torch.ones(3), threading.Event(), threading.Event(), []

    def work():
        torch.ones(3).tolist()  # now several threads record
        trace = _hot.current_trace()
        trace.symbolic = Traced()
        ready.set()
        held.wait(60)
        found.append(torch.tanh(x))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(60)
    _siblings.begin_write()
    try:
        held.set()
        thread.join(20)
        assert found == ["tanh"]
    finally:
        _siblings.end_write()
