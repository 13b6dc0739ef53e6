"""DistributedDataParallel: several ranks compute as one process does on all of the data."""

import json
from pathlib import Path

import numpy as np
import pytest
import random_paths
import ranks
import replicas

EXAMPLE = Path(__file__).parents[2] / "examples" / "distributed.py"
pytestmark = pytest.mark.skipif(bool(ranks.missing()), reason=ranks.missing() or "can run")


def in_ranks(names):
    """Train all cases in this rank."""
    import wend.distributed as dist
    from wend.nn.parallel import DistributedDataParallel

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {}
    for name in names:
        made = []

        def wrap(module, made=made):
            made.append(DistributedDataParallel(module, bucket_cap_mb=0.001))
            return made[0]

        found[name] = replicas.train(name, size, rank, wrap)
        found[name]["counters"] = made[0]._get_ddp_logging_data()
    return found


def close(found, expected, case):
    """Assert that arrays by name are equal to 1e-6; None is equal to None alone."""
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, (case, name)
        else:
            what = f"{case}: {name}"
            np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_equal_to_one_process(n):
    names = list(replicas.CASES)
    results = ranks.run(__file__, "in_ranks", n, names, timeout=120.0)
    for name in names:
        expected = replicas.train(name, n)
        for found in results:
            close(found[name]["parameters"], expected["parameters"], name)
            close(found[name]["gradients"], expected["gradients"], name)
            assert found[name]["counters"]["rounds"] > 0


@pytest.mark.parametrize(("n", "first", "count"), [(2, 0, 12), (3, 100, 12)])
def test_ranks_take_random_paths(n, first, count):
    assert random_paths.check(first, count, n, timeout=120.0) == []


def test_the_example_has_the_losses_of_one_process(tmp_path):
    found = []
    for n in (1, 2):
        path = tmp_path / f"{n}.json"
        options = ("--epochs", 2, "--limit", 140, "--modules", 20, "--metrics", path)
        done = ranks.start("-m", None, n, "wend", "run", EXAMPLE, *options, timeout=120.0)
        assert done.code == 0, done.output
        found.append(json.loads(path.read_text()))
    alone, together = found
    for task in ("digits", "trees"):
        assert len(alone[task]["losses"]) == 4
        np.testing.assert_allclose(together[task]["losses"], alone[task]["losses"], rtol=1e-6)
        assert together[task]["accuracy"] == pytest.approx(alone[task]["accuracy"], abs=0.02)
