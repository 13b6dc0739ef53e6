"""Processes that meet by a store: after a restart, beside an earlier run, with a lost process."""

import json
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta

import pytest
from ranks import environment

from wend.distributed import FileStore, HashStore, PrefixStore, TCPStore
from wend.distributed._sockets import meeting
from wend.distributed._sockets.mesh import connect
from wend.distributed._stores.network import own_token
from wend.distributed._wire._faults import DistNetworkError
from wend.distributed.launcher import _doors

FEW = timedelta(seconds=20)


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_threads(*calls):
    """The results of calls, made at once; an error instead of a result."""
    found = [None] * len(calls)

    def run(k):
        try:
            found[k] = calls[k]()
        except Exception as error:
            found[k] = error

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), found
    return found


def test_processes_tell_of_themselves_and_rank_0_of_all(port):
    def rank(number):
        store = TCPStore("127.0.0.1", port, 3, number == 0, FEW, wait_for_workers=False)
        return meeting._meet(store, 0, number, 3, FEW)

    meshes = in_threads(*[lambda k=k: rank(k) for k in range(3)])
    assert [sorted(mesh.links) for mesh in meshes] == [[1, 2], [0, 2], [0, 1]]
    for mesh in meshes:
        mesh.close()


@pytest.mark.parametrize("kind", ["file", "hash", "prefix"])
def test_a_store_of_an_earlier_run_is_refused(kind, tmp_path):
    store = {
        "file": lambda: FileStore(str(tmp_path / "store"), 2),
        "hash": HashStore,
        "prefix": lambda: PrefixStore("run", HashStore()),
    }[kind]()
    rows = [["127.0.0.1", 9, "a"], ["127.0.0.1", 9, "b"]]
    store.set("wend/0/world", json.dumps(["token", rows]))
    with pytest.raises(DistNetworkError, match="rank 1: the processes of another run have met"):
        meeting._meet(store, 0, 1, 2, FEW)


def test_keys_that_are_held_go_with_the_process(port):
    keeper = TCPStore("127.0.0.1", port, None, True)
    first, second = (TCPStore("127.0.0.1", port) for _ in range(2))
    first.hold("mine", "1")
    first.hold("ours", "1")
    second.set("ours", "2")
    assert keeper.get("mine") == b"1"
    first.close()
    end = time.monotonic() + 10
    while keeper.check(["mine"]) and time.monotonic() < end:
        time.sleep(0.01)
    assert not keeper.check(["mine"]) and keeper.get("ours") == b"2"
    second.close()
    keeper.close()


def test_a_process_that_ends_meanwhile_ends_the_wait():
    """Rank 0 has rank 1, and waits for rank 2."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        places = {0: place, 1: place, 2: place}

        def lose():
            key = _doors.key_of(own_token(), "token")
            link = _doors.enter(place, key, None, "a token", 10.0)
            link.sendall((1).to_bytes(8, "big"))
            time.sleep(0.2)
            link.close()

        begun = time.monotonic()
        error, _ = in_threads(lambda: connect(0, listener, places, "token", 30.0), lose)
        assert isinstance(error, DistNetworkError) and time.monotonic() - begun < 20
        assert "no connection with ranks [2]" in str(error)


PROGRAM = """
    import os, sys, time
    import wend as torch, wend.distributed as dist
    from datetime import timedelta

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    total = torch.ones(1)
    dist.all_reduce(total)
    print("met", float(total), flush=True)
    if "stay" in sys.argv:
        time.sleep(float(sys.argv[2]))
    os._exit(0)
"""


def begin(rank, port, *arguments):
    code = textwrap.dedent(PROGRAM)
    place = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    place["TORCHELASTIC_MAX_RESTARTS"] = 1  # as of a launcher that starts processes again
    env = environment(**{name: str(value) for name, value in place.items()})
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=env, text=True, stdout=subprocess.PIPE
    )


def test_a_process_that_starts_again_waits_for_the_next_run(port):
    """Rank 1 is back while rank 0 of the run before still lives, and keeps the old store."""
    running = [begin(0, port, "stay", "4"), begin(1, port)]
    try:
        assert running[1].communicate(timeout=60)[0] == "met 2.0\n"
        assert running[0].stdout.readline() == "met 2.0\n"
        running.append(begin(1, port))  # finds the old store
        assert running[0].wait(30) == 0
        running.append(begin(0, port))
        for process in running[2:]:
            assert process.communicate(timeout=60)[0] == "met 2.0\n"
    finally:
        for process in running:
            process.kill()
            process.communicate()
