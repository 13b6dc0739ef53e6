"""Programs in the manner of PyTorch's tutorials of data-parallel training, run by `wend launch`.

They say `import torch` and "gloo", as for torchrun, and know nothing of Wend.
"""

import os
import subprocess
import sys
import textwrap


def run(folder, program, *arguments, ranks=2, flags=()):
    (folder / "program.py").write_text(textwrap.dedent(program))
    number = ["--nproc_per_node", str(ranks), "--standalone"]
    done = subprocess.run(
        [sys.executable, "-m", "wend", "launch", *number, *flags, "program.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done


TRAINER = """
    import argparse, os
    import torch
    import torch.nn.functional as F
    from torch.distributed import destroy_process_group, init_process_group
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    class Trainer:
        def __init__(self, model, data, optimizer, every, path):
            self.rank, self.local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
            self.model, self.data, self.optimizer = model, data, optimizer
            self.every, self.path, self.first = every, path, 0
            if os.path.exists(path):
                snapshot = torch.load(path)
                self.model.load_state_dict(snapshot["MODEL_STATE"])
                self.first = snapshot["EPOCHS_RUN"]
                print(f"resume at {self.first}", flush=True)
            self.model = DDP(self.model)

        def epoch(self, number):
            self.data.sampler.set_epoch(number)
            for source, target in self.data:
                self.optimizer.zero_grad()
                F.mse_loss(self.model(source), target).backward()
                self.optimizer.step()
            if self.rank == 0:
                print(f"epoch {number} size {len(source)} steps {len(self.data)}", flush=True)

        def train(self, most):
            for number in range(self.first, most):
                self.epoch(number)
                if self.rank == 0 and number % self.every == 0:
                    state = {"MODEL_STATE": self.model.module.state_dict(),
                             "EPOCHS_RUN": number + 1}
                    torch.save(state, self.path + ".new")
                    os.replace(self.path + ".new", self.path)
                if number == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                    torch.distributed.barrier()
                    if self.rank == 1:
                        raise RuntimeError("a fault in epoch 1")

    def main(epochs, every, batch):
        init_process_group(backend="gloo")
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(128, 20), torch.randn(128, 1))
        model = torch.nn.Linear(20, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        loader = DataLoader(data, batch_size=batch, pin_memory=False, shuffle=False,
                            sampler=DistributedSampler(data))
        trainer = Trainer(model, loader, optimizer, every, "snapshot.pt")
        trainer.train(epochs)
        first = next(model.parameters()).detach()
        both = [torch.empty_like(first) for _ in range(2)]
        torch.distributed.all_gather(both, first)
        if trainer.rank == 0:
            print("equal", torch.equal(*both))
        destroy_process_group()

    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("epochs", type=int)
        parser.add_argument("every", type=int)
        parser.add_argument("--batch_size", default=32, type=int)
        given = parser.parse_args()
        main(given.epochs, given.every, given.batch_size)
"""


def test_a_trainer_with_snapshots_goes_on_after_a_fault(tmp_path):
    flags = ["--max-restarts", "1"]
    done = run(tmp_path, TRAINER, "3", "1", "--batch_size", "16", flags=flags)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith("resume")] == [
        "epoch 0 size 16 steps 4",
        "epoch 1 size 16 steps 4",
        "epoch 2 size 16 steps 4",
        "equal True",
    ]
    assert lines.count("resume at 2") == 2
    assert done.stderr.count("RuntimeError: a fault in epoch 1") == 2


FIRST_STEPS = """
    import os, sys, tempfile
    import torch
    import torch.distributed as dist
    import torch.nn as nn
    import torch.optim as optim
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Toy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net1, self.relu, self.net2 = nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)

        def forward(self, x):
            return self.net2(self.relu(self.net1(x)))

    def basic():
        rank = dist.get_rank()
        torch.manual_seed(rank)  # DDP sends rank 0's parameters to all
        model = DDP(Toy())
        loss_fn, optimizer = nn.MSELoss(), optim.SGD(model.parameters(), lr=0.001)
        optimizer.zero_grad()
        loss_fn(model(torch.randn(20, 10)), torch.randn(20, 5)).backward()
        optimizer.step()
        return model

    def checkpoint(model):
        path = os.path.join(tempfile.gettempdir(), f"toy.{os.environ['MASTER_PORT']}")
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), path)
        dist.barrier()
        other = DDP(Toy())
        other.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        dist.barrier()
        if dist.get_rank() == 0:
            os.remove(path)
        return other

    if __name__ == "__main__":
        dist.init_process_group("gloo")
        model = basic()
        other = checkpoint(model)
        total = sum(p.double().sum() for p in model.parameters()).reshape(1)
        low, high = total.clone(), total.clone()
        dist.all_reduce(low, op=dist.ReduceOp.MIN)
        dist.all_reduce(high, op=dist.ReduceOp.MAX)
        same = all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters()))
        if dist.get_rank() == 0:
            print(dist.get_world_size(), bool(low == high), same)
        dist.destroy_process_group()
"""


def test_first_steps_with_data_parallel_training(tmp_path):
    assert run(tmp_path, FIRST_STEPS, ranks=2).stdout == "2 True True\n"
