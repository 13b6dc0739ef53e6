"""`func.rearrange` and the other helpers of `func`, against PyTorch's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402

X = np.arange(24.0).reshape(2, 3, 4)
PATTERNS = [
    ("a b c -> c b a", {}),
    ("a b c->c b a", {}),
    ("  a  b c -> c a b ", {}),
    ("... c -> c ...", {}),
    ("a ... -> ... a", {}),
    ("a ... b c -> c a b ...", {}),
    ("a b c -> (a b) c", {}),
    ("a b c -> a (b c) ()", {}),
    ("a b c -> a 1 b c", {}),
    ("a b c -> (c b) a 1 ()", {}),
    ("(a 1) b c -> a b c", {}),
    ("... -> (...)", {}),
    ("a ... -> a (...)", {}),
    ("a ... -> (... a)", {}),
    ("(a k) b c -> a k b c", {"k": 2}),
    ("(a k) b c -> k (a b) c", {"a": 2}),
    ("a b (c d) -> a b d c", {"c": 2}),
    ("a b (c d) -> (a d) b c", {"c": 2, "d": 2}),
    ("a b (c d) -> (a d) b c", {"c": 2, "d": 2, "a": 2}),
    ("a_1 b2 c -> b2 (c a_1)", {}),
]
REFUSED = [
    ("a b c -> a b", {}),
    ("a b c -> a b c d", {}),
    ("a b -> b a", {}),
    ("a b c d ... -> a b c d ...", {}),
    ("a b c -> (a b", {}),
    ("a (b c -> a b c", {}),
    ("a b) c -> a b c", {}),
    ("a b c -> a ((b) c)", {}),
    ("a a c -> c a", {}),
    ("a b c", {}),
    ("a b c -> a b c -> a", {}),
    ("a b c -> ... a b c", {}),
    ("(a ...) c -> a ... c", {}),
    ("... ... -> ...", {}),
    ("a b c -> a 2 b c", {}),
    ("2 b c -> b c 2", {}),
    ("a b_ c -> c b_ a", {}),
    ("_a b c -> _a b c", {}),
    ("a.b c d -> a", {}),
    ("a b 1c -> a", {}),
    ("a b c -> c b a", {"z": 3}),
    ("", {}),
]
MISFITS = [  # PyTorch raises a type of its own here
    ("(a k) b c -> a k b c", {"k": 3}),
    ("(a k) b c -> a k b c", {"k": 0}),
    ("(a k) b c -> a k b c", {}),
    ("a b (c d) -> a b c d", {"c": 2, "d": 3}),
    ("a b c -> c b a", {"a": 3}),
]


def equal(ours, theirs):
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())


@pytest.mark.parametrize(("pattern", "lengths"), PATTERNS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_equals_torchs(pattern, lengths, dtype):
    theirs = torch.func.rearrange(torch.tensor(X).to(getattr(torch, dtype)), pattern, **lengths)
    ours = wend.func.rearrange(wend.tensor(X).to(getattr(wend, dtype)), pattern, **lengths)
    equal(ours, theirs)


@pytest.mark.parametrize(("pattern", "lengths"), PATTERNS)
def test_gradients_equal_torchs(pattern, lengths):
    grads = []
    for t in (wend, torch):
        x = t.tensor(X).requires_grad_()
        y = t.func.rearrange(x * 1, pattern, **lengths)
        (y * t.arange(24.0, dtype=t.float64).reshape(y.shape)).sin().sum().backward()
        grads.append(x.grad)
    np.testing.assert_allclose(*[g.numpy() for g in grads], rtol=1e-12)


@pytest.mark.parametrize(("pattern", "lengths"), REFUSED)
def test_refused_as_by_torch(pattern, lengths):
    with pytest.raises(ValueError):
        torch.func.rearrange(torch.tensor(X), pattern, **lengths)
    with pytest.raises(ValueError, match="rearrange"):
        wend.func.rearrange(wend.tensor(X), pattern, **lengths)


@pytest.mark.parametrize(("pattern", "lengths"), MISFITS)
def test_lengths_that_do_not_fit(pattern, lengths):
    with pytest.raises(Exception):  # noqa: B017 (PyTorch's own type)
        torch.func.rearrange(torch.tensor(X), pattern, **lengths)
    with pytest.raises(ValueError, match="rearrange"):
        wend.func.rearrange(wend.tensor(X), pattern, **lengths)


def test_other_arguments():
    for t in (wend, torch):
        with pytest.raises(TypeError):
            t.func.rearrange(t.tensor(X), "a b c -> a b c", a=2.0)
        with pytest.raises(TypeError):
            t.func.rearrange(3, "a -> a")
        with pytest.raises(RuntimeError):
            t.func.rearrange([], "a -> a")
    several = [wend.tensor(X), wend.tensor(X + 1)]
    theirs = [torch.tensor(X), torch.tensor(X + 1)]
    pattern = "n a b c -> a (n b) c"
    equal(wend.func.rearrange(several, pattern), torch.func.rearrange(theirs, pattern))
    pattern = "(a k) b -> a k b"
    equal(
        wend.func.rearrange(wend.zeros(0, 3), pattern, k=2),
        torch.func.rearrange(torch.zeros(0, 3), pattern, k=2),
    )
    assert wend.func.rearrange(wend.tensor(1.0), "-> 1").shape == (1,)  # PyTorch keeps no dim
    assert wend.func.rearrange(wend.zeros(2, 1), "a 1 -> a").shape == (2,)
    with pytest.raises(ValueError, match="size 3"):
        wend.func.rearrange(wend.zeros(2, 3), "a 1 -> a")


def test_sizes_share_a_path():
    function = wend.func.vmap(lambda x: wend.func.rearrange(x, "(a b) c -> b c a", b=2))
    x = wend.arange(48.0).reshape(2, 4, 6)
    assert function(x).shape == (2, 2, 6, 2)
    np.testing.assert_array_equal(
        function(x).numpy(), x.numpy().reshape(2, 2, 2, 6).transpose(0, 2, 3, 1)
    )


# -- other helpers --------------------------------------------------------------------------


def test_batch_norms_lose_their_statistics():
    for t in (wend, torch):
        net = t.nn.Sequential(
            t.nn.BatchNorm1d(3), t.nn.Sequential(t.nn.BatchNorm2d(2)), t.nn.ReLU()
        )
        assert t.func.replace_all_batch_norm_modules_(net) is net
        for norm in (net[0], net[1][0]):
            assert norm.running_mean is None
            assert norm.running_var is None
            assert norm.num_batches_tracked is None
            assert norm.track_running_stats is False
    net = wend.func.replace_all_batch_norm_modules_(wend.nn.BatchNorm1d(3))
    x = wend.randn(5, 4, 3)
    made = wend.func.vmap(net)(x).detach().numpy()
    for got, given in zip(made, x, strict=True):
        np.testing.assert_allclose(got, net(given).detach().numpy(), atol=1e-6)


def test_the_tensor_behind_a_mapped_one():
    seen = []

    def inner(x):
        y = x * 2
        seen.append((wend.func.debug_unwrap(y), wend.func.debug_unwrap(y, recurse=False)))
        return y.sum()

    x = wend.arange(6.0).reshape(2, 3)
    wend.func.vmap(inner)(x)
    assert seen[0][0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert seen[0][1].tolist() == seen[0][0].tolist()
    x = wend.arange(12.0).reshape(2, 3, 2)
    wend.func.vmap(wend.func.vmap(inner))(x)
    full, once = seen[1]
    assert full.shape == (2, 3, 2)
    assert full.tolist() == (x * 2).tolist()
    assert once.shape == (3, 2)
    plain = wend.ones(2)
    assert wend.func.debug_unwrap(plain) is plain


def test_values_are_seen_inside_of_a_mapped_function():
    seen = []

    def function(x):
        seen.append(wend.func.debug_unwrap(x + 1).tolist())
        return x

    wend.func.vmap(function)(wend.arange(3.0))
    assert seen == [[1, 2, 3]]
