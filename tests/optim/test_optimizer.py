"""What all optimizers share: groups, hooks, closures, faults. No PyTorch."""

import pickle

import pytest

import wend
from tries import own_trie
from wend import nn, optim
from wend._engine.core.primitive import REGISTRY
from wend.optim.optimizer import MOST_SETS, OFTEN


def parameter(*values):
    return nn.Parameter(wend.tensor(values))


@pytest.mark.smoke
def test_a_step_goes_against_the_gradient():
    p = parameter(1.0, 2.0)
    optimizer = optim.SGD([p], lr=0.5)
    (p * p).sum().backward()
    optimizer.step()
    assert p.tolist() == [0.0, 0.0]
    assert p.is_leaf
    assert p.requires_grad


def test_a_closure_is_called_with_gradients_on():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with wend.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert p.tolist() == [0.0]


def test_zero_grad_forgets_or_clears():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=0.5)
    (p * p).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_hooks_around_steps_and_state_dicts():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=0.5)
    seen = []
    optimizer.register_step_pre_hook(lambda *args: seen.append("before"))
    handle = optimizer.register_step_post_hook(lambda *args: seen.append("after"))
    everywhere = optim.optimizer.register_optimizer_step_post_hook(
        lambda *args: seen.append("everywhere")
    )
    optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda opt, state: seen.append(state["more"]))
    optimizer.step()
    handle.remove()
    everywhere.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["before", "after", "everywhere", "before", 1]


def test_a_pre_hook_may_replace_arguments():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=0.5)
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: ((lambda: 7,), {}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_a_learning_rate_can_be_a_tensor():
    p = parameter(1.0)
    optimizer = optim.Adam([p], lr=wend.tensor(0.5))
    (p * p).sum().backward()
    optimizer.step()
    assert p.item() == pytest.approx(0.5, abs=1e-6)


def test_steps_survive_a_pickle():
    p = parameter(1.0)
    optimizer = optim.Adam([p])
    (p * p).sum().backward()
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    assert again.state_dict()["state"][0]["step"].item() == 1.0
    again.step()


def test_tensors_of_several_dtypes_are_stepped_in_their_own():
    for dtype in (wend.float64, wend.float16, wend.bfloat16):
        p = nn.Parameter(wend.ones(2, dtype=dtype))
        optimizer = optim.AdamW([p], lr=0.1)
        (p * p).sum().backward()
        optimizer.step()
        assert p.dtype == dtype
        assert optimizer.state[p]["exp_avg"].dtype == dtype


def test_a_changing_rate_is_no_new_structure():
    p = parameter(1.0)
    optimizer = optim.Adam([p], lr=0.1)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for _ in range(5):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
        schedule.step()
    after = len(REGISTRY["adam_step"]._interned)
    for _ in range(5):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
        schedule.step()
    assert len(REGISTRY["adam_step"]._interned) == after


def test_custom_optimizers_work_as_in_pytorch():
    class Signs(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @wend.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.add_(p.grad.sign(), alpha=-group["lr"])
                        self.state[p]["count"] = self.state[p].get("count", 0) + 1

    p = parameter(1.0, -1.0)
    optimizer = Signs([p], 0.25)
    (p * p).sum().backward()
    optimizer.step()
    assert p.tolist() == [0.75, -0.75]
    assert optimizer.state[p]["count"] == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda: optim.SGD(parameter(1.0), lr=0.1), TypeError, "iterable of Tensors or dicts"),
        (lambda: optim.SGD([3], lr=0.1), TypeError, "can only optimize Tensors"),
        (lambda: optim.SGD([parameter(1.0) * 2], lr=0.1), ValueError, "non-leaf"),
        (lambda: optim.SGD([{"params": {parameter(1.0)}}]), TypeError, "ordered collections"),
        (lambda: optim.SGD([parameter(1.0)], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda: optim.SGD([parameter(1.0)], nesterov=True), ValueError, "Nesterov"),
        (lambda: optim.Adam([parameter(1.0)], betas=(1.0, 0.9)), ValueError, "index 0: 1.0"),
        (lambda: optim.Adam([parameter(1.0)], eps=-1), ValueError, "epsilon value: -1"),
        (lambda: optim.Rprop([parameter(1.0)], etas=(2, 3)), ValueError, "eta values"),
        (lambda: optim.Adadelta([parameter(1.0)], rho=2), ValueError, "rho value"),
        (
            lambda: optim.Adam([parameter(1.0)], differentiable=True, fused=True),
            RuntimeError,
            "`fused` does not support `differentiable`",
        ),
        (
            lambda: optim.LBFGS([{"params": [parameter(1.0)]}, {"params": [parameter(1.0)]}]),
            ValueError,
            "parameter groups",
        ),
    ],
)
def test_bad_settings_raise(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_parameter_belongs_to_one_group():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=0.1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [p]})
    with pytest.raises(TypeError, match="must be a dict"):
        optimizer.add_param_group([p])


def test_a_parameter_that_is_listed_twice_is_warned_of():
    p = parameter(1.0)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)


def test_state_dicts_of_other_shapes_raise():
    one, two = optim.SGD([parameter(1.0)]), optim.SGD([parameter(1.0), parameter(2.0)])
    with pytest.raises(ValueError, match="doesn't match the size"):
        one.load_state_dict(two.state_dict())
    two.add_param_group({"params": [parameter(3.0)]})
    with pytest.raises(ValueError, match="different number of parameter groups"):
        one.load_state_dict(two.state_dict())


