"""`wend verify`: runs that part are told apart at the right step, tensor and line."""

import os
import subprocess
import sys

import pytest

import wend
from wend._tools import verify
from wend._tools.verify import compare, near_as_printed, parse, part_of_lines

TRAINING = """\
import sys
import torch
from torch import nn

{fault}
torch.manual_seed(3)
body, out = nn.Linear(3, 4), nn.Linear(4, 2)
opt = torch.optim.SGD([*body.parameters(), *out.parameters()], lr=0.1, momentum=0.9)
for step in range(5):
    x = torch.randn(6, 3)
    loss = out(torch.tanh(body(x))).pow(2).mean()
    opt.zero_grad()
    loss.backward()  # the backward pass
    opt.step()  # the step
    print(f"step {{step}}: {{loss.item():.4f}}")  # the line
"""

#: Code whose instructions for tanh are wrong; the rules of the reference are right.
WRONG_CODE = """\
from wend._engine.ops.elementwise.transcendental import Tanh
Tanh.emit = lambda self, b, x: b.mul(b.tanh(x), b.constant(1.25, x))
"""

#: The third update of one parameter is lost, but not in the reference.
LOST_UPDATE = """\
from wend._engine.base import config
real, calls = torch.optim.SGD.step, []
def losing(self):
    calls.append(None)
    before = out.bias.detach().clone()
    real(self)
    if len(calls) == 3 and config.settings.compile:
        with torch.no_grad():
            out.bias.copy_(before)
torch.optim.SGD.step = losing
"""


def run(tmp_path, *arguments, fault="", program=TRAINING, **environment):
    script = tmp_path / "train.py"
    script.write_text(program.format(fault=fault))
    folder = os.path.dirname(os.path.dirname(os.path.abspath(wend.__file__)))
    done = subprocess.run(
        [sys.executable, "-m", "wend", "verify", *arguments, str(script)],
        env={**os.environ, "PYTHONPATH": folder, **environment},
        capture_output=True,
        text=True,
    )
    source = script.read_text().splitlines()
    ends = ("the backward pass", "the step", "the line")
    places = [(text, k) for k, line in enumerate(source) for text in ends if line.endswith(text)]
    lines = {text: f"train.py:{k + 1}" for text, k in places}
    return done.returncode, done.stdout + done.stderr, lines


def test_equal_runs(tmp_path):
    code, said, _ = run(tmp_path, "--no-torch")
    assert code == 0, said
    assert "compared over 5 steps: 5 losses, 20 gradients, 20 parameters, 5 printed lines" in said


def test_equal_to_pytorch(tmp_path):
    pytest.importorskip("torch")
    code, said, _ = run(tmp_path, "--torch")
    assert code == 0, said
    assert said.count("5 losses, 20 gradients, 20 parameters, 5 printed lines") == 2


def test_a_wrong_instruction_is_found_where_its_result_comes_to_light(tmp_path):
    code, said, lines = run(tmp_path, "--no-torch", fault=WRONG_CODE, WEND_COMPILE="force")
    assert code == 1, said
    assert "they part at step 1: the loss: " in said and lines["the backward pass"] in said


def test_a_lost_update_is_found_at_its_step(tmp_path):
    code, said, lines = run(tmp_path, "--no-torch", fault=LOST_UPDATE)
    assert code == 1, said
    assert "they part at step 3: out.bias: " in said and lines["the step"] in said


WRONG_GRADIENT = """\
if torch.__spec__.name == "wend":
    from wend._engine.ops.elementwise.transcendental import Tanh
    real = Tanh.vjp
    Tanh.vjp = lambda self, g, y, x: tuple(part * 1.5 for part in real(self, g, y, x))
"""


def test_a_wrong_gradient_rule_is_found_beside_pytorch(tmp_path):
    pytest.importorskip("torch")
    code, said, lines = run(tmp_path, fault=WRONG_GRADIENT)
    assert code == 1, said
    own, common = said.split("on PyTorch", 1)
    assert "they part" not in own  # all of Wend's executors follow the rule
    assert "they part at step 1: the gradient of body.weight: " in common
    assert lines["the backward pass"] in common


