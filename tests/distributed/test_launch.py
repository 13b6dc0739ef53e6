"""`wend launch`: flags, commands, variables of ranks, failures, restarts, interrupts."""

import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import textwrap
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from wend.distributed import launcher
from wend.distributed.launcher import _agent, _options, _report, _start

MPIRUN = shutil.which("mpirun") or shutil.which("mpirun", path=sysconfig.get_path("scripts"))
needs_mpirun = pytest.mark.skipif(MPIRUN is None, reason="there is no mpirun")
by_either = pytest.mark.parametrize("backend", ["sockets", pytest.param("mpi", marks=needs_mpirun)])
needs_mpi = pytest.mark.skipif(
    MPIRUN is None or find_spec("mpi4py") is None, reason="mpirun and mpi4py are needed"
)


class Run:
    """`wend launch` with arguments, in a process group that ends with the test."""

    def __init__(self, folder, *arguments, program="", file="program.py"):
        (folder / file).write_text(textwrap.dedent(program))
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "wend", "launch", *map(str, arguments)],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PIDS": str(folder)},
            start_new_session=True,
        )

    def end(self, timeout=300):
        try:
            self.out, self.err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            raise AssertionError(f"no end in time:\n{self.out}\n{self.err}") from None
        self.status = self.process.returncode
        return self

    def wait_for_pids(self, count, timeout=200):
        end = time.monotonic() + timeout
        while len(self.pids()) < count:
            assert time.monotonic() < end and self.process.poll() is None, self.end(1).err
            time.sleep(0.05)

    def pids(self):
        return [int(path.name[4:]) for path in self.folder.glob("pid.*")]

    def orphans(self):
        """Processes of the run that still live, a few seconds after its end."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            left = [pid for pid in self.pids() if is_alive(pid)]
            if not left:
                return []
            time.sleep(0.05)
        return left


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def launch(folder, *arguments, program="", timeout=300):
    return Run(folder, *arguments, program=program).end(timeout)


#: Each rank notes itself and a child, so that the test can look for orphans.
NOTE = """
import os, signal, subprocess, sys, time
def note():
    child = subprocess.Popen(["sleep", "600"])
    for pid in (child.pid, os.getpid()):
        open(os.path.join(os.environ["PIDS"], f"pid.{pid}"), "w").close()
def count():
    return sum(name.startswith("pid.") for name in os.listdir(os.environ["PIDS"]))
def all_there(ranks):
    while count() < 2 * ranks:
        time.sleep(0.01)
"""


# --- flags and commands, without processes ---------------------------------------------


def test_flags_are_read_as_torchruns():
    orders = _options.read(["--nnodes=1:2", "--nproc_per_node", "3", "-m", "train", "--lr", "1"])
    assert (orders.fewest_nodes, orders.nodes, orders.ranks) == (1, 2, 6)
    assert orders.is_elastic and orders.fewest_ranks == 3
    assert orders.settings.module and orders.command == ["train", "--lr", "1"]
    orders = _options.read(
        ["--redirects", "0:1,1:3", "-t", "2", "--local-ranks-filter", "0,2", "x"]
    )
    assert orders.settings.redirects == {"0": 1, "1": 3} and orders.settings.tee == 2
    assert orders.settings.filter == [0, 2] and not orders.is_elastic


def test_flags_without_effect_are_told():
    orders = _options.read(["--rdzv-backend", "c10d", "--monitor_interval=3", "x.py"])
    assert orders.notices == [
        "--rdzv-backend does nothing here: the launchers of all machines meet at the address of "
        "machine 0",
        "--monitor-interval does nothing here: the end of a rank is seen at once",
    ]


def test_variables_give_flags(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "5")
    monkeypatch.setenv("PET_MAX_RESTARTS", "2")
    orders = _options.read(["x.py"])
    assert orders.ranks == 5 and orders.settings.max_restarts == 2
    assert _options.read(["--nproc-per-node", "1", "x.py"]).ranks == 1


def test_commands_of_the_page_are_understood(monkeypatch):
    """Each `wend launch` of the page, with who connects the ranks."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    page = (Path(__file__).parents[2] / "docs/howto/several-machines.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    commands = [
        shlex.split(line, comments=True) for line in lines if line.startswith("wend launch")
    ]
    assert len(commands) > 9
    for words in commands:
        if "--nproc-per-node" not in words and "--node-rank" not in words:
            continue
        orders = _options.read(words[2:])
        assert orders.command == ["train.py"] and orders.notices == []
        assert orders.by_mpi == bool({"mpi", "--host", "--hostfile"}.intersection(words))