def test_a_failed_step_leaves_no_trace():
    table, p = nn.Embedding(3, 1), parameter(1.0)
    optimizer = optim.Adam([*table.parameters(), p], lr=0.1)
    good = wend.tensor([0, 1])

    def step(index):
        optimizer.zero_grad()
        loss = (table(index) * p).sum()
        loss.backward()
        optimizer.step()

    step(good)
    before = [table.weight.detach().clone(), p.detach().clone(), optimizer.state[p]["step"]]
    bad = wend.tensor([2, 0]) + wend.arange(2) * 9  # known only when it is computed
    with pytest.raises(IndexError):
        step(bad)
    assert wend.equal(table.weight, before[0])
    assert wend.equal(p, before[1])
    assert optimizer.state[p]["step"] == before[2]
    step(good)
    assert optimizer.state[p]["step"] == before[2] + 1


def give(parameters, chosen):
    """Gradients for those whose bits are set in a number; none for the others."""
    for k, p in enumerate(parameters):
        p.grad = wend.tensor([1.0 + k, chosen + 1.0]) if chosen >> k & 1 else None


def states_below(state):
    """How much a trie has taken up."""
    return sum(1 + states_below(child) for child in state.offspring())


def test_many_sets_of_parameters_take_no_paths_of_their_own():
    """Where it is examples that decide which parameters have gradients (early exits, say)."""
    mine, theirs = ([parameter(1.0 * k, 2.0) for k in range(8)] for _ in range(2))
    optimizer = optim.Adam(mine[:5], lr=0.1)
    optimizer.add_param_group({"params": mine[5:], "lr": 0.2})
    singly = [optim.Adam([p], lr=0.1 if k < 5 else 0.2) for k, p in enumerate(theirs)]
    with own_trie() as root:
        for n in range(4 * MOST_SETS):
            if n == 2 * MOST_SETS:
                known = states_below(root)
            chosen = n * 37 % 255 + 1
            give(mine, chosen)
            optimizer.step()
        assert states_below(root) == known
        give(mine, 255)
        for _ in range(OFTEN):  # but one that does come back has its own
            optimizer.step()
        assert states_below(root) > known
    for n in range(4 * MOST_SETS + OFTEN):
        give(theirs, n * 37 % 255 + 1 if n < 4 * MOST_SETS else 255)
        for one in singly:
            one.step()
    for p, other in zip(mine, theirs, strict=True):
        assert wend.equal(p, other)


def test_a_failed_step_of_one_of_many_sets_leaves_whole_those_that_went_before():
    parameters = [parameter(1.0, 2.0) for _ in range(8)]

    class Picky(optim.Adam):
        def _update(self, group, found):
            if self.bad in map(id, found):
                raise RuntimeError("not this one")
            super()._update(group, found)

    optimizer = Picky(parameters, lr=0.1)
    optimizer.bad = None
    for n in range(1, MOST_SETS + 2):
        give(parameters, n)
        optimizer.step()
    steps = [optimizer.state[p]["step"] if p in optimizer.state else 0.0 for p in parameters[:4]]
    values = [p.tolist() for p in parameters]
    optimizer.bad = id(parameters[2])
    give(parameters, 15)
    with pytest.raises(RuntimeError, match="not this one"):
        optimizer.step()
    changed = [p.tolist() != old for p, old in zip(parameters, values, strict=True)]
    assert changed == [True] * 2 + [False] * 6  # they step in pairs
    found = [optimizer.state[p]["step"] for p in parameters[:4]]
    assert found == [steps[0] + 1, steps[1] + 1, *steps[2:]]


def test_averaged_models():
    model = nn.Linear(1, 1, bias=False)
    with wend.no_grad():
        model.weight.fill_(2.0)
    mean = optim.swa_utils.AveragedModel(model)
    ema = optim.swa_utils.AveragedModel(
        model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5)
    )
    for value in (2.0, 4.0, 9.0):
        with wend.no_grad():
            model.weight.fill_(value)
        mean.update_parameters(model)
        ema.update_parameters(model)
    assert mean.module.weight.item() == pytest.approx(5.0)
    assert ema.module.weight.item() == pytest.approx(6.0)
    assert mean.n_averaged.item() == 3
    assert mean(wend.ones(1)).item() == pytest.approx(5.0)


def test_update_bn_computes_statistics_anew():
    model = nn.Sequential(nn.BatchNorm1d(1))
    data = [wend.tensor([[0.0], [2.0]]), wend.tensor([[4.0], [6.0]])]
    optim.swa_utils.update_bn(data, model)
    assert model[0].running_mean.item() == pytest.approx(3.0)
    assert model[0].momentum == 0.1


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.Adam(p, lr=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    ],
)
@pytest.mark.parametrize("dtype", [wend.float32, wend.float64])
def test_averages_fade_to_zero(make, dtype):
    """Where gradients stay 0, averages end as 0, not as subnormal numbers, which are slow."""
    w = nn.Parameter(wend.ones(3, dtype=dtype))
    optimizer = make([w])
    least = wend.finfo(dtype).smallest_normal
    for scale in (1e-36 if dtype is wend.float32 else 1e-306, 0.0, 0.0):
        for _ in range(25):
            optimizer.zero_grad()
            (w * scale).sum().backward()
            optimizer.step()
            for value in optimizer.state[w].values():
                if isinstance(value, wend.Tensor):
                    size = value.detach().abs()
                    assert bool(((size == 0) | (size >= least)).all())


def test_initial_values_are_computed_before_the_first_step():
    """The path of the first step is that of the second."""
    model = nn.Linear(3, 4)
    assert model.weight.value.buffer is None
    x = wend.ones(2, 3) + 1
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    assert model.weight.value.buffer is not None and x.value.buffer is not None
    y = x + 1
    optim.SGD(model.parameters(), lr=0.1)  # nothing to compute
    assert y.value.buffer is None
    model(y).sum().backward()
    optimizer.step()
