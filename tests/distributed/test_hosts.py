"""Ranks on two machines without MPI: sockets, a shared secret, TLS, and ends that are told.

The machines are network namespaces with a cable between, and have processes and names of their own.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import wend
from wend.distributed.launcher import _doors

SECRET = "a secret of both machines"
#: A folder of the path that has neither mpirun nor mpi4py.
NO_MPI = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "mpi4py":
            raise ImportError("there is no mpi4py here")

sys.meta_path.insert(0, Blocked())
"""


def without_mpi(folder, **more):
    """An environment in which nothing of MPI is found."""
    blocking = folder / "blocking"
    blocking.mkdir(exist_ok=True)
    (blocking / "sitecustomize.py").write_text(NO_MPI)
    bare = folder / "bin"
    bare.mkdir(exist_ok=True)
    for name in ("sh", "ip", "unshare", "hostname"):
        path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if path is not None and not (bare / name).exists():
            (bare / name).symlink_to(path)
    assert shutil.which("mpirun", path=str(bare)) is None
    places = [blocking, Path(wend.__file__).parents[1]]
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI", "PMI", "SLURM"))},
        "PATH": str(bare),
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "OMP_NUM_THREADS": "1",
        **more,
    }


def started(folder, command, **more):
    return subprocess.Popen(
        command,
        cwd=folder,
        env=without_mpi(folder, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process, timeout=120):
    """(status, stdout, stderr) of a process."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"no end in time:\n{out}\n{err}") from None
    return process.returncode, out, err


LAUNCH = [sys.executable, "-m", "wend", "launch"]


class Hosts:
    """Two machines, 10.79.0.1 and 10.79.0.2."""

    def __init__(self, folder):
        self.folder = folder
        self.names = [f"wend{os.getpid()}{x}" for x in "cd"]
        self.cables = [f"w{os.getpid()}{x}" for x in "cd"]
        self.running = []

    def build(self):
        for name in self.names:
            done = self.ip("netns", "add", name)
            if done.returncode:
                pytest.skip(f"network namespaces are not permitted here: {done.stderr.strip()}")
        self.ip("link", "add", self.cables[0], "type", "veth", "peer", "name", self.cables[1])
        for k, (name, cable) in enumerate(zip(self.names, self.cables, strict=True)):
            self.ip("link", "set", cable, "netns", name)
            self.ip("-n", name, "addr", "add", f"10.79.0.{k + 1}/24", "dev", cable)
            self.ip("-n", name, "link", "set", cable, "up")
            self.ip("-n", name, "link", "set", "lo", "up")
        if subprocess.run(self.on(1, "true"), capture_output=True, check=False).returncode:
            pytest.skip("namespaces of processes are not permitted here")

    def ip(self, *words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)

    def on(self, number, command):
        """A shell command on a machine; its end is the end of all its processes."""
        space = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        name = ("first", "second")[number]
        return ["ip", "netns", "exec", self.names[number], *space, "sh", "-c"] + [
            f"hostname {name}; {command}"
        ]

    def launch(self, number, *flags, **more):
        """Start the launcher of a machine."""
        words = [*LAUNCH, "--nnodes", 2, "--nproc-per-node", 2, "--master-addr", "10.79.0.1"]
        words += ["--node-rank", number, *flags]
        command = self.on(number, "exec " + " ".join(map(str, words)))
        process = started(self.folder, command, **{"WEND_TOKEN": SECRET, **more})
        self.running.append(process)
        return process

    def cut(self):
        """Take the cable out."""
        self.ip("-n", self.names[0], "link", "set", self.cables[0], "down")

    def end(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.communicate()
        for name in self.names:
            self.ip("netns", "del", name)


@pytest.fixture
def hosts(tmp_path):
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need the programs ip and unshare")
    both = Hosts(tmp_path)
    try:
        both.build()
        yield both
    finally:
        both.end()


@pytest.fixture
def certificates(tmp_path):
    """Flags of a certificate that both machines have, and of a certificate of somebody else."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made by the program openssl")
    flags = []
    for name in ("ours", "theirs"):
        cert, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        files = ["-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}"]
        words = ["openssl", "req", "-x509", *kind, *files]
        subprocess.run(words, check=True, capture_output=True)
        flags.append(["--tls-cert", cert, "--tls-key", key])
    return flags


