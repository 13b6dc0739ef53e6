"""Gradients of ranks on one machine: sums in shared memory, buckets, and counters of time."""

import threading

import numpy as np
import pytest
import ranks

from wend.distributed._replicas.buckets import LEAST, buckets_of
from wend.distributed._replicas.counters import Counters, Round

needs_ranks = pytest.mark.skipif(bool(ranks.missing()), reason=ranks.missing() or "can run")

TYPES = ("float32", "float64", "int64", "uint8", "int16", "complex64")
SIZES = (1, 7, 300, 4096, 10_001)


def part(rank, kind, size):
    """The numbers of a rank; sums of small integers leave the type's range."""
    rng = np.random.default_rng([rank, size, TYPES.index(kind)])
    scale = 10_000 if kind == "int16" else 10
    return (scale * rng.standard_normal(size)).astype(np.int64).astype(kind)


# -- run by ranks ---------------------------------------------------------------------------


def reduce_all(apart):
    """Reductions of many types and sizes; apart: have ranks believe in several machines."""
    import wend.distributed as dist
    from wend.distributed._group import resolve
    from wend.distributed._replicas import reducer, shared_line
    from wend.distributed._wire._faults import CollectiveMismatch

    shared_line.PIECE, shared_line.SMALL = 4096, 1024
    if apart:
        shared_line.ORDERED = ()
    dist.init_process_group("mpi")
    rank = dist.get_rank()
    channel = reducer.own_channel(resolve(None), "tests")

    def total(x, op, background):
        def call(line):
            out = np.empty_like(x)
            line.all_reduce(x, out, op)
            return out

        return channel.run(("total", op, str(x.dtype), str(x.size)), call, background=background)

    found = {}
    for kind in TYPES:
        for size in SIZES:
            for op in ("sum",) if kind == "complex64" else ("sum", "max", "min", "prod"):
                found[f"{op} {kind} {size}"] = total(part(rank, kind, size), op, False).found
        found[f"bor {kind}"] = total(part(rank, "int64", 9), "bor", False).found
    many = [total(part(rank, "float32", 3000 + k), "sum", True) for k in range(20)]
    for work in many:
        work.wait()
    found["many"] = [work.found for work in many]
    wrong = ""
    try:
        channel.run((f"call {rank % 2}",), lambda line: None)
    except CollectiveMismatch as error:
        wrong = str(error)
    found["wrong"] = wrong
    found["after"] = total(np.ones(3), "sum", True).wait()
    found["line"] = type(channel.line).__name__
    dist.destroy_process_group()
    return found


def count_time():
    """Times of rounds in training, by the counters."""
    import wend as torch
    import wend.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(200, 300))
    for _ in range(3):
        model(torch.ones(4, 200)).sum().backward()
    found = model._get_ddp_logging_data()
    dist.destroy_process_group()
    return found


# -- tests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("by_sockets", [True, pytest.param(False, marks=needs_ranks)])
@pytest.mark.parametrize(("n", "apart"), [(2, False), (4, False), (3, True)])
def test_reductions_equal_those_of_arrays(n, apart, by_sockets):
    results = ranks.run(__file__, "reduce_all", n, apart, by_sockets=by_sockets)
    functions = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
    kinds = (
        ("SharedSocketLine", "SocketTransport") if by_sockets else ("SharedLine", "MpiTransport")
    )
    expected_line = kinds[apart]
    for found in results:
        assert found["line"] == expected_line
        for kind in TYPES:
            for size in SIZES:
                parts = [part(rank, kind, size) for rank in range(n)]
                for op in ("sum",) if kind == "complex64" else functions:
                    whole = parts[0]
                    for other in parts[1:]:
                        whole = functions[op](whole, other)
                    np.testing.assert_array_equal(found[f"{op} {kind} {size}"], whole)
            bits = np.bitwise_or.reduce([part(rank, "int64", 9) for rank in range(n)])
            np.testing.assert_array_equal(found[f"bor {kind}"], bits)
        for k, row in enumerate(found["many"]):
            np.testing.assert_array_equal(
                row, sum(part(rank, "float32", 3000 + k) for rank in range(n))
            )
        assert "rank 0: call 0()" in found["wrong"] and "rank 1: call 1()" in found["wrong"]
        assert found["after"] is True


@needs_ranks
def test_counters_tell_the_time_of_transfers():
    for found in ranks.run(__file__, "count_time", 2):
        assert found["rounds"] == found["num_iterations"] == 3
        assert found["busy"] > 0 and found["late"] >= 0
        assert 0 <= found["visible"] <= found["busy"]
        assert found["visible"] <= found["waited"]
        assert found["backward_comm_time"] > 0
        mean = found["avg_backward_comm_time"]
        assert 0 <= found["avg_backward_compute_comm_overlap_time"] <= mean


def test_times_of_a_round():
    clock = Round()
    clock.owner = 0  # of another thread
    clock.note_move(1.0, 2.0, 4.0)  # the ranks meet a second after the call
    clock.note_move(3.0, 4.5, 6.0)  # the channel is free at 4
    clock.waits.append((5.0, 7.0))
    assert clock.late == 1.5 and clock.busy == 3.5
    assert clock.waited == 2.0 and clock.visible == 1.0
    counters = Counters()
    counters.rounds = 1
    counters.add(clock)
    sums = counters.as_dict()
    assert (sums["busy"], sums["late"], sums["waited"], sums["visible"]) == (3.5, 1.5, 2.0, 1.0)
    assert sums["backward_comm_time"] == 3_500_000_000
    assert sums["backward_compute_comm_overlap_time"] == 2_500_000_000


def test_transfers_by_the_thread_of_the_program_are_waited_for():
    clock = Round()
    assert clock.owner == threading.get_ident()
    clock.note_move(1.0, 2.0, 4.0)
    assert clock.visible == clock.busy == 2.0 and clock.waited == 3.0


def test_small_rests_join_the_bucket_before():
    single, double = np.dtype(np.float32), np.dtype(np.float64)
    full, small = 1 << 15, 1 << 8
    sizes, dtypes = [full, full, 2 * full, small], [single, single, double, single]

    def numbers(most):
        return [[p.number for p in b.places] for b in buckets_of(range(4), sizes, dtypes, 1, most)]

    assert small * single.itemsize < LEAST
    assert numbers(4 * full) == [[0], [2], [1, 3]]  # the joined bucket is complete last
    assert numbers(1) == [[0], [1], [2], [3]]  # all are full
    assert numbers(1 << 30) == [[0], [2], [1, 3]]  # the rest is large enough
    alone = buckets_of([3], sizes, dtypes, 1 << 20, 1 << 20)
    assert [[p.number for p in b.places] for b in alone] == [[3]]
    assert [b.index for b in buckets_of(range(4), sizes, dtypes, 1, 4 * full)] == [0, 1, 2]
