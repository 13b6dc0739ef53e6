"""Models without branches: explored once, written op by op, right for every batch."""

import numpy as np
import pytest

import wend
from wend import nn
from wend._engine.base import dtypes
from wend._engine.transforms.exploring.program import Apply, Draw
from wend._frontend.static.explored import explored
from wend.onnx.exporting import GraphWriter
from wend.onnx.exporting.extents import placed

for name in ("onnx", "onnxruntime"):
    pytest.importorskip(name, reason=f"the package {name} is not installed")

from onnx_calls import session, valid  # noqa: E402


def written(module, *examples):
    """The module as a model with inputs x0, x1 ... and outputs y0, y1 ..."""
    program = explored(module, examples)
    g = GraphWriter()
    env = {}
    for k, (i, example) in enumerate(zip(program.inputs, examples, strict=True)):
        extents = program.info[i].extents
        free = [axis for axis, e in enumerate(extents) if type(e) is tuple]
        env[i] = g.input(f"x{k}", example.dtype, tuple(example.shape), free)
    for tensor in program.captured:
        array = tensor.tensor.detach().numpy()
        env[tensor.id] = g.initializer(tensor.name or f"constant{tensor.id}", array)
    (stretch,) = program.points[0].answers
    for item in stretch.items:
        if isinstance(item, Draw):
            env[item.seed] = env[item.offset] = 0
            continue
        assert isinstance(item, Apply), item
        args = [placed(e, env, env) for e in item.args]
        results = g.emit(item.prim, item.program, [env[i] for i in item.inputs], args)
        env.update(zip(item.outputs, results, strict=True))
    leaves = [x for kind, x in stretch.end.leaves if kind == "value"]
    return valid(g.finish([(f"y{k}", env[i]) for k, i in enumerate(leaves)]))


class Block(nn.Module):
    """A residual block with a norm, attention and a gate."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.out(x)


def image_model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
        nn.Softmax(-1),
    )


CASES = {
    "layers": (lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)), (3, 4)),
    "images": (image_model, (2, 3, 12, 10)),
    "attention": (Block, (2, 5, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "decoder of images": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 3, 3, 2, 1, 1), nn.AvgPool2d(2), nn.ELU()),
        (2, 4, 5, 6),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_model_computes_the_same_for_every_batch(name):
    wend.manual_seed(0)
    make, shape = CASES[name]
    module = make().eval()
    model = written(module, wend.randn(*shape))
    ready = session(model)
    for batch in (1, shape[0], 7):
        x = wend.randn(batch, *shape[1:])
        want = module(x)
        leaves = [want] if isinstance(want, wend.Tensor) else [want[0], *want[1]]
        got = ready.run(None, {"x0": x.numpy()})
        assert len(got) == len(leaves)
        for a, b in zip(got, leaves, strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=2e-4, atol=2e-5)


def test_a_table_of_words():
    module = nn.Embedding(10, 4).eval()
    words = wend.tensor([[1, 2, 3], [4, 5, 6]])
    assert words.dtype is dtypes.int64
    model = written(module, words)
    longer = np.array([[9, 0, 1, 2]])
    (got,) = session(model).run(None, {"x0": longer})
    np.testing.assert_array_equal(got, module.weight.detach().numpy()[longer])
