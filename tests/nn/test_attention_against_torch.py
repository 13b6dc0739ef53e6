"""Multi-head attention and transformers against PyTorch's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from side_by_side import compare, same, to_wend  # noqa: E402

import wend  # noqa: E402

RNG = np.random.default_rng(0)
CAUSAL = np.triu(np.ones((4, 4), dtype=bool), 1)
PADDED = np.array([[False, False, False, True], [False, False, True, True]])


def x(*shape):
    return RNG.normal(size=shape).astype(np.float32)


ATTENTION = {
    "self": ({}, 1, {}),
    "batch first": ({"batch_first": True}, 1, {}),
    "without weights": ({}, 1, {"need_weights": False}),
    "weights per head": ({"bias": False}, 1, {"average_attn_weights": False}),
    "causal": ({}, 1, {"attn_mask": CAUSAL}),
    "causal without weights": (
        {"batch_first": True},
        1,
        {"attn_mask": CAUSAL, "is_causal": True, "need_weights": False},
    ),
    "padding": ({}, 1, {"key_padding_mask": PADDED}),
    "both masks": ({}, 1, {"key_padding_mask": PADDED, "attn_mask": CAUSAL, "need_weights": False}),
    "mask per head": ({}, 1, {"attn_mask": np.tile(CAUSAL, (4, 1, 1))}),
    "added bias": ({"add_bias_kv": True}, 1, {"attn_mask": CAUSAL}),
    "added zeros": ({"add_zero_attn": True}, 1, {"key_padding_mask": PADDED}),
    "three inputs": ({}, 3, {}),
    "key is value": ({}, 2, {}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_equals_torchs(name):
    settings, count, keywords = ATTENTION[name]
    shape = (2, 4, 6) if settings.get("batch_first") else (4, 2, 6)
    make = Caller(settings, count, keywords)
    compare(make, *[x(*shape) for _ in range(count)])


class Caller:
    """Makes a module that calls attention with 1, 2 or 3 different tensors."""

    def __init__(self, settings, count, keywords):
        self.settings, self.count, self.keywords = settings, count, keywords

    def __call__(self, t):
        caller = self

        class Attend(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = t.nn.MultiheadAttention(6, 2, **caller.settings)

            def forward(self, *inputs):
                keywords = {
                    k: t.tensor(v) if isinstance(v, np.ndarray) else v
                    for k, v in caller.keywords.items()
                }
                query = inputs[0]
                key = inputs[min(1, caller.count - 1)]
                value = inputs[min(2, caller.count - 1)]
                return self.attention(query, key, value, **keywords)

        return Attend()


def test_unlike_widths_equal_torchs():
    compare(
        lambda t: t.nn.MultiheadAttention(6, 3, kdim=4, vdim=5), x(3, 2, 6), x(4, 2, 4), x(4, 2, 5)
    )


def test_unbatched_attention_equals_torchs():
    compare(lambda t: t.nn.MultiheadAttention(6, 3), x(3, 6), x(4, 6), x(4, 6))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm_first": True, "activation": "gelu"},
        {"batch_first": True, "bias": False, "layer_norm_eps": 1e-3},
    ],
    ids=str,
)
def test_transformer_layers_equal_torchs(settings):
    how = {"dim_feedforward": 8, "dropout": 0.0, **settings}
    compare(lambda t: t.nn.TransformerEncoderLayer(6, 2, **how), x(4, 2, 6))
    compare(lambda t: t.nn.TransformerDecoderLayer(6, 2, **how), x(3, 2, 6), x(3, 2, 6))


def test_encoder_with_masks_equals_torchs():
    def make(t):
        layer = t.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)
        norm = t.nn.LayerNorm(6)
        return t.nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)

    mask = np.triu(np.full((4, 4), -np.inf, dtype=np.float32), 1)
    compare(make, x(4, 2, 6))
    theirs, ours = (make(t) for t in (torch, wend))
    ours.load_state_dict({k: to_wend(v) for k, v in theirs.state_dict().items()})
    data = x(4, 2, 6)
    a = theirs(torch.tensor(data), torch.tensor(mask), torch.tensor(PADDED), is_causal=False)
    b = ours(wend.tensor(data), wend.tensor(mask), wend.tensor(PADDED))
    same(b, a, "output")


def test_transformer_equals_torchs():
    compare(
        lambda t: t.nn.Transformer(6, 2, 2, 2, 8, dropout=0.0, batch_first=True),
        x(2, 4, 6),
        x(2, 3, 6),
    )


def test_square_mask_equals_torchs():
    a, b = (t.nn.Transformer.generate_square_subsequent_mask(3) for t in (torch, wend))
    same(b, a, "mask")


@pytest.mark.parametrize(
    ("make", "call", "error", "message"),
    [
        (lambda: wend.nn.MultiheadAttention(6, 4), None, AssertionError, "divisible"),
        (lambda: wend.nn.MultiheadAttention(0, 1), None, ValueError, "greater than 0"),
        (
            lambda: wend.nn.MultiheadAttention(6, 2),
            lambda m: m(*[wend.ones(4, 2, 8)] * 3),
            AssertionError,
            "expecting embedding dimension of 6, but got 8",
        ),
        (
            lambda: wend.nn.MultiheadAttention(6, 2),
            lambda m: m(*[wend.ones(4, 2, 6)] * 3, attn_mask=wend.ones(3, 3)),
            RuntimeError,
            "shape of the 2D attn_mask",
        ),
        (
            lambda: wend.nn.MultiheadAttention(6, 2),
            lambda m: m(*[wend.ones(4, 2, 6)] * 3, is_causal=True),
            RuntimeError,
            "Need attn_mask",
        ),
        (
            lambda: wend.nn.TransformerEncoderLayer(6, 2, activation="x"),
            None,
            RuntimeError,
            "relu/gelu",
        ),
    ],
)
def test_bad_input_raises(make, call, error, message):
    with pytest.raises(error, match=message):
        call(make())
