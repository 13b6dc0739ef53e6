"""DistributedDataParallel: buffers, hooks, uneven inputs, two models, orders of buckets, errors."""

import numpy as np
import pytest
import ranks

pytestmark = pytest.mark.skipif(bool(ranks.missing()), reason=ranks.missing() or "can run")


# -- run by ranks ---------------------------------------------------------------------------


def begin():
    """(rank, number of ranks), with a process group."""
    import wend.distributed as dist

    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def values(module):
    """Parameters and buffers by name, as arrays."""
    rows = [*module.named_parameters(), *module.named_buffers()]
    return {name: t.detach().numpy().copy() for name, t in rows}


def gradients(module):
    return {n: p.grad.numpy().copy() for n, p in module.named_parameters() if p.grad is not None}


def linear(**options):
    """A layer with the same weights each time, wrapped."""
    import wend as torch

    torch.manual_seed(0)
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2), **options)


def data(rank, rows=4):
    import wend as torch

    return torch.tensor(np.random.default_rng(rank).normal(size=(rows, 3)).astype("f"))


def rules():
    """What ranks find in many small programs, by name."""
    rank, size = begin()
    return {name: function(rank, size) for name, function in RULES.items()}


def buffers(rank, size):
    import wend as torch
    from wend.nn.parallel import DistributedDataParallel

    found = []
    for on in (True, False):
        torch.manual_seed(rank)
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        wrapped = DistributedDataParallel(net, broadcast_buffers=on)
        for k in range(3):
            wrapped(data(10 * k + rank)).pow(2).mean().backward()
        wrapped.eval()
        with torch.no_grad():
            wrapped(data(0))
        found.append(values(net))
    return found


def hooks(rank, size):
    import wend.distributed as dist
    from wend.distributed.algorithms import ddp_comm_hooks
    from wend.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks

    found = {}

    def own(state, bucket):
        state.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
        assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda f: 10 * f.value()[0])

    notes = []
    for name, register in {
        "none": lambda net: None,
        "allreduce": lambda net: net.register_comm_hook(None, default_hooks.allreduce_hook),
        "bf16": lambda net: net.register_comm_hook(None, default_hooks.bf16_compress_hook),
        "fp16": lambda net: ddp_comm_hooks.register_ddp_comm_hook(
            ddp_comm_hooks.DDPCommHookType.FP16_COMPRESS, net
        ),
        "wrapped": lambda net: net.register_comm_hook(
            dist.group.WORLD, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)
        ),
        "group": lambda net: net.register_comm_hook(
            dist.group.WORLD, default_hooks.fp16_compress_hook
        ),
        "noop": lambda net: net.register_comm_hook(None, debugging_hooks.noop_hook),
        "own": lambda net: net.register_comm_hook(notes, own),
    }.items():
        net = linear()
        register(net)
        for _ in range(2):
            net.zero_grad()
            net(data(rank)).pow(2).mean().backward()
        found[name] = gradients(net.module)
    return {**found, "notes": [list(map(int, row)) for row in notes]}


def uneven(rank, size):
    """Rank r has r + 1 batches."""
    import wend as torch

    found = []
    for whole in (True, False):
        net = linear()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with net.join(divide_by_initial_world_size=whole):
            for k in range(rank + 1):
                optimizer.zero_grad()
                net(data(10 * k + rank)).pow(2).mean().backward()
                optimizer.step()
        found.append(values(net.module))
    net = linear()
    steps = 0
    try:
        with net.join(throw_on_early_termination=True):
            for k in range(rank + 1):
                net(data(k)).pow(2).mean().backward()
                steps += 1
    except RuntimeError as error:
        found.append([steps, str(error)])
    return found


def norm(rank, size):
    """A SyncBatchNorm on batches of 2 and more rows: all of its results."""
    import wend as torch
    from wend import nn
    from wend.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    wrapped = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    total = sum(2 + r for r in range(size))
    for k in range(3):
        optimizer.zero_grad()
        y = wrapped(data(10 * k + rank, 2 + rank))
        (y.pow(2).sum() * size / total).backward()
        optimizer.step()
    return values(net)


