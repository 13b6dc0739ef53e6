"""`wend.summary`: numbers agree with the models', nothing is computed, nothing changes."""

from __future__ import annotations

import numpy as np
import pytest

import wend
import wend as torch
from wend._engine.base.errors import ArgumentError, ArgumentTypeError
from wend._engine.core import _hot

nn = torch.nn


def small():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)
    )


def test_numbers_of_a_network():
    """Shapes, parameters, multiply-adds and bytes, by hand."""
    found = wend.summary(small(), input_size=(2, 1, 8, 8), verbose=0)
    conv, norm, relu, flat, linear = found.root.rows
    assert conv.input_size == [(2, 1, 8, 8)] and conv.output_size == [(2, 4, 6, 6)]
    assert conv.mult_adds == 2 * 4 * 36 * 9 and conv.params == 40
    assert linear.mult_adds == 2 * 144 * 10 and linear.params == 1450
    assert (norm.params, relu.params, flat.flops) == (8, 0, 0)
    assert relu.flops == 2 * 4 * 36 and conv.flops >= 2 * conv.mult_adds
    assert found.mult_adds == conv.mult_adds + linear.mult_adds
    assert found.total_params == found.trainable_params == 1498
    assert (found.param_bytes, found.buffer_bytes) == (1498 * 4, 4 * 4 * 2 + 8)
    assert found.input_bytes == 2 * 64 * 4
    assert found.output_bytes == 4 * (3 * 2 * 144 + 2 * 144 + 2 * 10)
    assert not found.computed


def test_nothing_is_computed_and_nothing_changes():
    """No flush with work, no update of buffers, the same random numbers, modes as before."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model[2].eval()
    x = torch.randn(3, 4)
    pending = x * 2
    torch.manual_seed(1)
    expected = torch.rand(2).tolist()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(1)
    flushes = _hot.count("flushes")
    found = wend.summary(model, x, mode="train", verbose=0)
    assert not found.computed and _hot.count("flushes") <= flushes + 1  # the flush of `pending`
    assert torch.rand(2).tolist() == expected
    assert model[0].training and not model[2].training
    for name, value in model.state_dict().items():
        assert np.array_equal(value.numpy(), before[name].numpy()), name
    assert np.array_equal(pending.numpy(), 2 * x.numpy())
    assert np.isfinite(model(x).sum().item())


def test_large_models_cost_no_memory():
    """Inputs of a size that no memory has: they are never computed."""
    found = wend.summary(nn.Linear(1 << 10, 1 << 10), input_size=(1 << 40, 1 << 10), verbose=0)
    assert found.mult_adds == 1 << 60


def test_repeated_blocks_and_depth():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 12)
    found = wend.summary(model, torch.zeros(2, 5, 16), depth=1, mode="train", verbose=0)
    (block,) = found.root.rows
    assert (block.times, block.kind) == (12, "TransformerEncoderLayer")
    assert found.mult_adds == 12 * block.mult_adds
    assert found.total_params == sum(p.numel() for p in model.parameters())
    text = str(found)
    assert "0: TransformerEncoderLayer x 12" in text and "self_attn" not in text
    deep = wend.summary(model, torch.zeros(2, 5, 16), depth=2, mode="train", verbose=0)
    assert "self_attn: MultiheadAttention" in str(deep)


def test_attention_counts_its_products():
    q = torch.zeros(2, 4, 6, 8)

    class Attend(nn.Module):
        def forward(self, q):
            return nn.functional.scaled_dot_product_attention(q, q, q)

    found = wend.summary(Attend(), q, verbose=0)
    assert found.mult_adds == 2 * (2 * 4 * 6 * 6 * 8)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_networks(kind):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    found = wend.summary(getattr(nn, kind)(4, 5), input_size=(7, 2, 4), verbose=0)
    assert found.mult_adds == 7 * 2 * gates * 5 * (4 + 5)


def test_shared_and_frozen_modules():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.ReLU()
            self.a.bias.requires_grad_(False)

        def forward(self, x):
            return self.a(self.b(self.a(x)))

    found = wend.summary(Twice(), torch.ones(1, 3), verbose=0)
    first, _, second = found.root.rows
    assert (first.shared, second.shared) == (False, True)
    assert (found.total_params, found.trainable_params) == (12, 9)
    assert "12 (shared)" in str(found) and "3 frozen" in str(found)


def test_loops_and_branches():
    """A model that asks for values is computed for the example, and says so."""

    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.step, self.last = nn.Linear(4, 4), nn.Linear(4, 1)

        def forward(self, x, n, scale=1.0):
            for _ in range(n):
                x = self.step(x) * scale
                if x.abs().sum() > 1e6:
                    break
            return self.last(x)

    model = Loop()
    few = wend.summary(model, torch.ones(2, 4), 2, verbose=0)
    many = wend.summary(model, torch.ones(2, 4), 5, scale=0.5, verbose=0)
    assert few.computed and many.computed
    assert (few.mult_adds, many.mult_adds) == (2 * 32 + 8, 5 * 32 + 8)
    assert sum(row.times for row in many if row.kind == "Linear") == 6
    assert "asked for values" in str(many)


def test_several_inputs_and_types():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(10, 4)

        def forward(self, i, x):
            return {"sum": self.words(i) + x}

    found = wend.summary(
        Two(), input_size=[(3,), (3, 4)], dtypes=[torch.long, torch.float], verbose=0
    )
    assert found.root.output_size == [(3, 4)] and found.root.input_size == [(3,), (3, 4)]
    with pytest.raises(ArgumentError, match="1 dtypes for 2 sizes"):
        wend.summary(Two(), input_size=[(3,), (3, 4)], dtypes=[torch.long])


def test_text_html_and_rows(capsys):
    columns = (
        "input_size",
        "output_size",
        "num_params",
        "trainable",
        "mult_adds",
        "flops",
        "bytes",
    )
    found = wend.summary(small(), input_size=(2, 1, 8, 8), columns=columns)
    assert capsys.readouterr().out.strip() == str(found).strip()
    page = found._repr_html_()
    assert page.count("<tr>") == 7 and "0: Conv2d" in page and "[2, 4, 6, 6]" in page
    assert [row.name for row in found] == ["", "0", "1", "2", "3", "4"] and len(found) == 6


def test_refusals():
    with pytest.raises(ArgumentTypeError, match="takes a module, not a int"):
        wend.summary(3)
    with pytest.raises(ArgumentError, match="either example inputs or input_size"):
        wend.summary(small())
    with pytest.raises(ArgumentError, match="'colour' is none of input_size"):
        wend.summary(small(), input_size=(1, 1, 8, 8), columns=("colour",))
    with pytest.raises(ArgumentError, match="mode='fast'"):
        wend.summary(small(), input_size=(1, 1, 8, 8), mode="fast")
    with pytest.raises(RuntimeError, match="linear"):
        wend.summary(nn.Linear(3, 2), torch.ones(1, 4))
    assert torch.ones(2).sum().item() == 2  # the trace is as before
