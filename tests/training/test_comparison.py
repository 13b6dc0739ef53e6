"""The comparison finds a lost update of one parameter in one step, and says where."""

import pytest

torch = pytest.importorskip("torch")

from dataclasses import replace  # noqa: E402

import wend  # noqa: E402
from training import compare  # noqa: E402
from training.choices import OPTIMISERS, TASKS, Case, every, parsed  # noqa: E402
from training.loop import STEPS, train  # noqa: E402


def losing(place, at):
    """A fault: one parameter does not get the update of one step.

    place: which one of the last group; None for the one that the step has moved furthest
    """

    def meddle(learner, step):
        optimiser = learner.optimisers[-1]
        if step != at or hasattr(optimiser.step, "loses"):
            return
        params = optimiser.param_groups[-1]["params"]
        before = [p.detach().clone() for p in params]
        make_step = optimiser.step

        def step_and_lose():
            make_step()
            optimiser.step = make_step
            moved = [
                float((p.detach() - b).abs().max()) for p, b in zip(params, before, strict=True)
            ]
            k = moved.index(max(moved)) if place is None else place
            with learner.t.no_grad():
                params[k].copy_(before[k])

        step_and_lose.loses = True
        optimiser.step = step_and_lose

    return meddle


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("settings", ["plain", "full", "groups"])
@pytest.mark.parametrize("optimiser", [name for name in OPTIMISERS if name != "LBFGS"])
def test_a_lost_update_is_found(optimiser, settings, dtype):
    task = tuple(TASKS)[list(OPTIMISERS).index(optimiser)]
    case = Case(task=task, optimiser=optimiser, settings=settings, dtype=dtype)
    right = train(torch, case)
    for place, at in ((0, 0), (-1, 7), (-1, STEPS - 1)):
        wrong = train(torch, case, meddle=losing(place, at))
        found = compare.differences(wrong, right, compare.TOLERANCE[dtype])
        assert any(d.name.startswith("parameter") for d in found), (place, at)


@pytest.mark.parametrize("task", TASKS)
def test_a_lost_update_of_each_task_is_found(task):
    case = Case(task=task, clip="norm", dtype="float32")
    right = train(torch, case)
    # A bias of the penalised critic has no gradient: what has none cannot lose an update.
    wrong = train(torch, case, meddle=losing(None, STEPS - 1))
    assert compare.differences(wrong, right, compare.TOLERANCE["float32"])


def forget_state(learner, step):
    """A fault: the state of one parameter does not outlive half of the steps."""
    if step == 6:
        learner.optimisers[0].state.pop(learner.optimisers[0].param_groups[0]["params"][1])


def doubled_gradient(learner, step):
    """A fault: a gradient is added twice in one step."""
    if step == 5:
        parameter = learner.optimisers[0].param_groups[0]["params"][0]
        parameter.grad.add_(parameter.grad)


@pytest.mark.parametrize("meddle", [forget_state, doubled_gradient])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_other_faults_are_found(meddle, dtype):
    case = Case(task="gru_cell", optimiser="Adam", dtype=dtype, sizes="changing")
    wrong = train(torch, case, meddle=meddle)
    assert compare.differences(wrong, train(torch, case), compare.TOLERANCE[dtype])


def test_buffers_losses_and_states_are_compared():
    case = Case(task="cnn", optimiser="Adam", schedule="StepLR", dtype="float32")
    right = train(torch, case)
    for kind in ("buffer norm1.running_mean", "optimiser 0 state 2 exp_avg", "losses", "gradient"):
        name = next(n for n in right if n.startswith(kind))
        wrong = right | {name: right[name] + 2e-3}
        (found,) = compare.differences(wrong, right, 1e-4)
        assert found.name == name
    for name in ("buffer norm1.num_batches_tracked", "schedule 0 last_epoch"):
        (found,) = compare.differences(right | {name: right[name] + 1}, right, 1e-4)
        assert found.name == name
    name = "parameter out.bias"
    assert compare.differences(right | {name: right[name].astype("f8")}, right, 1.0)
    assert compare.differences({k: v for k, v in right.items() if k != name}, right, 1.0)
    assert compare.differences(right | {name: right[name] * float("nan")}, right, 1.0)


def test_the_report_names_step_parameter_and_size(monkeypatch):
    """As when Wend lost an update of a clipped step: each one in which `clip` is 'norm'."""

    def again(case, steps=STEPS):
        wrong = train(wend, case, steps, losing(-1, 3) if case.clip == "norm" else None)
        return compare.differences(wrong, train(torch, case, steps), 1e-9)

    monkeypatch.setenv("WEND_COMPILE", "force")
    case = Case(task="mlp", optimiser="Adam", sizes="changing", clip="norm", zeroing="to_zero")
    text = compare.report(case, again(case), again)
    assert f"training '{case}'" in text
    assert "The same with fewer choices: 'task=mlp optimiser=SGD clip=norm'" in text
    assert "The first step after which they differ: 4 of 12" in text
    assert "  parameter second.bias: [" in text and "of the largest)" in text
    assert "WEND_COMPILE=force " in text
    assert "python tests/training/run.py --case 'task=mlp optimiser=SGD clip=norm'" in text


def test_cases_are_read_as_they_are_printed():
    cases = list(every())
    assert len(set(cases)) == len(cases)
    for case in (*cases[::97], replace(cases[-1], task="gan", data="one_buffer")):
        assert parsed(str(case)) == case
    with pytest.raises(ValueError, match="clip=nrm: not one of none, norm, value"):
        Case(clip="nrm")