def two_models(rank, size):
    """A generator and a discriminator, each wrapped; passes through one, then through both."""
    import wend as torch
    from wend.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    g = DistributedDataParallel(torch.nn.Linear(3, 3))
    d = DistributedDataParallel(torch.nn.Linear(3, 1))
    of_g = torch.optim.SGD(g.parameters(), lr=0.1)
    of_d = torch.optim.SGD(d.parameters(), lr=0.1)
    for k in range(3):
        made = g(data(10 * k + rank))
        of_d.zero_grad()
        d(made.detach()).pow(2).mean().backward()
        of_d.step()
        of_g.zero_grad()
        (d(made) - 1).pow(2).mean().backward()
        of_g.step()
    return [values(g.module), values(d.module)]


def nothing(rank, size):
    """One rank's loss does not use the module's result."""
    import wend as torch

    net = linear()
    y = net(data(rank))
    loss = y.pow(2).mean() if rank else torch.zeros((), requires_grad=True) * y.detach().sum()
    loss.backward()
    return gradients(net.module)


def sparse(rank, size):
    import wend as torch
    from wend.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    net = DistributedDataParallel(torch.nn.Embedding(6, 2, sparse=True))
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for k in range(2):
        optimizer.zero_grad()
        words = torch.tensor([rank, (rank + k) % 6, 5])
        (net(words) * torch.arange(1.0, 7.0).reshape(3, 2)).sum().backward()
        assert net.module.weight.grad.is_sparse
        optimizer.step()
    return values(net.module)


def half(rank, size):
    """A module of bfloat16, whose gradients are summed in float32."""
    import wend as torch
    from wend.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    net = DistributedDataParallel(torch.nn.Linear(3, 2).to(torch.bfloat16))
    net(data(rank).to(torch.bfloat16)).float().pow(2).mean().backward()
    return {n: p.grad.float().numpy().copy() for n, p in net.module.named_parameters()}


class Normed:
    """A layer, a norm with buffers, and a layer with the first one's weights."""

    @staticmethod
    def make():
        import wend as torch

        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Tanh(), torch.nn.Linear(3, 3)
        )
        net[3].weight = net[0].weight
        return net


def mixed(rank, size):
    """Gradients by types of the computation, of buffers, and of gradients on their way."""
    import wend as torch
    from wend.nn.parallel import DistributedDataParallel
    from wend.nn.parallel.distributed import _MixedPrecision

    found = {}
    for name, types in (
        ("wide", _MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16)),
        ("narrow", _MixedPrecision(torch.bfloat16)),
        ("wire", _MixedPrecision(reduce_dtype=torch.float16)),
    ):
        wrapped = DistributedDataParallel(Normed.make(), mixed_precision=types)
        y = wrapped(data(rank))
        y.float().square().mean().backward()
        net = wrapped.module
        assert net[3].weight is net[0].weight and net[0].weight.dtype == torch.float32
        types = [str(t.dtype) for t in (y, net[1].running_mean, net[0].weight.grad)]
        found[name] = {"types": types, **gradients(net)}
    return found


def accepted(rank, size):
    """Gradients with each argument that changes nothing here; all by the same kernels."""
    from wend._engine.base import config

    with config.override(compile=False):
        plain = linear()
        plain(data(rank)).sum().backward()
        expected = gradients(plain.module)
        for options in (
            {"static_graph": True}, {"find_unused_parameters": True}, {"bucket_cap_mb": 1},
            {"gradient_as_bucket_view": True}, {"init_sync": False}, {"broadcast_buffers": False},
            {"skip_all_reduce_unused_params": True}, {"bucket_cap_mb_list": [1, 2]},
        ):  # fmt: skip
            wrapped = linear(**options)
            for _ in range(2):
                wrapped.zero_grad()
                wrapped(data(rank)).sum().backward()
            for name, value in gradients(wrapped.module).items():
                np.testing.assert_array_equal(value, expected[name], err_msg=str(options))
    return len(expected)


def order(rank, size):
    """Orders of buckets after many steps of one path; and how often buckets were early."""
    import wend as torch
    from wend._engine.base import config
    from wend.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(96, 96) for _ in range(6)])
    wrapped = DistributedDataParallel(net, bucket_cap_mb=0.05)
    x = torch.ones(4, 96)
    with config.override(compile=True, wait=True):
        for _ in range(6):
            wrapped.zero_grad()
            wrapped(x).pow(2).mean().backward()
    reducer = wrapped.reducer
    counters = reducer.counters
    return {"order": reducer.order, "known": reducer.knows_order, "early": counters.early,
            "buckets": counters.buckets, "rounds": counters.rounds}  # fmt: skip


