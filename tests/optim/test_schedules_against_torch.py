"""Schedules against PyTorch's: rates, momenta, states, faults."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

SCHEDULES = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda s, o: s.LambdaLR(
        o, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)]
    ),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95),
    "step": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.5, total_iters=4),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.2, end_factor=0.8, total_iters=6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=7, power=2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.01),
    "warm restarts, even": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, step_size_up=3, step_size_down=5),
    "cyclic, halved": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.2, 0.1], 3, mode="triangular2", cycle_momentum=False
    ),
    "cyclic, decaying": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, mode="exp_range", gamma=0.9),
    "cyclic, own scale": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, 4, scale_fn=lambda x: 1 / x, scale_mode="cycle"
    ),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=20),
    "one cycle, straight": lambda s, o: s.OneCycleLR(
        o,
        [0.5, 0.2],
        epochs=4,
        steps_per_epoch=5,
        anneal_strategy="linear",
        three_phase=True,
        pct_start=0.4,
    ),
    "one cycle, no momentum": lambda s, o: s.OneCycleLR(
        o, 0.5, total_steps=20, cycle_momentum=False
    ),
    "sequential": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 8]
    ),
    "chained": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)], optimizer=o
    ),
    "warm-up and cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 10)], [4]
    ),
}
OPTIMIZERS = {
    "sgd": lambda t, groups: t.optim.SGD(groups, lr=0.1, momentum=0.9),
    "adam": lambda t, groups: t.optim.Adam(groups, lr=0.1),
}


def make(t, kind, schedule):
    p, q = t.nn.Parameter(t.zeros(1)), t.nn.Parameter(t.zeros(1))
    optimizer = OPTIMIZERS[kind](t, [{"params": [p]}, {"params": [q], "lr": 0.3}])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return optimizer, SCHEDULES[schedule](t.optim.lr_scheduler, optimizer)


def settings(optimizer):
    return [
        (float(g["lr"]), float(g.get("momentum", 0)), *map(float, g.get("betas", ())))
        for g in optimizer.param_groups
    ]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_sequence_equals_torchs(kind, schedule):
    sequences = []
    for t in (wend, torch):
        optimizer, scheduler = make(t, kind, schedule)
        sequence = [settings(optimizer)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(19):
                optimizer.step()
                scheduler.step()
                sequence.append(settings(optimizer))
                assert [g["lr"] for g in optimizer.param_groups] == list(scheduler.get_last_lr())
        sequences.append(sequence)
    np.testing.assert_allclose(sequences[0], sequences[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_states_resume_in_torch_and_back(schedule):
    for source, target in ((wend, torch), (torch, wend)):
        optimizer, scheduler = make(source, "sgd", schedule)
        other_optimizer, other = make(target, "sgd", schedule)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(5):
                optimizer.step()
                scheduler.step()
            other.load_state_dict(scheduler.state_dict())
            other_optimizer.load_state_dict(optimizer.state_dict())
            for _ in range(6):
                scheduler.step()
                other.step()
                np.testing.assert_allclose(
                    settings(other_optimizer), settings(optimizer), rtol=1e-9, atol=1e-12
                )


@pytest.mark.parametrize(
    "how",
    [
        {"patience": 1},
        {"patience": 0, "factor": 0.5, "cooldown": 2, "min_lr": [0.02, 0.05]},
        {"mode": "max", "patience": 1, "threshold": 0.5, "threshold_mode": "abs"},
    ],
    ids=str,
)
def test_plateau_equals_torchs(how):
    metrics = [3.0, 2.0, 2.0, 1.9999, 2.5, 1.0, 1.0, 1.0, 1.0, 0.99999, 5.0, 5.0, 6.0, 7.0]
    sequences = []
    for t in (wend, torch):
        optimizer, _ = make(t, "sgd", "step")
        scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **how)
        sequence = []
        for metric in metrics:
            scheduler.step(metric)
            sequence.append(settings(optimizer) + [scheduler.num_bad_epochs, scheduler.best])
        sequences.append(sequence)
    assert sequences[0] == sequences[1]


def test_epochs_can_be_given():
    for schedule in ("step", "cosine", "warm restarts", "polynomial"):
        sequences = []
        for t in (wend, torch):
            optimizer, scheduler = make(t, "sgd", schedule)
            sequence = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for epoch in (0, 1, 4, 7, 2):
                    scheduler.step(epoch)
                    sequence.append(settings(optimizer))
            sequences.append(sequence)
        np.testing.assert_allclose(*sequences, rtol=1e-9)


def test_resuming_needs_the_initial_rate():
    for t in (wend, torch):
        optimizer = t.optim.SGD([t.nn.Parameter(t.zeros(1))], lr=0.1)
        with pytest.raises(KeyError, match="initial_lr"):
            t.optim.lr_scheduler.StepLR(optimizer, 3, last_epoch=4)


def test_wrong_order_warns_as_torch_does():
    for t in (wend, torch):
        optimizer = t.optim.SGD([t.nn.Parameter(t.zeros(1))], lr=0.1)
        scheduler = t.optim.lr_scheduler.StepLR(optimizer, 3)
        with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step"):
            scheduler.step()


@pytest.mark.parametrize(
    "make_bad",
    [
        lambda s, o: s.StepLR(3, 2),
        lambda s, o: s.LambdaLR(o, [lambda epoch: 1.0]),
        lambda s, o: s.ConstantLR(o, factor=2.0),
        lambda s, o: s.LinearLR(o, start_factor=0.0),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
        lambda s, o: s.OneCycleLR(o, 0.1),
        lambda s, o: s.OneCycleLR(o, 0.1, total_steps=-1),
        lambda s, o: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=2.0),
        lambda s, o: s.CyclicLR(o, [0.1], 0.2),
        lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="x"),
        lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
        lambda s, o: s.ReduceLROnPlateau(o, mode="x"),
        lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]),
        lambda s, o: s.ChainedScheduler([]),
    ],
)
def test_bad_settings_raise_as_in_torch(make_bad):
    errors = []
    for t in (wend, torch):
        optimizer, _ = make(t, "sgd", "step")
        with pytest.raises((TypeError, ValueError)) as caught:
            make_bad(t.optim.lr_scheduler, optimizer)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0])[:40] == str(errors[1])[:40]


def test_swalr_equals_torchs():
    sequences = []
    for t in (wend, torch):
        optimizer, _ = make(t, "sgd", "step")
        scheduler = t.optim.swa_utils.SWALR(optimizer, 0.05, anneal_epochs=4)
        sequence = []
        for _ in range(8):
            optimizer.step()
            scheduler.step()
            sequence.append(settings(optimizer))
        sequences.append(sequence)
    np.testing.assert_allclose(*sequences, rtol=1e-9)


RESUMED = {
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95, last_epoch=4),
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch, last_epoch=4),
    "step": lambda s, o: s.StepLR(o, 5, gamma=0.5, last_epoch=4),
    "multistep": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5, last_epoch=4),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.5, total_iters=5, last_epoch=4),
    "linear": lambda s, o: s.LinearLR(o, 0.2, 0.8, total_iters=9, last_epoch=4),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.9, last_epoch=4),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=9, power=2.0, last_epoch=4),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, 8, eta_min=0.01, last_epoch=4),
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, T_mult=2, last_epoch=4),
}


@pytest.mark.parametrize("rate", ["number", "tensor"])
@pytest.mark.parametrize("schedule", RESUMED)
def test_resumed_with_a_last_epoch(schedule, rate):
    sequences = []
    for t in (wend, torch):
        lr = 0.1 if rate == "number" else t.tensor(0.1)
        optimizer = t.optim.SGD([t.nn.Parameter(t.zeros(1))], lr=lr)
        optimizer.param_groups[0]["initial_lr"] = 0.2
        scheduler = RESUMED[schedule](t.optim.lr_scheduler, optimizer)
        sequence = [float(optimizer.param_groups[0]["lr"])]
        for _ in range(7):
            optimizer.step()
            scheduler.step()
            sequence.append(float(optimizer.param_groups[0]["lr"]))
        sequences.append(sequence)
    np.testing.assert_allclose(sequences[0], sequences[1], rtol=1e-6)


JOINED = {
    "begins at once": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)], [0]
    ),
    "sequences in a sequence": lambda s, o: s.SequentialLR(
        o,
        [
            s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)], [3]),
            s.StepLR(o, 2, 0.5),
        ],
        [6],
    ),
    "a chain first": lambda s, o: s.SequentialLR(
        o,
        [
            s.ChainedScheduler([s.LinearLR(o, 0.1, total_iters=4), s.ExponentialLR(o, 0.9)]),
            s.CosineAnnealingWarmRestarts(o, 3),
        ],
        [6],
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("rate", ["number", "tensor"])
@pytest.mark.parametrize("schedule", JOINED)
def test_joined_schedules_begin_and_count_as_torchs(schedule, rate):
    results = []
    for t in (wend, torch):
        lr = 0.1 if rate == "number" else t.tensor(0.1)
        optimizer = t.optim.Adam([t.nn.Parameter(t.zeros(1))], lr=lr)
        scheduler = JOINED[schedule](t.optim.lr_scheduler, optimizer)
        (group,) = optimizer.param_groups
        sequence = [float(group["lr"])]
        for _ in range(10):
            optimizer.step()
            scheduler.step()
            sequence.append(float(group["lr"]))
        assert (group["lr"] is lr) == (rate == "tensor"), "a tensor is written in place"
        assert float(group["initial_lr"]) == pytest.approx(0.1)
        counts = [getattr(s, "_step_count", None) for s in scheduler._schedulers]
        results.append((sequence, counts))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    assert results[0][1] == results[1][1]


def test_the_worst_metric_is_told_and_saved():
    for mode, worst in (("min", float("inf")), ("max", -float("inf"))):
        for t in (wend, torch):
            optimizer = t.optim.SGD([t.nn.Parameter(t.zeros(1))], lr=0.1)
            scheduler = t.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode)
            assert scheduler.mode_worse == scheduler.state_dict()["mode_worse"] == worst
