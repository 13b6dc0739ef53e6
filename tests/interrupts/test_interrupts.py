"""An interrupt, wherever it comes, leaves a state from which training goes on as if it were not."""

import contextlib
import random
import signal
import sys
from contextlib import nullcontext
from functools import cache, partial

import numpy as np
import pytest

import wend as torch
from interrupting import Check, Course, Cut, Knife
from training_loops import LOOPS, Mlp, data
from tries import own_trie
from wend import nn
from wend._engine.core import _hot
from wend._engine.core.provenance import step_site

#: Steps before the one that is cut: none, so that everything is new; and so many that it is known.
NEW, KNOWN = 0, 5
CUTS = 12  # of each kind and state


@cache
def course(kind):
    return Course(kind, 80)


@pytest.mark.parametrize("kind", LOOPS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("warm", [NEW, KNOWN])
def test_cut_at_any_place(kind, warm):
    """One step is cut; it was made or was not, and those after it are as they would be."""
    check = Check(kind, course(kind))
    for _ in range(warm):
        check.turn(nullcontext)
    counting = Knife(0)
    check.turn(counting.drawn)
    places = random.Random(f"{kind.__name__} {warm}")
    for _ in range(CUTS):
        if not warm:
            check = Check(kind, course(kind))
        knife = Knife(places.randrange(1, counting.places + 1))
        try:
            check.turn(knife.drawn)
            check.turn(nullcontext)
        except Exception as error:
            error.add_note(f"cut number {knife.left}, at {knife.where}")
            raise


@pytest.mark.parametrize(
    "error", [TimeoutError("time is up"), RuntimeError("stop"), KeyboardInterrupt()], ids=repr
)
def test_exceptions_of_signal_handlers_reach_the_user(error, own_trie):
    """They are no failure of what is being computed: nothing is computed again, nor noted."""

    def ring(number, frame):
        raise error

    # The handler runs where the interpreter looks for signals next: within the flush.
    before = signal.signal(signal.SIGUSR1, ring)
    real = np.tanh
    try:
        x = torch.ones(3)
        y = torch.tanh(x)
        z = y + 1
        signaling_flush(y, real)
        with pytest.raises(type(error)):
            y.numpy()
    finally:
        signal.signal(signal.SIGUSR1, before)
        restore_flush()
    np.testing.assert_allclose(z.numpy(), 1 + np.tanh(np.ones(3)), rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), np.tanh(np.ones(3)), rtol=1e-6)


_patch = pytest.MonkeyPatch()


def signaling_flush(y, real):
    """Let the next step of the reference send this process a signal, once."""
    from wend._engine.runtime.numpy_executor import runners

    call = runners.NodeRun.call

    def stopped(self, env, types, args):
        _patch.setattr(runners.NodeRun, "call", call)
        signal.raise_signal(signal.SIGUSR1)
        call(self, env, types, args)

    _patch.setattr(runners.NodeRun, "call", stopped)


def restore_flush():
    _patch.undo()


