"""torch.distributed.elastic and launcher.api: names of programs and starters that know torchrun."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
from ranks import environment, missing
from test_launch import Run, launch

import wend as torch
from wend import distributed as dist
from wend.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from wend.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    record,
)
from wend.distributed.launcher.api import LaunchConfig, elastic_launch

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")


def config(**more):
    return LaunchConfig(**{"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 2, **more})


def work(value):
    dist.init_process_group("gloo")
    total = torch.full((1,), value * (dist.get_rank() + 1))
    dist.all_reduce(total)
    print("rank", os.environ["RANK"], flush=True)
    dist.destroy_process_group()
    return float(total), os.environ["LOCAL_RANK"], os.environ["TORCHELASTIC_RUN_ID"]


def fail_once(folder):
    """The first start fails in rank 1."""
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("a bad batch")
    return os.environ["TORCHELASTIC_RESTART_COUNT"]


def be_killed():
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def test_a_function_in_all_processes(tmp_path):
    logs = DefaultLogsSpecs(log_dir=str(tmp_path), redirects=Std.OUT)
    found = elastic_launch(config(run_id="seven", logs_specs=logs), work)(2.0)
    assert found == {0: (6.0, "0", "seven"), 1: (6.0, "1", "seven")}
    assert (tmp_path / "attempt_0" / "1" / "stdout.log").read_text() == "rank 1\n"


def test_restarts_and_failures(tmp_path):
    assert elastic_launch(config(max_restarts=1), fail_once)("") == {0: "1", 1: "1"}
    with pytest.raises(ChildFailedError, match="fail_once FAILED") as caught:
        elastic_launch(config(max_restarts=0), fail_once)("")
    rank, failure = caught.value.get_first_failure()
    assert (rank, failure.exitcode, failure.message) == (1, 1, "ValueError: a bad batch")
    assert "in fail_once" in str(caught.value)
    with pytest.raises(ChildFailedError) as caught:
        elastic_launch(config(max_restarts=0, shutdown_timeout=1), be_killed)()
    _, failure = caught.value.get_first_failure()
    assert failure.exitcode == -9 and failure.signal_name() == "SIGKILL"


def test_a_program_in_all_processes():
    code = "import os, sys; sys.exit(0 if os.environ['WORLD_SIZE'] == '2' else 3)"
    assert elastic_launch(config(), sys.executable)("-c", code) == {0: None, 1: None}
    with pytest.raises(ChildFailedError, match="exitcode 4"):
        elastic_launch(config(max_restarts=0), sys.executable)("-c", "import sys; sys.exit(4)")


ENDED = """
    import sys
    from wend.distributed.launcher.api import LaunchConfig, elastic_launch

    # Both write to a single pipe: a line is a single write.
    code = "import os, time; os.write(1, b'%d\\\\n' % os.getpid()); time.sleep(300)"
    config = LaunchConfig(1, 1, 2, shutdown_timeout=2)
    elastic_launch(config, sys.executable)("-c", code)
"""


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_signal_ends_the_processes_too():
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDED)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    watch = threading.Timer(90, os.killpg, (program.pid, signal.SIGKILL))
    watch.start()
    try:
        children = [int(program.stdout.readline()) for _ in range(2)]
        program.terminate()
        assert program.wait() == 128 + signal.SIGTERM
        assert not any(map(lives, children))
    finally:
        watch.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.communicate()


def test_record_writes_the_error(tmp_path, monkeypatch):
    @record
    def main(x):
        """Documented."""
        return 1 / x

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    assert main(2) == 0.5 and main.__doc__ == "Documented."
    with pytest.raises(ZeroDivisionError):
        main(0)
    told = json.loads((tmp_path / "error.json").read_text())["message"]
    assert told["message"] == "ZeroDivisionError: division by zero"
    assert "return 1 / x" in told["extraInfo"]["py_callstack"]
    failure = ProcessFailure(0, 12, 1, str(tmp_path / "error.json"))
    assert failure.message == told["message"] and failure.signal_name() == "<N/A>"


def test_configurations():
    assert Std.from_str("3") is Std.ALL and Std.from_str("0:1,1:2") == {0: Std.OUT, 1: Std.ERR}
    for wrong, fault in (
        (lambda: Std.from_str("many"), "RANK:NUMBER"),
        (lambda: DefaultLogsSpecs(tee=Std.OUT), "tee is not available"),
        (lambda: config(nproc_per_node=0), "numbers from 1 on"),
        (lambda: config(max_nodes=2), "rdzv_backend='static'"),
        (lambda: elastic_launch(config(), None), "entrypoint is None"),
        (lambda: config(signals_to_handle="SIGTERM, SIGNONE"), "there are no signals SIGNONE"),
    ):
        with pytest.raises(ValueError, match=fault):
            wrong()
    place = {"rdzv_backend": "static", "rdzv_endpoint": "here:7", "rdzv_configs": {"rank": 1}}
    two = config(min_nodes=2, max_nodes=2, **place)
    assert two.first == 2 and two.master() == ("here", 7)


def test_several_machines_need_a_secret(monkeypatch):
    for name in ("WEND_TOKEN", "WEND_STORE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    place = {"rdzv_backend": "static", "rdzv_endpoint": "here:7", "rdzv_configs": {"rank": 1}}
    with pytest.raises(ValueError, match="set WEND_TOKEN to the same text on all machines"):
        elastic_launch(config(min_nodes=2, max_nodes=2, **place), work)(2.0)


NODES = """
    import os, torch, torch.distributed as dist

    dist.init_process_group("gloo")
    rank, again = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
    if rank == 3 and again == "0":
        raise ValueError("a fault on machine 1")
    total = torch.ones(1)
    dist.all_reduce(total)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    print(again, float(total), *(os.environ[name] for name in names), flush=True)
    dist.destroy_process_group()
"""


def test_a_launcher_on_each_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("WEND_TOKEN", "a secret of all machines")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = ["--nnodes", 2, "--nproc_per_node", 2, "--max-restarts", 1]
    place += ["--rdzv-endpoint", f"127.0.0.1:{port}"]
    (tmp_path / "other").mkdir()
    other = Run(tmp_path / "other", *place, "--node_rank", 1, "program.py", program=NODES)
    try:
        own = launch(tmp_path, *place, "--node_rank", 0, "program.py", program=NODES, timeout=120)
    finally:
        other.end(60)
    assert own.status == other.status == 0, own.err + other.err
    assert sorted(own.out.splitlines()) == ["1 4.0 0 4 0 2 0", "1 4.0 1 4 1 2 0"]
    assert sorted(other.out.splitlines()) == ["1 4.0 2 4 0 2 1", "1 4.0 3 4 1 2 1"]
    for run in (own, other):  # the fault once, with its traceback, and not those who follow
        assert re.findall(r"rank (\d) \(", run.err) == ["3"], run.err
        assert run.err.count("a fault on machine 1") == 2 + 1  # the line itself is in the traceback
