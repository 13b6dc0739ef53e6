"""`wend launch`: flags, commands, variables of ranks, failures, restarts, interrupts."""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

from wend.distributed import launcher
from wend.distributed.launcher import _options, _report, _start

MPIRUN = shutil.which("mpirun") or shutil.which("mpirun", path=sysconfig.get_path("scripts"))
needs_mpirun = pytest.mark.skipif(MPIRUN is None, reason="there is no mpirun")
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

    def end(self, timeout=100):
        try:
            self.out, self.err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            raise AssertionError(f"no end in time:\n{self.out}\n{self.err}") from None
        self.status = self.process.returncode
        return self

    def wait_for_pids(self, count, timeout=60):
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


def launch(folder, *arguments, program="", timeout=100):
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
        "--rdzv-backend does nothing here: the ranks meet over MPI",
        "--monitor-interval does nothing here: the end of a rank is seen at once",
    ]


def test_variables_give_flags(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "5")
    monkeypatch.setenv("PET_MAX_RESTARTS", "2")
    orders = _options.read(["x.py"])
    assert orders.ranks == 5 and orders.settings.max_restarts == 2
    assert _options.read(["--nproc-per-node", "1", "x.py"]).ranks == 1


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
        (["--fly"], "unrecognized arguments: --fly"),
    ],
)
def test_wrong_flags(capsys, flags, fault):
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
    orders = _options.read(["x.py"])
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
    text = f"before\n{dashes}\nmy own table\n{dashes}\n{banner}after"
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
        assert capfd.readouterr().err == text.replace(banner, "")
        assert b"".join(banners.kept).decode() == banner


# --- runs ----------------------------------------------------------------------------------


@needs_mpirun
def test_an_unchanged_program_finds_its_variables(tmp_path):
    """Also logs: rank 0's lines come to the console with a prefix, and all lines go to files."""
    program = """
        import os, sys, torch
        names = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE "
                 "MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_RUN_ID OMP_NUM_THREADS "
                 "MINE").split()
        print(torch.__version__.endswith("wend"), sys.argv[1:], *(os.environ[n] for n in names))
        assert int(os.environ["MASTER_PORT"]) > 0 and "WEND_LAUNCH_TOKEN" not in os.environ
        print("to stderr", file=sys.stderr)
    """
    logs = ["--log-dir", "logs", "--redirects", "3", "--tee", "1", "--local-ranks-filter", "0"]
    flags = ["--nproc-per-node", "2", "--rdzv-id", "job7", "--env", "MINE=x", *logs]
    done = launch(tmp_path, *flags, "program.py", "--lr", "1", program=program)
    assert done.status == 0, done.err
    rows = [f"True ['--lr', '1'] {rank} 2 {rank} 2 0 1 127.0.0.1 0 job7 1 x\n" for rank in range(2)]
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


@needs_mpi
@pytest.mark.parametrize("way", FAILURES)
def test_a_failed_rank_ends_the_run(tmp_path, way):
    """The other rank waits in MPI. No process is left, and the fault is told once."""
    program = f"{NOTE}\nWAY = {way!r}\n" + textwrap.dedent("""
        from mpi4py import MPI
        def step():
            all_there(2)
            if os.environ["RANK"] == "1":
                if WAY == "raise": raise ValueError("a bad batch")
                if WAY == "exit": sys.exit(3)
                if WAY == "kill": time.sleep(0.6); os.kill(os.getpid(), signal.SIGKILL)
                if WAY == "crash": os.kill(os.getpid(), signal.SIGSEGV)
            MPI.COMM_WORLD.barrier()
        note()
        step()
    """)
    done = launch(tmp_path, "--nproc-per-node", "2", "program.py", program=program)
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


@needs_mpirun
def test_the_run_starts_again_from_the_checkpoint(tmp_path):
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
    done = launch(tmp_path, "--max-restarts", "3", "program.py", program=program)
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


def start_plain(folder):
    flags = ["--nproc-per-node", "3", "--grace", "3", "--no-python", sys.executable, "-SE"]
    run = Run(folder, *flags, "program.py", program=PLAIN)
    run.wait_for_pids(6)
    return run


@needs_mpirun
@pytest.mark.parametrize(
    ("number", "status", "out"),
    [
        (signal.SIGINT, -signal.SIGINT, "saved\n" * 3),
        (signal.SIGTERM, 128 + signal.SIGTERM, ""),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_signals_to_the_launcher_end_all_ranks(tmp_path, number, status, out):
    run = start_plain(tmp_path)
    run.process.send_signal(number)
    run.end(30)
    assert (run.status, run.out) == (status, out), run.err
    assert run.orphans() == []


@needs_mpirun
def test_a_lost_guard_ends_the_run(tmp_path):
    run = start_plain(tmp_path)
    with open(f"/proc/{max(run.pids())}/stat") as file:
        guard = int(file.read().rpartition(")")[2].split()[1])
    with open(f"/proc/{guard}/cmdline") as file:
        if "_guard.py" not in file.read():  # of a child: its parent is a rank
            with open(f"/proc/{guard}/stat") as parent:
                guard = int(parent.read().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGKILL)
    run.end(30)
    assert run.status == 1 and "is lost: its guard has ended" in run.err
    assert run.orphans() == []