def errors(rank, size):
    import wend as torch
    from wend.nn.parallel import DistributedDataParallel

    found = []

    def raised(function):
        try:
            function()
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")

    raised(lambda: DistributedDataParallel(torch.nn.Linear(3, 2 + (rank == 1))))
    layers = [torch.nn.Linear(2, 2) for _ in range(1 + (rank == 1))]
    raised(lambda: DistributedDataParallel(torch.nn.Sequential(*layers)))
    raised(lambda: DistributedDataParallel(torch.nn.Linear(3, 2).requires_grad_(False)))
    raised(lambda: DistributedDataParallel(torch.nn.LazyLinear(2)))
    net = linear()
    net.register_comm_hook(None, lambda state, bucket: None)
    raised(lambda: net.register_comm_hook(None, lambda state, bucket: None))
    raised(lambda: net.register_comm_hook(None, 3))
    raised(lambda: linear(mixed_precision=torch.bfloat16))
    raised(lambda: linear(param_to_hook_all_reduce=net.module.weight))
    narrow = torch.nn.parallel.distributed._MixedPrecision(torch.bfloat16)
    raised(lambda: torch.batched(linear(mixed_precision=narrow))([data(0), data(1)]))
    return found


def sampler(rank, size):
    from wend.utils.data import DistributedSampler

    return [list(DistributedSampler(range(10), shuffle=False))]


def copies(rank, size):
    """A wrapped module pickled and loaded, and its state."""
    import pickle

    net = linear()
    loaded = pickle.loads(pickle.dumps(net))
    loaded(data(rank)).pow(2).mean().backward()
    return [sorted(net.state_dict()), gradients(loaded.module)]


RULES = {
    f.__name__: f
    for f in (buffers, hooks, uneven, norm, two_models, nothing, sparse, half, order, errors,
              sampler, copies, mixed, accepted)
}  # fmt: skip


# -- expected -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return ranks.run(__file__, "rules", 3, timeout=120.0)


N = 3


def plain():
    import wend as torch

    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def average(per_rank):
    return {name: sum(g[name] for g in per_rank) / len(per_rank) for name in per_rank[0]}


def local_gradients(seed, factor=1.0):
    net = plain()
    net(data(seed)).pow(2).mean().mul(factor).backward()
    return gradients(net)


def near(found, expected, tolerance=1e-6):
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, tolerance, tolerance, err_msg=name)


def test_buffers_are_those_of_the_first_rank(found):
    on, off = zip(*[row["buffers"] for row in found], strict=True)
    for other in on[1:]:
        for name, value in on[0].items():
            np.testing.assert_array_equal(other[name], value)
    assert (off[0]["1.running_mean"] != off[1]["1.running_mean"]).any()
    np.testing.assert_array_equal(off[0]["0.weight"], off[1]["0.weight"])


def test_hooks_reduce_gradients(found):
    mean = average([local_gradients(r) for r in range(N)])
    for rank, row in enumerate(found):
        row = row["hooks"]
        for name in ("none", "allreduce"):
            near(row[name], mean)
        for name in ("bf16", "fp16", "wrapped", "group"):
            near(row[name], mean, 2e-2)
            assert any((row[name][k] != mean[k]).any() for k in mean), name
        near(row["noop"], local_gradients(rank))
        near(row["own"], {k: 10 * N * g for k, g in mean.items()})
        assert row["notes"] == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("whole", [True, False])
def test_ranks_with_less_data_take_part_with_zeros(found, whole):
    import wend as torch

    net = plain()
    for k in range(N):
        net.zero_grad()
        active = [r for r in range(N) if k < r + 1]
        for r in active:
            loss = net(data(10 * k + r)).pow(2).mean()
            (loss / (N if whole else len(active))).backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
    for row in found:
        near(row["uneven"][0 if whole else 1], values(net))


def test_all_ranks_stop_early_if_asked(found):
    for row in found:
        steps, message = row["uneven"][2]
        assert steps == 1 and "at least one rank has exhausted its inputs" in message


def test_norm_over_all_ranks_is_the_norm_of_the_whole_batch(found):
    import wend as torch
    from wend import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for k in range(3):
        optimizer.zero_grad()
        x = torch.cat([data(10 * k + r, 2 + r) for r in range(N)])
        net(x).pow(2).mean().backward()
        optimizer.step()
    for row in found:
        near(row["norm"], values(net), 3e-6)