def test_parameters_outlive_a_cut_where_a_step_of_the_optimizer_is_pending():
    """The first use of such a parameter gives its handle a value that the cut takes off again."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    opt = torch.optim.SGD(m.parameters(), lr=0.0)
    x = torch.ones(3, 4)
    before = [p.detach().numpy().copy() for p in m.parameters()]
    counting = Knife(0)
    for place in range(0, 700, 2):
        m(x).sum().backward()
        opt.step()
        with contextlib.suppress(Cut), (Knife(place) if place else counting).drawn():
            m(x)
        if place % 40 < 37:  # else the trace goes on from one cut to the next
            after = [p.detach().numpy() for p in m.parameters()]
            assert all(np.array_equal(a, b) for a, b in zip(after, before, strict=True))
    assert 0 < counting.places < 700


@pytest.mark.parametrize("seed", [0, 5, 9, 22])
def test_model_outlives_many_interrupts(seed):
    """Found in use: after seven interrupts the parameters were lost."""
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    opt = torch.optim.SGD(m.parameters(), lr=0.01)
    x = torch.tensor(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    places = random.Random(seed)
    cut = 0
    while cut < 60:
        try:
            with Knife(int(10 ** places.uniform(0, 4))).drawn():
                for _ in range(20):
                    loss = m(x).pow(2).mean()
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
        except Cut:
            cut += 1
    assert cut == 60
    for p in m.parameters():
        assert np.isfinite(p.detach().numpy()).all()
    before = float(m(x).pow(2).mean())
    loss = m(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    assert float(m(x).pow(2).mean()) < before


def test_what_was_cut_short_does_not_hold_up_the_rest():
    """A flush that was cut is gone on with when one of its values is read, and not before."""
    knife = Knife(20)
    x = torch.ones(3)
    y = (x * 3).exp()
    z = y + 1
    with pytest.raises(Cut), knife.drawn():
        z.numpy()
    other = torch.full((2,), 4.0) * 2
    assert other.tolist() == [8.0, 8.0]
    np.testing.assert_allclose(z.numpy(), np.exp(3.0) + np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), np.exp(3.0) * np.ones(3), rtol=1e-6)


def test_a_value_that_was_cut_short_has_its_gradient():
    """What is pending once more has the history that it had."""
    for place in range(1, 60, 4):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        y = (w * w).sum()
        knife = Knife(place)
        try:
            with knife.drawn():
                y.item()
        except Cut:
            pass
        (y * 3).backward()
        assert w.grad.tolist() == [6.0, 12.0], knife.where


def test_rows_written_in_place_are_put_back():
    """`out[k] = h` writes into the memory of the old value: not so if the flush is cut short."""
    for place in range(1, 200, 7):
        out = torch.zeros(4, 3)
        out[0] = 1.0
        out.numpy().sum()
        out = out.clone()
        float(out.sum())
        out[1] = 5.0
        out[2] = out[1] * 2
        knife = Knife(place)
        try:
            with knife.drawn():
                float(out.sum())
        except Cut:
            pass
        assert out.tolist() == [[1.0] * 3, [5.0] * 3, [10.0] * 3, [0.0] * 3], knife.where


def test_an_op_without_memory_can_be_read_later(monkeypatch):
    """Too little memory undoes the step, as an error of an op; the value may be had later."""
    from wend._engine.ops.elementwise import family as elementwise  # noqa: F401

    x = torch.ones(3)
    p = torch.zeros(3)
    y = torch.exp(x)
    p += y
    from wend._engine.runtime.numpy_executor import plan as reference

    plain, short = reference.run_plainly, reference.launcher.in_lots

    def no_memory(program, arrays, args):
        if program.prim.name == "exp":
            raise MemoryError
        return plain(program, arrays, args)

    def none_at_all(function, *given):
        raise MemoryError

    monkeypatch.setattr(reference, "run_plainly", no_memory)
    monkeypatch.setattr(reference, "launcher", Lots(none_at_all))
    with pytest.raises(MemoryError):
        p.tolist()
    monkeypatch.setattr(reference, "run_plainly", plain)
    monkeypatch.setattr(reference, "launcher", Lots(short))
    assert p.tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(y.numpy(), np.e * np.ones(3), rtol=1e-6)


class Lots:
    def __init__(self, in_lots):
        self.in_lots = in_lots


@pytest.mark.parametrize("depth", range(60))
def test_recursion_errors_leave_values_computable(depth):
    """The stack may end anywhere: values are computed by whoever has more of it."""
    w = torch.tensor([0.5], requires_grad=True)
    y = (w * 3).tanh().sum()

    def deeper(n):
        if n == 0:
            return y.item()
        return deeper(n - 1)

    limit = sys.getrecursionlimit()
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1
    sys.setrecursionlimit(used + 80)
    try:
        deeper(75 - depth)
    except RecursionError:
        pass
    finally:
        sys.setrecursionlimit(limit)
    y.backward()
    np.testing.assert_allclose(y.item(), np.tanh(1.5), rtol=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), [3 * (1 - np.tanh(1.5) ** 2)], rtol=1e-5)


def test_steps_of_sets_that_vary_are_whole():
    """Where examples decide which parameters a step has, each pair is a flush of its own."""
    kinds = [nn.Linear(2, 2) for _ in range(12)]
    params = [p for m in kinds for p in m.parameters()]
    opt = torch.optim.Adam(params, lr=0.1)
    choose = random.Random(3)

    def gradients(chosen):
        opt.zero_grad()
        for k in chosen:
            for p in kinds[k].parameters():
                p.grad = torch.ones(*p.shape)

    for _ in range(40):  # more sets than the optimizer remembers
        gradients(choose.sample(range(12), 4))
        opt.step()
    for place in range(5, 1500, 61):
        chosen = choose.sample(range(12), 5)
        gradients(chosen)
        steps = {p: opt.state[p]["step"] for p in params}
        weights = {p: p.detach().numpy().copy() for p in params}
        knife = Knife(place)
        try:
            with knife.drawn():
                opt.step()
        except Cut:
            pass
        made = {opt.state[p]["step"] - steps[p] for k in chosen for p in kinds[k].parameters()}
        assert len(made) == 1, f"{place}, at {knife.where}: {made}"
        for k in range(12):
            for p in kinds[k].parameters():
                moved = not np.array_equal(p.detach().numpy(), weights[p])
                assert moved == (k in chosen and made == {1.0}), knife.where


def test_interrupted_twice():
    """A flush that is gone on with may be cut short again."""
    x = torch.ones(4, requires_grad=True)
    y = (x * 2).exp().sum()
    for place in (30, 25, 20, 15, 10, 5):
        try:
            with Knife(place).drawn():
                y.item()
        except Cut:
            pass
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(2.0) * np.ones(4), rtol=1e-5)


def test_a_plan_that_was_cut_while_it_was_made_is_made_again(monkeypatch):
    """A path that comes back is planned in slices: half of its passes are no plan."""
    for place in (40, 200, 900):
        w = torch.tensor(np.linspace(0, 1, 7), requires_grad=True)
        found = []
        for k in range(8):
            y = ((w * 3).sin() + place).sum()
            try:
                with Knife(place).drawn() if k in (2, 3, 4) else nullcontext():
                    y.backward()
            except Cut:
                w.grad = None
                y = ((w * 3).sin() + place).sum()
                y.backward()
            found.append(w.grad.numpy().copy())
            w.grad = None
        for g in found:
            np.testing.assert_allclose(g, 3 * np.cos(3 * np.linspace(0, 1, 7)), rtol=1e-9)


def test_steps_that_were_taken_off_are_in_no_graph():
    """A step of a segment asks for the graph of what is pending, with the step's own operands.

    The uncompiled core takes those off after a cut, and a later flush found the graph.
    """

    def cut(place):
        w, v = (torch.tensor(row, requires_grad=True) for row in ([1.0, 2.0], [3.0, 1.0]))
        y = (w * v).sum()
        assert y.item() == 5.0
        knife = Knife(place)
        with contextlib.suppress(Cut), knife.drawn():
            y.backward()
        assert w.detach().tolist() == [1.0, 2.0], knife.where
        assert (v.detach() * 3).tolist() == [9.0, 3.0], knife.where
        return knife.places

    with own_trie():
        places = cut(0)
    for place in range(1, places, 37):
        with own_trie():
            cut(place)


def test_steps_that_were_taken_off_leave_no_line():
    """The line of a step is noted where it differs from the line of the path's first visit."""
    x = torch.ones(2, 3)

    def first():
        return x.t()

    def second():
        return x.t()

    with own_trie():
        for _ in range(2):
            first().tolist()
        counting = Knife(0)
        with counting.drawn():
            second()
        for place in range(1, counting.places + 1):
            torch.synchronize()
            with contextlib.suppress(Cut), Knife(place).drawn():
                second()
            trace = _hot.current_trace()
            n = len(trace.states)
            y = first()
            line = str(step_site(trace.states, trace.sites, len(trace.states) - 1))
            assert len(trace.states) > n and line.endswith(first.__qualname__), (place, line)
            del y


