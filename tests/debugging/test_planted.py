"""A hundred random programs with a planted NaN or infinity: each way of asking names the op.

The programs are those of `planted`: perceptrons, convolutions, recurrent networks over equal and
unequal lengths, trees, attention, branches; new, planned, in groups, in fibers.
"""

import re

import numpy as np
import pytest
from tests.debugging.modes import MODES
from tests.debugging.planted import KINDS, PLANTS, written

import wend
import wend as torch
from wend._engine.base.errors import ArgumentTypeError, BadValueError

#: Seeds whose plant leaves neither a loss nor a parameter that is not finite: tanh(inf) is 1.
HARMLESS = {
    False: (29, 37, 56, 61, 65),
    True: (12, 15, 17, 27, 29, 30, 34, 35, 38, 44, 48, 50, 56, 61, 64, 65, 69, 74, 81, 83, 89),
}
SEEDS = {b: [s for s in range(90) if s not in HARMLESS[b]][:50] for b in HARMLESS}
FORWARD, BACKWARD = SEEDS[False], SEEDS[True]
ALL = [
    pytest.param(s, b, id=f"{s}-{'backward' if b else 'forward'}") for b in SEEDS for s in SEEDS[b]
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("seed", "backward"), ALL)
def test_the_guard_names_the_op(seed, backward):
    program = written(seed, backward)
    with wend.debug.nan_guard(program.model), pytest.raises(BadValueError) as error:
        program.go()
    found = error.value.finding
    assert not program.fault(found), f"{program}\n{program.text}\n{found}"
    if found.op.endswith("Backward0"):
        assert found.direction == "backward"  # its line is that of the forward op
    assert f"{program.file}:{program.line}" in str(error.value)


def once(program):
    """A function that computes the loss and gradients, which nothing keeps."""

    def step():
        loss = program.model(program.x, torch.tensor([program.plant.bad]))
        if program.backward:
            loss.backward()
            program.optimizer.zero_grad()
        return loss

    return step


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("seed", "backward"), ALL)
def test_a_second_run_names_the_op(seed, backward):
    program = written(seed, backward)
    found = wend.debug.find_nan(model=program.model, rerun=once(program))
    assert not program.fault(found), f"{program}\n{program.text}\n{found}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", FORWARD)
def test_the_history_names_the_op_or_says_that_it_may_not_be(seed):
    """By that which gradients still need: exact, or with the planted op among those named."""
    program = written(seed, False)
    loss = once(program)()
    assert not np.isfinite(loss.item())
    found = wend.debug.find_nan(loss, model=program.model)
    if found.exact:
        assert not program.fault(found), f"{program}\n{program.text}\n{found}"
        return
    assert "find_nan(rerun=...)" in found.note
    lines = [found.line, *(site.line for _, site in found.suspects)]
    assert program.line in lines, f"{program}\n{program.text}\n{found}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", BACKWARD)
def test_anomaly_mode_names_the_function_that_pytorch_names(seed):
    other = pytest.importorskip("torch")
    program = written(seed, True)
    ours = theirs = None
    loss = program.model(program.x, torch.tensor([program.plant.bad]))
    exec(program.before, {"loss": loss})
    try:
        with torch.autograd.detect_anomaly():
            loss.backward()
    except RuntimeError as error:
        ours = str(error)
    names = {}
    exec(program.text.replace("import wend as", "import torch as").replace("wend", "torch"), names)
    model = names["Model"]()
    state = {k: other.tensor(v.detach().numpy()) for k, v in program.model.state_dict().items()}
    model.load_state_dict(state)
    try:
        with other.autograd.detect_anomaly():
            x, z = other.tensor(program.x.numpy()), other.tensor([program.plant.bad])
            model(x, z).backward()
    except RuntimeError as error:
        theirs = re.search(r"Function '(\w+)'", str(error))[1]
    assert (ours is None) == (theirs is None)
    if ours is not None:
        assert re.search(r"Function '(\w+)'", ours)[1] == theirs, f"{program}\n{program.text}"
        assert program.file in ours  # the line of the forward op


