"""Completion and signatures as editors show them: Jedi reads the stubs, and runs nothing."""

import inspect
from pathlib import Path

import pytest

import wend

jedi = pytest.importorskip("jedi", reason="jedi is in the extra `test`")

START = """
import wend as torch
from wend import nn
import wend.nn.functional as F
x = torch.ones(2, 3)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
#: Owners as a program writes them, and some of their names.
NAMES = {
    "torch": "zeros randn arange cat matmul where split unique save load manual_seed batched",
    "x": "sum reshape softmax backward item tolist to max sort view masked_fill",
    "nn": "Module Linear Conv2d LSTM MultiheadAttention Sequential CrossEntropyLoss",
    "F": "relu cross_entropy max_pool2d dropout softmax",
    "net": "parameters state_dict forward register_forward_hook weight",
    "torch.optim": "SGD Adam lr_scheduler",
    "optimizer": "step zero_grad param_groups",
    "torch.optim.lr_scheduler": "StepLR",
    "torch.utils.data": "DataLoader Dataset random_split",
    "torch.linalg": "svd vector_norm solve",
    "torch.fft": "rfft",
    "torch.special": "expit",
    "torch.func": "grad vmap",
    "torch.autograd": "grad Function",
    "torch.distributions": "Normal kl_divergence",
    "torch.jit": "trace",
    "torch.export": "export",
    "torch.debug": "explain",
    "torch.nn.utils.rnn": "pad_sequence",
    "torch.nn.init": "xavier_uniform_",
    "torch.distributed": "all_reduce",
}
CASES = [(owner, name) for owner, names in NAMES.items() for name in names.split()]


#: Lines of a program: all letters of a name but one, to be completed; and a call without arguments.
LINES = [line for o, n in CASES for line in (f"{o}.{n[:-1]}", f"{o}.{n}()")]
CHAINS = ["x.sum(0).exp().argma", "F.relu(x).max(dim=0).values.argma", "torch.cat([x, x]).T.argma"]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    source = str(Path(wend.__file__).resolve().parents[1])
    project = jedi.Project(tmp_path_factory.mktemp("project"), added_sys_path=[source])
    return jedi.Script("\n".join([*START.split("\n"), *LINES, *CHAINS]), project=project)


def place(line):
    """(line, column) of the end of a line, for Jedi."""
    return START.count("\n") + 2 + [*LINES, *CHAINS].index(line), len(line)


def offered(script, line):
    """The names that an editor offers at the end of a line."""
    return {completion.name for completion in script.complete(*place(line))}


def shown_parameters(script, line):
    """The parameters that an editor shows inside the brackets, of all forms of a call."""
    row, column = place(line)
    signatures = script.get_signatures(row, column - 1)
    return {p.name for signature in signatures for p in signature.params}


def true_parameters(owner, name):
    """The parameters by name of the object itself, or None where the object does not tell."""
    space = {}
    exec(START, space)
    value = getattr(eval(owner, space), name)
    if not callable(value):
        return None
    parameters = list(inspect.signature(value).parameters.values())
    named = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    return named - {"self", "input"}


@pytest.mark.parametrize(("owner", "name"), CASES, ids=[f"{o}.{n}" for o, n in CASES])
def test_editors_know(script, owner, name):
    assert name in offered(script, f"{owner}.{name[:-1]}")
    expected = true_parameters(owner, name)
    if expected:
        assert expected <= shown_parameters(script, f"{owner}.{name}()")


def test_keywords_of_creation_are_shown(script):
    shown = shown_parameters(script, "torch.zeros()")
    assert {"size", "dtype", "device", "requires_grad"} <= shown


@pytest.mark.parametrize("chain", CHAINS)
def test_results_are_known(script, chain):
    """A chain of calls keeps its types."""
    assert "argmax" in offered(script, chain)