def test_printed_values_are_compared_with_the_line_that_prints(tmp_path):
    program = (
        "from wend._engine.base import config\n{fault}print('a 1.5')\n"
        "print('b', 2 if config.settings.compile else 3)\n"
    )
    code, said, _ = run(tmp_path, "--no-torch", program=program)
    assert code == 1 and "a printed line: 'b 2', and 'b 3' in the second run" in said
    assert "train.py:3" in said


def test_a_run_that_fails(tmp_path):
    code, said, _ = run(tmp_path, "--no-torch", fault="raise ValueError('no data')")
    assert code == 2 and "ValueError: no data" in said and "as it is failed" in said
    code, said, _ = run(tmp_path, "--no-torch", fault="sys.exit(3)")
    assert code == 2 and "exit status 3" in said


DRAWING = """\
import torch
import torch.distributions as D
from torch.utils.data import (DataLoader, SubsetRandomSampler, TensorDataset,
                              WeightedRandomSampler, random_split)

torch.manual_seed(0)
x, y = torch.randn(12, 4, 3), torch.randint(0, 4, (12,))
train, rest = random_split(TensorDataset(x, y), [0.75, 0.25])
print(train.indices, rest.indices, list(SubsetRandomSampler(range(5))))
lstm = torch.nn.LSTM(3, 4, 3, dropout=0.4, batch_first=True, bidirectional=True)
gru = torch.nn.GRU(8, 4, 2, dropout=0.2)
opt = torch.optim.Adam([*lstm.parameters(), *gru.parameters()], 1e-2)
for again in (True, False):
    for a, b in DataLoader(train, 3, sampler=WeightedRandomSampler(torch.ones(9), 6, again)):
        packed = torch.nn.utils.rnn.pack_padded_sequence(a, [4, 3, 2], batch_first=True)
        logits = gru(lstm(a)[0].transpose(0, 1))[0][-1] + lstm(packed)[1][0][0]
        picked = D.Categorical(logits=logits).sample()
        noise = D.Independent(D.Normal(logits, 1.0), 1).rsample((2,)) + torch.normal(0.0, 1.0, (4,))
        noise = noise + D.LogNormal(logits, 0.1).rsample() + D.Uniform(logits, logits + 1).rsample()
        noise = noise + D.Laplace(logits, 1.0).rsample() + D.Bernoulli(logits=logits).sample()
        loss = torch.nn.functional.cross_entropy(logits, picked) + noise.mean() * 0.01
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(picked, torch.multinomial(logits.softmax(1), 2), torch.bernoulli(logits.sigmoid()))
print(torch.empty(2).exponential_(), torch.empty(3).bernoulli_(0.4), torch.normal(x[0, 0], 2.0))
print(D.MultivariateNormal(torch.zeros(2), torch.eye(2)).sample(), {fault!r})
"""


def test_draws_of_samplers_distributions_and_recurrent_layers_are_in_common(tmp_path):
    pytest.importorskip("torch")
    program = DRAWING.replace("{", "{{").replace("}", "}}").replace("{{fault!r}}", "{fault!r}")
    code, said, _ = run(tmp_path, "--torch", program=program)
    assert code == 0, said
    assert said.count("equal") == 2
    assert "not in common" not in said


def test_what_is_not_in_common_is_said(tmp_path):
    pytest.importorskip("torch")
    program = "{fault}import torch\nx = torch.ones(3)\ntorch.poisson(x)\n"
    code, said, _ = run(tmp_path, program=program)
    assert code == 0, said
    assert "not in common, and so not to be compared behind it: poisson at" in said


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "a script is needed"),
        (["--other", "a.py"], "no option '--other'"),
        (["--tolerance", "x", "a.py"], "is no number"),
        (["--tolerance=-1", "a.py"], "is negative"),
        (["--tolerance", "int8=1", "a.py"], "is none of"),
    ],
)
def test_wrong_calls(given, words, capsys):
    assert verify.main(given) == 2
    assert words in capsys.readouterr().err


def test_options():
    found = parse(["--tolerance", "float32=0.5", "--no-torch", "a.py", "--torch"])
    assert found.tolerance["float32"] == 0.5 and found.tolerance["float64"] == 1e-6
    assert found.torch is False and found.script == ["a.py", "--torch"]
    assert set(parse(["--tolerance=1", "a.py"]).tolerance.values()) == {1.0}