TRAINING = """
    import os, sys, torch, torch.distributed as dist

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    net, x, y = net.double(), torch.randn(12, 4).double(), torch.randn(12, 1).double()
    rank, size, model = 0, 1, net
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        rank, size = dist.get_rank(), dist.get_world_size()
        model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1e-4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for step in range(6):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[rank::size]), y[rank::size]).backward()
        optimizer.step()
    if rank == size - 1:
        torch.save(net.state_dict(), sys.argv[1])
    if size > 1:
        dist.destroy_process_group()
"""


def train(folder, name="alone.pt"):
    """The parameters after training in a single process."""
    (folder / "program.py").write_text(textwrap.dedent(TRAINING))
    command = [sys.executable, "-m", "wend", "run", "program.py", name]
    status, _, err = ended(started(folder, command))
    assert status == 0, err
    return wend.load(folder / name)


def assert_same(folder, name, expected):
    found = wend.load(folder / name)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key].numpy(), value.numpy(), rtol=1e-12, err_msg=key)


def test_training_without_mpi_equals_that_of_a_process(tmp_path):
    expected = train(tmp_path)
    flags = ["--nproc-per-node", "3", "program.py", "ranks.pt"]
    status, _, err = ended(started(tmp_path, [*LAUNCH, *flags]))
    assert status == 0 and err == "", err
    assert_same(tmp_path, "ranks.pt", expected)


@pytest.mark.parametrize("by_tls", [False, True])
def test_training_on_two_machines_equals_that_of_a_process(tmp_path, hosts, certificates, by_tls):
    expected = train(tmp_path)
    flags = certificates[0] if by_tls else []
    both = [hosts.launch(k, *flags, "program.py", "hosts.pt") for k in (1, 0)]
    for status, _, err in map(ended, both):
        assert status == 0 and err == "", err
    assert_same(tmp_path, "hosts.pt", expected)


WAITING = """
    import os, signal, sys, time, torch, torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    x = torch.ones(4)
    dist.all_reduce(x)
    print("together", flush=True)
    dist.barrier()
    if rank == 3 and sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 3 and sys.argv[1] == "raise":
        raise ValueError("a far fault")
    while True:
        dist.all_reduce(x)
        time.sleep(0.05)
"""


@pytest.mark.parametrize("way", ["kill", "raise"])
def test_a_rank_that_fails_far_away_is_told_on_both_machines(tmp_path, hosts, way):
    (tmp_path / "program.py").write_text(textwrap.dedent(WAITING))
    both = [hosts.launch(k, "program.py", way) for k in (1, 0)]
    for status, out, err in map(ended, both):
        assert status == (137 if way == "kill" else 1), err
        assert out == "together\n" * 2
        assert re.findall(r"^wend launch: rank (\d) \(process \d+ on (\w+)\)", err, re.M) == [
            ("3", "second")
        ], err
        words = "was killed by SIGKILL" if way == "kill" else "failed at program.py:13"
        assert words in err and ("ValueError: a far fault" in err) == (way == "raise")


LOSING = """
    import os, torch, torch.distributed as dist

    dist.init_process_group("gloo")
    x = torch.ones(1)
    dist.all_reduce(x)
    print("together", flush=True)
    if os.environ["RANK"] == "3":
        os._exit(7)
    while x > 3:
        x = torch.ones(1)
        dist.all_reduce(x)
    print(float(x), dist.get_rank(), dist.get_world_size(), flush=True)
"""


def test_ranks_of_both_machines_go_on_without_a_lost_rank(tmp_path, hosts):
    (tmp_path / "program.py").write_text(textwrap.dedent(LOSING))
    both = [hosts.launch(k, "--elastic", "program.py") for k in (1, 0)]
    told = []
    for status, out, err in map(ended, both):
        assert status == 0 and "3 ranks go on" in err, err
        told += [line for line in out.splitlines() if line != "together"]
    assert sorted(told) == ["3.0 0 3", "3.0 1 3", "3.0 2 3"]


