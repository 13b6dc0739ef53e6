"""Workers: order, errors, death, interrupts, and nothing left behind."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import wend
from wend.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from wend.utils.data._utils import channel, workers
from wend.utils.data._utils.failure import WorkerDied, WorkerError

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
    # Python warns of forking where other threads run; here they are the test runner's.
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]
SOURCE = Path(__file__).resolve().parents[2] / "src"


class Acting(Dataset):
    """Sample i is i; before that, ``acts[i]()`` is called if there is one."""

    def __init__(self, count, acts=None):
        self.count, self.acts = count, acts or {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index in self.acts:
            self.acts[index]()
        return index


class Part(IterableDataset):
    """A stream whose workers read every n-th number each, from their own on."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(start, self.count, step))


def raises(error):
    def act():
        raise error

    return act


def lists(loader):
    return [batch.tolist() for batch in loader]


@pytest.fixture(autouse=True)
def leaves_nothing(request):
    # Spawning starts a process of Python's own that stays, with descriptors.
    if "spawn" not in request.node.name:
        request.getfixturevalue("no_leaks")


@pytest.fixture
def little_patience(monkeypatch):
    """Let workers have little time to finish what they do."""
    monkeypatch.setattr(workers, "GRACE", 0.3)


# --- batches -------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_order_is_that_of_one_process(count):
    slow_first = Acting(23, {0: lambda: time.sleep(0.1)})
    for options in ({}, {"prefetch_factor": 1}, {"persistent_workers": True}):
        loader = DataLoader(slow_first, 4, num_workers=count, **options)
        assert lists(loader) == lists(DataLoader(range(23), 4))
        assert lists(loader) == lists(DataLoader(range(23), 4))
        assert len(iter(loader)) == 6


def test_out_of_order_nothing_waits_for_a_slow_sample():
    loader = DataLoader(Acting(8, {0: lambda: time.sleep(0.3)}), num_workers=2, in_order=False)
    batches = lists(loader)
    assert sorted(batches) == [[i] for i in range(8)]
    assert batches[0] != [0]


def test_a_shuffle_is_that_of_one_process():
    def batches(count):
        source = wend.Generator().manual_seed(5)
        return lists(DataLoader(range(20), 3, True, num_workers=count, generator=source))

    assert batches(2) == batches(0)


def test_large_and_small_tensors_of_every_type():
    def sample(i):
        return {
            "large": wend.arange(20_000, dtype=wend.float32) + i,
            "bool": np.full((70_000,), i % 2 == 0),
            "wide": np.asfortranarray(np.full((90, 90), i, np.float64)),
            "empty": np.zeros((0, 3)),
            "scalar": wend.tensor(i),
            "text": str(i),
        }

    data = [sample(i) for i in range(5)]
    for mine, theirs in zip(DataLoader(data, 2, num_workers=2), DataLoader(data, 2), strict=True):
        assert set(mine) == set(theirs)
        for name in set(mine) - {"text"}:
            assert str(mine[name].dtype) == str(theirs[name].dtype)
            np.testing.assert_array_equal(mine[name].numpy(), theirs[name].numpy())
        assert mine["text"] == theirs["text"]


def test_bfloat16():
    data = [wend.full((40_000,), i, dtype=wend.bfloat16) for i in (1.0, 2.0)]
    (batch,) = DataLoader(data, 2, num_workers=1)
    assert str(batch.dtype) == "torch.bfloat16"
    assert batch.float().sum().item() == 120_000


def test_batches_can_be_written_to_and_outlive_the_loader():
    loader = DataLoader([np.zeros(50_000, np.float32)], num_workers=1)
    (batch,) = loader
    del loader
    batch += 1
    assert batch.sum().item() == 50_000


def test_a_gradient_may_be_asked_of_a_batch():
    (batch,) = DataLoader([np.ones(40_000, np.float32)], num_workers=1)
    batch.requires_grad_()
    (batch * 3).sum().backward()
    assert batch.grad.sum().item() == 120_000


def test_keeping_all_batches_needs_no_descriptors():
    data = [np.full(10_000, i, np.float32) for i in range(300)]
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    kept = list(DataLoader(data, num_workers=1))
    if before:
        assert len(os.listdir("/proc/self/fd")) - before <= channel.MOST_MAPPED
    assert [batch[0, -1].item() for batch in kept] == list(range(300))


