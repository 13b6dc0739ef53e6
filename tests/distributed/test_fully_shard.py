"""fully_shard: rows of parameters in each rank, results as of one process on all of the data."""

import numpy as np
import pytest
import ranks
import replicas

import wend as torch
import wend.distributed.checkpoint as dcp
from wend import nn
from wend.distributed.checkpoint import state_dict as states
from wend.distributed.fsdp import (
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

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
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)))
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


# -- rules: functions (number of ranks, rank or None for one process) -> arrays by name --


class Tied(nn.Module):
    """Two layers with the same matrix, a frozen layer, and layers that only some ranks use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(6, 5).requires_grad_(False)
        self.branches = nn.ModuleList(nn.Linear(5, 7) for _ in range(3))

    def forward(self, x, branch):
        h = torch.tanh(self.frozen(self.second(torch.tanh(self.first(x)))))
        return self.branches[branch](h)

    def loss(self, x, branch):
        return self(x, branch).square().mean()


def batches(size, rank, step=0):
    """(input, branch) of the ranks, or of one rank."""
    every = [
        (torch.tensor(np.random.default_rng([step, r]).normal(size=(4, 6)).astype("f4")), r % 3)
        for r in range(size)
    ]
    return every if rank is None else every[rank : rank + 1]


def tied(rank, **kwargs):
    model = Tied()
    if rank is not None:
        for branch in model.branches:
            fully_shard(branch, **kwargs)
        fully_shard(model, **kwargs)
    return model


def wholes(model, grads=False):
    found = {}
    for name, p in model.named_parameters():
        value = p.grad if grads else p
        if value is not None:
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            found[name] = whole.detach().float().numpy().copy()
    return found


def step(model, size, rank, k):
    replicas.mean([model.loss(x, b) for x, b in batches(size, rank, k)]).backward()


def frozen_and_tied(size, rank=None):
    """Frozen layers are unfrozen after two steps; all branches are used by some rank alone."""
    model = tied(rank)
    assert all(not p.requires_grad for p in model.frozen.parameters())
    # A small eps would make steps of roundings, where a gradient is nearly zero.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, eps=1e-2)
    for k in range(4):
        if k == 2:
            model.frozen.requires_grad_(True)
        optimizer.zero_grad()
        step(model, size, rank, k)
        optimizer.step()
    if rank is not None:
        assert model.second.weight is model.first.weight
    return {**wholes(model), **{f"{n}.grad": g for n, g in wholes(model, True).items()}}


def norms(size, rank=None):
    """Norms of all orders, and gradients clipped by each."""
    found = {}
    for order in (2.0, 1.0, 3.5, 0.0, float("inf"), float("-inf"), -1.0):
        model = tied(rank)
        step(model, size, rank, 0)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        total = torch.nn.utils.get_total_norm(grads, order)
        found[f"total {order}"] = total.numpy()
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), 0.01, total)
        found[f"clipped {order}"] = np.array(wholes(model, True)["first.weight"])
    return found


def accumulation(size, rank=None):
    """Passes that keep wholes in each rank, then one that shares all of the sum out."""
    model = tied(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for k in range(6):
        if rank is not None:
            model.set_requires_gradient_sync(k % 3 == 2)
            model.set_reshard_after_backward(k % 3 == 2)
        step(model, size, rank, k)
        if k % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    return wholes(model)


def kept_graphs(size, rank=None):
    """Two passes through one call add up; parameters then have rows again."""
    model = tied(rank)
    losses = [model.loss(x, b) for x, b in batches(size, rank)]
    for loss in losses:
        (loss / len(losses)).backward(retain_graph=True)
        if rank is None:
            (loss / len(losses) * 2).backward()
        else:
            loss.mul(2).backward()
    return {**wholes(model), **{f"{n}.grad": g for n, g in wholes(model, True).items()}}


def recomputed(size, rank=None):
    """Calls that checkpoints compute again, of sharded layers and of others."""
    from wend.utils.checkpoint import checkpoint

    model = tied(rank)

    def forward(x, branch):
        h = checkpoint(lambda v: torch.tanh(model.first(v)), x, use_reentrant=False)
        h = torch.tanh(model.frozen(model.second(h)))
        return checkpoint(model.branches[branch], h, use_reentrant=False)

    model.forward_again = forward
    if rank is not None:
        register_fsdp_forward_method(model, "forward_again")
    for k in range(2):
        parts = [model.forward_again(x, b).square().mean() for x, b in batches(size, rank, k)]
        replicas.mean(parts).backward()
    return wholes(model, True)


def batched(size, rank=None):
    """Calls within `wend.batched`; ranks have unlike numbers of examples."""
    model = tied(rank)
    for k in range(2):
        losses = []
        for r, (x, b) in enumerate(batches(size, rank, k)):
            count = 1 + (r if rank is None else rank)
            losses += [sum(torch.batched(lambda row, b=b: model.loss(row, b))(list(x[:count])))]
        replicas.mean(losses).backward()
    return wholes(model, True)


def half(size, rank=None):
    """Parameters in bfloat16, gradients added in float32, results in float32."""
    model = tied(rank)
    if rank is not None:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
        model = tied(rank, mp_policy=policy)
    found = {}
    for x, branch in batches(size, rank):
        if rank is None:  # a copy in bfloat16 for each rank
            copy = Tied().to(torch.bfloat16)
            y = copy(x.to(torch.bfloat16), branch).float()
            y.square().mean().backward()
            for name, p in copy.named_parameters():
                if p.grad is not None:
                    found[name] = found.get(name, 0.0) + p.grad.float().numpy() / size
        else:
            y = model(x, branch)
            assert y.dtype == torch.float32
            y.square().mean().backward()
    if rank is not None:
        assert model.first.weight.grad.dtype == torch.float32
    return found if rank is None else wholes(model, True)


def scaled(size, rank=None):
    """A gradient that is infinite in the rows of one rank alone: all ranks skip the step."""
    model = tied(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for k in range(3):
        optimizer.zero_grad()
        parts = [model.loss(x, b) for x, b in batches(size, rank, k)]
        scaler.scale(replicas.mean(parts)).backward()
        last = model.first.weight.grad
        if k == 1 and (rank is None or rank == size - 1) and last.numel():
            last[-1, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
    return {**wholes(model), "scale": np.array(scaler.get_scale())}


def asked_for(size, rank=None):
    """Wholes that the program asks for; sums in place of means; a list of modules."""
    model = Tied()
    if rank is not None:
        fully_shard([model.branches[0], model.branches[2]])
        fully_shard(model, mesh=None, reshard_after_forward=False)
        model.set_gradient_divide_factor(1.0)
        model.branches[0].set_gradient_divide_factor(1.0)
        rows = model.first.weight
        handle = model.unshard(async_op=True)
        handle.wait()
        assert model.first.weight.shape == (6, 6) and model.second.weight is model.first.weight
        model.reshard()
        assert model.first.weight is rows
    parts = [model.loss(x, b) for x, b in batches(size, rank)]
    sum(parts[1:], parts[0]).backward()
    return wholes(model, True)


RULES = {
    rule.__name__: rule
    for rule in (
        frozen_and_tied, norms, accumulation, kept_graphs, recomputed, batched, half, scaled,
        asked_for,
    )
}  # fmt: skip


def in_ranks(folder, read):
    import wend.distributed as dist

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {name: train(name, size, rank, folder) for name in CASES}
    found["rules"] = {name: rule(size, rank) for name, rule in RULES.items()}
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
            found[key], np.asarray(value), rtol=1e-6, atol=1e-6, err_msg=message
        )


def load_alone(folder, expected):
    """A process without ranks reads the checkpoint of several."""
    model = replicas.CASES["Digits"]().model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    m, o = states.get_state_dict(model, optimizer)
    dcp.load({"model": m, "optimizer": o}, checkpoint_id=folder)
    states.set_state_dict(model, optimizer, model_state_dict=m, optim_state_dict=o)
    close({n: v.numpy() for n, v in model.state_dict().items()}, expected["state"], "alone")
    own = {n: v.numpy() for n, v in momentum(model, optimizer).items()}
    close(own, expected["momentum"], "momentum alone")


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
        for name, rule in RULES.items():
            expected = rule(n)
            for row in results:
                close(row["rules"][name], expected, name)
        load_alone(f"{tmp_path}/Digits{n}", train("Digits", n))
        if read:
            before = train("Digits", read)
            for row in results:
                close(row["loaded"], before["state"], "loaded")
                close(row["momentum"], before["momentum"], "momentum")


@pytest.mark.parametrize("name", RULES)
def test_rules_alone(name):
    close(RULES[name](1, 0), RULES[name](1), name)


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
    with pytest.raises(TypeError, match="offload_policy must be an OffloadPolicy"):
        fully_shard(nn.Linear(2, 2), offload_policy=1)
    with pytest.raises(ValueError, match="shard_placement_fn is not available"):
        fully_shard(nn.Linear(2, 2), shard_placement_fn=len)
    with pytest.raises(ValueError, match="Muon: updates depend on whole parameters"):
        torch.optim.Muon(fully_shard(nn.Linear(2, 2, bias=False)).parameters())
    with pytest.raises(ValueError, match="does not have a method"):
        register_fsdp_forward_method(fully_shard(nn.Linear(2, 2)), "generate")
    with pytest.raises(TypeError, match="must have been given to fully_shard"):
        model[0].set_modules_to_forward_prefetch([nn.Linear(2, 2)])
    empty = fully_shard(nn.Linear(2, 2, device="meta"))
    with pytest.raises(RuntimeError, match="call `to_empty"):
        empty(torch.ones(1, 2))
    torch.nn.init.ones_(empty.to_empty(device="cpu").weight)
    torch.nn.init.zeros_(empty.bias)
    assert empty(torch.ones(1, 2)).tolist() == [[2.0, 2.0]]
    assert empty.weight.full_tensor().tolist() == [[1.0, 1.0]] * 2
    empty.weight = nn.Parameter(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match=r"replaced by one of shape \(3, 2\)"):
        empty(torch.ones(1, 2))
    outer = nn.Sequential(fully_shard(nn.Linear(2, 2)))
    fully_shard(outer)(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="called outside of the module around"):
        outer[0](torch.ones(1, 2))
