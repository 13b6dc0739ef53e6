"""Stores over a network: a token keeps strangers out, and frames are bounded."""

import json
import socket
import struct
import threading
import time
import tracemalloc
from datetime import timedelta

import pytest

import wend.distributed as dist
from wend.distributed._stores import network as stores
from wend.distributed._wire._faults import DistNetworkError, DistStoreError, StoreRefused
from wend.distributed.launcher import _doors

SOON = timedelta(seconds=10)


@pytest.fixture
def keeper(monkeypatch):
    """A store that asks for a token, which processes of this test have."""
    monkeypatch.setenv(stores.TOKEN, "a secret")
    store = dist.TCPStore("127.0.0.1", 0, None, True, SOON)
    store.set("key", "value")
    yield store
    store.close()


def join(keeper):
    return dist.TCPStore("127.0.0.1", keeper.port, timeout=SOON)


def plain(port):
    """A connection of a stranger."""
    link = socket.create_connection(("127.0.0.1", port))
    link.settimeout(10)
    return link


def ends_the_connection(keeper, data):
    """Send a frame, see the connection end, and the store answer others."""
    store = join(keeper)
    with store._link as link:
        link.settimeout(10)
        link.sendall(struct.pack("!Q", len(data)) + data)
        assert link.recv(1) == b""
    assert keeper.get("key") == b"value"


def test_processes_of_one_token_share_a_store(keeper):
    other = join(keeper)
    assert other.get("key") == b"value"
    other.close()


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("another secret", "has another token"),
        (None, "asks for a token, and this process has none"),
    ],
)
def test_a_process_without_the_token_is_refused_at_once(keeper, monkeypatch, token, words):
    if token is None:
        monkeypatch.delenv(stores.TOKEN)
    else:
        monkeypatch.setenv(stores.TOKEN, token)
    begun = time.monotonic()
    with pytest.raises(StoreRefused, match=f"{words}.*set WEND_STORE_TOKEN alike") as caught:
        join(keeper)
    assert isinstance(caught.value, DistNetworkError) and time.monotonic() - begun < 8


def test_a_token_is_not_told_to_a_store_that_has_none(monkeypatch):
    monkeypatch.delenv(stores.TOKEN, raising=False)
    keeper = dist.TCPStore("127.0.0.1", 0, None, True, SOON)
    try:
        monkeypatch.setenv(stores.TOKEN, "a secret")
        with pytest.raises(StoreRefused, match="has no token, and this process has one"):
            join(keeper)
    finally:
        keeper.close()


def test_who_skips_the_greeting_gets_no_answer(keeper):
    """A process that has no token, and sends a request all the same."""
    with plain(keeper.port) as link:
        head = stores.receive_exactly(link, 25)
        assert head.startswith(b"WENDSTO1\x01")
        request = json.dumps(["get", ["key"]]).encode()
        link.sendall(bytes(49) + struct.pack("!Q", len(request)) + request)
        try:
            while part := link.recv(4096):
                assert b"value" not in part
        except ConnectionResetError:  # it ends with the request unread
            pass


def test_an_answer_of_another_run_proves_nothing(keeper):
    """What a process with the token has said is of no use to who has listened."""
    said = []
    with plain(keeper.port) as first:
        head = stores.receive_exactly(first, 25)
        own = b"n" * 16
        said = b"\x01" + own + _doors.proof(b"a secret", b"joins", head[9:], own)
        first.sendall(said)
        assert stores.receive_exactly(first, 33)[0] == 1
    with plain(keeper.port) as second:
        stores.receive_exactly(second, 25)
        second.sendall(said)
        assert stores.receive_exactly(second, 33)[0] == 0


def test_something_else_that_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(
            target=lambda: server.accept()[0].sendall(b"HTTP/1.1 400 Bad Request" * 9), daemon=True
        ).start()
        with pytest.raises(StoreRefused, match="is no store of Wend's"):
            dist.TCPStore("127.0.0.1", server.getsockname()[1], timeout=SOON)


@pytest.mark.parametrize("length", [stores.MOST_FRAME + 1, 1 << 40, (1 << 64) - 1])
def test_a_frame_of_great_length_takes_no_memory(length):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(struct.pack("!Q", length))
        tracemalloc.start()
        with pytest.raises(ConnectionError, match=f"a frame of {length} bytes"):
            stores.receive_frame(ours)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_a_value_that_no_frame_holds_is_refused_here(keeper, monkeypatch):
    monkeypatch.setattr(stores, "MOST_FRAME", 1000)
    with pytest.raises(DistStoreError, match=r"of 1\d+ bytes, and 1000 are the most"):
        keeper.set("key", "x" * 1000)
    assert keeper.get("key") == b"value"


@pytest.mark.parametrize(
    "request_",
    [
        ["no such operation", []],
        ["get", ["no such key"]],
        ["get", []],
        ["add", ["key", "x"]],
        ["hold", []],
        ["hold", [[], 1]],
        "text",
        3,
        None,
        [],
        {"$": 3},
        {"$": "\u2603"},
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_is_no_request_ends_its_connection_alone(keeper, request_):
    ends_the_connection(keeper, json.dumps(request_).encode())


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff", b"{"])
def test_what_is_no_json_ends_its_connection_alone(keeper, data):
    ends_the_connection(keeper, data)


def shown(args):
    """The token of this process, and whether a store can be joined."""
    import os

    return os.environ.get("WEND_STORE_TOKEN", "")


def test_elastic_launch_gives_its_processes_a_token(monkeypatch):
    from wend.distributed.launcher.api import LaunchConfig, elastic_launch

    monkeypatch.delenv(stores.TOKEN, raising=False)
    found = elastic_launch(LaunchConfig(1, 1, 2), shown)(None)
    assert found[0] == found[1] and len(found[0]) == 64
    monkeypatch.setenv(stores.TOKEN, "mine")
    assert set(elastic_launch(LaunchConfig(1, 1, 2), shown)(None).values()) == {"mine"}
