"""Collectives: every type of elements, every kind of tensor, errors, and work in the background."""

import subprocess
import sys
import threading
import time
import weakref
from datetime import timedelta

import numpy as np
import pytest
from ranks import missing, run

import wend as torch
from wend import distributed as dist
from wend.distributed import _engine
from wend.distributed._wire import _arrays, _transport

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")

DTYPES = (
    "float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "complex64 complex128 bool"
).split()
OPS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")


def operand(dtype, rank, shape=(3, 5)):
    """Numbers that differ from rank to rank, and whose sums are exact in all types."""
    count = int(np.prod(shape))
    base = (np.arange(count) * 7 + rank * 5 + 1) % 11
    if dtype == "bool":
        return (base % 3 == 0).reshape(shape)
    if dtype.startswith("complex"):
        base = base + 1j * ((base + rank) % 3)
    kind = np.float32 if dtype in ("float16", "bfloat16") else np.dtype(dtype)
    return base.astype(kind).reshape(shape)


def tensor_of(dtype, rank, shape=(3, 5)):
    return torch.tensor(operand(dtype, rank, shape)).to(getattr(torch, dtype))


def plain(tensor):
    """An array that can be saved."""
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    return (tensor.float() if half else tensor).detach().numpy()


def expected(op, dtype, ranks, shape=(3, 5)):
    """The reduction by NumPy; None where there is none."""
    values = np.stack([operand(dtype, rank, shape) for rank in range(ranks)])
    bitwise, order = op in ("BAND", "BOR", "BXOR"), op in ("MIN", "MAX")
    kind = values.dtype.kind
    if (bitwise and kind in "fc") or (order and kind == "c") or (op == "AVG" and kind in "biu"):
        return None
    if kind == "b":
        function = {
            "SUM": np.logical_or, "BOR": np.logical_or, "MAX": np.logical_or,
            "PRODUCT": np.logical_and, "BAND": np.logical_and, "MIN": np.logical_and,
            "BXOR": np.logical_xor,
        }[op]  # fmt: skip
    else:
        function = {
            "SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MIN": np.minimum,
            "MAX": np.maximum, "BAND": np.bitwise_and, "BOR": np.bitwise_or,
            "BXOR": np.bitwise_xor,
        }[op]  # fmt: skip
    found = function.reduce(values, axis=0)
    return (found / ranks).astype(values.dtype) if op == "AVG" else found.astype(values.dtype)


