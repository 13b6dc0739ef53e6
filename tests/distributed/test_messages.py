"""Messages, groups, meshes, objects, stores, and collectives that are begun together."""

import subprocess
import sys
import threading
import time
from datetime import timedelta

import numpy as np
import pytest
from ranks import missing, run

import wend as torch
from wend import distributed as dist
from wend.distributed import _engine, _objects
from wend.distributed._rendezvous import asked_for

needs_mpi = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")


class Opaque:
    """A class that JSON does not tell."""

    def __init__(self, x):
        self.x = x


def told(call):
    try:
        call()
    except Exception as error:
        return [[base.__name__ for base in type(error).__mro__], str(error)]
    return None


# -- in ranks -------------------------------------------------------------------------------


def messages():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    t = torch.zeros(2, 3)
    if rank == 0:
        dist.send(torch.arange(6.0).reshape(3, 2).t(), dst=1)
        work = dist.isend(torch.full((4,), 7.0), dst=1, tag=5)
        dist.send(torch.full((2,), 8.0), dst=1, tag=3)
        work.wait()
    elif rank == 1:
        found["sender"] = dist.recv(t, src=0)
        late, early = torch.zeros(4), torch.zeros(2)
        dist.recv(early, src=0, tag=3)
        work = dist.irecv(late, src=0, tag=5)
        work.wait()
        found["received"], found["early"], found["late"] = t, early, late
        found["version"] = late._version
    dist.barrier()
    if rank == 0:
        got = torch.zeros(2)
        sources = [dist.recv(got) for _ in range(ranks - 1)]
        found["any source"] = sorted(sources)
    else:
        dist.send(torch.full((2,), float(rank)), 0)
    dist.barrier()  # or rank 0, which takes messages of any source, may take the next of a rank
    around = torch.zeros(3, dtype=torch.bfloat16)
    ops = [
        dist.P2POp(dist.isend, torch.full((3,), rank + 0.5).bfloat16(), (rank + 1) % ranks),
        dist.P2POp(dist.irecv, around, (rank - 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    found["around"] = around.float()
    part = torch.zeros(4, 4)
    if rank == 0:
        dist.send(torch.ones(2, 2), 1)
    elif rank == 1:
        dist.recv(part[1:3, 1:3], 0)
        found["into a view"] = part
    if rank == 0:
        dist.send(torch.ones(5), 1)
        dist.send(torch.ones(1), 1)
        dist.send(torch.ones(0), 1)
    elif rank == 1:
        two, none = torch.zeros(2), torch.zeros(0)
        found["too long"] = told(lambda: dist.recv(two, 0))
        found["too short"] = told(lambda: dist.recv(two, 0))
        dist.recv(none, 0)
        work = dist.irecv(two, 2)
        found["pending"] = [list(p)[:1] + [p.name, p.running] for p in _engine.pending()]
        found["in time"] = told(lambda: work.wait(timedelta(seconds=0.05)))
        found["completed"] = work.is_completed()
        dist.send(none, 2)
        work.wait()
        found["two"] = two
    elif rank == 2:
        dist.recv(torch.zeros(0), 1)
        dist.send(torch.full((2,), 3.0), 1)
    for name, call in {
        "itself": lambda: dist.send(t, rank),
        "no member": lambda: dist.send(t, 9),
        "tag": lambda: dist.isend(t, (rank + 1) % ranks, tag=-1),
        "op": lambda: dist.P2POp(dist.send, t, 0),
        "no messages": lambda: dist.batch_isend_irecv([]),
    }.items():
        found[name] = told(call)
    dist.monitored_barrier()
    if rank == 1:
        time.sleep(0.5)
        found["barrier"] = told(lambda: dist.monitored_barrier(timeout=timedelta(seconds=0.2)))
    else:
        found["barrier"] = told(lambda: dist.monitored_barrier(timeout=timedelta(seconds=0.2)))
    return found


def groups():
    dist.init_process_group()
    rank = dist.get_rank()
    found = {}
    pair = dist.new_group([2, 0])
    x = torch.full((2,), float(rank))
    if rank in (0, 2):
        dist.all_reduce(x, group=pair)
        dist.broadcast(y := torch.full((1,), float(rank)), src=2, group=pair)
        found["broadcast"] = y
        found["place"] = [dist.get_rank(pair), dist.get_world_size(pair)]
        found["ranks"] = dist.get_process_group_ranks(pair)
        found["places"] = [dist.get_group_rank(pair, 2), dist.get_global_rank(pair, 1)]
        if rank == 0:
            dist.send(torch.ones(1), group=pair, group_dst=1)
        else:
            found["sender"] = dist.recv(torch.zeros(1), group=pair)
    else:
        found["outside"] = pair is dist.GroupMember.NON_GROUP_MEMBER
        found["place"] = [dist.get_rank(pair), dist.get_world_size(pair)]
    found["sum"] = x
    given = dist.new_group([2, 1, 0], sort_ranks=False)
    found["given order"] = dist.get_rank(given)
    if rank > 0:
        local = dist.new_group([1, 2], use_local_synchronization=True)
        z = torch.ones(1)
        dist.all_reduce(z, group=local)
        found["local"] = z
    single, all_of_them = dist.new_subgroups(group_size=1)
    found["subgroups"] = [dist.get_world_size(single), len(all_of_them)]
    half = dist.split_group(split_ranks=[[0, 1], [2]])
    w = torch.ones(1)
    dist.all_reduce(w, group=half)
    found["split"] = w
    mesh = dist.init_device_mesh("cpu", (1, 3), mesh_dim_names=("outer", "inner"))
    v = torch.ones(1)
    dist.all_reduce(v, group=mesh.get_group("inner"))
    found["mesh"] = [v.item(), mesh["inner"].get_local_rank(), mesh.get_coordinate(), mesh.size(0)]
    found["text"] = repr(mesh)
    flat = mesh._flatten("all")
    found["flat"] = [flat.size(), mesh["all"].get_local_rank()]
    for name, call in {
        "twice": lambda: dist.new_group([0, 0]),
        "no rank": lambda: dist.new_group([7]),
        "uneven": lambda: dist.new_subgroups(2),
        "overlap": lambda: dist.new_subgroups_by_enumeration([[0, 1], [1, 2]]),
        "big mesh": lambda: dist.init_device_mesh("cpu", (4,)),
        "names": lambda: dist.init_device_mesh("cpu", (3,), mesh_dim_names=("a", "b")),
        "no dim": lambda: mesh["depth"],
        "cuda": lambda: dist.init_device_mesh("cuda", (3,)),
    }.items():
        found[name] = told(call)
    if rank != 1:
        dist.destroy_process_group(pair)
    dist.barrier()
    dist.destroy_process_group()
    return found


def objects():
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    found = {}
    mine = {"rank": rank, ("a", 1): [1.5, None, True, {2, 3}], "t": torch.full((2,), float(rank))}
    every = [None] * ranks
    dist.all_gather_object(every, mine)
    found["gathered"] = [o["rank"] for o in every]
    found["keys"] = every[1][("a", 1)] == [1.5, None, True, {2, 3}]
    found["tensor"] = every[-1]["t"]
    lists = ["x", 1, b"raw"] if rank == 1 else [None] * 3
    dist.broadcast_object_list(lists, src=1)
    found["broadcast"] = [lists[0], lists[1], lists[2].decode()]
    at = [None] * ranks if rank == 0 else None
    dist.gather_object((rank, complex(1, rank)), at, dst=0)
    found["at 0"] = None if at is None else [[r, c.imag] for r, c in at]
    own = [None]
    dist.scatter_object_list(own, [f"for {r}" for r in range(ranks)] if rank == 1 else None, src=1)
    found["own"] = own[0]
    if rank == 0:
        dist.send_object_list([{"n": np.arange(3)}, "end"], 1)
    elif rank == 1:
        got = [None, None]
        found["sender"] = dist.recv_object_list(got, 0)
        found["array"], found["end"] = got[0]["n"], got[1]
    found["refused"] = told(lambda: dist.all_gather_object(every, Opaque(1)))
    dist.allow_pickle()
    dist.all_gather_object(every, Opaque(rank))
    found["pickled"] = [o.x for o in every]
    dist.allow_pickle(False)
    found["version"] = dist.is_initialized()

    many = [torch.full((k + 1,), float(rank)) for k in range(3)]
    dist.all_reduce_coalesced(many)
    found["many"] = [t[0].item() for t in many]
    outs = [[torch.zeros(1), torch.zeros(2)] for _ in range(ranks)]
    ins = [torch.full((1,), float(rank)), torch.full((2,), rank + 10.0)]
    work = dist.all_gather_coalesced(outs, ins, async_op=True)
    work.wait()
    found["lists"] = [[t[0].item() for t in row] for row in outs]
    with dist._coalescing_manager() as manager:
        for t in many:
            dist.all_reduce(t)
    found["managed"] = [len(manager.works), [t[0].item() for t in many]]
    return found


# -- in the parent ---------------------------------------------------------------------------


@needs_mpi
def test_messages():
    zero, one, two = run(__file__, "messages", 3)
    assert one["sender"] == 0 and one["version"] == 1
    assert np.array_equal(one["received"], np.arange(6.0).reshape(3, 2).T)
    assert set(one["early"]) == {8.0} and set(one["late"]) == {7.0}
    assert zero["any source"] == [1, 2]
    for rank, found in enumerate((zero, one, two)):
        assert set(found["around"]) == {(rank - 1) % 3 + 0.5}
        for name in ("itself", "no member", "tag", "op", "no messages"):
            assert "ValueError" in found[name][0], name
        assert "DistBackendError" in found["barrier"][0]
    assert "rank(s) 1 failed" in zero["barrier"][1]
    assert np.array_equal(one["into a view"], np.pad(np.ones((2, 2)), 1))
    assert "RuntimeError" in one["too long"][0] and "test_messages.py:" in one["too long"][1]
    assert "4 bytes" in one["too short"][1] and "8 bytes" in one["too short"][1]
    assert one["pending"] == [["default", "irecv(from 2, float32[2])", True]]
    assert "was not done after 0.05" in one["in time"][1]
    assert one["completed"] is False and set(one["two"]) == {3.0}


@needs_mpi
def test_groups_and_meshes():
    results = run(__file__, "groups", 3)
    for rank, found in enumerate(results):
        assert set(found["sum"]) == ({2.0} if rank != 1 else {1.0})
        assert found["given order"] == 2 - rank and found["subgroups"] == [1, 3]
        assert found["split"] == (2 if rank < 2 else 1)
        assert found["mesh"] == [3.0, rank, [0, rank], 1] and found["flat"] == [3, rank]
        assert found["text"] == (
            "DeviceMesh('cpu', [[0, 1, 2]], mesh_dim_names=('outer', 'inner'))"
        )
        for name, kind in {
            "twice": "ValueError", "no rank": "ValueError", "uneven": "ValueError",
            "overlap": "ValueError", "big mesh": "RuntimeError", "names": "RuntimeError",
            "no dim": "KeyError", "cuda": "RuntimeError",
        }.items():  # fmt: skip
            assert found[name] is not None and kind in found[name][0], name
    assert results[0]["broadcast"] == 2 and results[2]["sender"] == 0
    assert results[0]["place"] == [0, 2] and results[2]["place"] == [1, 2]
    assert results[0]["ranks"] == [0, 2] and results[0]["places"] == [1, 2]
    assert results[1]["outside"] and results[1]["place"] == [-1, -1]
    assert results[1]["local"] == results[2]["local"] == 2


@needs_mpi
def test_objects_and_coalesced_collectives():
    results = run(__file__, "objects", 2)
    for rank, found in enumerate(results):
        assert found["gathered"] == [0, 1] and found["keys"] and set(found["tensor"]) == {1.0}
        assert found["broadcast"] == ["x", 1, "raw"] and found["own"] == f"for {rank}"
        assert "TypeError" in found["refused"][0] and "allow_pickle" in found["refused"][1]
        assert found["pickled"] == [0, 1] and found["many"] == [1.0, 1.0, 1.0]
        assert found["lists"] == [[0.0, 10.0], [1.0, 11.0]]
        assert found["managed"] == [3, [2.0, 2.0, 2.0]]
    assert results[0]["at 0"] == [[0, 0.0], [1, 1.0]] and results[1]["at 0"] is None
    assert results[1]["sender"] == 0 and results[1]["end"] == "end"
    assert np.array_equal(results[1]["array"], np.arange(3))


def test_objects_come_back_as_they_were():
    values = [
        None, True, 3, 2.5, float("inf"), "ä", b"\x00\xff", 1 + 2j, (1, [2]), {1: "a"}, {"$": 1},
        {"a": (1,)}, {1, 2}, frozenset({3}), torch.Size([2, 3]), torch.bfloat16,
    ]  # fmt: skip
    for value in values:
        back = _objects.decode("x", _objects.encode("x", value))
        assert back == value and type(back) is type(value)
    for x in (torch.ones(2, 0), torch.tensor(3), torch.ones(2, 3).t().bfloat16()):
        back = _objects.decode("x", _objects.encode("x", x))
        assert back.dtype is x.dtype and back.shape == x.shape and torch.equal(back, x)


def test_a_pickle_is_refused_by_the_receiver_too():
    dist.allow_pickle()
    try:
        message = _objects.encode("x", Opaque(3))
    finally:
        dist.allow_pickle(False)
    with pytest.raises(TypeError, match="trusted"):
        _objects.decode("x", message)


# -- stores ---------------------------------------------------------------------------------


def stores(tmp_path):
    yield dist.HashStore()
    yield dist.FileStore(str(tmp_path / "store"), 1)
    yield dist.PrefixStore("deep", dist.PrefixStore("er", dist.HashStore()))
    store = dist.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=20))
    yield store
    store.close()


def test_stores_answer_alike(tmp_path):
    for store in stores(tmp_path):
        store.set_timeout(timedelta(seconds=0.2))
        store.set("a", "1")
        assert store.get("a") == b"1" and store.add("n", 5) == 5 and store.add("n", -2) == 3
        assert store.check(["a", "n"]) and not store.check(["a", "b"])
        store.append("a", b"\xff")
        assert store.multi_get(["a", "n"]) == [b"1\xff", b"3"]
        assert store.compare_set("c", "", "x") == b"x" and store.compare_set("c", "y", "z") == b"x"
        assert store.compare_set("c", "x", "z") == b"z" and store.compare_set("d", "x", "z") == b"x"
        assert store.delete_key("a") and not store.delete_key("a")
        assert {"n", "c"} <= set(store.list_keys()) and store.num_keys() >= 2
        store.queue_push("q", "1")
        store.queue_push("q", "2")
        assert store.queue_len("q") == 2 and store.queue_pop("q") == b"1"
        assert store.queue_pop("q") == b"2"
        with pytest.raises(dist.QueueEmptyError):
            store.queue_pop("q", block=False)
        with pytest.raises(dist.DistStoreError, match="keys: none"):
            store.get("none")
        with pytest.raises(RuntimeError):
            store.wait(["none"], timedelta(seconds=0.05))


def test_a_store_over_a_network_waits_for_keys():
    first = dist.TCPStore("127.0.0.1", 0, None, True)
    program = (
        "import sys; import wend.distributed as d\n"
        f"s = d.TCPStore('127.0.0.1', {first.port})\n"
        "s.set('from', 'child'); print(s.get('to').decode()); s.barrier('b', 2)"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert first.get("from") == b"child"
        first.set("to", "you")
        first.barrier("b", 2)
        assert child.communicate(timeout=60)[0].split() == ["you"]
    finally:
        child.kill()
        first.close()
    with pytest.raises(dist.DistNetworkError, match="nobody listens"):
        dist.TCPStore("127.0.0.1", first.port, timeout=timedelta(seconds=0.2))
    with pytest.raises(dist.DistNetworkError, match="cannot listen at ::1"):
        dist.TCPStore("::1", 0, 1, True)


def test_threads_share_a_store():
    store = dist.HashStore()
    threads = [threading.Thread(target=lambda: store.add("n", 1)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("n") == b"8"


# -- who a process is ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "rank", "size", "env", "want"),
    [
        (None, -1, -1, {}, (None, None, False)),
        ("env://", -1, -1, {"RANK": "1", "WORLD_SIZE": "3"}, (1, 3, False)),
        ("tcp://h:1?rank=2&world_size=4", -1, -1, {}, (2, 4, False)),
        ("file:///tmp/x", 0, 2, {}, (0, 2, False)),
        (None, 1, 2, {"RANK": "0", "WORLD_SIZE": "9"}, (1, 2, False)),
        (None, -1, -1, {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, (3, 8, True)),
        (None, -1, -1, {"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (5, 6, False)),
        ("tcp://h:1", -1, -1, {"PMI_RANK": "0", "PMI_SIZE": "2"}, (0, 2, True)),
    ],
)
def test_places(url, rank, size, env, want):
    place = asked_for(url, rank, size, env)
    assert (place.rank, place.size, place.by_mpi) == want


@pytest.mark.parametrize(
    ("url", "rank", "size", "env", "text"),
    [
        ("ftp://x", -1, -1, {}, "No rendezvous handler"),
        ("tcp://h:1", -1, 2, {}, "rank parameter missing"),
        ("file:///x", 0, -1, {}, "world_size parameter missing"),
        (None, 3, 2, {}, "ranks go from 0 to 1"),
        (None, -1, -1, {"RANK": "x", "WORLD_SIZE": "2"}, "no number"),
    ],
)
def test_wrong_places(url, rank, size, env, text):
    with pytest.raises(ValueError, match=text):
        asked_for(url, rank, size, env)


def test_wrong_beginnings():
    for given, kind, text in [
        ({"backend": "smoke"}, ValueError, "unknown backend"),
        ({"backend": 3}, TypeError, "must be a string"),
        ({"timeout": 5}, TypeError, "timedelta"),
        ({"store": dist.HashStore()}, ValueError, "world_size must be positive"),
        ({"store": dist.HashStore(), "init_method": "env://"}, ValueError, "both"),
    ]:
        with pytest.raises(kind, match=text):
            dist.init_process_group(**given)
        assert not dist.is_initialized()
