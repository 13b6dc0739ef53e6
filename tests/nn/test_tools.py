"""nn.utils: clipping, vectors, reparametrized weights, calls with other parameters."""

import numpy as np
import pytest

import wend
from wend import nn

RNG = np.random.default_rng(0)


def with_gradients(t):
    parameters = [t.nn.Parameter(t.zeros(2, 3)), t.nn.Parameter(t.zeros(4))]
    rng = np.random.default_rng(1)
    for p in parameters:
        p.grad = t.tensor(rng.normal(size=tuple(p.shape)).astype(np.float32) * 3)
    return parameters


@pytest.mark.parametrize("norm_type", [2.0, 1, float("inf"), 3])
@pytest.mark.parametrize("bound", [0.5, 1000.0])
def test_clipping_by_norm_equals_torchs(norm_type, bound):
    torch = pytest.importorskip("torch")
    results = []
    for t in (wend, torch):
        parameters = with_gradients(t)
        total = t.nn.utils.clip_grad_norm_(parameters, bound, norm_type)
        results.append([total.numpy(), *(p.grad.numpy() for p in parameters)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_clipping_of_one_or_no_gradient():
    p = nn.Parameter(wend.ones(2))
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == 0
    p.grad = wend.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == 5
    assert wend.allclose(p.grad, wend.tensor([0.6, 0.8]))
    p.grad = wend.tensor([float("nan"), 4.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_clipping_by_value():
    p = nn.Parameter(wend.ones(3))
    p.grad = wend.tensor([-3.0, 0.1, 4.0])
    nn.utils.clip_grad_value_([p, nn.Parameter(wend.ones(1))], 0.5)
    assert wend.allclose(p.grad, wend.tensor([-0.5, 0.1, 0.5]))


def test_parameters_as_a_vector():
    net = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(wend.arange(9.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert net.bias.tolist() == [6, 7, 8]
    net(wend.ones(2)).sum().backward()
    assert net.weight.grad is not None
    with pytest.raises(TypeError, match=r"expected torch\.Tensor"):
        nn.utils.vector_to_parameters([1], net.parameters())


# -- weight norm -----------------------------------------------------------------------------


def test_weight_norm_by_hook_equals_torchs():
    torch = pytest.importorskip("torch")
    values = RNG.normal(size=(3, 4)).astype(np.float32)
    data = RNG.normal(size=(2, 4)).astype(np.float32)
    results = []
    for t in (wend, torch):
        net = t.nn.Linear(4, 3, bias=False)
        net.load_state_dict({"weight": t.tensor(values)})
        net = t.nn.utils.weight_norm(net)
        assert sorted(net.state_dict()) == ["weight_g", "weight_v"]
        net(t.tensor(data)).sum().backward()
        results.append([net.weight_g.grad.numpy(), net.weight_v.grad.numpy()])
        t.nn.utils.remove_weight_norm(net)
        np.testing.assert_allclose(net.weight.detach().numpy(), values, rtol=1e-5)
        assert list(net.state_dict()) == ["weight"]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_weight_norm_as_a_parametrization_equals_torchs():
    torch = pytest.importorskip("torch")
    values = RNG.normal(size=(3, 4, 2)).astype(np.float32)
    results = []
    for t in (wend, torch):
        net = t.nn.Conv1d(4, 3, 2)
        with t.no_grad():
            net.weight.copy_(t.tensor(values))
        t.nn.utils.parametrizations.weight_norm(net, dim=1)
        np.testing.assert_allclose(net.weight.detach().numpy(), values, rtol=1e-5)
        (net.weight * t.arange(24.0).reshape(3, 4, 2)).sum().backward()
        results.append({k: p.grad for k, p in net.named_parameters() if p.grad is not None})
        assert type(net).__name__ == "ParametrizedConv1d"
    assert list(results[0]) == list(results[1])
    for name, grad in results[1].items():
        np.testing.assert_allclose(results[0][name].numpy(), grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["hook", "parametrization"])
def test_spectral_norm_leads_to_norm_one(form):
    wend.manual_seed(0)
    net = nn.Linear(5, 4)
    wrap = nn.utils.spectral_norm if form == "hook" else nn.utils.parametrizations.spectral_norm
    wrap(net, n_power_iterations=3)
    for _ in range(20):
        net(wend.ones(1, 5))
    values = np.linalg.svd(net.weight.detach().numpy(), compute_uv=False)
    assert values[0] == pytest.approx(1.0, abs=1e-4)
    net(wend.ones(1, 5)).sum().backward()
    assert any(p.grad is not None and p.grad.shape == (4, 5) for p in net.parameters())
    net.eval()
    state = {k: v.clone() for k, v in net.state_dict().items()}
    net(wend.ones(1, 5))
    assert all(wend.equal(value, state[name]) for name, value in net.state_dict().items())


def test_spectral_norm_can_be_removed():
    net = nn.utils.spectral_norm(nn.Linear(5, 4))
    net(wend.ones(1, 5))
    nn.utils.remove_spectral_norm(net)
    assert sorted(net.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_spectral_norm(net)


# -- parametrizations ------------------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, x):
        return x.triu()


def test_parametrized_tensors_are_computed_when_read():
    net = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(net, "weight", Symmetric())
    assert wend.equal(net.weight, net.weight.t())
    assert nn.utils.parametrize.is_parametrized(net, "weight")
    assert not nn.utils.parametrize.is_parametrized(net, "bias")
    assert list(net.state_dict()) == ["bias", "parametrizations.weight.original"]
    net.weight = wend.ones(3, 3)
    assert net.weight.tolist() == [[1, 1, 1]] * 3
    with nn.utils.parametrize.cached():
        assert net.weight is net.weight
    assert net.weight is not net.weight
    net(wend.ones(3)).sum().backward()
    assert net.parametrizations.weight.original.grad is not None
    nn.utils.parametrize.remove_parametrizations(net, "weight")
    assert type(net) is nn.Linear
    assert net.weight.tolist() == [[1, 1, 1]] * 3
    assert isinstance(net.weight, nn.Parameter)


def test_bad_parametrizations_raise():
    class Wider(nn.Module):
        def forward(self, x):
            return x.repeat(2, 1)

    with pytest.raises(ValueError, match="may not change the shape"):
        nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "weight", Wider())
    with pytest.raises(ValueError, match="does not have a parameter"):
        nn.utils.parametrize.register_parametrization(nn.Linear(2, 2), "nothing", Symmetric())


# -- functional calls ------------------------------------------------------------------------


def test_functional_call_uses_the_given_tensors():
    net = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1).eval())
    before = net[0].weight
    call = nn.utils.stateless.functional_call
    weight = wend.ones(1, 2, requires_grad=True)
    data = wend.tensor([[1.0, 2.0]])
    given = {"0.weight": weight, "0.bias": wend.zeros(1), "1.running_mean": wend.ones(1)}
    result = call(net, given, data)
    assert result.item() == pytest.approx(2.0, abs=1e-4)
    result.sum().backward()
    assert weight.grad.tolist()[0] == pytest.approx([1, 2], abs=1e-4)
    assert net[0].weight is before
    assert before.grad is None
    with pytest.raises(RuntimeError, match="Missing key"):
        call(net, given, data, strict=True)
    with pytest.raises(AttributeError, match="nothing"):
        call(net, {"0.nothing": weight}, data)
    assert net[0].weight is before


def test_functional_call_replaces_ties():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(wend.ones(1))
            self.b = self.a

        def forward(self, x):
            return self.a * x + self.b

    call = nn.utils.stateless.functional_call
    assert call(Tied(), {"a": wend.tensor([3.0])}, wend.tensor([2.0])).item() == 9
    assert (
        call(Tied(), {"a": wend.tensor([3.0])}, wend.tensor([2.0]), tie_weights=False).item() == 7
    )
