"""Means over ranks by sockets are divided by the number of ranks, in each collective."""

import json
import socket
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, sys
import wend as torch
import wend.distributed as dist
import wend.multiprocessing as mp

AVG = dist.ReduceOp.AVG


def numbers(rank, n, dtype):
    return (torch.arange(n) % 7 + 3.0 * rank).to(dtype)


def main(rank, size, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=size)
    assert "mpi4py" not in sys.modules
    wrong = []
    for dtype in (torch.float32, torch.bfloat16, torch.complex64):
        for n in (1, 5, 20_000):
            rows = [numbers(r, n, dtype) for r in range(size)]
            want = sum(rows) / size
            x = rows[rank].clone()
            dist.all_reduce(x, AVG)
            y = rows[rank].clone()
            dist.reduce(y, 0, AVG)
            z = rows[rank].clone()
            work = dist.all_reduce(z, AVG, async_op=True)
            work.wait()
            part = torch.empty(n, dtype=dtype)
            dist.reduce_scatter_tensor(part, torch.cat([rows[rank]] * size), op=AVG)
            listed = torch.empty(n, dtype=dtype)
            dist.reduce_scatter(listed, [rows[rank]] * size, AVG)
            found = {"all": x, "async": z, "scatter": part, "list": listed}
            if rank == 0:
                found["reduce"] = y
            for name, got in found.items():
                if not torch.allclose(got, want, rtol=1e-2 if dtype.itemsize == 2 else 1e-6):
                    wrong.append([name, str(dtype), n, str(got[:3]), str(want[:3])])
    with open(f"{path}.{rank}", "w") as file:
        json.dump(wrong, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    size, path, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    mp.spawn(main, args=(size, port, path), nprocs=size)
"""


@pytest.mark.parametrize("size", [2, 3])
def test_means_are_divided_by_the_number_of_ranks(tmp_path, size):
    script, path = tmp_path / "means.py", tmp_path / "found"
    script.write_text(SCRIPT, encoding="utf-8")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, str(script), str(size), str(path), str(port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for rank in range(size):
        assert json.loads((tmp_path / f"found.{rank}").read_text()) == []
