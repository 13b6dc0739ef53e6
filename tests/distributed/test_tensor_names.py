"""torch.distributed.tensor: how ranks share a tensor is known; what would make one is refused."""

import importlib
import itertools
import re
import subprocess
import sys

import pytest

import wend
from wend._engine.base.refusals import is_refused
from wend.distributed import tensor as ours
from wend.distributed.tensor import parallel, placement_types
from wend.distributed.tensor._utils import _compute_local_shape_and_global_offset as part

REPLICATE, PARTIAL = ours.Replicate(), ours.Partial()


@pytest.mark.parametrize(
    "name",
    """tensor tensor._api tensor._utils tensor.device_mesh tensor.experimental tensor.parallel
    tensor.parallel.api tensor.parallel.loss tensor.parallel.style tensor.placement_types
    _tensor _tensor._utils _tensor.api _tensor.device_mesh _tensor.experimental
    _tensor.placement_types _composable _composable.fsdp checkpoint.hf_storage
    fsdp.fully_sharded_data_parallel""".split(),
)
def test_modules_that_libraries_import_have_pytorchs_names(name):
    module = importlib.import_module(f"wend.distributed.{name}")
    listed = getattr(module, "__all__", [])
    assert [n for n in listed if not hasattr(module, n)] == []
    theirs = importlib.import_module(pytest.importorskip("torch").__name__ + f".distributed.{name}")
    assert [n for n in listed if not hasattr(theirs, n)] == []


def test_questions_are_answered_and_uses_refused():
    from wend.distributed.checkpoint import hf_storage
    from wend.distributed.fsdp import FullyShardedDataParallel

    x, layer = wend.ones(3), wend.nn.Linear(2, 2)
    assert not isinstance(x, ours.DTensor) and not isinstance(x.data, ours.DTensor)
    assert issubclass(ours.DTensor, wend.Tensor)
    assert not isinstance(layer, FullyShardedDataParallel)
    uses = {
        "tensor.DTensor": lambda: ours.DTensor(x),
        "tensor.DTensor.from_local": lambda: ours.DTensor.from_local(x, None, [REPLICATE]),
        "tensor.distribute_tensor": lambda: ours.distribute_tensor(x, None, [REPLICATE]),
        "tensor.distribute_module": lambda: ours.distribute_module(layer),
        "tensor.zeros": lambda: ours.zeros(3, device_mesh=None),
        "tensor.parallel.loss_parallel": lambda: parallel.loss_parallel(),
        "tensor.parallel.ColwiseParallel": lambda: parallel.ColwiseParallel()._apply(layer, None),
        "checkpoint.HuggingFaceStorageWriter": lambda: hf_storage.HuggingFaceStorageWriter("x"),
        "fsdp.FullyShardedDataParallel": lambda: FullyShardedDataParallel(layer),
    }
    for name, use in uses.items():
        with pytest.raises(NotImplementedError, match=rf"^torch\.distributed\.{re.escape(name)}:"):
            use()
    assert is_refused(ours.DTensor) and is_refused(ours.distribute_tensor)
    assert not is_refused(ours.Shard) and not is_refused(type("Own", (ours.DTensor,), {}))


@pytest.mark.parametrize("make", ["Shard(1)", "Replicate()", "Partial()", "Partial('max')"])
def test_placements_are_pytorchs(make):
    theirs = pytest.importorskip("torch.distributed.tensor")
    a, b = (eval(make, vars(module)) for module in (ours, theirs))
    assert (repr(a), str(a)) == (repr(b), str(b))
    asked = [("is_shard",), ("is_shard", 1), ("is_shard", 0), ("is_replicate",), ("is_partial",)]
    asked += [("is_partial", "max")]
    assert [getattr(a, n)(*v) for n, *v in asked] == [getattr(b, n)(*v) for n, *v in asked]
    assert a == eval(make, vars(ours)) and len({a, eval(make, vars(ours)), REPLICATE}) <= 2


def test_a_placement_is_a_value():
    strided = placement_types._StridedShard
    assert ours.Shard(0) != ours.Shard(1) and ours.Shard(0) != REPLICATE
    assert strided(0, split_factor=2) != ours.Shard(0) and strided(0, split_factor=2).dim == 0
    assert not strided(0, split_factor=2).is_shard()  # as in PyTorch
    with pytest.raises(AttributeError):
        ours.Shard(0).dim = 1


@pytest.mark.parametrize("size", [0, 1, 5, 8, 13])
def test_parts_lie_where_pytorch_puts_them(size):
    theirs = pytest.importorskip("torch.distributed.tensor")
    from torch.distributed.tensor import placement_types as their_types
    from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as want

    kinds = ["Shard(0)", "Shard(1)", "Replicate()", "Partial()", "_StridedShard(0, split_factor=2)"]
    for first, second in itertools.product(kinds, kinds):
        mine = [eval(k, vars(placement_types)) for k in (first, second)]
        other = [eval(k, {**vars(theirs), **vars(their_types)}) for k in (first, second)]
        for mesh in ((2, 3), (1, 4)):
            for place in itertools.product(*map(range, mesh)):
                args = (size, 6), mesh, list(place)
                assert part(*args, mine) == want(*args, other), (first, second, mesh, place)


def test_a_shard_of_a_dim_that_is_not_there():
    with pytest.raises(ValueError, match=r"Shard\(dim=2\): the tensor has 1 dims"):
        part((4,), (2,), [0], [ours.Shard(2)])


def test_a_style_of_ones_own_is_applied_by_name():
    class Marks(parallel.ParallelStyle):
        def _apply(self, module, device_mesh):
            module.mark = device_mesh
            return module

    net = wend.nn.ModuleDict({"a": wend.nn.Linear(1, 1), "b": wend.nn.Linear(1, 1)})
    mesh = object()
    assert parallel.parallelize_module(net, mesh, {"*": Marks()}) is net
    assert net["a"].mark is net["b"].mark is mesh and not hasattr(net, "mark")
    parallel.parallelize_module(net, mesh, {"": Marks()})
    assert net.mark is mesh
    with pytest.warns(UserWarning, match="no layer is named 'c'"):
        parallel.parallelize_module(net, mesh, {"c": Marks()})
    with pytest.warns(UserWarning, match="without a plan"):
        parallel.parallelize_module(net, mesh)
    with pytest.raises(TypeError, match="not list"):
        parallel.parallelize_module(net, mesh, [Marks()])
    with pytest.raises(RuntimeError, match="pass a device_mesh"):
        parallel.parallelize_module(net, None, Marks())
    with pytest.raises(NotImplementedError, match="RowwiseParallel"):
        parallel.parallelize_module(net, mesh, {"a": parallel.RowwiseParallel()})


def test_layouts_must_come_in_pairs():
    with pytest.raises(ValueError, match="desired_input_layouts"):
        parallel.PrepareModuleInput(input_layouts=REPLICATE)
    made = parallel.PrepareModuleOutput(
        output_layouts=ours.Shard(0), desired_output_layouts=PARTIAL
    )
    assert "output_layouts=(Shard(dim=0),)" in repr(made)


def test_a_rank_knows_its_part(tmp_path):
    program = tmp_path / "part.py"
    program.write_text(
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.tensor import Shard\n"
        "from torch.distributed._tensor._utils import compute_local_shape_and_global_offset\n"
        "mesh = init_device_mesh('cpu', (1,))\n"
        "print(compute_local_shape_and_global_offset((5, 2), mesh, [Shard(0)]))\n"
    )
    command = [sys.executable, "-m", "wend", "run", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("((5, 2), (0, 0))\n", 0), done.stderr
