"""Versions compare by the rules of PEP 440, as PyTorch's TorchVersion does."""

import itertools
import pickle

import pytest

from wend._engine.base.version import Version

ORDERED = [
    "0.9",
    "1.0.dev3",
    "1.0a1",
    "1.0b2.dev1",
    "1.0b2",
    "1.0rc1",
    "1.0",
    "1.0+abc",
    "1.0+1",
    "1.0.post1",
    "1.0.1",
    "1.2",
    "1.10",
    "2.13.0",
    "2.13.0+wend",
]


@pytest.mark.parametrize(("i", "j"), list(itertools.combinations(range(len(ORDERED)), 2)))
def test_order(i, j):
    low, high = Version(ORDERED[i]), Version(ORDERED[j])
    assert low < high and low <= high and low != high
    assert high > low and high >= low and not high == low  # noqa: SIM201
    assert low < str(high) and high > str(low)


@pytest.mark.smoke
def test_as_programs_ask():
    version = Version("2.13.0+wend")
    assert version == "2.13.0+wend" and version != "2.13.0"
    assert version >= (1, 13) and version > (2, 13) and version < (2, 14)
    assert version >= "1.10" and not version < "1.9"
    assert version.split("+")[0] == "2.13.0" and version.startswith("2.")
    assert int(version.split(".")[1]) == 13
    assert {version: 1}["2.13.0+wend"] == 1
    assert pickle.loads(pickle.dumps(version)) == version
    assert Version("1.0") == "1" and Version("v1.0") == (1, 0, 0)


def test_what_is_no_version_is_text():
    assert Version("2.0") < "parrot" and Version("parrot") == "parrot"
    assert (Version("2.0") == 2.0) is False and (Version("2.0") != None) is True  # noqa: E711
    with pytest.raises(TypeError):
        Version("2.0") < 3.0  # noqa: B015


def test_order_is_pytorchs():
    torch_version = pytest.importorskip("torch.torch_version")
    for a, b in itertools.product(ORDERED, ORDERED):
        ours, theirs = Version(a), torch_version.TorchVersion(a)
        assert (ours < b, ours == b, ours >= b) == (theirs < b, theirs == b, theirs >= b), (a, b)
