"""Gradients and switches in several threads."""

import threading

import numpy as np

import wend as torch


def leaf(*numbers):
    return torch.tensor(list(numbers), requires_grad=True)


def test_backward_through_another_threads_graph():
    x = leaf(1.0, 2.0)
    made = []

    def forward():
        made.append((x * x).exp())

    for _ in range(3):
        thread = threading.Thread(target=forward)
        h = x * 3
        thread.start()
        thread.join()
        y = (made.pop() * h).sum()
        (g,) = torch.autograd.grad(y, x)
        v = np.array([1.0, 2.0])
        e = np.exp(v * v)
        np.testing.assert_allclose(g.numpy(), 3 * e + 3 * v * 2 * v * e, rtol=1e-5)


def test_threads_have_switches_of_their_own():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_in_several_threads():
    w = leaf(2.0)
    failed = []

    def work(k):
        try:
            for i in range(50):
                x = torch.tensor([float(k + i)])
                (g,) = torch.autograd.grad((w * w * x).sum(), w)
                np.testing.assert_allclose(g.numpy(), [4.0 * (k + i)], rtol=1e-4)
        except Exception as error:  # shown by the assertion below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