def test_auto_is_the_number_of_cores():
    cores = len(os.sched_getaffinity(0))
    assert [_options.read(["--nproc-per-node", w, "x"]).ranks for w in ("auto", "cpu")] == [
        cores
    ] * 2


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--nproc-per-node", "gpu"], "--nproc-per-node gpu: there is no such device"),
        (["--nproc-per-node", "0"], "a number from 1 on, auto or cpu is needed"),
        (["--nnodes", "2:1"], "--nnodes '2:1': numbers from 1 on are needed"),
        (["--nnodes", "two"], "--nnodes 'two': a number is needed, or FEWEST:MOST"),
        (["--standalone", "--nnodes", "2"], "--standalone means one machine"),
        (["--module", "--no-python"], "--module needs Python"),
        (["--tee", "4"], "--tee '4': 0 none, 1 stdout, 2 stderr, 3 both"),
        (["--redirects", "a:1"], "--redirects 'a:1': 0, 1, 2, 3 or RANK:NUMBER"),
        (["--local-ranks-filter", "a"], "--local-ranks-filter 'a': numbers with commas"),
        (["--max-restarts", "-1"], "a number from 0 on is needed"),
        (["--node-rank", "1"], "--node-rank 1: numbers from 0 to 0 are needed"),
        (["--nnodes", "2", "--node-rank", "0"], "--node-rank needs --master-addr"),
        (
            ["--nnodes", "1:2", "--node-rank", "0", "--master-addr", "a", "--srun"],
            "--mpi-arg and --srun need a single launcher",
        ),
        (["--nnodes", "2"], "--nnodes 2: name the machines by --host or --hostfile"),
        (["--nnodes", "2", "--backend", "mpi"], "--nnodes 2: name the machines by --host"),
        (["--backend", "mpi", "--tls-cert", "a"], "--tls-cert is for sockets"),
        (["--backend", "sockets", "--host", "a"], "--host is for MPI"),
        (["--tls-key", "a"], "--tls-key and --tls-ca need --tls-cert"),
        (["--tls-cert", "nowhere"], "nowhere, --tls-ca"),
        (
            ["--nnodes", "2", "--node-rank", "0", "--master-addr", "a", "--mpi-arg", "v"],
            "--node-rank starts a launcher on each machine, which sockets connect",
        ),
        (["--nnodes", "2", "--rdzv-endpoint", "a"], "several machines need a shared secret"),
        (
            ["--nnodes", "2", "--rdzv-endpoint", "a", "--token-file", "nowhere"],
            "--token-file nowhere: [Errno 2]",
        ),
        (["--fly"], "unrecognized arguments: --fly"),
    ],
)
def test_wrong_flags(capsys, monkeypatch, flags, fault):
    for name in ("SLURM_JOB_ID", "WEND_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert launcher.main([*flags, "x.py"]) == 2
    assert fault in capsys.readouterr().err


def test_commands_of_the_starters():
    orders = _options.read(
        ["--nnodes", "2", "--nproc-per-node", "4", "--host", "a:4,b:4", "--mpi-arg", "-x A", "x.py"]
    )
    five = _start.Starter("mpirun", "openmpi", (5, 0))
    words = " ".join(_start.start_command(orders, five, ["GUARD"]))
    assert words.startswith("mpirun -n 8 --map-by ppr:4:node:OVERSUBSCRIBE --bind-to none")
    assert "--host a:4,b:4" in words and words.endswith("-x A GUARD")
    assert ("--allow-run-as-root" in words) == (os.geteuid() == 0)
    four = " ".join(_start.start_command(orders, replace(five, version=(4, 1)), ["GUARD"]))
    assert "--map-by ppr:4:node --oversubscribe" in four
    mpich = _start.start_command(orders, _start.Starter("mpiexec", "mpich"), ["GUARD"])
    assert mpich == ["mpiexec", "-n", "8", "-ppn", "4", "-hosts", "a:4,b:4", "-x", "A", "GUARD"]
    slurm = _start.start_command(orders, _start.Starter("srun", "slurm"), ["GUARD"])
    assert slurm[:4] == ["srun", "--ntasks=8", "--nodes=2", "--ntasks-per-node=4"]
    assert "--mpi=pmix" in slurm and slurm[-1] == "GUARD"


def test_living_ranks_go_on_by_ulfm():
    five = _start.Starter("mpirun", "openmpi", (5, 0))
    for flags, goes_on in ((["--elastic"], True), (["--nnodes", "1:2"], True), ([], False)):
        orders = _options.read([*flags, "x.py"])
        assert ("ulfm" in _start.start_command(orders, five, [])) == goes_on


def test_a_program_without_python_is_run_itself():
    assert _start.program_command(_options.read(["--no-python", "ls", "-l"])) == ["ls", "-l"]
    words = _start.program_command(_options.read(["-m", "train", "3"]))
    assert words[1:] == ["-u", "-m", "wend", "run", "-m", "train", "3"]


def test_who_connects_the_ranks(monkeypatch):
    """Sockets, unless flags or an allocation ask for MPI."""
    here = ["--nnodes", "2", "--master-addr", "a"]
    machines = {"PBS_NODEFILE": "nodes"}
    for flags, variables, by_mpi in (
        ([], {}, False),
        ([], machines, False),
        (["--nnodes", "2"], machines, True),
        ([*here, "--node-rank", "1"], machines, False),
        (["--mpirun", "mpirun"], {}, True),
        (["--host", "a:2"], {}, True),
        (["--backend", "mpi"], {}, True),
        (["--backend", "sockets"], {"SLURM_JOB_ID": "1"}, False),
        ([], {"SLURM_JOB_ID": "1"}, True),
        ([*here, "--node-rank", "1"], {"SLURM_JOB_ID": "1"}, False),
    ):
        monkeypatch.setattr(_options.shutil, "which", lambda name: f"/bin/{name}")
        with monkeypatch.context() as patch:
            patch.delenv("SLURM_JOB_ID", raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            orders = _options.read([*flags, "x.py"])
            assert orders.by_mpi == by_mpi, flags
            kind = None if by_mpi else _start.find_starter(orders, variables).kind
            assert kind == (None if by_mpi else "sockets")


def test_the_launcher_advises_nothing_that_cannot_be_had(monkeypatch):
    monkeypatch.setattr(_start.shutil, "which", lambda *args, **ways: None)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    orders = _options.read(["--backend", "mpi", "x.py"])
    with pytest.raises(_start.StartError, match=r"no mpirun; load the module .* sockets connect"):
        _start.find_starter(orders, {})


@pytest.mark.parametrize("binding", ["node", "socket", "core-complex", "exclusive"])
def test_ranks_are_bound_to_cores(binding):
    all_cores = os.sched_getaffinity(0)
    cores = [_start._cores(binding, k) for k in range(2)]
    assert all(part and all_cores.issuperset(part) for part in cores)
    assert _start._cores(None, 0) == []


def test_the_named_mpirun_must_be_there(tmp_path):
    with pytest.raises(_start.StartError, match="--mpirun 'nowhere': there is no such program"):
        _start.find_starter(_options.read(["--mpirun", "nowhere", "x.py"]), {})
    other = tmp_path / "mpirun"
    other.write_text("#!/bin/sh\necho MyMPI 3\n")
    other.chmod(0o755)
    with pytest.raises(_start.StartError, match="neither Open MPI's mpirun nor MPICH's: 'MyMPI 3"):
        _start.find_starter(_options.read(["--mpirun", str(other), "x.py"]), {})


def test_the_mpirun_of_the_site_comes_first(tmp_path):
    for name, version in (("bin", "mpirun (Open MPI) 4.1.6"), ("hydra", "HYDRA build details:")):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "mpirun"
        file.write_text(f"#!/bin/sh\necho '{version}'\n")
        file.chmod(0o755)
    orders = _options.read(["--backend", "mpi", "x.py"])
    own = sysconfig.get_path("scripts")
    found = _start.find_starter(orders, {"PATH": f"{own}:{tmp_path}/bin"})
    assert found == _start.Starter(f"{tmp_path}/bin/mpirun", "openmpi", (4, 1))
    assert _start.find_starter(orders, {"PATH": f"{tmp_path}/hydra"}).kind == "mpich"
    # mpi4py must load the library that belongs to this mpirun.
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so.40").touch()
    variables = _start.start_variables(orders, found, "token")
    assert variables["MPI4PY_LIBMPI"] == f"{tmp_path}/lib/libmpi.so.40"


def test_ranks_that_others_started_are_known():
    assert launcher.is_started({"OMPI_COMM_WORLD_SIZE": "2"})
    assert launcher.is_started({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4"})
    assert not launcher.is_started({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"})


def test_messages_of_mpirun_are_kept_back(capfd):
    dashes = "-" * 74
    banner = f"{dashes}\nprterun noticed that process rank 1 exited\n{dashes}\n"
    text = f"\0before\n{dashes}\nmy own table\n{dashes}\n{banner}\0after"
    for size in (1, 7, 1000):
        reading, writing = os.pipe()
        banners = _report.Banners(reading)
        for k in range(0, len(text), size):
            os.write(writing, text[k : k + size].encode())
            assert banners.pass_on()
        os.close(writing)
        assert not banners.pass_on()
        banners.close(shown=False)
        os.close(reading)
        assert capfd.readouterr().err == text.replace(banner, "").replace("\0", "")
        assert b"".join(banners.kept).decode() == banner


def test_a_fault_is_told_though_the_ranks_that_follow_end_first(capfd):
    """The end of the rank at fault may be heard of late, when it has been told to stop."""
    orders = _options.read(["--nproc_per_node", "3", "x.py"])
    attempt = _agent.Attempt(orders, starter=None, number=0, log=None)
    sent = []
    for number in range(3):
        link = SimpleNamespace(send=lambda **message: sent.append(message["say"]))
        attempt.ranks[number] = _agent.Rank(link, {"rank": number, "host": "a"})
    ends = {
        0: {"status": 1, "stopped": False},  # by MPI
        2: {"status": 1, "stopped": False, "failure": {"error": "lost", "follows": True}},
        1: {"status": 1, "stopped": True, "failure": {"error": "the fault", "follows": False}},
    }
    for number, end in ends.items():
        attempt._heard(attempt.ranks[number], {"say": "end", **end})
    assert attempt._status(1) == 1
    told = capfd.readouterr().err.splitlines()
    assert "rank 1" in told[0] and "the fault" in told[0], told
    assert "stop" in sent


def test_of_all_stacks_the_fault_and_its_threads_stack_are_shown():
    stacks = (
        "Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n  one\n\n"
        "Current thread 0x2 (most recent call first):\n  mine\n\nThread 0x3:\n  third"
    )
    assert _report._of_current_thread(stacks) == (
        "Fatal Python error: Segmentation fault\n"
        "Current thread 0x2 (most recent call first):\n  mine"
    )
    assert _report._of_current_thread("") == ""


# --- runs ----------------------------------------------------------------------------------


@by_either
def test_an_unchanged_program_finds_its_variables(tmp_path, backend):
    """Also logs: rank 0's lines come to the console with a prefix, and all lines go to files."""
    program = """
        import os, sys, torch
        names = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE "
                 "MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_RUN_ID OMP_NUM_THREADS "
                 "MINE").split()
        print(torch.__version__.endswith("wend"), sys.argv[1:], *(os.environ[n] for n in names))
        assert ("OMPI_COMM_WORLD_SIZE" in os.environ) == (sys.argv[2] == "mpi")
        assert int(os.environ["MASTER_PORT"]) > 0 and "WEND_LAUNCH_TOKEN" not in os.environ
        print("to stderr", file=sys.stderr)
    """
    logs = ["--log-dir", "logs", "--redirects", "3", "--tee", "1", "--local-ranks-filter", "0"]
    flags = ["--nproc-per-node", "2", "--rdzv-id", "job7", "--env", "MINE=x", *logs]
    flags += ["--backend", backend]
    done = launch(tmp_path, *flags, "program.py", "--lr", backend, program=program)
    assert done.status == 0, done.err
    rows = [
        f"True ['--lr', '{backend}'] {rank} 2 {rank} 2 0 1 127.0.0.1 0 job7 1 x\n"
        for rank in range(2)
    ]
    assert done.out == "[default0]:" + rows[0]
    assert done.err == ""
    (folder,) = (tmp_path / "logs").glob("job7_*/attempt_0")
    for rank in range(2):
        assert (folder / str(rank) / "stdout.log").read_text() == rows[rank]
        assert (folder / str(rank) / "stderr.log").read_text() == "to stderr\n"


FAILURES = {
    "raise": (1, "failed at program.py:{line} in step: ValueError: a bad batch", True),
    "exit": (3, "failed at program.py:{line} in step: the program called sys.exit(3)", False),
    "kill": (137, "was killed by SIGKILL; it was last seen at program.py:", False),
    "crash": (139, "was killed by SIGSEGV", True),
}


WAITS = {
    "mpi": "from mpi4py import MPI; barrier = MPI.COMM_WORLD.barrier",
    "sockets": "import torch.distributed as dist; from torch.distributed import barrier",
}


@pytest.mark.parametrize("backend", ["sockets", pytest.param("mpi", marks=needs_mpi)])
@pytest.mark.parametrize("way", FAILURES)
def test_a_failed_rank_ends_the_run(tmp_path, way, backend):
    """The other rank waits in a barrier. No process is left, and the fault is told once."""
    program = f"{NOTE}\nWAY = {way!r}\n{WAITS[backend]}" + textwrap.dedent("""
        def step():
            all_there(2)
            if os.environ["RANK"] == "1":
                if WAY == "raise": raise ValueError("a bad batch")
                if WAY == "exit": sys.exit(3)
                if WAY == "kill": time.sleep(0.6); os.kill(os.getpid(), signal.SIGKILL)
                if WAY == "crash": os.kill(os.getpid(), signal.SIGSEGV)
            barrier()
        note()
        if "dist" in globals(): dist.init_process_group("gloo")
        step()
    """)
    flags = ["--nproc-per-node", "2", "--backend", backend]
    done = launch(tmp_path, *flags, "program.py", program=program)
    status, told, has_traceback = FAILURES[way]
    line = next(k for k, t in enumerate(program.split("\n"), 1) if f'WAY == "{way}"' in t)
    assert done.status == status, done.err
    assert re.search(r"^wend launch: rank 1 \(process \d+ on \S+\) ", done.err, re.M)
    assert done.err.count(told.format(line=line)) == 1, done.err
    assert done.err.count(
        f'program.py", line {line} in step' if way == "crash" else "Traceback"
    ) == (has_traceback)
    assert "rank 0" not in done.err and "prterun" not in done.err
    assert len(done.pids()) == 4 and done.orphans() == []


@by_either
def test_the_run_starts_again_from_the_checkpoint(tmp_path, backend):
    program = """
        import os, torch
        count, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), os.environ["RANK"]
        step = torch.load("saved.pt")["step"] if os.path.exists("saved.pt") else 0
        print(f"start {count} at {step}")
        if rank == "0":
            while step < 4:
                step += 1
                torch.save({"step": step}, "saved.tmp")
                os.replace("saved.tmp", "saved.pt")
                if step == 2 and count == 0:
                    raise RuntimeError("lost")
    """
    flags = ["--max-restarts", "3", "--backend", backend]
    done = launch(tmp_path, *flags, "program.py", program=program)
    assert done.status == 0, done.err
    assert done.out == "start 0 at 0\nstart 1 at 2\n"
    assert done.err.count("RuntimeError: lost") == 2  # the headline, and the traceback
    assert done.err.endswith("wend launch: start 2 of 4\n")


#: A rank without Wend: it starts at once.
PLAIN = f"""{NOTE}
note()
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("saved")
    sys.exit(5)
"""


def start_plain(folder, backend):
    flags = ["--nproc-per-node", "3", "--grace", "3", "--backend", backend, "--no-python"]
    flags += [sys.executable, "-SE"]
    run = Run(folder, *flags, "program.py", program=PLAIN)
    run.wait_for_pids(6)
    return run


@by_either
@pytest.mark.parametrize(
    ("number", "status", "out"),
    [
        (signal.SIGINT, -signal.SIGINT, "saved\n" * 3),
        (signal.SIGTERM, 128 + signal.SIGTERM, ""),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_signals_to_the_launcher_end_all_ranks(tmp_path, number, status, out, backend):
    run = start_plain(tmp_path, backend)
    run.process.send_signal(number)
    run.end(100)
    assert (run.status, run.out) == (status, out), run.err
    assert run.orphans() == []


def test_an_end_is_heard_that_came_with_the_end_of_mpirun():
    """The agent was busy: when the agent looks again, mpirun has ended."""
    orders = _options.read(["--nproc-per-node", "1", "x.py"])
    attempt = _agent.Attempt(orders, SimpleNamespace(kind="mpirun"), 0, None)
    own, guards = socket.socketpair()
    with selectors.DefaultSelector() as selector, own, guards:
        link = _agent.Link(own)
        attempt.ranks[0] = _agent.Rank(link, {"rank": 0, "host": "here"})
        selector.register(own, selectors.EVENT_READ, link)
        end = {"status": 3, "failure": None, "stopped": False}
        _agent.Link(guards).send(say="end", **end)
        guards.close()
        attempt._watch(SimpleNamespace(poll=lambda: 0, outputs=[]), None, selector)
    assert [rank.ended["status"] for rank in attempt.failed] == [3]
    assert attempt._status(0) == 3


def test_a_rank_that_is_killed_while_others_are_told_to_stop_explains_their_ends(tmp_path):
    """The agent may hear first of a rank that has lost the killed one."""
    program = """
        import os, signal, sys, time
        rank = int(os.environ["RANK"])
        ready = os.path.join(os.environ["PIDS"], "ready")
        import torch.distributed
        if rank == 0:
            while not os.path.exists(ready):
                time.sleep(0.01)
            error = RuntimeError("rank 1 has ended")
            error.from_another_rank = True
            raise error
        signal.signal(signal.SIGTERM, lambda *unused: os.kill(os.getpid(), signal.SIGKILL))
        open(ready, "w").close()
        time.sleep(600)
    """
    run = Run(tmp_path, "--nproc-per-node", 2, "program.py", program=program).end()
    assert run.status == 137, run.err
    assert re.findall(r"^wend launch: rank (\d)", run.err, re.M) == ["1"], run.err
    assert "was killed by SIGKILL" in run.err


@by_either
def test_a_lost_guard_ends_the_run(tmp_path, backend):
    run = start_plain(tmp_path, backend)
    with open(f"/proc/{max(run.pids())}/stat") as file:
        guard = int(file.read().rpartition(")")[2].split()[1])
    with open(f"/proc/{guard}/cmdline") as file:
        if "_guard.py" not in file.read():  # of a child: its parent is a rank
            with open(f"/proc/{guard}/stat") as parent:
                guard = int(parent.read().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    run.end(100)
    assert run.status == 1 and "is lost: its guard has ended" in run.err
    assert run.orphans() == []


# --- waits that do not end -------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["sockets", pytest.param("mpi", marks=needs_mpi)])
def test_a_wait_without_end_is_told_by_each_rank(tmp_path, backend):
    """Rank 0 waits for others, rank 2 in the background; rank 1 has called nothing. All end."""
    program = """
        import time, torch, torch.distributed as dist
        dist.init_process_group("mpi")
        x, rank = torch.ones(4), dist.get_rank()
        dist.all_reduce(x)
        def load():
            time.sleep(600)
        def train():
            if rank == 0:
                dist.all_reduce(x)
            elif rank == 1:
                load()
            else:
                try:
                    dist.all_reduce(x, async_op=True).wait()
                except RuntimeError as error:
                    print(type(error).__name__)
                    raise
        train()
    """
    flags = ["--nproc-per-node", "3", "--timeout", "1.5", "--grace", "4", "--backend", backend]
    done = launch(tmp_path, *flags, "program.py", program=program)
    assert done.status == 1 and done.out == "DistBackendError\n", done.err
    assert "no progress for 2 s (timeout of 2 s)" in done.err
    parts = re.split(r"^wend launch: rank (\d) \(.*?\) ", done.err, flags=re.M)
    told = list(zip(parts[1::2], parts[2::2], strict=True))
    assert [rank for rank, _ in told[:3]] == ["0", "1", "2"]
    assert sorted(rank for rank, _ in told[3:]) == ["0", "1", "2"]
    for rank, line in ((0, 10), (2, 15)):
        text = told[rank][1]
        assert text.startswith("waits in\n  collective 2 of group 'default': all_reduce(")
        assert f"program.py:{line}" in text and f'program.py", line {line}, in train' in text
    assert told[1][1].startswith("is in no collective\n")
    assert 'program.py", line 7, in load' in told[1][1]
    for rank, text in told[3:]:
        fault = "no progress in collective 2" if rank != "1" else "other ranks wait"
        assert text.startswith("failed at program.py:") and fault in text


@needs_mpi
def test_without_the_launcher_each_rank_tells_of_itself(tmp_path):
    (tmp_path / "program.py").write_text(
        "import time, wend, wend.distributed as dist\n"
        "dist.init_process_group()\n"
        "if dist.get_rank(): time.sleep(200)\n"
        "dist.barrier()\n"
    )
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [MPIRUN, *root, "--oversubscribe", "-n", "2", sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "WEND_DISTRIBUTED_TIMEOUT": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 1, done.stderr
    assert "wend: rank 0: no progress for 1 s (timeout of 1 s)\n  collective 1 of" in done.stderr
    assert (
        "DistBackendError: no progress in collective 1 of group 'default': barrier" in done.stderr
    )


def test_a_wrong_timeout_is_refused(monkeypatch):
    from wend.distributed.launcher import _watchdog

    monkeypatch.setenv("WEND_DISTRIBUTED_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="'soon' is no number of seconds"):
        _watchdog.timeout_of("default")
    monkeypatch.setenv("WEND_DISTRIBUTED_TIMEOUT", "0")
    assert _watchdog.timeout_of("default") == float("inf")


# --- two network namespaces as machines, over TCP ---------------------------------------------


@pytest.fixture
def two_machines(tmp_path):
    """A prefix of commands on the first machine, and the program that reaches the second.

    The machines are network namespaces with a cable between; each has a host name of its own.
    """
    names = [f"wend{os.getpid()}{x}" for x in "ab"]
    cable = [f"w{os.getpid()}{x}" for x in "ab"]

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)

    try:
        for name in names:
            made = ip("netns", "add", name)
            if made.returncode:
                pytest.skip(f"network namespaces are not permitted here: {made.stderr.strip()}")
        ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for k, name in enumerate(names):
            ip("link", "set", cable[k], "netns", name)
            ip("-n", name, "addr", "add", f"10.77.0.{k + 1}/24", "dev", cable[k])
            ip("-n", name, "link", "set", cable[k], "up")
            ip("-n", name, "link", "set", "lo", "up")
        enter = [["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c"] for name in names]
        if subprocess.run(
            [*enter[0], "hostname first"], check=False, capture_output=True
        ).returncode:
            pytest.skip("host names of namespaces are not permitted here")
        reach = tmp_path / "reach"
        reach.write_text(f'#!/bin/sh\nshift\nexec {" ".join(enter[1])} "hostname second; $*"\n')
        reach.chmod(0o755)
        yield enter[0], reach
    except FileNotFoundError as error:
        pytest.skip(f"network namespaces need {error.filename}")
    finally:
        if shutil.which("ip"):
            for name in names:
                ip("netns", "del", name)


@needs_mpi
def test_two_machines_over_tcp(tmp_path, two_machines):
    """All four ranks meet; the failure of a rank on the second machine ends the run on both."""
    enter, reach = two_machines
    (tmp_path / "program.py").write_text(
        "import os, socket, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x, rank = torch.full((1000,), dist.get_rank() + 1.0), dist.get_rank()\n"
        "dist.all_reduce(x)\n"
        "names = 'MASTER_ADDR GROUP_RANK LOCAL_RANK LOCAL_WORLD_SIZE'.split()\n"
        "words = [socket.gethostname(), rank, x[0].item(), *(os.environ[n] for n in names)]\n"
        "print(*words, flush=True)\n"
        "dist.barrier()\n"
        "if rank == 3: raise ValueError('a far fault')\n"
        "dist.barrier()\n"
    )
    flags = "--nnodes 2 --nproc-per-node 2 --host 10.77.0.1:2,10.77.0.2:2"
    mpi = f"--mpi-arg '--prtemca plm_ssh_agent {reach}'"
    command = f"hostname first; exec {sys.executable} -m wend launch {flags} {mpi} program.py"
    done = subprocess.run(
        [*enter, command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert sorted(done.stdout.splitlines()) == [
        f"{host} {2 * group + k} 10.0 10.77.0.1 {group} {k} 2"
        for group, host in enumerate(("first", "second"))
        for k in range(2)
    ], done.stderr
    assert done.returncode == 1, done.stderr
    assert re.search(r"rank 3 \(process \d+ on second\) failed at program.py:9", done.stderr)
    assert done.stderr.count("ValueError: a far fault") == 2