def test_a_machine_that_falls_silent_is_told(tmp_path, hosts):
    """The cable is out: no end of a connection comes, and the kernel's looks tell of the loss."""
    (tmp_path / "program.py").write_text(textwrap.dedent(WAITING))
    other, own = [hosts.launch(k, "program.py", "go") for k in (1, 0)]
    assert own.stdout.readline() == "together\n"
    hosts.cut()
    status, _, err = ended(own)
    assert status == 1, err
    assert re.search(
        r"rank [23] \(process \d+ on second\) is lost|machine 1 \(second\) is lost", err
    )
    status, _, err = ended(other)
    assert status == 1 and "machine 0 is lost" in err, err


def test_a_launcher_that_is_killed_is_told(tmp_path, hosts):
    (tmp_path / "program.py").write_text(textwrap.dedent(WAITING))
    other, own = [hosts.launch(k, "program.py", "go") for k in (1, 0)]
    assert own.stdout.readline() == "together\n"
    other.kill()  # with all processes of the machine
    status, _, err = ended(own)
    assert status == 1, err
    assert re.search(r"on second\) is lost|machine 1 \(second\) is lost", err)


def test_who_does_not_know_the_secret_is_refused(tmp_path, hosts):
    (tmp_path / "program.py").write_text("")
    own = hosts.launch(0, "--join-timeout", 4, "program.py")
    other = hosts.launch(1, "program.py", WEND_TOKEN="another secret of somebody")
    status, _, err = ended(other)
    assert status == 2, err
    assert "the process at 10.79.0.1:29500 has another token; set WEND_TOKEN alike" in err
    status, _, err = ended(own)
    assert status == 2, err
    assert "machine 1 has not come to 10.79.0.1:29500" in err
    assert "10.79.0.2 called with another secret or certificate" in err


def test_who_has_another_certificate_is_refused(tmp_path, hosts, certificates):
    (tmp_path / "program.py").write_text("")
    ours, theirs = certificates
    own = hosts.launch(0, "--join-timeout", 4, *ours, "program.py")
    status, _, err = ended(hosts.launch(1, *theirs, "program.py"))
    assert status == 2 and "does not agree on TLS: self-signed certificate" in err, err
    status, _, err = ended(own)
    assert status == 2 and "10.79.0.2 called with another secret or certificate" in err, err


def test_launchers_that_differ_are_refused(tmp_path, hosts):
    (tmp_path / "program.py").write_text("")
    own = hosts.launch(0, "--join-timeout", 4, "program.py")
    status, _, err = ended(hosts.launch(1, "--nproc-per-node", 3, "program.py"))
    assert status == 2, err
    assert "has --nnodes 2 --nproc-per-node 3, and machine 0 has 2 and 2; pass the same" in err
    assert ended(own)[0] == 2


@pytest.mark.parametrize(
    ("secret", "fault"),
    [("", "several machines need a shared secret"), ("short", "WEND_TOKEN: 5 letters can be")],
)
def test_several_machines_need_a_secret(tmp_path, secret, fault):
    place = ["--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1"]
    status, _, err = ended(started(tmp_path, [*LAUNCH, *place, "x.py"], WEND_TOKEN=secret))
    assert status == 2 and fault in err and "openssl rand -hex 32" in err