def test_programs_are_of_all_kinds():
    programs = [written(seed, backward) for backward in SEEDS for seed in SEEDS[backward]]
    assert len(programs) == 100
    assert {p.kind for p in programs} == set(KINDS)
    assert {p.mode for p in programs} == set(MODES)
    assert len({(p.plant.op, p.plant.lines) for p in programs}) > 0.7 * len(PLANTS)


# -- after a backward pass ------------------------------------------------------------------------


def test_a_gradient_says_whose_it_is():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    (model(torch.zeros(1, 2)).sum() * 0).sqrt().backward()
    found = wend.debug.find_nan(model[0].weight.grad, model=model)
    assert not found.exact and found.module == "0"
    assert "a gradient of 0 has no history" in found.note and "rerun" in found.note


def test_a_value_of_an_earlier_flush_is_followed():
    """An infinity that is read before it becomes NaN."""
    w = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
    y = 1 / w
    assert np.isinf(y.sum().item())
    z = y - y
    assert np.isnan(z.sum().item())
    loss = (z * z).sum()
    assert np.isnan(loss.item())
    found = wend.debug.find_nan(loss)
    assert found.op in ("div", "reciprocal") and found.kind == "infinity", found
    assert found.line == test_a_value_of_an_earlier_flush_is_followed.__code__.co_firstlineno + 3


def test_updated_parameters_are_no_operands():
    """The parameters that a step has replaced are told from those of the computation."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    h = model(torch.ones(1, 2))
    loss = (h * h * torch.tensor([float("inf"), 0.0])).sum()
    assert not np.isfinite(loss.item())
    before = wend.debug.find_nan(loss)
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1e9)
    after = wend.debug.find_nan(loss)
    assert (before.op, before.line) == (after.op, after.line)
    optimizer.zero_grad()


@pytest.mark.parametrize(
    "habit",
    ["retain", "twice", "create", "hook", "clip", "function", "checkpoint", "vmap", "inplace"],
)
def test_backward_passes_of_all_forms(habit):
    """The planted op is found however the pass is run."""
    w = torch.nn.Parameter(torch.zeros(3))
    with wend.debug.nan_guard(), pytest.raises(BadValueError) as error:
        HABITS[habit](w)
        if w.grad is not None:
            w.grad.sum().item()
    found = error.value.finding
    assert found.op == "SqrtBackward0" and found.direction == "backward", found
    assert found.site.code.co_name in (habit, "rooted"), found


def rooted(w):
    return w.abs().sqrt()


def retain(w):
    loss = rooted(w).sum()
    loss.backward(retain_graph=True)


def twice(w):
    loss = rooted(w).sum()
    assert loss.item() == 0
    loss.backward(retain_graph=True)
    loss.backward()


def create(w):
    (g,) = torch.autograd.grad(rooted(w).sum(), w, create_graph=True)
    g.sum().item()


def hook(w):
    y = rooted(w)
    y.register_hook(lambda g: g * 2)
    y.sum().backward()


def clip(w):
    rooted(w).sum().backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)


def function(w):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    Double.apply(rooted(w)).sum().backward()


def checkpoint(w):
    from wend.utils.checkpoint import checkpoint as again

    again(rooted, w, use_reentrant=False).sum().backward()


def vmap(w):
    torch.func.vmap(torch.func.grad(lambda x: rooted(x).sum()))(w[:, None]).sum().item()


def inplace(w):
    h = w.abs() * 1
    h.sqrt_()
    h.sum().backward()


FORMS = (retain, twice, create, hook, clip, function, checkpoint, vmap, inplace)
HABITS = {f.__name__: f for f in FORMS}


@pytest.mark.parametrize("read", [False, True])
def test_programs_of_equal_structure_have_lines_of_their_own(read):
    """The backward pass of a segment is shared by all programs of its structure."""

    def first(w):
        return w.abs().sqrt()

    def second(w):
        return w.abs().sqrt()

    for function in (first, second, first):
        w = torch.nn.Parameter(torch.zeros(3))
        with wend.debug.nan_guard(), pytest.raises(BadValueError) as error:
            loss = function(w).sum()
            if read:
                loss.item()
            loss.backward()
            w.grad.sum().item()
        assert error.value.finding.site.code is function.__code__


def test_wrong_arguments():
    with pytest.raises(ArgumentTypeError, match="a module or several, not a str"):
        wend.debug.find_nan(torch.ones(2), model="net")
