"""A rank is lost, and living ranks go on with the same parameters: `wend launch --elastic`."""

import numpy as np
import pytest
from test_launch import launch

import wend as torch
from wend.distributed._engine import Channel
from wend.distributed._replicas.reducer import Exchange, Reducer
from wend.distributed._sockets import carrier, mesh, rescue
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._wire._transport import number_of
from wend.distributed.algorithms.ddp_comm_hooks import default_hooks

TRAINING = """
    import os, signal, sys, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, TensorDataset
    from torch.utils.data.distributed import DistributedSampler

    if os.environ["RANK"] == "3":
        os.kill(os.getpid(), signal.SIGKILL)  # before the ranks have met
    if os.environ["RANK"] == "4":  # between the meeting and the connections
        from wend.distributed._sockets import meeting

        meeting.connect = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    dist.init_process_group("gloo")
    first = int(os.environ["RANK"])
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
    model = DDP(net, bucket_cap_mb=0.001)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)

    def everywhere_the_same():
        total = sum(p.detach().double().abs().sum() for p in net.parameters()).reshape(1)
        low, high = total.clone(), total.clone()
        dist.all_reduce(low, op=dist.ReduceOp.MIN)
        dist.all_reduce(high, op=dist.ReduceOp.MAX)
        return float(low) == float(high)

    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            if epoch == 1 and first == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            assert everywhere_the_same()
    steps = {int(state["step"]) for state in optimizer.state_dict()["state"].values()}
    print(first, dist.get_rank(), dist.get_world_size(), len(loader), steps, flush=True)
    dist.destroy_process_group()
"""


def test_training_goes_on_from_the_living_replicas(tmp_path):
    done = launch(
        tmp_path, "--nproc-per-node", 5, "--elastic", "program.py", program=TRAINING, timeout=120
    )
    assert done.status == 0, done.err
    # 3 ranks begin: 2 steps in epoch 0, and 2 in epoch 1; then 2 ranks share the data out: 3 steps
    assert sorted(done.out.splitlines()) == ["1 0 2 3 {7}", "2 1 2 3 {7}"]
    assert "3 ranks go on" in done.err and "2 ranks go on" in done.err


GIVING_UP = """
    import os, signal, torch, torch.distributed as dist

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    out = torch.zeros(2)
    dist.reduce_scatter_tensor(out, torch.ones(2 * size))
    print(os.environ["TORCHELASTIC_RESTART_COUNT"], out.tolist(), flush=True)
"""


def test_what_needs_the_lost_rank_starts_again(tmp_path):
    flags = ["--nproc-per-node", 3, "--elastic", "--max-restarts", 1]
    done = launch(tmp_path, *flags, "program.py", program=GIVING_UP, timeout=120)
    assert done.status == 0, done.err
    assert done.out.splitlines() == ["1 [3.0, 3.0]"] * 3
    assert "start 2 of 2" in done.err


IN_THE_GREETING = """
    import os, signal, torch, torch.distributed as dist
    from wend.distributed._wire._transport import Greeting

    dist.init_process_group("gloo")
    rank, start = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]

    def killed(greeting, *args):  # when the others have called, and wait for this rank
        for other in (1, 2):
            greeting.line._take(other, 0)
        os.kill(os.getpid(), signal.SIGKILL)

    if start == "0" and rank == 0:
        Greeting.agrees = killed
    x = torch.full((3,), 5.0 + rank)
    dist.broadcast(x, src=1)
    print(start, x.tolist(), flush=True)
"""


def test_loss_while_the_calls_are_compared_gives_no_other_values(tmp_path):
    flags = ["--nproc-per-node", 3, "--elastic", "--max-restarts", 1]
    done = launch(tmp_path, *flags, "program.py", program=IN_THE_GREETING, timeout=120)
    assert done.status == 0, done.err
    assert done.out.splitlines() == ["1 [6.0, 6.0, 6.0]"] * 3


class Agreed:
    """The launcher's answer, known before."""

    def __init__(self, rows):
        self.rows = rows

    def meet(self, epoch, row):
        return {"epoch": epoch, "rows": self.rows}

    def give_up(self, text):
        return DistBackendError(text)


def alone(done_there, before=(0, 1, 2)):
    """A line of process 0, of which process 2 is lost, and process 1 has done so many calls."""
    own = mesh.Mesh(0, {})
    agreed = Agreed({"0": {"done": {"w": 0}}, "1": {"done": {"w": done_there}}})
    told = []
    saved = rescue.Rescue(own, before, agreed, lambda *change: told.append(change))
    line = carrier.SocketTransport(own, before, "w", saved)
    own.lost.add(2)
    own.sent = sent = []
    own.send = lambda peer, context, tag, data: sent.append((peer, context, tag, bytes(data)))
    return own, line, told, sent


def arrive(own, key, data):
    with own.changed:
        own._keep(key, data)


def test_a_result_that_another_rank_has_is_taken():
    own, line, told, sent = alone(1)
    result = (3).to_bytes(8, "little") + np.full(2, 5.0).tobytes()
    last = 1 * carrier._STEPS + carrier._LAST
    arrive(own, (line.context(1), last, 1), bytearray(result))
    out = np.zeros(2)
    line.all_reduce(np.ones(2), out, "sum")
    assert out.tolist() == [5.0, 5.0] and line.took_part() == 3 and line.done == 1
    assert told == [((0, 1, 2), (0, 1))] and line.size == 2
    assert {context for _, context, _, _ in sent} == {line.context(0)}  # nothing is sent again


