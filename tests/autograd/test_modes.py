"""no_grad and its relatives, inference mode, anomaly mode."""

import warnings
from pathlib import Path

import pytest

import wend as torch
from wend._engine.base.errors import ArgumentTypeError, GraphError


def leaf(lib, *numbers):
    return lib.tensor(list(numbers), requires_grad=True)


def test_switches_as_contexts_and_decorators(agree):
    def program(lib):
        x = leaf(lib, 1.0)
        seen = [lib.is_grad_enabled()]

        def note():
            seen.append(((x * 2).requires_grad, lib.is_grad_enabled()))

        with lib.no_grad():
            note()
            with lib.enable_grad():
                note()
            note()
        with lib.set_grad_enabled(False):
            note()
        lib.set_grad_enabled(False)
        note()
        lib.set_grad_enabled(True)
        note()

        @lib.no_grad()
        def off():
            note()

        @lib.no_grad
        def bare():
            note()

        @lib.set_grad_enabled(False)
        def also_off():
            note()

        @lib.inference_mode()
        def inference():
            note()

        for call in (off, bare, also_off, inference, note):
            call()
        return seen

    agree(program)


def test_a_generator_switches_while_it_runs(agree):
    def program(lib):
        seen = []

        @lib.no_grad()
        def numbers():
            for k in range(2):
                seen.append(lib.is_grad_enabled())
                got = yield k
                seen.append(got)

        running = numbers()
        next(running)
        seen.append(lib.is_grad_enabled())
        running.send("sent")
        seen.append(lib.is_grad_enabled())
        with pytest.raises(StopIteration):
            next(running)
        return seen

    agree(program)


def test_an_exception_restores_the_mode():
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        _ = 1 / 0
    assert torch.is_grad_enabled()
    with pytest.raises(ArgumentTypeError, match="class"):

        @torch.no_grad()
        class Nothing:
            pass


def test_writing_without_gradient_keeps_the_history(agree):
    """Under no_grad the data changes, not the graph."""

    def program(lib):
        x = leaf(lib, 1.0, 2.0, 3.0)
        h = x * x
        v = h[1:]
        with lib.no_grad():
            h.mul_(10)
            v.add_(1)
            h[0] = 5.0
        (h * 2).sum().backward()
        return h, v, x.grad, h.requires_grad

    agree(program)


def test_ops_without_gradient_in_place(agree):
    def program(lib):
        x = leaf(lib, 1.0, 2.0, 3.0)
        h = x * x
        h.zero_()
        k = x * 3
        k[1:].fill_(7.0)
        (h.sum() + k.sum()).backward()
        return h, k, x.grad, h.requires_grad

    agree(program)


def test_a_view_made_without_gradient_stays_without():
    w, x = leaf(torch, 1.0, 2.0), leaf(torch, 5.0)
    with torch.no_grad():
        v = w[:1]
        w.mul_(2)
    (v * x).sum().backward()
    assert not v.requires_grad
    assert v.tolist() == x.grad.tolist() == [2.0]
    assert w.grad is None


# -- inference mode -------------------------------------------------------------------------


def test_inference_mode(agree):
    def program(lib):
        w = lib.ones(3, requires_grad=True)
        found = []
        with lib.inference_mode():
            y = w * 2
            y.add_(1)
            found += [y, y.requires_grad, y.is_inference(), lib.is_inference_mode_enabled()]
            found += [lib.is_grad_enabled(), lib.ones(1).is_inference()]
            found += [lib.tensor([1.0]).is_inference(), w.detach().is_inference()]
            with lib.enable_grad():
                found.append((w * 2).requires_grad)
            with lib.inference_mode(False):
                found += [(w * 2).requires_grad, (w * 2).is_inference()]
        found += [(w + y).requires_grad, (y * 2).is_inference(), w.is_inference()]
        (w * y.clone()).sum().backward()
        return [*found, w.grad]

    agree(program)


def test_inference_tensors_cannot_be_saved():
    for _ in range(2):
        w, c = torch.ones(3, requires_grad=True), torch.ones(3)
        assert (w * c).requires_grad
        with torch.inference_mode():
            y = w * 2
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            w * y
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            torch.nn.functional.linear(y, torch.ones(2, 3, requires_grad=True))
        with pytest.raises(RuntimeError, match="outside InferenceMode is not allowed"):
            y.add_(1)
        with pytest.raises(RuntimeError, match="outside InferenceMode is not allowed"):
            y.requires_grad_()
        assert (w - y).requires_grad


def test_inference_tensors_have_no_version():
    with torch.inference_mode():
        x = torch.ones(2)
        x.add_(1)
    with pytest.raises(RuntimeError, match="do not track a version counter"):
        x._version  # noqa: B018  # reading it is the point
    assert torch.ones(2).add_(1)._version == 1


def test_inference_between_training_steps():
    """Parameters that are looked at in inference mode are as trainable as before."""
    w = leaf(torch, 1.0, 2.0)
    view = w[:1]
    for k in range(4):
        w.grad = None
        (w * w).sum().backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.1)
        with torch.inference_mode():
            assert (w * 2).tolist() == pytest.approx([2 * 0.8 ** (k + 1), 4 * 0.8 ** (k + 1)])
            assert view.tolist() == pytest.approx([0.8 ** (k + 1)])
    assert not w.is_inference()
    (w[:1] * view).sum().backward()


# -- anomaly mode ---------------------------------------------------------------------------


def test_anomaly_mode_names_op_and_line():
    x = leaf(torch, 0.0, 4.0)
    with torch.autograd.detect_anomaly():
        h = x * 0
        y = h.sqrt()  # here
        z = (y * 0).sum()
        with pytest.raises(RuntimeError, match="SqrtBackward0' returned nan values") as caught:
            z.backward()
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    line = next(i for i, text in enumerate(lines, 1) if text.endswith("h.sqrt()  # here"))
    assert f"{__file__}:{line} in test_anomaly_mode_names_op_and_line" in str(caught.value)
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_without_anomaly(agree):
    def program(lib):
        x, w = leaf(lib, 0.5, 4.0), leaf(lib, 2.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with lib.autograd.set_detect_anomaly(True):
                h = lib.softmax(x * w, 0)
                h.register_hook(lambda g: g * 2)
                h.log().sum().backward()
        return x.grad, w.grad

    agree(program)


def test_anomaly_mode_after_the_forward_pass():
    """The line is known, although the forward pass ran without."""
    x = leaf(torch, 0.0)
    y = (x.sqrt() * 0).sum()
    y.item()
    with (
        torch.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="returned nan values") as caught,
    ):
        y.backward()
    assert __file__ in str(caught.value)


def test_anomaly_mode_in_a_users_function():
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = leaf(torch, 1.0)
    with (
        torch.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="BadBackward' returned nan values"),
    ):
        Bad.apply(x).sum().backward()


def test_anomaly_mode_switches():
    torch.autograd.set_detect_anomaly(True)
    try:
        assert torch.is_anomaly_enabled()
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert not torch.is_anomaly_enabled()
    x = leaf(torch, 0.0)
    with torch.autograd.detect_anomaly(check_nan=False):
        (x.sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()


def test_an_error_that_users_raise_passes():
    x = leaf(torch, 1.0)
    h = x * 2
    h.register_hook(lambda g: (_ for _ in ()).throw(KeyError("mine")))
    with pytest.raises(KeyError, match="mine"):
        h.sum().backward()
    with pytest.raises(GraphError, match="backward pass only"):
        torch.autograd.Variable._execution_engine.queue_callback(print)
