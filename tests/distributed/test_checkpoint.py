"""Checkpoints of several ranks: written by some number of ranks, read by another."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ranks

import wend as torch
import wend.distributed.checkpoint as dcp
from wend import nn
from wend.distributed._sharding.ranks import Ranks, ranks_of
from wend.distributed._sharding.shards import Shard, mark, rows_of
from wend.distributed.checkpoint import state_dict as states

in_ranks = pytest.mark.skipif(bool(ranks.missing()), reason=ranks.missing() or "can run")


class Counter:
    """An object with a state."""

    def __init__(self, n=0):
        self.n = n

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


def whole(rows=7):
    return np.arange(rows * 3, dtype="f").reshape(rows, 3)


def part(rank, size, rows=7, fill=None):
    """The rows of a rank, marked as a part."""
    begin, end = rows_of(rows, size, rank)
    array = whole(rows)[begin:end] if fill is None else np.full((end - begin, 3), fill, "f")
    return mark(torch.tensor(array), Shard((rows, 3), begin, ranks_of(None)))


def state_of(rank, size, fill=None):
    """A state with replicated and sharded tensors, values, and an object."""
    same = np.arange(4.0) if fill is None else np.full(4, fill)
    return {
        "sharded": part(rank, size, fill=fill),
        "few": part(rank, size, rows=1, fill=fill),
        "nested": {"same": torch.tensor(same), "list": [torch.tensor(fill or 3), (1, "a")]},
        "step": fill or 12,
        "half": torch.tensor(same).bfloat16(),
        "counter": Counter(fill or 5),
        "nothing": {},
    }


def plain(state):
    return {
        "sharded": state["sharded"].detach(),
        "few": state["few"].detach(),
        "same": state["nested"]["same"],
        "list": state["nested"]["list"][0].item(),
        "pair": list(state["nested"]["list"][1]),
        "step": state["step"],
        "half": state["half"].float(),
        "counter": state["counter"].n,
    }


def write(folder):
    """Save by all ranks: at once, beside the program, and with a rank that fails."""
    import wend.distributed as dist

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    metadata = dcp.save(state_of(rank, size), checkpoint_id=f"{folder}/a")
    found = {"chunks": [list(c.sizes) for c in metadata.state_dict_metadata["sharded"].chunks]}
    found["full"] = part(rank, size).full_tensor()
    state = state_of(rank, size)
    future = dcp.async_save(state, checkpoint_id=f"{folder}/b")
    state["nested"]["same"].zero_()  # the copy is of before
    found["async"] = sorted(future.result().state_dict_metadata)
    for name, bad in (("a", {"x": object() if rank == 1 else 1}), ("c", {"x": object()})):
        try:
            dcp.save(bad, checkpoint_id=f"{folder}/{name}")
        except dcp.CheckpointException as error:
            found[name] = str(error)
    dcp.async_save({"late": torch.ones(3)}, checkpoint_id=f"{folder}/d")
    dist.destroy_process_group()
    found["late"] = (Path(folder) / "d" / "metadata.json").exists()
    return found


def read(folder):
    import wend.distributed as dist

    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {}
    for name in "ab":
        state = state_of(rank, size, fill=99)
        dcp.load(state, checkpoint_id=f"{folder}/{name}")
        found[name] = plain(state)
    return found


def check_loaded(results):
    """Assert that ranks have loaded what `write` has saved."""
    for found in results:
        np.testing.assert_array_equal(found["same"], np.arange(4.0))
        np.testing.assert_array_equal(found["half"], np.arange(4.0))
        assert (found["list"], found["pair"], found["step"]) == (3, [1, "a"], 12)
        assert found["counter"] == 5
    for name, rows in (("sharded", 7), ("few", 1)):
        np.testing.assert_array_equal(np.concatenate([f[name] for f in results]), whole(rows))


@in_ranks
def test_three_ranks_write_and_others_read(tmp_path):
    found = ranks.run(__file__, "write", 3, str(tmp_path), timeout=120.0)
    for rank, row in enumerate(found):
        assert row["chunks"] == [[3, 3], [3, 3], [1, 3]]
        np.testing.assert_array_equal(row["full"], whole())
        assert "rank 1: checkpoint: 'x' has a object" in row["a"], rank
        assert row["c"].count("a checkpoint holds tensors") == 3
        assert row["late"]
    for size in (2,):
        results = ranks.run(__file__, "read", size, str(tmp_path), timeout=120.0)
        for name in "ab":
            check_loaded([row[name] for row in results])
    for name in "ab":
        alone = state_of(0, 1, fill=99)
        dcp.load(alone, checkpoint_id=tmp_path / name)
        check_loaded([plain(alone)])
    # Each file is a safetensors file; replicated tensors are written once.
    index = json.loads((tmp_path / "a" / "metadata.json").read_text())
    files = {p["file"] for row in index["tensors"].values() for p in row["pieces"]}
    assert {p.name for p in (tmp_path / "a").iterdir()} == {*files, "metadata.json"}
    assert len(index["tensors"]["nested.same"]["pieces"]) == 1


def test_alone(tmp_path):
    state = state_of(0, 1)
    dcp.save(state, checkpoint_id=tmp_path / "a", no_dist=True)
    first = {p.name for p in (tmp_path / "a").iterdir()}
    dcp.save(state, checkpoint_id=tmp_path / "a")
    assert first & {p.name for p in (tmp_path / "a").iterdir()} == {"metadata.json"}
    found = state_of(0, 1, fill=99)
    dcp.load(found, checkpoint_id=tmp_path / "a")
    check_loaded([plain(found)])
    metadata = dcp.FileSystemReader(tmp_path / "a").read_metadata()
    assert metadata.state_dict_metadata["sharded"].size == (7, 3)
    assert metadata.planner_data["nested.list.0"] == ("nested", "list", 0)
    assert isinstance(metadata.state_dict_metadata["step"], dcp.BytesStorageMetadata)


def test_errors(tmp_path):
    with pytest.raises(dcp.CheckpointException, match=r"has no metadata\.json"):
        dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(TypeError, match="'x' has a set; a checkpoint holds tensors"):
        dcp.save({"x": {1}}, checkpoint_id=tmp_path)
    with pytest.raises(ValueError, match=r"two entries have the name 'a\.b'"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)
    with pytest.raises(TypeError, match="neither a str nor an int"):
        dcp.save({"a": {(1, 2): 1}}, checkpoint_id=tmp_path)
    with pytest.raises(TypeError, match="complex128 tensor"):
        dcp.save({"a": torch.ones(2, dtype=torch.complex128)}, checkpoint_id=tmp_path)
    dcp.save({"a": torch.ones(2), "n": 1}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: b"):
        dcp.load({"b": torch.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match=r"'a' has shape \(2,\) in the checkpoint, and \(3,\)"):
        dcp.load({"a": torch.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="`overwrite=True` replaces"):
        writer = dcp.FileSystemWriter(tmp_path, overwrite=False)
        dcp.save({"a": torch.ones(2)}, storage_writer=writer)
    with pytest.raises(ValueError, match="give a folder"):
        dcp.save({"a": torch.ones(2)})
    with pytest.raises(TypeError, match="expected a FileSystemReader"):
        dcp.load({}, storage_reader=object())
    index = json.loads((tmp_path / "metadata.json").read_text())
    index["tensors"]["a"]["pieces"] = []
    (tmp_path / "metadata.json").write_text(json.dumps(index))
    with pytest.raises(dcp.CheckpointException, match="0 of 2 elements of 'a'"):
        dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path)
    (tmp_path / "metadata.json").write_text("{")
    with pytest.raises(dcp.CheckpointException, match="is damaged"):
        dcp.load({"a": torch.ones(2)}, checkpoint_id=tmp_path)


def test_a_killed_process_leaves_a_whole_checkpoint(tmp_path):
    """Saves again and again in a process that is killed at several moments."""
    folder = tmp_path / "run"
    dcp.save({"x": torch.zeros(20_000), "k": 0}, checkpoint_id=folder)
    for delay in (0.0, 0.01, 0.03, 0.05):
        pid = os.fork()
        if pid == 0:
            k = 0
            while True:
                k += 1
                dcp.save({"x": torch.full((20_000,), float(k)), "k": k}, checkpoint_id=folder)
        timer = threading.Timer(20, os.kill, (pid, signal.SIGKILL))
        timer.start()
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        timer.cancel()
        found = {"x": torch.ones(20_000), "k": -1}
        dcp.load(found, checkpoint_id=folder)
        assert (found["x"] == found["k"]).all()
    dcp.save({"x": torch.zeros(3)}, checkpoint_id=folder)
    assert len([p for p in folder.iterdir() if p.suffix == ".safetensors"]) == 1


def test_states_of_models_and_optimizers(tmp_path):
    torch.manual_seed(0)

    def made():
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    model, optimizer = made()
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).sum().backward()
        optimizer.step()
    optimizer.zero_grad()
    given = dict(zip(("model", "optimizer"), states.get_state_dict(model, optimizer), strict=True))
    assert set(given["optimizer"]["state"]) == {n for n, _ in model.named_parameters()}
    dcp.save(given, checkpoint_id=tmp_path)

    torch.manual_seed(1)
    model2, optimizer2 = made()
    loaded = dict(
        zip(("model", "optimizer"), states.get_state_dict(model2, optimizer2), strict=True)
    )
    dcp.load(loaded, checkpoint_id=tmp_path)
    states.set_state_dict(
        model2, optimizer2,
        model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"],
    )  # fmt: skip
    for (name, a), b in zip(model.state_dict().items(), model2.state_dict().values(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=name)
    a, b = optimizer.state_dict(), optimizer2.state_dict()
    assert a["param_groups"] == b["param_groups"]
    for k, entries in a["state"].items():
        for key, value in entries.items():
            np.testing.assert_array_equal(value.numpy(), b["state"][k][key].numpy())
    full = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    assert set(states.get_model_state_dict(model, options=full)) == set(given["model"])
    assert Ranks(None, 0, 1).add(2.0) == 2.0
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        options = states.StateDictOptions(broadcast_from_rank0=True)
        states.set_model_state_dict(model, {}, options=options)
    with pytest.raises(ValueError, match="that the model lacks"):
        states.get_optimizer_state_dict(nn.Linear(2, 2), optimizer)