def test_a_secret_in_a_file(tmp_path):
    """Also machines without numbers: the owner of the address is machine 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    (tmp_path / "secret").write_text(SECRET + "\n")
    (tmp_path / "program.py").write_text("import os; print(os.environ['GROUP_RANK'])")
    place = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint]
    flags = [*place, "--token-file", "secret", "--node-rank"]
    both = [started(tmp_path, [*LAUNCH, *flags, str(k), "program.py"]) for k in (0, 1)]
    assert [ended(process) for process in both] == [(0, "0\n", ""), (0, "1\n", "")]


# -- doors, in this process ------------------------------------------------------------------------


@pytest.fixture
def door():
    one = _doors.Door(socket.create_server(("127.0.0.1", 0)), b"a token", None)
    yield one
    one.close()


def enter(door, token=b"a token", tls=None):
    return _doors.enter(door.listener.getsockname(), token, tls, "TOKEN", 5.0)


def test_strangers_keep_nobody_waiting(door, monkeypatch):
    """A half-open connection, one that says nonsense, and a crowd that says nothing."""
    place = door.listener.getsockname()
    silent = [socket.create_connection(place) for _ in range(9)]
    silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
    begun = time.monotonic()
    link = enter(door)
    assert time.monotonic() - begun < 5
    inside = door.guest()
    link.sendall(b"hello")
    assert _doors.receive_exactly(inside, 5) == b"hello"
    for end in (*silent, link, inside):
        end.close()


def test_a_slow_stranger_has_some_seconds_in_all():
    """A byte now and then does not prolong the time."""
    ours, theirs = socket.socketpair()
    stop = threading.Event()

    def drip():
        while not stop.wait(0.1):
            theirs.send(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        _doors.greet(ours, b"a token", seconds=0.5)
    assert time.monotonic() - begun < 4
    stop.set()
    thread.join()
    ours.close()
    theirs.close()


def test_a_crowd_of_strangers_is_bounded(door, monkeypatch):
    monkeypatch.setattr(_doors, "GREETING_SECONDS", 1.0)
    place = door.listener.getsockname()
    before = threading.active_count()
    crowd = [socket.create_connection(place) for _ in range(_doors._MOST_STRANGERS + 30)]
    time.sleep(0.3)
    assert threading.active_count() - before <= _doors._MOST_STRANGERS
    for end in crowd:
        end.close()
    enter(door).close()


def test_a_token_for_a_purpose_fits_no_other(door):
    with pytest.raises(_doors.RefusedError, match="has another token; set TOKEN alike"):
        enter(door, _doors.key_of(b"a token", "machines"))
    assert _doors.key_of(b"a token", "store") != _doors.key_of(b"a token", "machines")


def test_tls_carries_both_directions_at_once(tmp_path, certificates):
    flags = certificates[0]
    files = _doors.TlsFiles(str(flags[1]), str(flags[3]), str(flags[1]))
    door = _doors.Door(socket.create_server(("127.0.0.1", 0)), b"a token", files)
    link = enter(door, tls=files)
    inside = door.guest()
    data = np.random.default_rng(0).bytes(3_000_000)

    def send(end):
        for k in range(0, len(data), 100_000):
            end.sendall(data[k : k + 100_000])

    threads = [threading.Thread(target=send, args=(end,)) for end in (link, inside)]
    for thread in threads:
        thread.start()
    for end in (link, inside):
        assert _doors.receive_exactly(end, len(data)) == data
    for thread in threads:
        thread.join()
    link.shutdown(socket.SHUT_WR)
    assert inside.recv(9) == b""
    for end in (link, inside, door):
        end.close()


def test_nothing_can_be_read_on_the_way_with_tls(tmp_path, certificates):
    flags = certificates[0]
    files = _doors.TlsFiles(str(flags[1]), str(flags[3]), str(flags[1]))
    door = _doors.Door(socket.create_server(("127.0.0.1", 0)), b"a token", files)
    with pytest.raises(TimeoutError, match="has TLS on there, unlike here"):
        _doors.enter(door.listener.getsockname(), b"a token", None, "TOKEN", 1.0)
    link = enter(door, tls=files)
    seen = []
    send = link.end.sendall

    class Tapped:
        def sendall(self, data):
            seen.append(bytes(data))
            send(data)

    raw, link.end = link.end, Tapped()
    link.sendall(b"a plain word")
    assert _doors.receive_exactly(door.guest(), 12) == b"a plain word"
    assert seen and b"plain" not in b"".join(seen)
    raw.close()
    door.close()