def test_tensors_with_history_or_pending_work_come_as_values():
    weight = wend.ones(3, requires_grad=True)
    (batch,) = DataLoader([weight * 2], num_workers=1)
    assert batch.tolist() == [[2.0, 2.0, 2.0]]
    assert not batch.requires_grad


def test_a_fork_with_work_pending_disturbs_nobody():
    x = wend.ones(4)
    pending = x * 3
    data = TensorDataset(x * 2, wend.arange(4))
    batches = [(a.tolist(), b.tolist()) for a, b in DataLoader(data, 2, num_workers=2)]
    assert batches == [([2.0, 2.0], [0, 1]), ([2.0, 2.0], [2, 3])]
    assert (pending + 1).tolist() == [4.0] * 4


def test_work_in_the_data_set_and_in_collate():
    class Computing(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            x = wend.arange(3, dtype=wend.float32) * index
            if x.sum() > 3:  # a value is needed, in the worker
                x = x - 1
            return x

    def collate(samples):
        return wend.stack(samples).cumsum(1)

    mine = lists(DataLoader(Computing(), 2, num_workers=2, collate_fn=collate))
    assert mine == lists(DataLoader(Computing(), 2, collate_fn=collate))


def test_streams():
    loader = DataLoader(Part(11), 2, num_workers=3)
    assert sorted(i for batch in lists(loader) for i in batch) == list(range(11))
    dropped = DataLoader(Part(11), 2, num_workers=3, drop_last=True)
    assert all(len(batch) == 2 for batch in lists(dropped))
    singles = DataLoader(Part(4), batch_size=None, num_workers=2)
    assert list(singles) == [0, 1, 2, 3]
    persistent = DataLoader(Part(5), num_workers=2, persistent_workers=True)
    assert lists(persistent) == lists(persistent) == [[0], [1], [2], [3], [4]]


def test_a_stream_that_is_not_divided_comes_once_per_worker():
    class Whole(IterableDataset):
        def __iter__(self):
            return iter([1, 2])

    assert sorted(lists(DataLoader(Whole(), num_workers=2))) == [[1], [1], [2], [2]]


# --- what a worker knows -------------------------------------------------------


class Telling(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        drawn = random.random(), np.random.rand(), wend.rand(1, dtype=wend.float64).item()
        return info.id, info.num_workers, info.seed, info.dataset is self, os.getpid(), drawn


def test_workers_know_themselves_and_have_seeds_of_their_own():
    def told():
        source = wend.Generator().manual_seed(8)
        loader = DataLoader(Telling(), None, num_workers=2, generator=source)
        return list(loader)

    samples = told()
    assert [(s[0], s[1], s[3]) for s in samples] == [(0, 2, True), (1, 2, True)] * 2
    assert samples[1][2] == samples[0][2] + 1
    assert len({s[4] for s in samples} | {os.getpid()}) == 3
    assert len({number for s in samples for number in s[5]}) == 12  # no two draws are the same
    assert [s[5] for s in told()] == [s[5] for s in samples]  # and the seed repeats them


def test_seeds_differ_between_epochs():
    loader = DataLoader(Telling(), None, num_workers=1)
    assert next(iter(loader))[2] != next(iter(loader))[2]


def test_worker_init_fn_runs_in_each_worker():
    seen = []
    loader = DataLoader(
        Acting(4, dict.fromkeys(range(4), lambda: seen.append("a sample"))),
        num_workers=2,
        worker_init_fn=lambda number: seen.append(f"worker {number}"),
        collate_fn=lambda samples: (seen[0], os.getpid()),
    )
    told = list(loader)
    assert [what for what, _ in told] == ["worker 0", "worker 1"] * 2
    assert seen == []


def test_persistent_workers_stay():
    loader = DataLoader(Telling(), None, num_workers=2, persistent_workers=True)
    first, second = ({s[4] for s in loader} for _ in range(2))
    assert first == second
    fresh = DataLoader(Telling(), None, num_workers=2)
    assert {s[4] for s in fresh}.isdisjoint(s[4] for s in fresh)


def test_a_later_pass_takes_the_persistent_workers():
    loader = DataLoader(range(50), num_workers=2, persistent_workers=True)
    abandoned = iter(loader)
    next(abandoned)
    assert lists(loader) == [[i] for i in range(50)]
    with pytest.raises(RuntimeError, match="one iteration at a time"):
        next(abandoned)


# --- errors --------------------------------------------------------------------


class Special(Exception):
    def __init__(self, code, *, hint):
        super().__init__(code)
        self.code, self.hint = code, hint

    def __reduce__(self):
        return _special, (self.code, self.hint)


def _special(code, hint):
    return Special(code, hint=hint)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad pixel"), ValueError),
        (KeyError("bad pixel"), KeyError),
        (FileNotFoundError(2, "bad pixel", "a.png"), FileNotFoundError),
        (wend.utils.data._utils.collate.MissingField("bad pixel"), KeyError),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad pixel"), UnicodeDecodeError),
    ],
)
def test_an_exception_keeps_its_type_and_tells_where(error, kind):
    loader = DataLoader(Acting(6, {3: raises(error)}), 2, num_workers=2)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(kind) as caught:
        next(batches)
    text = str(caught.value)
    assert "in DataLoader worker 1 (pid " in text
    assert "fetching dataset[2, 3]" in text
    assert "in __getitem__\n    self.acts[index]()" in text
    assert "bad pixel" in text
    with pytest.raises(StopIteration):
        next(batches)