def test_a_call_that_no_rank_has_done_is_done_again():
    own, line, _, sent = alone(0)
    arrive(own, (line.context(0), carrier._STEPS, 1), bytearray(np.full(2, 9.0).tobytes()))
    arrive(own, (line.context(1), carrier._STEPS, 1), bytearray(np.full(2, 2.0).tobytes()))
    out = np.zeros(2)
    line.all_reduce(np.ones(2), out, "sum")
    assert out.tolist() == [3.0, 3.0] and line.took_part() == 2
    assert [peer for peer, context, _, _ in sent if context == line.context(1)] == [1]


def test_a_rank_that_is_ahead_hands_its_result_over():
    _, line, _, sent = alone(0)
    line.done, line.result = 1, (3, np.full(2, 7.0).tobytes())
    line.rescue.meeting.rows = {"0": {"done": {"w": 1}}, "1": {"done": {"w": 0}}}
    line.rescue.recover(0)
    (peer, context, tag, data) = sent[-1]
    assert (peer, context) == (1, line.context(1))
    assert tag == carrier._STEPS + carrier._LAST and data[8:] == np.full(2, 7.0).tobytes()


def test_loss_before_all_have_connections():
    _, line, _, _ = alone(0)
    line.rescue.meeting.rows = {"0": {"done": {"w": 0}}, "1": {"place": ["127.0.0.1", 1]}}
    with pytest.raises(DistBackendError, match="before all had connections"):
        line.all_reduce(np.ones(2), np.zeros(2), "sum")


def test_collectives_that_need_the_lost_rank_are_refused():
    for call, fault in (
        (lambda line: line.broadcast(np.ones(2), 2), "the rank that has the values is lost"),
        (lambda line: line.all_gather(np.ones(1), np.ones(3), [1, 1, 1]), "2 ranks are left"),
        (lambda line: line.gather(np.ones(1), np.ones(3), [1, 1, 1], 0), "a rank is lost"),
    ):
        _, line, _, _ = alone(0)
        with pytest.raises(DistBackendError, match=fault):
            call(line)


def test_root_is_not_counted_anew():
    own, line, _, _ = alone(0)
    channel = Channel(line, "w")
    signature = ("broadcast", "from 1")
    number = number_of(signature)
    pair = np.array([number, -number], np.int64)
    arrive(own, (line.context(1), carrier._STEPS, 1), bytearray(pair.tobytes()))
    with pytest.raises(DistBackendError, match="a rank was lost since the call"):
        channel.now(signature, lambda moving: moving.broadcast(np.ones(2), 1), None)
    assert line.members == (0, 1) and line.called_among is None


def test_group_without_the_lost_rank_takes_part_in_the_agreement():
    own, line, told, _ = alone(0)
    part = line.part([0, 1], 5)
    arrive(own, (part.context(1), carrier._STEPS, 1), bytearray(np.full(2, 2.0).tobytes()))
    out = np.zeros(2)
    part.all_reduce(np.ones(2), out, "sum")
    assert out.tolist() == [3.0, 3.0] and told == [((0, 1, 2), (0, 1))] and line.size == 2


@pytest.mark.parametrize("source", [1, None])
def test_rank_that_waits_for_a_message_takes_part_in_the_agreement(source):
    own, line, told, _ = alone(0)
    agree = line.rescue.meeting.meet

    def meet(epoch, row):
        arrive(own, (line._messages, 4, 1), bytearray(np.full(2, 8.0).tobytes()))
        return agree(epoch, row)

    line.rescue.meeting.meet = meet
    x = np.zeros(2)
    request = line.receive(x, 1, 4) if source == 1 else None
    if request is None:
        assert line._next_source(4) == 1
    else:
        request.wait()
        assert x.tolist() == [8.0, 8.0]
    assert told == [((0, 1, 2), (0, 1))]


def test_message_of_a_lost_rank_is_refused():
    _, line, _, _ = alone(0)
    request = line.receive(np.zeros(2), 2, 4)
    with pytest.raises(DistBackendError, match="rank 2 has ended"):
        request.wait()
    assert line.size == 2


def test_gradients_are_rounded_to_the_type_of_travel():
    own, line, _, _ = alone(0, (0,))
    own.lost.clear()
    reducer = Reducer([torch.nn.Parameter(torch.zeros(3))], Channel(line, "w"), 1000, 1000)
    reducer.use_hook(None, default_hooks.fp16_compress_hook)
    (bucket,) = reducer.layout(np.array([True]))
    pair = np.array([1 / 3, 2.0001, 7.0], np.float32)
    work = reducer.reduce(bucket, [pair], 1, None)
    work.wait()
    assert work.found[:3].tolist() == pair.astype(np.float16).astype(np.float32).tolist()
    assert work.took_part == 1


def test_own_hook_is_refused_after_a_loss():
    _, line, _, _ = alone(0)
    reducer = Reducer([torch.nn.Parameter(torch.zeros(3))], Channel(line, "w"), 1000, 1000)
    reducer.use_hook(None, lambda state, bucket: bucket.buffer())
    line.rescue.recover(0)
    exchange = Exchange.__new__(Exchange)  # without a round, which asks all ranks
    exchange.reducer = reducer
    with pytest.raises(DistBackendError, match="communication hook may count on 3 ranks"):
        exchange.by_hook(np.array([True]))
