"""Random programs and the cases of the training matrix on an accelerator: results of the processor.

`tests/fuzz/run.py --device xpu` runs more programs.
"""

import functools

import compare as programs_compared
import pytest
from run import program_of
from test_fuzz import THIS_WEEK, runs_alike

from training import compare
from training.choices import TASKS, covered

pytestmark = [pytest.mark.usefixtures("accelerator"), pytest.mark.filterwarnings("ignore")]
SHARE = 10


@pytest.fixture(autouse=True)
def _there(monkeypatch):
    monkeypatch.setattr(programs_compared, "DEVICE", "xpu")


@pytest.mark.parametrize("share", range(2))
@pytest.mark.parametrize("seed", [2026, THIS_WEEK])
def test_random_programs(seed, share):
    for number in range(share * SHARE, (share + 1) * SHARE):
        runs_alike(seed, number, "expressions")


@pytest.mark.parametrize("share", range(2))
def test_training_loops_of_this_week(share):
    for number in range(share * SHARE // 2, (share + 1) * SHARE // 2):
        runs_alike(THIS_WEEK, number, "training")


def test_parts_of_a_parameter_get_gradients_from_groups():
    """A program that was wrong: zeros were written to a gradient after the first of its parts."""
    assert runs_alike(202649, 7, "training") == "agrees"


def test_a_wrong_result_of_a_device_is_found(monkeypatch):
    program = program_of(2026, 0)
    real = programs_compared.on_device

    def wrong(program, run):
        outcome = real(program, run)
        dtype, grad, array = next(x for x in outcome.results.values() if x[2].dtype.kind == "f")
        name = next(k for k, x in outcome.results.items() if x[2] is array)
        return outcome.__class__({**outcome.results, name: (dtype, grad, array + 1)}, outcome.seen)

    monkeypatch.setattr(programs_compared, "on_device", wrong)
    with pytest.raises(programs_compared.Differs, match="Wend on xpu and Wend op by op"):
        programs_compared.check(program)


@functools.cache
def cases():
    """A case of each task: of the first the first, of the second the second, and so on."""
    by_task = {task: [case for case in covered() if case.task == task] for task in TASKS}
    return [own[k % len(own)] for k, own in enumerate(by_task.values())]


@pytest.mark.parametrize("case", cases(), ids=str)
def test_training_equals_the_processors(case):
    found = compare.check_on("xpu", case)
    assert not found, "\n".join(map(str, found))
