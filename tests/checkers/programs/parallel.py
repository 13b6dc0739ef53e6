"""One process of several: collectives, samplers, replicas; here a group of one."""

from __future__ import annotations

import wend as torch
import wend.distributed as dist
from wend import Tensor, nn
from wend.nn.parallel import DistributedDataParallel
from wend.utils.data import DataLoader, TensorDataset
from wend.utils.data.distributed import DistributedSampler


def average(x: Tensor) -> Tensor:
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    return x / dist.get_world_size()


def train(rank: int) -> float:
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    sampler = DistributedSampler(rows, shuffle=True, seed=3)
    loader = DataLoader(rows, batch_size=4, sampler=sampler)
    loss = torch.zeros(())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return average(loss.detach()).item()


def main() -> None:
    if not dist.is_available():
        return
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rank = dist.get_rank()
    print(rank, train(rank) >= 0)
    gathered = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(2))
    dist.broadcast(gathered[0], src=0)
    objects: list[object] = [None]
    dist.all_gather_object(objects, {"rank": rank})
    dist.barrier()
    print(gathered[0].tolist(), objects)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
