"""Files of forwards that ask for sizes: right at all sizes, or refused."""

import io

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import wend as torch  # noqa: E402
from wend import nn  # noqa: E402
from wend.export import Dim  # noqa: E402

F = nn.functional
ROWS = (1, 2, 3, 5, 7, 8, 9, 12)


def chunked(x):
    parts = x.chunk(2, 0)
    a, b = parts if x.shape[0] > 1 else (x, x)
    return a.sum() * 2 + b.sum()


def splits(x):
    return torch.stack([p.max() for p in x.split(2)])


def single(x):
    return x.mean(0) if len(x) > 3 else x.sum(0)


def longest(x):
    return F.pad(x, (0, 0, 0, max(0, 6 - x.shape[0]))).sum(1)


def cropped(x):
    return x[:5].sum(1) if x.size(0) > 5 else F.pad(x, (0, 0, 0, 5 - x.size(0))).sum(1)


def odd(x):
    return x[1:].sum(0) if x.shape[0] % 2 else x.sum(0)


def position(x):
    return x + torch.stack([torch.full((3,), 0.1 * k) for k in range(x.shape[0])])


def filled(x):
    out = torch.zeros(x.size(0))
    for i in range(x.size(0)):
        out[i] = x[i].max()
    return out


def listed(x):
    h = [torch.zeros(3)]
    for r in x:
        h.append(torch.tanh(r + h[-1]))
    return h[-1]


def all_states(x):
    h = [torch.zeros(3)]
    for r in x:
        h.append(torch.tanh(r + h[-1]))
    return torch.stack(h[1:]) if len(h) < 0 else torch.stack(h)


def pyramid(x):
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, x[-1:]])
        x = (x[0::2] + x[1::2]) / 2
    return x


def counted(x):
    n, best = 0, -1
    for i in range(x.shape[0]):
        if x[i].sum() > 0:
            n += 1
            best = i
    return x * n + best


def head(x):
    y = x[:3]
    return y / y.shape[0]


def branch_around_a_loop(x):
    y = x.sum(0)
    if x.sum() > 0:
        for r in x:
            y = torch.tanh(y + r)
    return y


def halved(x):
    """The number of rows differs between ways that meet again, and is a result."""
    h = x * 1.0
    while h.shape[0] > 3:
        h = h[: h.shape[0] // 2] + 0.1
    total = h.sum(0)
    for r in h:
        total = torch.tanh(total * 0.5 + r)
    return (h + total).sum(0) * h.shape[0]


def loops_in_a_row(x):
    while x.abs().max() > 1:
        x = x / 2
    y = x.sum(0)
    for r in x:
        y = torch.tanh(y + r)
    return y


FUNCTIONS = [
    chunked, splits, single, longest, cropped, odd, position, filled, listed, all_states, pyramid,
    counted, head, branch_around_a_loop, halved, loops_in_a_row,
]  # fmt: skip


def session_of(function, example, **options):
    options.setdefault("verify", False)
    buffer = io.BytesIO()
    torch.onnx.export(function, (example,), buffer, **options)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    return onnxruntime.InferenceSession(buffer.getvalue(), settings)


def rows(n, m=3):
    return torch.tensor(np.random.default_rng(n).standard_normal((n, m)).astype("f4"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_file_and_a_session_hold_for_all_sizes(function):
    found = session_of(function, rows(4))
    opened = torch.session(function, rows(4))
    for n in ROWS:
        wanted = function(rows(n)).numpy()
        (result,) = found.run(None, {found.get_inputs()[0].name: rows(n).numpy()})
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(opened(rows(n)).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_an_assertion_on_a_size_is_kept():
    def short(x):
        assert x.shape[0] < 6, "too long"
        return x * 2

    found = session_of(short, rows(4))
    (result,) = found.run(None, {"x": rows(5).numpy()})
    np.testing.assert_allclose(result, rows(5).numpy() * 2)
    with pytest.raises(Exception, match="no sizes for"):
        found.run(None, {"x": rows(7).numpy()})
    with pytest.raises(ValueError, match="test_sizes"):
        torch.session(short, rows(4))(rows(7))


def plain_number(x):
    return x * len("abcdef"[: x.shape[0]])


def test_a_size_that_python_needs_is_a_constant_of_the_file():
    found = session_of(plain_number, rows(4))
    assert found.get_inputs()[0].shape[0] == 4
    with pytest.raises(Exception, match="invalid dimensions"):
        found.run(None, {"x": rows(3).numpy()})


def test_a_named_size_that_python_needs_is_refused_with_the_line():
    for options in (
        {"dynamic_axes": {"x": {0: "n"}}, "input_names": ["x"]},
        {"dynamic_shapes": {"x": {0: Dim("n")}}},
    ):
        with pytest.raises(ValueError, match=r"fixes its size to 4 at .*test_sizes\.py"):
            session_of(plain_number, rows(4), **options)


def test_what_is_written_does_not_depend_on_the_values_of_the_example():
    texts = {
        torch.onnx.export(counted, (x,), verify=False).model_proto.SerializeToString()
        for x in (rows(4), -rows(4).abs(), rows(4).abs())
    }
    assert len(texts) == 1


def test_einsum_of_an_input_and_a_parameter():
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(3, 5))

        def forward(self, x):
            return torch.einsum("ni,ij->nj", x, self.w)

    model = Product()
    found = session_of(model, rows(4), verify=True)
    (result,) = found.run(None, {"x": rows(7).numpy()})
    np.testing.assert_allclose(result, model(rows(7)).detach().numpy(), rtol=1e-4, atol=1e-5)