def message(call):
    """(type's bases, text) of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return [[base.__name__ for base in type(error).__mro__], str(error)]
    return None


# -- in ranks -------------------------------------------------------------------------------


def all_types(most):
    """Every reduction of every type; every move of every type.

    most: bytes that travel with the ranks' greetings; 0 as in large groups
    """
    _transport.MOST = most
    dist.init_process_group("mpi")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    for dtype in DTYPES:
        for op in OPS:
            x = tensor_of(dtype, rank)
            kind = getattr(dist.ReduceOp, op)
            if expected(op, dtype, ranks) is None:
                found[f"{dtype} {op}"] = message(lambda x=x, kind=kind: dist.all_reduce(x, kind))
                continue
            dist.all_reduce(x, kind)
            found[f"{dtype} {op}"] = plain(x)
            part = torch.empty(5, dtype=x.dtype)
            dist.reduce_scatter_tensor(part, tensor_of(dtype, rank, (ranks, 5)), op=kind)
            found[f"{dtype} {op} part"] = plain(part)
            y = tensor_of(dtype, rank)
            dist.reduce(y, 1, kind)
            found[f"{dtype} {op} reduce"] = plain(y)
        x = tensor_of(dtype, rank)
        many = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(many, x)
        found[f"{dtype} gathered"] = [plain(t) for t in many]
        wide = torch.empty(ranks * 3, 5, dtype=x.dtype)
        dist.all_gather_into_tensor(wide, x)
        found[f"{dtype} wide"] = plain(wide)
        dist.broadcast(x, ranks - 1)
        found[f"{dtype} broadcast"] = plain(x)
        swapped = torch.empty(ranks, 2, dtype=x.dtype)
        dist.all_to_all_single(swapped, tensor_of(dtype, rank, (ranks, 2)))
        found[f"{dtype} swapped"] = plain(swapped)
        parts = [torch.empty(4, dtype=x.dtype) for _ in range(ranks)] if rank == 1 else None
        dist.gather(tensor_of(dtype, rank, (4,)), parts, dst=1)
        found[f"{dtype} at 1"] = None if parts is None else [plain(t) for t in parts]
        own = torch.empty(4, dtype=x.dtype)
        dist.scatter(own, parts, src=1)
        found[f"{dtype} back"] = plain(own)
    scaled = torch.full((4,), rank + 1.0)
    dist.all_reduce(scaled, dist.ReduceOp(dist.ReduceOp.PREMUL_SUM, 0.5))
    found["scaled"] = plain(scaled)
    dist.destroy_process_group()
    return found


def kinds_of_tensors():
    """Views, history, pending ops, odd sizes and strides, memory known outside."""
    dist.init_process_group()
    rank = dist.get_rank()
    found = {}

    base = torch.arange(12.0).reshape(3, 4)
    view = base[1:, ::2]
    other = base[1]
    dist.all_reduce(view)
    found["base of a view"], found["view"], found["other view"] = base, view, other

    pending = torch.ones(3) * (rank + 1)
    later = pending * 10
    dist.all_reduce(pending)
    found["pending"], found["before"] = pending, later
    found["version"] = pending._version

    empty = torch.zeros(0, 3)
    dist.all_reduce(empty)
    dist.broadcast(empty, 1)
    found["empty"] = list(empty.shape)
    number = torch.tensor(rank + 1.0)
    dist.all_reduce(number)
    found["number"] = number
    turned = torch.arange(6.0).reshape(2, 3).t()
    dist.all_reduce(turned)
    found["turned"], found["strides"] = turned, list(turned.stride())

    leaf = torch.ones(3, requires_grad=True)
    dist.all_reduce(leaf)
    (leaf * 3).sum().backward()
    found["leaf"], found["its grad"], found["is leaf"] = leaf, leaf.grad, leaf.is_leaf
    found["needs grad"] = leaf.requires_grad
    source = torch.full((3,), 2.0, requires_grad=True)
    middle = source * source
    product = middle * middle
    dist.all_reduce(middle)
    found["with history"] = middle
    product.sum().backward(retain_graph=True)
    found["saved before"] = source.grad

    twin = torch.zeros(4) + rank
    detached = twin.detach()
    shared = twin.numpy()
    dist.all_reduce(twin)
    found["detached"], found["shared"] = detached.clone(), shared.copy()
    shared += 1
    dist.all_reduce(twin)
    found["shared twice"] = shared

    with torch.inference_mode():
        quiet = torch.ones(2)
        dist.all_reduce(quiet)
    found["inference"] = quiet
    repeated = torch.ones(1).expand(3)
    found["expanded"] = message(lambda: dist.all_reduce(repeated))
    found["meta"] = message(lambda: dist.all_reduce(torch.ones(2, device="meta")))
    found["sparse"] = message(lambda: dist.all_reduce(torch.eye(2).to_sparse()))
    found["vmap"] = message(
        lambda: torch.vmap(lambda x: (dist.all_reduce(x), x)[1])(torch.ones(2, 2))
    )
    uneven = [torch.zeros(2), torch.zeros(3)]
    dist.all_gather(uneven, torch.full((2 + rank,), float(rank + 1)))
    found["uneven"] = uneven
    out = torch.zeros(2 + rank)
    dist.reduce_scatter(out, [torch.ones(2), torch.full((3,), 2.0)])
    found["uneven part"] = out
    outs = [torch.zeros(1 + rank), torch.zeros(3 + rank)]
    ins = [torch.full((1 + rank,), 10.0 * rank), torch.full((2 + rank,), 10.0 * rank + 1)]
    found["wrong sizes"] = message(lambda: dist.all_to_all(outs, ins))
    ins = [torch.full((1, ), 10.0), torch.full((2,), 11.0)] if rank == 0 else [
        torch.full((1,), 20.0), torch.full((3,), 21.0)]  # fmt: skip
    outs = [torch.zeros(1), torch.zeros(1)] if rank == 0 else [torch.zeros(2), torch.zeros(3)]
    dist.all_to_all(outs, ins)
    found["uneven swap"] = outs
    return found


def disagreements():
    """Ranks that differ in size, type, op or call are told by rank; the group goes on."""
    dist.init_process_group("mpi")
    rank = dist.get_rank()
    x = torch.ones(3 + rank)
    two, kind = torch.ones(2), [torch.int32, torch.float32][rank]
    op = dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM
    found = {
        "size": message(lambda: dist.all_reduce(x)),
        "type": message(lambda: dist.broadcast(two.to(kind), 0)),
        "op": message(lambda: dist.all_reduce(two.clone(), op)),
        "root": message(lambda: dist.broadcast(torch.ones(2), rank)),
        "call": message(lambda: dist.all_reduce(torch.ones(2)) if rank else dist.barrier()),
    }  # fmt: skip
    work = dist.all_reduce(x, async_op=True)
    found["background"] = message(work.wait)
    found["exception"] = type(work.exception()).__name__
    found["success"] = [work.is_completed(), work.is_success()]
    found["kept"] = x
    y = torch.ones(2)
    dist.all_reduce(y)
    found["goes on"] = y
    for name, call in {
        "no tensor": lambda: dist.all_reduce([1.0]),
        "no list": lambda: dist.all_gather(y, y),
        "short list": lambda: dist.all_gather([y], y),
        "wrong output": lambda: dist.all_gather_into_tensor(torch.ones(3), y),
        "wrong part": lambda: dist.reduce_scatter_tensor(torch.ones(2), y),
        "wrong rank": lambda: dist.broadcast(y, 7),
        "no rank": lambda: dist.broadcast(y),
        "two ranks": lambda: dist.broadcast(y, 0, group_src=1),
        "no op": lambda: dist.all_reduce(y, op="sum"),
        "two types": lambda: dist.all_gather_into_tensor(torch.ones(4), y.long()),
        "list elsewhere": lambda: dist.gather(y, [y, y], dst=1 - rank),
        "no list at root": lambda: dist.scatter(y, None, src=rank),
        "splits": lambda: dist.all_to_all_single(y, y, [1], [1]),
        "sum of splits": lambda: dist.all_to_all_single(y, y, [1, 2], [1, 1]),
        "twice": lambda: dist.init_process_group(),
        "no group": lambda: dist.all_reduce(y, group="world"),
    }.items():  # fmt: skip
        found[name] = message(call)
    return found


def background():
    """Works under way: results come at `wait`; futures, order, pending, an end of the group."""
    dist.init_process_group("mpi")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    xs = [torch.full((100,), float(rank + k)) for k in range(20)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    dist.barrier()
    for work in reversed(works):
        assert work.wait()
    found["sums"] = [x[0].item() for x in xs]
    y = torch.ones(3)
    work = dist.all_reduce(y, async_op=True)
    future = work.get_future()
    doubled = future.then(lambda f: f.value()[0] * 2)
    found["future"], found["then"] = future.wait()[0], doubled.wait()
    found["result"], found["y"] = work.result()[0], y
    outs = [torch.zeros(2) for _ in range(ranks)]
    work = dist.all_gather(outs, torch.full((2,), float(rank)), async_op=True)
    while not work.is_completed():
        pass
    found["gathered"] = outs
    z = torch.full((5,), rank + 1.0)
    half = z[:2]
    work = dist.all_reduce(z, async_op=True)
    work.wait()
    work.wait()
    found["view after"], found["version"] = half, z._version
    dist.barrier()
    if rank == 0:
        late = dist.all_reduce(torch.ones(2), async_op=True)
        time.sleep(0.2)
        found["pending"] = [list(p)[:4] for p in _engine.pending()]
        found["late"] = message(lambda: late.wait(timedelta(seconds=0.05)))
        found["still"] = len(_engine.pending())
    else:
        time.sleep(0.8)
        late = dist.all_reduce(torch.ones(2), async_op=True)
    late.wait()
    found["none left"] = len(_engine.pending())
    seen = []
    watcher = threading.Timer(0.3, lambda: seen.extend(_engine.pending()))
    watcher.start()
    time.sleep(0.8 * rank)
    dist.barrier()
    watcher.join()
    found["blocking"] = [[p.name, p.line, p.running] for p in seen]
    dist.all_reduce(y, async_op=True)  # nobody waits: the end of the group does
    dist.destroy_process_group()
    found["ended"] = dist.is_initialized()
    dist.init_process_group("mpi")
    w = torch.ones(2)
    dist.all_reduce(w)
    found["again"] = w
    return found


# -- in the parent ---------------------------------------------------------------------------


@needs_mpi
@pytest.mark.parametrize(("ranks", "most"), [(2, 0), (3, 32), (3, 1024)])
def test_every_type(ranks, most):
    results = run(__file__, "all_types", ranks, most)
    for rank, found in enumerate(results):
        for dtype in DTYPES:
            for op in OPS:
                want = expected(op, dtype, ranks)
                got = found[f"{dtype} {op}"]
                if want is None:
                    assert got is not None and {"DTypeError", "ArgumentError"} & set(got[0])
                    continue
                rounded = 2e-3 if dtype == "float16" else 1e-2 if dtype == "bfloat16" else 0
                if op in ("AVG", "PRODUCT") and np.dtype(want.dtype).kind in "fc":
                    rounded = rounded or 1e-6
                np.testing.assert_allclose(got, want, rtol=rounded)
                part = expected(op, dtype, ranks, (ranks, 5))[rank]
                np.testing.assert_allclose(found[f"{dtype} {op} part"], part, rtol=rounded)
                own = want if rank == 1 else operand(dtype, rank)
                np.testing.assert_allclose(found[f"{dtype} {op} reduce"], own, rtol=rounded)
            each = [operand(dtype, r) for r in range(ranks)]
            assert np.array_equal(found[f"{dtype} gathered"], each)
            assert np.array_equal(found[f"{dtype} wide"], np.concatenate(each))
            assert np.array_equal(found[f"{dtype} broadcast"], each[-1])
            swapped = [operand(dtype, r, (ranks, 2))[rank] for r in range(ranks)]
            assert np.array_equal(found[f"{dtype} swapped"], swapped)
            small = [operand(dtype, r, (4,)) for r in range(ranks)]
            if rank == 1:
                assert np.array_equal(found[f"{dtype} at 1"], small)
            assert np.array_equal(found[f"{dtype} back"], small[rank])
        assert np.array_equal(found["scaled"], np.full(4, 0.5 * sum(range(1, ranks + 1))))


@needs_mpi
def test_every_kind_of_tensor():
    for rank, found in enumerate(run(__file__, "kinds_of_tensors", 2)):
        base = np.arange(12.0).reshape(3, 4)
        base[1:, ::2] *= 2
        assert np.array_equal(found["base of a view"], base)
        assert np.array_equal(found["view"], base[1:, ::2])
        assert np.array_equal(found["other view"], base[1])
        assert np.array_equal(found["pending"], [3, 3, 3]) and found["version"] == 1
        assert np.array_equal(found["before"], np.full(3, 10.0 * (rank + 1)))
        assert found["empty"] == [0, 3] and found["number"] == 3
        assert np.array_equal(found["turned"], 2 * np.arange(6.0).reshape(2, 3).T)
        assert found["strides"] == [1, 3]
        assert np.array_equal(found["leaf"], [2, 2, 2]) and found["is leaf"] and found["needs grad"]
        assert np.array_equal(found["its grad"], [3, 3, 3])
        assert np.array_equal(found["with history"], [8, 8, 8])
        assert np.array_equal(found["saved before"], [32, 32, 32])  # d(x^4)/dx of the old values
        assert np.array_equal(found["detached"], np.ones(4))
        assert np.array_equal(found["shared"], np.ones(4))
        assert np.array_equal(found["shared twice"], np.full(4, 4.0))
        assert np.array_equal(found["inference"], [2, 2])
        assert "single memory location" in found["expanded"][1]
        assert "NotImplementedError" in found["meta"][0] and "meta" in found["meta"][1]
        assert "TypeError" in found["sparse"][0] and "to_dense" in found["sparse"][1]
        assert "RuntimeError" in found["vmap"][0] and "vmap" in found["vmap"][1]
        assert np.array_equal(np.concatenate(found["uneven"]), [1, 1, 2, 2, 2])
        assert np.array_equal(found["uneven part"], np.full(2 + rank, 2.0 * (1 + rank)))
        assert "rank 1" in found["wrong sizes"][1]
        swap = [[10], [20]] if rank == 0 else [[11, 11], [21, 21, 21]]
        assert [list(x) for x in found["uneven swap"]] == swap


@needs_mpi
def test_disagreements_are_told_by_rank():
    for found in run(__file__, "disagreements", 2):
        for name in ("size", "type", "op", "root", "call", "background"):
            bases, text = found[name]
            assert "CollectiveMismatch" in bases and "RuntimeError" in bases
            assert "rank 0: " in text and "rank 1: " in text and "test_collectives.py:" in text
        assert "3 elements" in found["size"][1] and "4 elements" in found["size"][1]
        assert "int32" in found["type"][1] and "float32" in found["type"][1]
        assert "barrier()" in found["call"][1]
        assert found["exception"] == "CollectiveMismatch" and found["success"] == [True, False]
        assert set(found["kept"]) == {1.0} and np.array_equal(found["goes on"], [2, 2])
        kinds = {
            "no tensor": "TypeError", "no list": "TypeError", "short list": "RuntimeError",
            "wrong output": "RuntimeError", "wrong part": "RuntimeError",
            "wrong rank": "ValueError",
            "no rank": "ValueError", "two ranks": "ValueError", "no op": "TypeError",
            "two types": "RuntimeError", "list elsewhere": "ValueError",
            "no list at root": "ValueError", "splits": "RuntimeError",
            "sum of splits": "RuntimeError", "twice": "ValueError", "no group": "TypeError",
        }  # fmt: skip
        for name, kind in kinds.items():
            assert found[name] is not None and kind in found[name][0], (name, found[name])


@needs_mpi
def test_work_in_the_background():
    for rank, found in enumerate(run(__file__, "background", 2)):
        assert found["sums"] == [2.0 * k + 1 for k in range(20)]
        assert np.array_equal(found["future"], [2, 2, 2])
        assert np.array_equal(found["then"], [4, 4, 4])
        assert np.array_equal(found["result"], [2, 2, 2]) and np.array_equal(found["y"], [2, 2, 2])
        assert np.array_equal(found["gathered"], [[0, 0], [1, 1]])
        assert np.array_equal(found["view after"], [3, 3]) and found["version"] == 1
        if rank == 0:
            ((group, number, name, line),) = found["pending"]
            assert group == "default" and number > 20 and name.startswith("all_reduce(SUM")
            assert "test_collectives.py:" in line and "background" in line
            assert "DistBackendError" in found["late"][0] and found["still"] == 1
            ((name, line, running),) = found["blocking"]
            assert name == "barrier()" and "test_collectives.py:" in line and running is True
        assert found["none left"] == 0 and found["ended"] is False
        assert np.array_equal(found["again"], [2, 2])


# -- a single process -----------------------------------------------------------------------


@pytest.fixture
def lone(monkeypatch):
    """A group of this process alone."""
    for name in ("RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    dist.init_process_group("gloo", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_single_process_needs_no_mpi(lone):
    x = torch.arange(3.0) + 1
    pending = x.value
    assert dist.all_reduce(x) is None and x.value is pending and pending.buffer is None
    assert dist.all_reduce(x, async_op=True).wait() is True
    outs = [torch.zeros(3)]
    dist.all_gather(outs, x)
    part = torch.zeros(3)
    dist.reduce_scatter_tensor(part, x * 2)
    dist.all_to_all_single(part, part + 1)
    dist.broadcast(x, 0)
    dist.barrier()
    assert outs[0].tolist() == [1, 2, 3] and part.tolist() == [3, 5, 7]
    dist.all_reduce(x, dist.ReduceOp(dist.ReduceOp.PREMUL_SUM, 0.5))
    assert x.tolist() == [0.5, 1, 1.5]
    got = [torch.zeros(3)]
    dist.gather(x, got, dst=0)
    dist.scatter(part, [x])
    assert got[0].tolist() == part.tolist() == x.tolist()
    assert dist.get_rank() == 0 and dist.get_world_size() == 1 and dist.get_backend() == "gloo"
    work = dist.all_reduce(x, async_op=True)
    assert work.get_future().wait()[0] is x and work.is_completed() and work.exception() is None


def written(x, value):
    """The tensor gets a result of equal numbers, as after a collective."""
    out = _arrays.blank(x)
    out[:] = value
    _arrays.write(x, out, dist.all_reduce)


def test_the_former_memory_is_free_once_a_result_is_written():
    x = torch.ones(4)
    for value in (2.0, 3.0):
        _arrays.read(x)
        former = weakref.ref(x.value.buffer)
        written(x, value)
        assert former() is None and x.tolist() == [value] * 4


def test_a_result_written_behind_an_op_that_fails_is_taken_back():
    x = torch.ones(4)
    _arrays.read(x)
    wrong = torch.arange(3).index_select(0, torch.tensor([6]) + 1)
    written(x, 5.0)
    with pytest.raises(IndexError, match="out of bounds"):
        wrong.tolist()
    assert x.tolist() == [1, 1, 1, 1]


def test_nothing_is_there_before_the_beginning():
    assert dist.is_available() and not dist.is_initialized()
    for call in (dist.get_rank, dist.get_world_size, dist.destroy_process_group, dist.barrier):
        with pytest.raises(ValueError, match="init_process_group"):
            call()
    assert dist.group.WORLD is None


def test_mpi_is_loaded_by_a_group_of_several_alone():
    program = (
        "import sys, wend, wend.distributed as d\n"
        "d.init_process_group('mpi', rank=0, world_size=1); d.barrier()\n"
        "print('mpi4py' in sys.modules)"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert out.stdout.split() == ["False"], out.stderr
