"""Small names of torch.distributed and torch.nn.parallel, in a process alone."""

import pdb  # noqa: T100
from collections import OrderedDict, defaultdict, namedtuple

import pytest

import wend as torch
import wend.distributed as dist
from wend import nn
from wend.distributed import constants
from wend.distributed._replicas.casts import cast_tensors


def test_debug_levels(monkeypatch):
    monkeypatch.setattr(constants, "_chosen", [])
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    dist.set_debug_level(dist.DebugLevel.INFO)
    assert dist.get_debug_level() == 1
    dist.set_debug_level_from_env()
    assert dist.get_debug_level().name == "DETAIL"
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
    with pytest.raises(ValueError, match="must be OFF, INFO, or DETAIL, got 'LOUD'"):
        dist.set_debug_level_from_env()


def test_backends_by_device():
    config = dist.BackendConfig(dist.Backend("gloo"))
    assert config.get_device_backend_map() == {"cpu": "gloo"}
    config = dist.BackendConfig("cpu:gloo,cuda:nccl")
    assert repr(config) == "cpu:gloo,cuda:nccl"
    for text, fault in (("cpu:a:b", "Invalid device:backend"), ("cpu:a,cpu:b", "Duplicate")):
        with pytest.raises(ValueError, match=fault):
            dist.BackendConfig(text)
    assert dist.Backend.backend_capability["mpi"] == ["cpu"]
    assert dist.is_gloo_available() and dist.is_backend_available("gloo")


def test_casts_keep_the_classes_of_containers():
    class Answer(OrderedDict):
        """A model's output, as libraries define such classes."""

    pair = namedtuple("pair", "a b")
    given = {"x": [torch.ones(1), pair(torch.ones(1), torch.ones(1, dtype=torch.int64))], "n": 3}
    found = cast_tensors((Answer(given), defaultdict(list, y=torch.ones(2))), torch.float16)
    answer, other = found
    assert type(answer) is Answer and list(answer) == ["x", "n"] and answer["n"] == 3
    assert answer["x"][0].dtype == torch.float16 and type(answer["x"][1]) is pair
    assert [t.dtype for t in answer["x"][1]] == [torch.float16, torch.int64]
    assert type(other) is defaultdict and other["y"].dtype == torch.float16 and other["z"] == []
    assert given["x"][0].dtype == torch.float32  # the argument stays as it was


def test_a_breakpoint_opens_the_debugger_in_its_rank(monkeypatch):
    opened = []
    monkeypatch.setattr(pdb.Pdb, "set_trace", lambda self, *frame: opened.append("here"))
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        for _ in range(3):
            dist.breakpoint(skip=1, timeout_s=5)
        dist.breakpoint(rank=1)
        assert opened == ["here"] * 2
        assert torch.distributed.group.WORLD.timeout.total_seconds() == 3600
    finally:
        dist.destroy_process_group()


def test_copies_on_a_single_device():
    layer = nn.Linear(2, 2)
    (copy,) = nn.parallel.replicate(layer, ["cpu"])
    x = torch.ones(1, 2)
    assert nn.parallel.scatter(x, ["cpu"]) == [x]
    assert nn.parallel.gather([x], "cpu") is x
    first, second = nn.parallel.parallel_apply([copy, nn.Identity()], [(x,), x], None, ["cpu"] * 2)
    assert torch.equal(first, layer(x)) and second is x
    for call in (
        lambda: nn.parallel.replicate(layer, [0]),
        lambda: nn.parallel.scatter(x, ["cuda:0", "cuda:1"]),
        lambda: nn.parallel.parallel_apply([layer], [x], None, ["cuda:0"]),
        lambda: nn.parallel.gather([x], "cuda:0"),
    ):
        with pytest.raises(RuntimeError, match="device"):
            call()
    with pytest.raises(ValueError, match="the CPU is the only device, and must be given once"):
        nn.parallel.scatter(x, ["cpu", "cpu"])
    with pytest.raises(ValueError, match="1 modules, 2 inputs"):
        nn.parallel.parallel_apply([layer], [x, x])
    wrapped = nn.DataParallel(layer)
    args, kwargs = wrapped.scatter((x,), {"a": 1}, ["cpu"])
    assert args == ((x,),) and kwargs == ({"a": 1},)
    (y,) = wrapped.parallel_apply(wrapped.replicate(layer, ["cpu"]), args, None)
    assert torch.equal(wrapped.gather([y], "cpu"), layer(x))


def test_membership_and_names_of_groups():
    real = pytest.importorskip("torch").distributed
    for made in (dist, real):
        made.init_process_group("gloo", store=made.HashStore(), rank=0, world_size=1)
        try:
            world, part = made.group.WORLD, made.new_group([0])
            assert not any(made._rank_not_in_group(group) for group in (None, world, part))
            assert made._rank_not_in_group(made.GroupMember.NON_GROUP_MEMBER)
            names = [made._get_process_group_name(group) for group in (world, part)]
            assert len(set(names)) == 2 and "None" not in names
            made.destroy_process_group(part)
            assert made._get_process_group_name(part) == "None"
            assert made.distributed_c10d._rank_not_in_group is made._rank_not_in_group
        finally:
            made.destroy_process_group()