def test_an_exception_with_a_constructor_of_its_own():
    loader = DataLoader(Acting(1, {0: raises(Special(7, hint="x"))}), num_workers=1)
    with pytest.raises(Special, match="worker 0") as caught:
        list(loader)
    assert caught.value.args or caught.value.__notes__
    assert (caught.value.__cause__ or caught.value).code == 7


def test_an_exception_that_cannot_travel():
    class Local(Exception):
        pass

    with pytest.raises(WorkerError, match="Local in DataLoader worker 0"):
        list(DataLoader(Acting(1, {0: raises(Local("bad"))}), num_workers=1))


def test_errors_of_collating_name_the_samples():
    data = [np.zeros(2), np.zeros(3)]
    with pytest.raises(RuntimeError, match=r"(?s)worker 0.*unlike shapes") as caught:
        list(DataLoader(data, 2, num_workers=1))
    assert "(3,): sample 1 (dataset[1])" in str(caught.value)


def test_a_batch_that_cannot_be_sent():
    with pytest.raises((AttributeError, TypeError), match="sending the batch of dataset"):
        list(DataLoader([lambda: 0], num_workers=1, collate_fn=list))


def test_an_error_in_worker_init_fn():
    loader = DataLoader(
        range(3), num_workers=2, worker_init_fn=lambda number: raises(OSError("no disk"))()
    )
    with pytest.raises(OSError, match=r"(?s)worker 0.*in worker_init_fn.*no disk"):
        list(loader)


def test_an_error_in_the_stream():
    class Broken(IterableDataset):
        def __iter__(self):
            yield 1
            raise ValueError("half a file")

    batches = iter(DataLoader(Broken(), num_workers=1))
    assert next(batches).tolist() == [1]
    with pytest.raises(ValueError, match=r"(?s)worker 0.*reading its stream.*half a file"):
        next(batches)


def test_stop_iteration_in_a_worker_is_an_error():
    with pytest.raises(RuntimeError, match=r"dataset\[0\] raised StopIteration"):
        list(DataLoader(Acting(1, {0: raises(StopIteration())}), num_workers=1))


def test_persistent_workers_go_on_after_an_error():
    fail = Acting(4, {1: raises(ValueError("once"))})
    loader = DataLoader(fail, num_workers=2, persistent_workers=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="once"):
            list(loader)


def test_a_timeout_names_the_worker(little_patience):
    loader = DataLoader(Acting(2, {1: lambda: time.sleep(3)}), num_workers=2, timeout=0.3)
    started = time.monotonic()
    batches = iter(loader)
    next(batches)
    with pytest.raises(RuntimeError, match=r"no batch within 0\.3 seconds from worker 1"):
        next(batches)
    assert time.monotonic() - started < 2.5


