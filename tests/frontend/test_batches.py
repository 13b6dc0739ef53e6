"""wend.debug.batches(): what was grouped, what was gathered, and why something was not."""

from __future__ import annotations

import numpy as np
import pytest

import wend as torch
from tries import own_trie
from wend._engine.base import config
from wend._engine.runtime.batching import signatures
from wend.debug import batches


@pytest.fixture(autouse=True)
def together(monkeypatch):
    """New structure is not left to others, whatever the tests before have left; nor to shadows."""
    monkeypatch.setattr(signatures, "STRIKES", 1000)
    monkeypatch.setattr(signatures.BOOK, "pause", 0)
    monkeypatch.setattr(signatures.BOOK, "strikes", 0)
    with config.override(verify=False), torch.autobatch(True), own_trie():
        yield


def run(count: int = 5, extra=None):
    weight = torch.tensor(np.eye(3, dtype=np.float32) * 0.5)

    def fn(x):
        y = torch.tanh(x @ weight)  # this line
        if extra is not None:
            y = extra(y)
        return y.sum().item()

    return torch.batched(fn)([torch.full((1, 3), float(k)) for k in range(count)])


def test_groups_are_told_with_their_sizes_and_lines():
    run()
    (flush,) = batches().flushes
    (group,) = [group for group in flush.groups if "tanh" in group.ops]
    assert group.members == 5
    assert group.rows == 5
    assert group.how == "by rows"
    assert group.ops[:2] == ["matmul", "tanh"]
    assert "test_batches.py" in group.line
    assert group.gathered == [((5, 3), 60)]
    assert group.shared == 1
    assert flush.gathered >= 60


def test_text_and_table():
    run()
    text = str(batches())
    assert "5 x matmul, tanh" in text
    assert "gathered (5, 3)" in text
    assert "<table>" in batches()._repr_html_()


def test_a_group_knows_the_groups_that_it_reads():
    weight = torch.tensor(np.eye(3, dtype=np.float32))

    def chain(x):
        """Two products, one behind the other, and a view between them."""
        return (((x @ weight) * 2.0)[:1] @ weight).sum().item()

    torch.batched(chain)([torch.full((1, 3), float(k)) for k in range(5)])
    (flush,) = batches().flushes
    groups = flush.groups
    first, second = (k for k, group in enumerate(groups) if "matmul" in group.ops)
    assert all(groups[k].ops == ["full"] for k in groups[first].reads)
    assert groups[second].reads == [first]


def test_op_by_op_too():
    def write(x):
        y = torch.tanh(x) * 1.0
        y[0, 0] = 1.0
        return torch.exp(y).sum().item()

    torch.batched(write)([torch.full((1, 3), float(k)) for k in range(5)])
    (flush,) = batches().flushes
    assert {group.how for group in flush.groups} == {"op by op"}
    behind = {"tanh": None}  # what the data flow through, from tanh on
    for group in flush.groups:
        if any(flush.groups[i].ops[0] in behind for i in group.reads):
            behind[group.ops[0]] = None
    assert "exp" in behind


def test_a_picture():
    run()
    text = batches().dot()
    assert text.startswith("digraph batches {")
    assert "5 x matmul, tanh" in text
    (flush,) = batches().flushes
    for k, group in enumerate(flush.groups):
        assert f"g0_{k} [label=" in text
        for i in group.reads:
            assert f"g0_{i} -> g0_{k};" in text
    assert text.count("{") == text.count("}")


def test_what_runs_by_itself_says_why():
    run(extra=lambda y: y + torch.rand(1, 3))
    found = [group for flush in batches().flushes for group in flush.groups]
    assert any("random" in group.why for group in found)


def test_an_op_that_is_not_for_groups_is_named():
    def write(x):
        y = x * 2.0
        y[0, 0] = 1.0
        return y.sum().item()

    examples = [torch.full((1, 3), float(k)) for k in range(5)]
    assert torch.batched(write)(examples) == [1.0 + 4.0 * k for k in range(5)]
    (flush,) = batches().flushes
    assert "writes into its operand" in flush.why
    assert {group.how for group in flush.groups} == {"op by op"}
    # It is known now that the calls wait for values, and each records by itself.
    assert torch.batched(write)(examples) == [1.0 + 4.0 * k for k in range(5)]
    (flush,) = batches().flushes
    (group,) = flush.groups
    assert (group.members, group.how) == (5, "each by its own plan")
    assert "writes into its operand" in group.why


def test_several_flushes():
    def halve(x):
        steps = 0
        while x.sum().item() > 1:
            x, steps = x / 2, steps + 1
        return steps

    with own_trie():
        assert torch.batched(halve)([torch.full((2,), 4.0)] * 3) == [3, 3, 3]
    found = batches(last=3)
    assert len(found.flushes) == 3
    with pytest.raises(ValueError, match="at least 1"):
        batches(last=0)


def test_single_ops_are_told_as_well(monkeypatch):
    monkeypatch.setattr(signatures.BOOK, "begin", lambda: False)
    monkeypatch.setattr(signatures.SINGLES, "pause", 0)
    x = torch.ones(3, requires_grad=True)
    with own_trie(sealed=True):
        y = torch.tanh(x)
        (y * torch.sin(y)).sum().backward()
    (flush,) = batches().flushes
    assert [group.ops for group in flush.groups] == [["tanh"], ["sin"], ["mul"], ["sum"]]
    assert [group.reads for group in flush.groups] == [[], [0], [0, 1], [2]]
    assert {group.how for group in flush.groups} == {"alone"}


@pytest.mark.usefixtures("groups_alone")
def test_a_parameter_is_the_same_for_all_whatever_its_rows():
    weight = torch.nn.Parameter(torch.eye(3))
    with own_trie(sealed=True):
        columns = [torch.cat([torch.full((2, 2), float(k)), torch.ones(1, 2)]) for k in range(4)]
        results = [weight @ x for x in columns]  # this line; each has as many rows as the weight
        torch.stack(results).sum().backward()
    found = [group for flush in batches().flushes for group in flush.groups]
    (product,) = [group for group in found if "matmul" in group.ops]
    assert (product.members, product.how, product.shared) == (4, "stacked", 1)
    want = np.sum([x.numpy().sum(1) for x in columns], 0)
    np.testing.assert_allclose(weight.grad.numpy(), np.tile(want, (3, 1)))


def test_what_runs_alone_does_not_part_what_reads_it():
    word, weight = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.full((3, 6), 0.1))

    def tree(depth):
        if depth == 0:
            return torch.tanh(word)
        both = torch.cat([tree(depth - 1), tree(depth - 2 if depth > 2 else 0)])  # one by one
        return torch.tanh(weight @ both)

    with own_trie(sealed=True):
        torch.stack([tree(5) for _ in range(3)]).sum().backward()
    found = [group for flush in batches().flushes for group in flush.groups]
    members = [group.members for group in found if "matmul" in group.ops]
    assert len(members) == 5  # one group for each level
