"""ZeroRedundancyOptimizer: states shared out among ranks, results as of the plain optimizer."""

import numpy as np
import pytest
import ranks

import wend as torch
import wend.distributed.checkpoint as dcp
from wend import nn
from wend.distributed.checkpoint import state_dict as states
from wend.distributed.optim import ZeroRedundancyOptimizer

needs_ranks = pytest.mark.skipif(bool(ranks.missing()), reason=ranks.missing() or "can run")
STEPS = 4


def made():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2))
    extra = nn.Linear(2, 2)
    return model, extra


def batch(k):
    rng = np.random.default_rng(k)
    return torch.tensor(rng.normal(size=(12, 6)).astype("f"))


def settings(name):
    return {"SGD": {"lr": 0.1, "momentum": 0.9}, "AdamW": {"lr": 0.02}}[name]


def train(model, extra, optimizer, part, begin=0, steps=STEPS):
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for k in range(begin, begin + steps):
        optimizer.zero_grad()
        x = batch(k)[part]
        extra(model(x)).pow(2).mean().backward()
        optimizer.step()
        schedule.step()
    return [p.detach().numpy().copy() for m in (model, extra) for p in inner(m).parameters()]


def inner(module):
    return getattr(module, "module", module)


def expected(name):
    model, extra = made()
    optimizer = getattr(torch.optim, name)(model.parameters(), **settings(name))
    optimizer.add_param_group({"params": extra.parameters(), "lr": 0.01})
    found = train(model, extra, optimizer, slice(None))
    return found, optimizer


def uneven(shared):
    """Train with 2 * rank + 1 batches, in a `Join` block."""
    import wend.distributed as dist
    from wend.distributed.algorithms.join import Join
    from wend.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(made()[0])
    settings = {"lr": 0.1, "momentum": 0.9}
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    if shared:
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, **settings)
    rank = dist.get_rank()
    with Join([model, optimizer] if shared else [model]):
        for k in range(2 * rank + 1):
            optimizer.zero_grad()
            model(batch(10 * k + rank)).pow(2).mean().backward()
            optimizer.step()
    return [p.detach().numpy().copy() for p in model.parameters()]


def in_ranks(folder):
    """Train by all ranks, with states gathered, loaded, and in checkpoints."""
    import wend.distributed as dist
    from wend.nn.parallel import DistributedDataParallel

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {}
    for name in ("SGD", "AdamW"):
        model, extra = made()
        model, extra = DistributedDataParallel(model), DistributedDataParallel(extra)
        kind = getattr(torch.optim, name)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, **settings(name))
        optimizer.add_param_group({"params": extra.parameters(), "lr": 0.01})
        n = 12 // size
        part = slice(rank * n, rank * n + n)
        parameters = train(model, extra, optimizer, part)
        row = found[name] = {"parameters": parameters, "held": len(optimizer.state)}
        try:
            optimizer.state_dict()
        except RuntimeError as error:
            row["error"] = str(error)
        both = nn.ModuleDict({"model": model, "extra": extra})
        state = states.get_optimizer_state_dict(both, optimizer)
        dcp.save({"model": states.get_model_state_dict(both), "optimizer": state},
                 checkpoint_id=f"{folder}/{name}{size}")  # fmt: skip
        optimizer.consolidate_state_dict(to=1)
        if rank == 1:
            whole = optimizer.state_dict()
            row["state"] = whole["state"]
            row["groups"] = [[g["lr"], g["params"]] for g in whole["param_groups"]]
    found["uneven"] = [uneven(shared) for shared in (False, True)]
    return found


@needs_ranks
@pytest.mark.parametrize("n", [2, 3])
def test_equal_to_one_process(n, tmp_path):
    results = ranks.run(__file__, "in_ranks", n, str(tmp_path), timeout=120.0)
    plain, _ = results[-1]["uneven"]  # of the rank with most data
    for row in results:
        for a, b in zip(row["uneven"][1], plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    for name in ("SGD", "AdamW"):
        parameters, optimizer = expected(name)
        rows = [row[name] for row in results]
        for row in rows:
            for a, b in zip(row["parameters"], parameters, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
            assert "has not been consolidated on this rank" in row["error"]
        assert sum(row["held"] for row in rows) == 8
        assert max(row["held"] for row in rows) < 8
        whole = optimizer.state_dict()
        check_state(rows[1]["state"], whole["state"])
        assert rows[1]["groups"] == [[g["lr"], g["params"]] for g in whole["param_groups"]]
        # A process alone loads the checkpoint of all ranks, with a plain optimizer.
        model, extra = made()
        both = nn.ModuleDict({"model": model, "extra": extra})
        plain = getattr(torch.optim, name)(model.parameters(), **settings(name))
        plain.add_param_group({"params": extra.parameters(), "lr": 0.01})
        m, o = states.get_state_dict(both, plain)
        given = {"model": m, "optimizer": o}
        dcp.load(given, checkpoint_id=tmp_path / f"{name}{n}")
        states.set_state_dict(
            both, plain, model_state_dict=given["model"], optim_state_dict=given["optimizer"]
        )
        check_state({str(k): v for k, v in plain.state_dict()["state"].items()}, whole["state"])
        assert [g["lr"] for g in plain.param_groups] == [g["lr"] for g in whole["param_groups"]]


def check_state(found, state):
    assert {int(k) for k in found} == set(state)
    for k, entries in state.items():
        for key, value in entries.items():
            have = found[str(k)][key]
            np.testing.assert_allclose(np.asarray(have), np.asarray(value), rtol=1e-6, atol=1e-6)


def test_alone():
    for name in ("SGD", "AdamW"):
        parameters, plain = expected(name)
        model, extra = made()
        kind = getattr(torch.optim, name)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, **settings(name))
        optimizer.add_param_group({"params": extra.parameters(), "lr": 0.01})
        found = train(model, extra, optimizer, slice(None), steps=2)
        state = optimizer.state_dict()
        other = ZeroRedundancyOptimizer(model.parameters(), kind, **settings(name))
        other.add_param_group({"params": extra.parameters(), "lr": 0.01})
        other.load_state_dict(state)
        for group, saved in zip(other.param_groups, state["param_groups"], strict=True):
            assert group["lr"] == saved["lr"]
        check_state({str(k): v for k, v in other.state_dict()["state"].items()}, state["state"])
        assert len(found) == len(parameters) and len(plain.state) == 8


def test_errors():
    model, _ = made()
    with pytest.raises(TypeError, match="must be a class of optimizers, not str"):
        ZeroRedundancyOptimizer(model.parameters(), "SGD", lr=0.1)
    with pytest.raises(ValueError, match="overlap_with_ddp is not available"):
        kind = torch.optim.SGD
        ZeroRedundancyOptimizer(model.parameters(), kind, overlap_with_ddp=True, lr=0.1)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with pytest.raises(ValueError, match=r"groups of \[1\] parameters, and .* groups of \[6\]"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]})
