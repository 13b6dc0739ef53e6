"""Programs that start their processes by themselves: `mp.spawn`, as PyTorch's tutorials do.

The programs know nothing of Wend. Their processes meet at an address, a file or a store, and
sockets carry the data.
"""

import os
import signal
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from ranks import environment, missing, run

import wend as torch
from wend import distributed as dist

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def program(folder, text, *command, timeout=120):
    """(status, stdout, stderr) of a program; its whole process group ends in time."""
    (folder / "program.py").write_text(textwrap.dedent(text).replace("@PORT@", str(free_port())))
    process = subprocess.Popen(
        [sys.executable, "-m", "wend", *command, "program.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, out, err


FIRST_STEPS = """
    import os, sys, tempfile
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn as nn
    import torch.optim as optim
    from torch.nn.parallel import DistributedDataParallel as DDP

    def setup(rank, world_size):
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ["MASTER_PORT"] = "@PORT@"
        dist.init_process_group("gloo", rank=rank, world_size=world_size)

    class Toy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net1, self.relu, self.net2 = nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)

        def forward(self, x):
            return self.net2(self.relu(self.net1(x)))

    def train(model, rank):
        torch.manual_seed(100 + rank)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            nn.MSELoss()(model(torch.randn(20, 10)), torch.randn(20, 5)).backward()
            optimizer.step()

    def basic(rank, world_size):
        setup(rank, world_size)
        torch.manual_seed(rank)  # DDP sends rank 0's parameters to all
        model = DDP(Toy())
        train(model, rank)
        total = sum(p.double().sum() for p in model.parameters()).reshape(1)
        every = [torch.zeros_like(total) for _ in range(world_size)]
        dist.all_gather(every, total)
        same = all(torch.equal(one, every[0]) for one in every)
        if rank == 0:
            print("basic", world_size, same, flush=True)
        dist.destroy_process_group()

    def checkpoint(rank, world_size):
        setup(rank, world_size)
        model = DDP(Toy())
        path = os.path.join(tempfile.gettempdir(), "spawned.@PORT@")
        if rank == 0:
            torch.save(model.state_dict(), path)
        dist.barrier()
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        train(model, rank)
        dist.barrier()
        if rank == 0:
            os.remove(path)
            print("checkpoint done", flush=True)
        dist.destroy_process_group()

    def run_demo(demo, world_size):
        mp.spawn(demo, args=(world_size,), nprocs=world_size, join=True)

    if __name__ == "__main__":
        run_demo(basic, 2)
        run_demo(checkpoint, 2)
"""


def test_first_steps_by_spawn(tmp_path):
    status, out, err = program(tmp_path, FIRST_STEPS, "run")
    assert status == 0, err
    assert out == "basic 2 True\ncheckpoint done\n" and "gloo" not in err


@needs_mpi
def test_first_steps_by_spawn_below_the_launcher(tmp_path):
    status, out, err = program(tmp_path, FIRST_STEPS, "launch")
    assert status == 0, err
    assert out == "basic 2 True\ncheckpoint done\n"


ADDRESSES = """
    import datetime, os, sys
    import torch, torch.distributed as dist, torch.multiprocessing as mp

    def work(rank, size, way, folder):
        rest = dict(rank=rank, world_size=size)
        if way == "tcp":
            dist.init_process_group("gloo", init_method="tcp://127.0.0.1:@PORT@", **rest)
        elif way == "file":
            dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", **rest)
        else:
            path = os.path.join(folder, "store")
            dist.init_process_group("gloo", store=dist.FileStore(path, size), **rest)
        for turn in range(2):  # the second time after an end
            if turn:
                dist.init_process_group("gloo", init_method="tcp://127.0.0.1:@PORT@", **rest)
            x = torch.ones(3) * (rank + 1)
            dist.all_reduce(x)
            assert x.tolist() == [3.0] * 3, x
            group = dist.new_group([1])
            dist.destroy_process_group()
        if rank == 0:
            print(way, os.path.exists(os.path.join(folder, "meeting")), flush=True)

    def start(way):
        folder = os.getcwd()
        processes = [mp.Process(target=work, args=(rank, 2, way, folder)) for rank in range(2)]
        for p in processes:
            p.start()
        for p in processes:
            p.join()
            assert p.exitcode == 0

    if __name__ == "__main__":
        mp.set_start_method("spawn")
        for way in ("tcp", "file", "store"):
            start(way)
"""


AGAIN = """
    import os, sys, time
    import torch, torch.distributed as dist, torch.multiprocessing as mp

    def open_files():
        return len(os.listdir("/proc/self/fd"))

    def work(rank):
        hook, before = sys.excepthook, None
        for turn in range(5):
            dist.init_process_group(
                "gloo", init_method="tcp://127.0.0.1:@PORT@", rank=rank, world_size=2
            )
            x = torch.ones(1)
            dist.all_reduce(x)
            assert float(x) == 2
            dist.destroy_process_group()
            end = time.monotonic() + 20  # the other process ends its direction soon
            while before is not None and open_files() > before and time.monotonic() < end:
                time.sleep(0.01)
            if turn == 1:
                time.sleep(1)
                before = open_files()
        assert open_files() <= before, (open_files(), before)
        assert sys.excepthook is hook

    if __name__ == "__main__":
        mp.spawn(work, nprocs=2)
        print("done")
"""


def test_begin_and_end_again_leave_nothing_open(tmp_path):
    status, out, err = program(tmp_path, AGAIN, "run")
    assert status == 0, err
    assert out == "done\n"


def test_processes_meet_by_address_file_and_store(tmp_path):
    status, out, err = program(tmp_path, ADDRESSES, "run")
    assert status == 0, err
    assert out == "tcp False\nfile False\nstore False\n"


FAILING = """
    import os, time, torch, torch.distributed as dist, torch.multiprocessing as mp

    def work(rank, way):
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "@PORT@"
        dist.init_process_group("gloo", rank=rank, world_size=3)
        if rank == 1:
            os._exit(7)
        try:
            dist.all_reduce(torch.ones(2))
        except RuntimeError as error:
            os.write(1, f"{type(error).__name__} {error}\\n".encode())
            # Who leaves first might be heard of as lost before rank 1 is.
            open(f"told{rank}", "w").close()
            end = time.monotonic() + 30
            while not os.path.exists(f"told{2 - rank}") and time.monotonic() < end:
                time.sleep(0.01)
            os._exit(0)

    if __name__ == "__main__":
        try:
            context = mp.spawn(work, args=("",), nprocs=3, join=False)
            for p in context.processes:
                p.join()
            context.join()
        except mp.ProcessExitedException as error:
            print("exit code", error.exit_code)
"""


def test_a_lost_process_is_an_error_of_all(tmp_path):
    status, out, err = program(tmp_path, FAILING, "run")
    assert status == 0, err
    *told, last = out.splitlines()
    line = "DistBackendError all_reduce: rank 1 has ended, and others wait for that rank"
    assert [text.split("\n")[0] for text in told if text.startswith("Dist")] == [line] * 2
    assert last == "exit code 7"


def by_sockets():
    """All that tests of the carrier look at, in each rank."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {"mpi": "mpi4py" in sys.modules}
    for n in (0, 1, 7, 20_000):  # the last is exchanged in parts
        x = np.random.default_rng(rank).normal(size=n)
        t = torch.tensor(x)
        dist.all_reduce(t)
        want = sum(np.random.default_rng(r).normal(size=n) for r in range(size))
        found[f"sum {n}"] = float(np.abs(t.numpy() - want).max(initial=0))
    works = [dist.all_reduce(torch.full((9000,), float(k)), async_op=True) for k in range(20)]
    found["background"] = [float(w.result()[0][5]) for w in works]
    first, second = torch.zeros(1), torch.zeros(1)
    if rank == 0:
        for value in (1.0, 2.0):
            dist.send(torch.full((1,), value), 1)
    elif rank == 1:
        one, two = dist.irecv(first, 0), dist.irecv(second, 0)
        two.wait()  # filled in the order in which they were asked for
        one.wait()
    found["messages"] = [float(first), float(second)]
    half = torch.full((5,), 0.5 + rank, dtype=torch.bfloat16)
    dist.all_reduce(half)
    found["half"] = half.float().numpy()
    dist.destroy_process_group()
    return found


@needs_mpi
def test_the_carrier():
    way = {"WEND_DISTRIBUTED_CARRIER": "sockets", "MASTER_ADDR": "127.0.0.1"}
    results = run(__file__, "by_sockets", 3, env={**way, "MASTER_PORT": str(free_port())})
    for rank, found in enumerate(results):
        assert not found["mpi"]
        assert all(found[f"sum {n}"] < 1e-12 for n in (0, 1, 7, 20_000))
        assert found["background"] == [3.0 * k for k in range(20)]
        assert found["messages"] == ([1.0, 2.0] if rank == 1 else [0.0, 0.0])
        assert set(found["half"].tolist()) == {4.5}


def test_an_unknown_carrier(monkeypatch):
    monkeypatch.setenv("WEND_DISTRIBUTED_CARRIER", "pigeon")
    with pytest.raises(ValueError, match="mpi or sockets, not 'pigeon'"):
        dist.init_process_group("gloo", rank=0, world_size=2)