def tensor(values, what="parameter", name="w", step=1, dtype="float32"):
    import base64
    from array import array

    data = base64.b64encode(array("d", values).tobytes()).decode()
    return {
        "what": what, "name": name, "step": step, "line": "a.py:7", "dtype": dtype,
        "shape": [len(values)], "data": data, "stride": 1, "sum": sum(values),
        "largest": max(map(abs, values), default=0.0),
    }  # fmt: skip


def first(a, b):
    return compare(a, b, verify.TOLERANCE)[0]


def test_tensors_part_by_their_dtypes_tolerance():
    near, far = 1 + 5e-4, 1 + 5e-3
    assert first([tensor([1.0, 0.1])], [tensor([near, 0.1])]) is None
    found = first([tensor([0.1, 1.0])], [tensor([0.1, far])])
    assert (found.step, found.name, found.line) == (1, "w", "a.py:7")
    assert "at [1] of float32[2]" in found.how and "1.005" in found.how
    assert first([tensor([1.0], dtype="float64")], [tensor([near], dtype="float64")]) is not None
    assert first([tensor([1.0], dtype="int64")], [tensor([2.0], dtype="int64")]) is not None
    nan = float("nan")
    assert first([tensor([nan])], [tensor([nan])]) is None
    assert first([tensor([nan])], [tensor([1.0])]) is not None
    assert first([tensor([1.0])], [tensor([1.0], dtype="float64")]) is not None


def test_the_first_parting_is_told():
    a = [tensor([1.0], step=k) for k in (1, 2, 3)]
    b = [tensor([1.0], step=1), tensor([2.0], step=2), tensor([3.0], step=3)]
    assert first(a, b).step == 2


def test_runs_that_go_other_ways():
    found = first([tensor([1.0]), tensor([1.0], name="v")], [tensor([1.0])])
    assert "other ways: parameter (v, a.py:7) in the first one, nothing more" in found.how


def test_gradients_that_are_rounding_are_left_out_by_name():
    a = [tensor([1.0], "gradient", "w"), tensor([3e-9], "gradient", "b"), tensor([0.5], name="b")]
    b = [tensor([1.0], "gradient", "w"), tensor([-4e-9], "gradient", "b"), tensor([0.6], name="b")]
    parting, said = compare(a, b, verify.TOLERANCE)
    assert parting is None and "nothing but rounding: b" in said
    # A gradient that is 0 in both is no rounding, and one that is 0 in one run alone is lost.
    a[1], b[1] = tensor([0.0], "gradient", "b"), tensor([0.2], "gradient", "b")
    assert first(a, b).name == "the gradient of b"


def test_elements_of_a_gradient_that_are_rounding_are_left_out():
    a = [tensor([1.0, 3e-9, 0.0], "gradient"), tensor([0.5, 0.5, 0.5])]
    b = [tensor([1.0, -4e-9, 0.0], "gradient"), tensor([0.5, 0.6, 0.5])]
    parting, said = compare(a, b, verify.TOLERANCE)
    assert parting is None and "nothing but rounding: w" in said
    b[1] = tensor([0.5, 0.6, 0.6])  # the last element's gradient is 0 in both
    assert "at [2]" in first(a, b).how


SPARSE = """\
import torch
table = torch.nn.Embedding(7, 3, sparse=True)
opt = torch.optim.SparseAdam(table.parameters(), lr=0.1)
for step in range(3):
    opt.zero_grad()
    table(torch.tensor([step, 5])).pow(2).sum().backward()
    opt.step()
"""


def test_sparse_gradients_are_compared(tmp_path):
    code, said, _ = run(tmp_path, "--no-torch", program=SPARSE)
    assert code == 0 and "3 losses, 3 gradients, 3 parameters" in said


def test_printed_lines():
    assert part_of_lines("loss 0.12345", "loss 0.12346") is None
    assert part_of_lines("loss 0.123", "loss 0.133") is not None
    assert part_of_lines("took 1.5 s", "took 1.9 s") is None
    assert part_of_lines("right 41 of 50", "right 42 of 50") is not None
    assert part_of_lines("a 1", "b 1") is not None
    assert near_as_printed("nan", "nan") and not near_as_printed("nan", "1.0")
    assert near_as_printed("1.00e-3", "1.001e-3") and not near_as_printed("1.0e-3", "2.0e-3")