def test_mode_is_as_before():
    """Gradients are recorded after an interrupt within a step as they were before."""
    check = Check(Mlp, course(Mlp))
    for place in range(1, 400, 37):
        check.turn(Knife(place).drawn)
        assert torch.is_grad_enabled()
        assert (data(0, 2).requires_grad_() * 2).requires_grad


def test_a_step_that_was_cut_gives_arrays_back_what_they_were():
    """Memory that NumPy knows is written at once: what a cut step has written goes back."""
    weights = [nn.Parameter(torch.tensor(np.arange(3.0) + k)) for k in range(4)]
    optimizer = torch.optim.SGD(weights, lr=0.5, momentum=0.9)
    arrays = [w.detach().numpy() for w in weights]
    places = random.Random(5)
    steps = cut = 0
    while cut < 25:
        for w in weights:
            w.grad = torch.ones(3, dtype=torch.float64)
        before = [a.copy() for a in arrays]
        try:
            with Knife(places.randrange(1, 900)).drawn():
                optimizer.step()
        except Cut:
            cut += 1
        moved = [not np.array_equal(a, b) for a, b in zip(arrays, before, strict=True)]
        assert all(moved) or not any(moved), "a part of the step was made"
        steps += all(moved)
        for w, a in zip(weights, arrays, strict=True):
            np.testing.assert_array_equal(w.detach().numpy(), a)
    velocity, expected = 0.0, np.arange(3.0)
    for _ in range(steps):
        velocity = 0.9 * velocity + 1.0
        expected = expected - 0.5 * velocity
    np.testing.assert_allclose(arrays[0], expected)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_pass_that_was_cut_gives_gradients_back_only_where_it_changed_them(cut):
    """Gradients are views of a buffer that NumPy knows: it is written anew only if need be."""
    flat = torch.tensor(np.arange(6.0))
    array = flat.numpy()
    parameters = [torch.ones(2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    reached = []

    def note(_, k):
        reached.append(k)
        if k == cut:
            raise KeyboardInterrupt

    for k, p in enumerate(parameters):
        p.grad = flat[2 * k : 2 * k + 2]
        p.register_hook(partial(note, k=k))

    storage = flat.alias.storage
    before = storage.version
    with pytest.raises(KeyboardInterrupt):
        sum((p * 2).sum() for p in parameters).backward()
    changed = len(reached) > 1
    assert (storage.version > before) == changed
    assert (flat._version > 0) == changed
    np.testing.assert_array_equal(array, np.arange(6.0))
    np.testing.assert_array_equal(flat.numpy(), np.arange(6.0))


def test_a_gradient_whose_source_is_gone_is_given_back():
    """Its data was shared once, and is found to be the gradient's own when it is noted."""
    p, q = (torch.ones(3, requires_grad=True) for _ in range(2))
    p.grad = torch.ones(3).detach()
    p.register_hook(lambda _: None)

    def stop(_):
        raise KeyboardInterrupt

    q.register_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        ((q * 3).sum() + (p * 2).sum()).backward()
    assert p.grad.tolist() == [1, 1, 1] and q.grad is None


@pytest.mark.parametrize("owner", ["optimizer", "module"])
@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_are_cleared_all_or_none(owner, to_none):
    """Else a step after the interrupt adds to the gradients of some parameters only."""
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    one = torch.optim.SGD(model.parameters(), lr=0.1) if owner == "optimizer" else model
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = torch.ones(p.shape)
    counting = Knife(0)
    with counting.drawn():
        one.zero_grad(set_to_none=to_none)
    places = range(1, counting.places + 1)
    for place in sorted(random.Random(1).sample(places, min(len(places), 40))):
        for p in parameters:
            p.grad = torch.ones(p.shape)
        given = [p.grad for p in parameters]
        with contextlib.suppress(Cut), Knife(place).drawn():
            one.zero_grad(set_to_none=to_none)
        cleared = [p.grad is None or not p.grad.any().item() for p in parameters]
        assert all(cleared) or not any(cleared), place
        if not any(cleared):
            assert all(p.grad is g for p, g in zip(parameters, given, strict=True))
            assert all(g.tolist() == torch.ones(g.shape).tolist() for g in given)