# --- ends ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "cause"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"killed by SIGKILL \(the system does"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "killed by SIGTERM"),
        (lambda: os._exit(3), "exit status 3"),
    ],
)
@pytest.mark.parametrize("index", [0, 5])
def test_a_worker_that_dies_is_reported_at_once(act, cause, index):
    loader = DataLoader(Acting(40, {index: act}), num_workers=2)
    started = time.monotonic()
    with pytest.raises(WorkerDied, match=f"worker {index % 2} .*{cause}") as caught:
        list(loader)
    assert isinstance(caught.value, RuntimeError)
    assert time.monotonic() - started < 4


def test_one_worker_dies_while_another_is_waited_for(little_patience):
    acts = {0: lambda: time.sleep(20), 1: lambda: os._exit(1)}
    started = time.monotonic()
    with pytest.raises(WorkerDied, match="worker 1 "):
        next(iter(DataLoader(Acting(2, acts), num_workers=2)))
    assert time.monotonic() - started < 4  # and the sleeping one was made to end


def test_after_a_death_persistent_workers_are_started_anew(tmp_path):
    marker = tmp_path / "second time"
    data = Acting(3, {1: lambda: None if marker.exists() else os._exit(1)})
    loader = DataLoader(data, num_workers=1, persistent_workers=True)
    with pytest.raises(WorkerDied):
        list(loader)
    marker.touch()
    assert lists(loader) == [[0], [1], [2]]


def test_leaving_a_loop_early_ends_the_workers():
    before = threading.active_count()
    for _ in DataLoader(range(1000), num_workers=2):
        break
    assert threading.active_count() == before  # the fixture looks for processes' descriptors


def run(program, *, interrupt_at=None, kill_at=None):
    """Run a program in a process group of its own; returns (exit status, output)."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), *sys.path])},
        start_new_session=True,
        # A suite run in the background ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.strip() == "now" and interrupt_at:
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all of the group
            if line.strip() == "now" and kill_at:
                os.kill(process.pid, signal.SIGKILL)  # the main process alone
        return process.wait(20), "".join(lines)
    finally:
        process.kill()
        process.stdout.close()


PROGRAM = """
    import os, sys, time
    import numpy as np
    {setup}
    from wend.utils.data import DataLoader, Dataset

    class Slow(Dataset):
        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            time.sleep(0.002)
            return np.full(40_000, os.getpid())

    loader = DataLoader(Slow(), batch_size=4, num_workers=2)
    for i, batch in enumerate(loader):
        if i < 2:
            print("worker", batch[0, 0].item(), flush=True)
        if i == 3:
            print("now", flush=True)
"""


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def program():
    return PROGRAM.format(setup=os.environ.get("WEND_TEST_SETUP", ""))


def test_ctrl_c_ends_everything_and_shows_one_traceback():
    status, output = run(program(), interrupt_at="now")
    assert status != 0
    assert output.count("Traceback") == 1
    assert output.rstrip().endswith("KeyboardInterrupt")
    pids = [int(line.split()[1]) for line in output.splitlines() if line.startswith("worker")]
    assert len(set(pids)) == 2
    assert not any(is_alive(pid) for pid in pids)


def test_workers_end_when_the_main_process_is_killed():
    status, output = run(program(), kill_at="now")
    assert status == -signal.SIGKILL
    pids = [int(line.split()[1]) for line in output.splitlines() if line.startswith("worker")]
    deadline = time.monotonic() + 10
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def test_an_exception_in_the_loop_ends_the_process():
    text = program() + "        if i == 4: raise SystemExit(7)\n"
    assert run(text)[0] == 7


# --- spawned workers -----------------------------------------------------------


@pytest.mark.slow
def test_spawned_workers():
    data = TensorDataset(wend.arange(30_000).reshape(3, 10_000))
    loader = DataLoader(data, num_workers=2, multiprocessing_context="spawn")
    assert [batch[0][0, 0].item() for batch in loader] == [0, 10_000, 20_000]


def test_what_cannot_be_pickled_is_explained_when_spawning():
    loader = DataLoader(
        [1], num_workers=1, multiprocessing_context="spawn", collate_fn=lambda batch: batch
    )
    with pytest.raises(Exception, match="pickle") as caught:
        iter(loader)
    assert "top level of a module" in caught.value.__notes__[0]
