"""Orthogonal weights as a parametrization, against PyTorch's from the same state."""

import numpy as np
import pytest

import wend
from wend.nn.utils.parametrizations import orthogonal

torch = pytest.importorskip("torch")
theirs = torch.nn.utils.parametrizations.orthogonal


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("name", [None, "householder", "cayley", "matrix_exp"])
@pytest.mark.parametrize("sizes", [(3, 5), (5, 3), (4, 4)])
def test_weights_and_gradients(sizes, name, trivial):
    torch.manual_seed(0)  # in float64: in float32 some draws differ by more than 1e-5
    ours, other = (t.nn.Linear(*sizes, dtype=t.float64) for t in (wend, torch))
    orthogonal(ours, orthogonal_map=name, use_trivialization=trivial)
    theirs(other, orthogonal_map=name, use_trivialization=trivial)
    assert list(ours.state_dict()) == list(other.state_dict())
    weight = ours.weight.detach().numpy()
    tall = weight if weight.shape[0] >= weight.shape[1] else weight.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(tall.shape[1]), atol=1e-10)

    state = {key: wend.tensor(value.numpy()) for key, value in other.state_dict().items()}
    ours.load_state_dict(state)
    np.testing.assert_allclose(
        ours.weight.detach().numpy(), other.weight.detach().numpy(), atol=1e-10
    )
    for library, net in ((wend, ours), (torch, other)):
        (net(library.eye(sizes[0], dtype=library.float64)) ** 3).sum().backward()
    got, want = (net.parametrizations.weight.original.grad.numpy() for net in (ours, other))
    np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize(("sizes", "name"), [((3, 5), None), ((4, 4), "cayley"), ((5, 3), None)])
def test_a_matrix_can_be_assigned(sizes, name):
    net = wend.nn.Linear(*sizes)
    orthogonal(net, orthogonal_map=name)
    wanted = wend.nn.init.orthogonal_(wend.empty(*net.weight.shape))
    net.weight = wanted
    np.testing.assert_allclose(net.weight.detach().numpy(), wanted.numpy(), atol=1e-5)


def test_refusals():
    net = wend.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="has to be one of"):
        orthogonal(net, orthogonal_map="polar")
    with pytest.raises(ValueError, match="Expected a matrix"):
        orthogonal(net, "bias")
    with pytest.raises(ValueError, match="no parameter or buffer"):
        orthogonal(net, "wheel")
    orthogonal(net, orthogonal_map="matrix_exp", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        net.weight = wend.eye(2)