def test_two_models_take_turns(found):
    import wend as torch

    torch.manual_seed(0)
    g, d = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)
    for k in range(3):
        x = torch.cat([data(10 * k + r) for r in range(N)])
        made = g(x)
        for module in (d, g):
            module.zero_grad()
            y = d(made.detach()) if module is d else d(made) - 1
            y.pow(2).mean().backward()
            with torch.no_grad():
                for p in module.parameters():
                    p -= 0.1 * p.grad
    for row in found:
        near(row["two_models"][0], values(g))
        near(row["two_models"][1], values(d))


def test_a_rank_that_uses_nothing_counts_as_zeros(found):
    parts = [local_gradients(r) for r in range(N)]
    parts[0] = {name: 0 * g for name, g in parts[0].items()}
    for row in found:
        near(row["nothing"], average(parts))


def test_sparse_gradients(found):
    import wend as torch

    torch.manual_seed(0)
    net = torch.nn.Embedding(6, 2)
    for k in range(2):
        net.zero_grad()
        for r in range(N):
            words = torch.tensor([r, (r + k) % 6, 5])
            ((net(words) * torch.arange(1.0, 7.0).reshape(3, 2)).sum() / N).backward()
        with torch.no_grad():
            net.weight -= net.weight.grad
    for row in found:
        near(row["sparse"], values(net))


def test_half_precision_is_rounded_once(found):
    import wend as torch

    parts = []
    for r in range(N):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2).to(torch.bfloat16)
        net(data(r).to(torch.bfloat16)).float().pow(2).mean().backward()
        parts.append({n: p.grad.float().numpy().copy() for n, p in net.named_parameters()})
    for row in found:
        near(row["half"], average(parts), 2.0**-8)
        for name, g in row["half"].items():
            np.testing.assert_array_equal(g, found[0]["half"][name])


def test_mixed_precision(found):
    import wend as torch

    expected = {}
    for row in range(len(found)):
        net = Normed.make().to(torch.bfloat16)
        net(data(row).to(torch.bfloat16)).float().square().mean().backward()
        for name, p in net.named_parameters():
            part = p.grad.float().numpy() / len(found)
            expected[name] = expected.get(name, 0.0) + part
    for row in found:
        wide, narrow, wire = (row["mixed"][name] for name in ("wide", "narrow", "wire"))
        assert wide.pop("types") == ["torch.bfloat16", "torch.bfloat16", "torch.float32"]
        assert narrow.pop("types") == ["torch.bfloat16", "torch.float32", "torch.float32"]
        assert wire.pop("types") == ["torch.float32"] * 3
        near(wide, expected)
        near(narrow, expected, 2e-2)
        assert set(wire) == set(expected)


def test_accepted_arguments_change_nothing(found):
    assert [row["accepted"] for row in found] == [2] * len(found)


def test_ranks_agree_on_the_order_and_hand_buckets_over_early(found):
    rows = [row["order"] for row in found]
    for row in rows:
        assert row["order"] == rows[0]["order"] and sorted(row["order"]) == list(range(12))
        assert row["known"] and row["rounds"] == 6
        assert row["early"] > row["buckets"] / 3


def test_errors(found):
    for row in found:
        unlike, more, frozen, lazy, second, no_hook, types, single, batched = row["errors"]
        assert unlike == (
            "GraphError: DistributedDataParallel: all ranks need the same model: rank 0 has weight "
            "of torch.float32[2, 3], and rank 1 has weight of torch.float32[3, 3] in its place"
        )
        assert "rank 0 has 2 parameters, and rank 1 has 4" in more
        assert "doesn't have any parameters that require a gradient" in frozen
        assert "uninitialized parameters can't be used" in lazy
        assert "can only be called once" in second
        assert no_hook == "ArgumentTypeError: Communication hook must be callable."
        assert types.startswith("ArgumentTypeError") and "must be a _MixedPrecision" in types
        assert single.startswith("ArgumentError") and "param_to_hook_all_reduce is not" in single
        assert batched.startswith("GraphError") and "within wend.batched; use autocast" in batched


def test_sampler_asks_the_process_group(found):
    assert [row["sampler"][0] for row in found] == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]


def test_pickled_modules_go_on(found):
    mean = average([local_gradients(r) for r in range(N)])
    for row in found:
        names, grads = row["copies"]
        assert names == ["module.bias", "module.weight"]
        near(grads, mean)
