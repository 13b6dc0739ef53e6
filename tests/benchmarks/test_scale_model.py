"""The model of steps against ranks: sums, buckets, overlap, stragglers and unused parameters."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def model():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("scale_model")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in ("scale_model", "bench"):
            sys.modules.pop(name, None)


def test_sums_take_the_best_of_three_ways(model):
    network = model.Network("made up", 1.0, 0.01)
    assert model.all_reduce(1e9, 1, network, 0.5) == 0
    assert model.all_reduce(1, 16, network, 0.5) == pytest.approx(4 * (1 + 0.51))  # doubling
    wide = 2 * 4 + 15 / 16 * 1e6 * 0.52  # halves to and fro
    assert model.all_reduce(1e6, 16, network, 0.5) == pytest.approx(wide)
    ring = 2 * 2 + 2 / 3 * 1e6 * 0.52  # a ring of 3 has as many messages
    assert model.all_reduce(1e6, 3, network, 0.5) == pytest.approx(ring)


def test_buckets_hold_all_bytes(model):
    mega = model.MEGABYTE
    assert model.buckets(3 * mega) == [mega / 4] * 12
    assert model.buckets(100) == [100]
    assert model.buckets(60 * mega, 25 * mega) == [mega, 25 * mega, 25 * mega, 9 * mega]
    assert sum(model.buckets(1e9)) == pytest.approx(1e9)


def test_transfers_hide_behind_the_backward_pass(model):
    quick = model.step(12.0, [1, 1], lambda n: 0.5)
    assert quick == 12.5  # the last bucket is ready at the end
    assert model.step(12.0, [1, 1], lambda n: 6.0) == 8 + 6 + 6  # the first is ready at 8
    assert model.step(12.0, [1, 1], lambda n: 0.0) == 12


def test_the_largest_of_several_times(model):
    assert model.largest(np.array([1.0, 3.0]), 1) == 2
    assert model.largest(np.array([1.0, 3.0]), 2) == pytest.approx(3 - 2 / 4)
    times = np.random.default_rng(0).random(50_000)
    assert model.largest(times, 9) == pytest.approx(0.9, abs=0.01)


def test_ranks_share_cores(model):
    constants = {"parts": 2.0, "call": 0.0, "move": 0.0, "beside": 1.0}
    works = np.array([[1.0, 3.0, 5.0, 7.0]])
    assert model.on_cores(works, 100, 2, constants).tolist() == [10.0]
    assert model.on_cores(works, 100, 8, constants).tolist() == [8.0]  # the slowest rank


def test_unused_experts_send_nothing(model):
    assert model.present(10, 2, 4, 0.5, 1) == 10 + 4
    assert model.present(10, 2, 4, 0.5, 2) == 10 + 6
    assert model.present(10, 2, 4, 0.5, 60) == pytest.approx(18)


def test_the_picture_is_xml_with_all_curves(model):
    from xml.etree import ElementTree

    panels = [
        ("One", "a", [("x", [1.0] * 13), ("y", [0.0] * 13)]),
        ("Two", "b", [("z", [0.5] * 13)]),
    ]
    root = ElementTree.fromstring(model.picture(panels))
    assert len(root.findall(".//{*}polyline")) == 3
    kept = ElementTree.parse(BENCHMARKS.parent / "docs" / "decisions" / "026-scale.svg").getroot()
    assert len(kept.findall(".//{*}polyline")) == 9
