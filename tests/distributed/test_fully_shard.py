"""fully_shard: rows of parameters in each rank, results as of one process on all of the data."""

import numpy as np
import pytest
import ranks
import replicas

import wend as torch
import wend.distributed.checkpoint as dcp
from wend import nn
from wend.distributed.checkpoint import state_dict as states
from wend.distributed.fsdp import MixedPrecisionPolicy, fully_shard

needs_ranks = pytest.mark.skipif(bool(ranks.missing()), reason=ranks.missing() or "can run")
CASES = ("Digits", "Mixture", "Trees")


def sharded(model):
    for child in list(model.children()):
        if not isinstance(child, nn.ModuleList):
            fully_shard(child)
    return fully_shard(model)


def train(name, size, rank=None, folder=None):
    """As `replicas.train`, with the parameters sharded."""
    case = replicas.CASES[name]()
    torch.manual_seed(3)
    model = case.model()
    if rank is not None:
        sharded(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    norms = []
    for k in range(4):
        optimizer.zero_grad()
        for m in range(2):
            rng = np.random.default_rng([k, m])
            parts = [case.part(rng) for _ in range(size)]
            if rank is not None:
                parts = parts[rank : rank + 1]
                model.set_requires_gradient_sync(m == 1)
            with torch.no_grad():
                case.loss(model, parts[0])
            replicas.mean([case.loss(model, part) for part in parts]).backward()
        clip = torch.nn.utils.clip_grad_norm_
        norm = clip(model.parameters(), 0.5) if rank is None else model.clip_grad_norm_(0.5)
        norms.append(float(norm))
        optimizer.step()
    full = states.StateDictOptions(full_state_dict=True)
    found = {"norms": norms, "state": states.get_model_state_dict(model, options=full)}
    found["own"] = sum(p.numel() for p in model.parameters())
    if folder:
        m, o = states.get_state_dict(model, optimizer)
        dcp.save({"model": m, "optimizer": o}, checkpoint_id=f"{folder}/{name}{size}")
    found["momentum"] = momentum(model, optimizer)
    return found


def momentum(model, optimizer):
    full = states.StateDictOptions(full_state_dict=True)
    state = states.get_optimizer_state_dict(model, optimizer, options=full)["state"]
    return {n: e["momentum_buffer"] for n, e in state.items() if e["momentum_buffer"] is not None}


def in_ranks(folder, read):
    import wend.distributed as dist

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {name: train(name, size, rank, folder) for name in CASES}
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    torch.manual_seed(0)
    half = fully_shard(nn.Linear(4, 3), mp_policy=policy)
    y = half(torch.ones(2, 4))
    y.sum().backward()
    found["half"] = [str(y.dtype), str(half.weight.grad.dtype), list(half.weight.grad.shape)]
    if read:  # the checkpoint of another number of ranks
        model = sharded(replicas.CASES["Digits"]().model())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        m, o = states.get_state_dict(model, optimizer)
        given = {"model": m, "optimizer": o}
        dcp.load(given, checkpoint_id=f"{folder}/Digits{read}")
        states.set_state_dict(
            model, optimizer, model_state_dict=given["model"], optim_state_dict=given["optimizer"]
        )
        full = states.StateDictOptions(full_state_dict=True)
        found["loaded"] = states.get_model_state_dict(model, options=full)
        found["momentum"] = momentum(model, optimizer)
    return found


def close(found, expected, name):
    assert set(found) == set(expected), name
    for key, value in expected.items():
        message = f"{name}: {key}"
        np.testing.assert_allclose(
            found[key], value.detach().numpy(), rtol=1e-6, atol=1e-6, err_msg=message
        )


@needs_ranks
def test_equal_to_one_process(tmp_path):
    for n, read in ((3, 0), (2, 3)):
        results = ranks.run(__file__, "in_ranks", n, str(tmp_path), read, timeout=120.0)
        for name in CASES:
            expected = train(name, n)
            for row in results:
                close(row[name]["state"], expected["state"], name)
                np.testing.assert_allclose(row[name]["norms"], expected["norms"], rtol=1e-5)
            assert sum(row[name]["own"] for row in results) == expected["own"]
            assert max(row[name]["own"] for row in results) < expected["own"]
        assert results[0]["half"][:2] == ["torch.float32", "torch.float32"]
        if read:
            before = train("Digits", read)
            for row in results:
                close(row["loaded"], before["state"], "loaded")
                close(row["momentum"], before["momentum"], "momentum")


def test_alone():
    plain, own = train("Digits", 1), train("Digits", 1, 0)
    close({n: v.numpy() for n, v in own["state"].items()}, plain["state"], "alone")


def test_errors():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    fully_shard(model[0])
    with pytest.raises(RuntimeError, match="has been sharded already"):
        fully_shard(model[0])
    with pytest.raises(RuntimeError, match=r"1\.weight is also a parameter of an inner module"):
        fully_shard(model)
    scalar = nn.Module()
    scalar.a = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="doesn't support scalar parameters"):
        fully_shard(scalar)
    with pytest.raises(ValueError, match="offload_policy is not available"):
        fully_shard(nn.Linear(2, 2), offload_policy=1)
    outer = nn.Sequential(fully_shard(nn.Linear(2, 2)))
    fully_shard(outer)(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="called outside of the module around"):
        outer[0](torch.ones(1, 2))
