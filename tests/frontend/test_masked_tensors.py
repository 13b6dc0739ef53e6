"""`MaskedTensor`: its ops, reductions, moves and gradients, against PyTorch's."""

import copy
import operator
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import wend  # noqa: E402
from wend._frontend.components import Call  # noqa: E402
from wend.masked.table import BINARY, UNARY  # noqa: E402

RNG = np.random.default_rng(0)
DATA = RNG.uniform(0.1, 0.9, size=(3, 4))
MASK = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], dtype=bool)
INTS = (
    "bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
)


@pytest.fixture(autouse=True)
def quiet():
    """PyTorch warns of each of its masked tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def made(t, data=DATA, mask=MASK, requires_grad=False):
    return t.masked.masked_tensor(t.tensor(data), t.tensor(mask), requires_grad)


def same(ours, theirs, tolerance=1e-6):
    """Two masked tensors with equal masks, and equal data where that counts."""
    assert type(ours) is wend.masked.MaskedTensor
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    mask = theirs.get_mask().numpy()
    np.testing.assert_array_equal(ours.get_mask().numpy(), mask)
    a, b = ours.get_data().detach().numpy(), theirs.get_data().detach().numpy()
    np.testing.assert_allclose(a[mask], b[mask], rtol=tolerance, atol=tolerance)


def name_of(ops):
    """The functions of `wend` that call these ops, under all names of an op."""
    found = []
    for name, function in sorted(vars(wend).items()):
        if callable(function) and not isinstance(function, type):
            call = Call(function, (), {})
            if not call.in_place and (call.base in ops or call.op in ops):
                found.append(name)
    return found


# -- elements -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", name_of(UNARY))
def test_functions_of_an_element(name):
    more = {"clamp": (0.3, 0.7), "clip": (0.3, 0.7), "pow": (2,)}.get(name, ())
    data = DATA + 1 if name in ("acosh", "arccosh") else DATA
    if name in INTS:
        data = (DATA * 10).astype(np.int64)
    theirs = getattr(torch, name)(made(torch, data), *more)
    same(getattr(wend, name)(made(wend, data), *more), theirs)
    same(getattr(made(wend, data), name)(*more), theirs)
    if hasattr(torch.Tensor, f"{name}_") and name not in ("angle", "positive", "signbit", "isnan"):
        a, b = made(wend, data), made(torch, data)
        back = getattr(a, f"{name}_")(*more)
        assert back is a
        same(a, getattr(b, f"{name}_")(*more))


NO_NUMBERS = "atan2 arctan2 logaddexp logaddexp2 nextafter maximum minimum fmax fmin".split()
PAIRS = [
    (name, second)
    for name in name_of(BINARY)
    for second in ("masked", "plain", "number")
    if name != "rsub" and not (second == "number" and name in NO_NUMBERS)
]


@pytest.mark.parametrize(("name", "second"), PAIRS)
def test_functions_of_two_elements(name, second):
    first, other = DATA, np.flip(DATA, 0).copy()
    if name in INTS:
        first, other = ((x * 10).astype(np.int64) for x in (first, other))
    number = 2 if name in INTS else 0.3
    results = []
    for t in (wend, torch):
        y = {"masked": made(t, other), "plain": t.tensor(other), "number": number}[second]
        results.append(getattr(t, name)(made(t, first), y))
    same(*results)
    results = []
    if hasattr(torch.Tensor, f"{name}_"):
        for t in (wend, torch):
            y = {"masked": made(t, other), "plain": t.tensor(other), "number": number}[second]
            x = made(t, first)
            getattr(x, f"{name}_")(y)
            results.append(x)
        if results[1].get_data().dtype == torch.tensor(first).dtype:
            same(*results)


@pytest.mark.parametrize(
    "op", [operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.ge]
)
def test_operators(op):
    same(op(made(wend), made(wend, DATA * 2)), op(made(torch), made(torch, DATA * 2)))
    same(op(made(wend), 0.5), op(made(torch), 0.5))
    plain = np.flip(DATA).copy()
    same(op(made(wend), wend.tensor(plain)), op(made(torch), torch.tensor(plain)))
    if op in (operator.add, operator.mul):
        same(op(0.5, made(wend)), op(0.5, made(torch)))
        same(op(wend.tensor(plain), made(wend)), op(torch.tensor(plain), made(torch)))


def test_operators_in_place_and_reversed():
    x = made(wend)
    kept = x
    x += 1
    assert x is kept
    same(x, made(torch) + 1)
    np.testing.assert_allclose((1 - made(wend)).get_data().numpy(), 1 - DATA)
    np.testing.assert_allclose((-made(wend)).get_data().numpy(), -DATA)
    np.testing.assert_allclose((made(wend) ** 2).get_data().numpy(), DATA**2)


def test_broadcasting():
    row, mask = DATA[:1], MASK[:1]
    results = [made(t, row, mask) * t.tensor(DATA) for t in (wend, torch)]
    same(*results)


# -- reductions -----------------------------------------------------------------------------


REDUCTIONS = [
    (name, dtype, dim, keepdim)
    for name in "sum mean amin amax argmin argmax prod all var std".split()
    for dtype in ("float32", "float64", "int32", "bool")
    for dim, keepdim in ((None, False), *((d, k) for d in (0, 1, -1) for k in (False, True)))
    # PyTorch has no extreme bool, and means of floats only.
    if not (dtype == "bool" and name in ("amin", "amax", "argmin", "argmax"))
    and not (dtype in ("bool", "int32") and name in ("mean", "var", "std"))
]


@pytest.mark.parametrize(("name", "dtype", "dim", "keepdim"), REDUCTIONS)
def test_reductions(name, dtype, dim, keepdim):
    results = []
    for t in (wend, torch):
        x = t.masked.masked_tensor((t.tensor(DATA * 5)).to(getattr(t, dtype)), t.tensor(MASK))
        args = () if dim is None else (dim, keepdim)
        results.append(getattr(t, name)(x, *args))
        again = getattr(x, name)(*args)
        np.testing.assert_array_equal(again.get_mask().numpy(), results[-1].get_mask().numpy())
    same(*results, 1e-5)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod"])
def test_reductions_of_several_dims(name):
    same(
        getattr(made(wend), name)(dim=(0, 1)) if name != "prod" else made(wend).prod(),
        getattr(made(torch), name)(dim=(0, 1)) if name != "prod" else made(torch).prod(),
    )


def test_norms():
    x = made(wend)
    chosen = np.where(MASK, DATA, 0)
    np.testing.assert_allclose(x.norm().item(), np.linalg.norm(chosen))
    np.testing.assert_allclose(x.norm(1, 0).get_data().numpy(), chosen.sum(0))
    assert x.norm(2, 1).get_mask().tolist() == MASK.any(1).tolist()


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "std", "softmax", "cumsum"])
def test_functions_of_the_package(name):
    """`torch.masked.sum(mt)` is a plain tensor; a further mask leaves out more."""
    ours, theirs = getattr(wend.masked, name), getattr(torch.masked, name)
    further = np.flip(MASK, 1).copy()
    for extra in ({}, {"mask": further}):
        given = [{k: t.tensor(m) for k, m in extra.items()} for t in (wend, torch)]
        mask = MASK & further if extra else MASK
        mine = ours(made(wend), 1, **given[0])
        expected = theirs(torch.tensor(DATA), 1, mask=torch.tensor(mask))
        assert type(mine) is wend.Tensor
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), rtol=1e-6)


# -- moves ----------------------------------------------------------------------------------

MOVES = [
    lambda t, x: x[0],
    lambda t, x: x[1:, ::2],
    lambda t, x: x[:, -1],
    lambda t, x: x[t.tensor([2, 0])],
    lambda t, x: x.transpose(0, 1),
    lambda t, x: x.t(),
    lambda t, x: x.reshape(2, 6),
    lambda t, x: x.view(4, 3),
    lambda t, x: x.flatten(),
    lambda t, x: x.unsqueeze(1),
    lambda t, x: x.unsqueeze(0).expand(2, 3, 4),
    lambda t, x: x.unfold(1, 2, 1),
    lambda t, x: t.cat([x, x], 1),
    lambda t, x: t.stack([x, x]),
    lambda t, x: t.split(x, 2, 1)[1],
    lambda t, x: t.chunk(x, 2, 1)[0],
    lambda t, x: x.contiguous(),
    lambda t, x: x.clone(),
    lambda t, x: x.detach(),
    lambda t, x: x.to(t.float32),
    lambda t, x: x.int(),
    lambda t, x: t.softmax(x, 1)[t.tensor([0, 2])],
    lambda t, x: x.softmax(0)[:, :3],
    lambda t, x: t.ones_like(x),
    lambda t, x: t.where(x.get_mask(), x, x * 2),
    lambda t, x: t.where(x.get_data() > 0.5, x, t.zeros(3, 4, dtype=t.float64)),
]


@pytest.mark.parametrize("move", MOVES)
def test_moves(move):
    same(move(wend, made(wend)), move(torch, made(torch)))


def test_moves_that_pytorch_lacks():
    x = made(wend)
    for got, place in (
        (x.permute(1, 0), lambda a: a.T),
        (x.T, lambda a: a.T),
        (x[None].squeeze(0), lambda a: a),
        (wend.unbind(x)[2], lambda a: a[2]),
        (wend.flip(x, (1,)), lambda a: a[:, ::-1]),
        (wend.cat([x, wend.ones(1, 4, dtype=wend.float64)])[:3], lambda a: a),
        (x[x.get_mask()], lambda a: a[MASK]),
    ):
        np.testing.assert_array_equal(got.get_data().numpy(), place(DATA))
        np.testing.assert_array_equal(got.get_mask().numpy(), place(MASK))


# -- gradients ------------------------------------------------------------------------------

LOSSES = [
    lambda t, x: x.sum(),
    lambda t, x: (x * 2).sin().sum(),
    lambda t, x: t.log(x - 0.5).sum(),
    lambda t, x: (x * x).mean(),
    lambda t, x: x.amax(1).sum(),
    lambda t, x: x.prod(),
    lambda t, x: (x / t.tensor(np.flip(DATA).copy())).sum(0).mean(),
    lambda t, x: t.cat([x, x * 3]).sum(),
    lambda t, x: x.transpose(0, 1).exp().std(),
    lambda t, x: (t.softmax(x, 1) * x).sum(),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients(loss):
    grads = []
    for t in (wend, torch):
        x = made(t, requires_grad=True)
        loss(t, x).backward()
        grads.append(x.grad)
    same(*grads, 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_of_the_data(loss):
    """Of a tensor that a masked tensor was made of; 0 where elements do not count."""
    grads = []
    for t in (wend, torch):
        x = t.tensor(DATA).requires_grad_()
        loss(t, t.masked.as_masked_tensor(x, t.tensor(MASK))).backward()
        grads.append(x.grad)
    ours, theirs = grads
    expected = theirs.to_tensor(0) if isinstance(theirs, torch.masked.MaskedTensor) else theirs
    np.testing.assert_allclose(ours.numpy(), np.where(MASK, expected.numpy(), 0), rtol=1e-5)


def test_no_nan_from_elements_that_do_not_count():
    x = wend.tensor([0.0, 4.0, -1.0]).requires_grad_()
    y = wend.masked.as_masked_tensor(x, x.detach() > 0)
    y.sqrt().sum().backward()
    assert x.grad.tolist() == [0, 0.25, 0]


def test_gradients_flow_through_the_parts():
    for t in (wend, torch):
        x = made(t, requires_grad=True)
        (x.get_data() * 3).sum().backward()
        assert x.grad.get_data()[0, 0].item() == 3
        x.grad = None
        x.to_tensor(0.0).sum().backward()
        assert x.grad.get_data()[0, 0].item() == 1
    x.grad = made(t)
    ours = made(wend, requires_grad=True)
    ours.grad = made(wend)
    same(ours.grad, made(torch))


# -- the class ------------------------------------------------------------------------------

TEXTS = [
    (DATA, MASK),
    (DATA * 1e5, MASK),
    ((DATA * 10).astype(np.int64), MASK),
    (DATA > 0.5, MASK),
    (DATA[0], MASK[0]),
    (DATA[0, 0], MASK[0, 0]),
    (DATA[0, 0], MASK[1, 0]),
    (np.array(3), np.array(True)),
    (DATA.reshape(3, 2, 2), MASK.reshape(3, 2, 2)),
]


@pytest.mark.parametrize(("data", "mask"), TEXTS)
def test_text(data, mask):
    assert repr(made(wend, data, mask)) == repr(made(torch, data, mask))


def test_parts():
    for t in (wend, torch):
        x = made(t)
        assert t.masked.is_masked_tensor(x)
        assert not t.masked.is_masked_tensor(x.get_data())
        np.testing.assert_array_equal(x.to_tensor(7).numpy(), np.where(MASK, DATA, 7))
        assert (x.is_sparse, x.is_sparse_coo(), x.is_sparse_csr()) == (False, False, False)
        assert (tuple(x.shape), x.dim(), x.numel(), len(x)) == ((3, 4), 2, 12, 3)
        doubled = t.masked.MaskedTensor.unary(lambda d: d * 2, t.tensor(DATA), t.tensor(MASK))
        np.testing.assert_allclose(doubled.get_data().numpy(), DATA * 2)
        assert float(x[0, 0]) == DATA[0, 0]
        assert bool(x[0, 0])
        with pytest.raises(ValueError):
            x[0, 1].item()
    assert wend.masked.maskedtensor.creation.masked_tensor is wend.masked.masked_tensor
    assert wend.masked.maskedtensor.core.MaskedTensor is wend.masked.MaskedTensor


def test_data_and_mask_are_copies():
    for t in (wend, torch):
        data, mask = t.tensor(DATA), t.tensor(MASK)
        x = t.masked.masked_tensor(data, mask)
        data.zero_()
        mask.fill_(True)
        np.testing.assert_array_equal(x.get_data().numpy(), DATA)
        np.testing.assert_array_equal(x.get_mask().numpy(), MASK)


def test_copies_and_pickles():
    x = made(wend, requires_grad=True)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        same(again, made(torch))
        assert again.requires_grad
        assert again.is_leaf


def test_a_written_copy():
    x, y = made(wend), made(torch)
    x.copy_(made(wend, DATA * 3))
    y.copy_(made(torch, DATA * 3))
    same(x, y)
    with pytest.raises(ValueError, match="copy_"):
        x.copy_(made(wend, DATA, ~MASK))


def test_a_tensor_that_requires_grad_warns():
    with pytest.warns(UserWarning, match="not recommended"):
        wend.masked.masked_tensor(wend.ones(1, requires_grad=True), wend.tensor([True]))


REFUSED = [
    (TypeError, lambda t: made(t) @ made(t)),
    (TypeError, lambda t: t.relu(made(t))),
    (TypeError, lambda t: made(t).cumsum(0)),
    (TypeError, lambda t: t.logsumexp(made(t), 0)),
    (ValueError, lambda t: made(t) + made(t, mask=~MASK)),
    (TypeError, lambda t: t.masked.masked_tensor(t.ones(2), t.ones(2))),
    (ValueError, lambda t: t.masked.masked_tensor(t.ones(2), t.ones(2, 1).bool())),
    (ValueError, lambda t: t.masked.masked_tensor(t.ones(2), t.ones(3).bool())),
    (TypeError, lambda t: t.masked.masked_tensor([1.0], t.ones(1).bool())),
    (TypeError, lambda t: t.masked.masked_tensor(t.ones(1), [True])),
    (TypeError, lambda t: t.masked.masked_tensor(made(t), t.tensor(MASK))),
    (TypeError, lambda t: t.masked.masked_tensor(t.ones(1).bfloat16(), t.ones(1).bool())),
    (TypeError, lambda t: t.masked.masked_tensor(t.ones(1).to_sparse(), t.ones(1).bool())),
    (RuntimeError, lambda t: made(t, requires_grad=True).add_(1)),
]


@pytest.mark.parametrize(("error", "call"), REFUSED)
def test_refused_as_by_torch(error, call):
    for t in (torch, wend):
        with pytest.raises(error):
            call(t)


def test_what_has_no_masked_form_is_refused():
    x = made(wend)
    for call in (x.tolist, x.numpy, lambda: x.fill_(1), lambda: operator.setitem(x, 0, 1)):
        with pytest.raises(TypeError, match="not implemented for MaskedTensor"):
            call()
    for call in (
        lambda: wend.add(x, 1, out=wend.ones(3, 4)),
        lambda: wend.tensor(DATA).add_(x),
        lambda: x.sum("all"),
    ):
        with pytest.raises(TypeError):
            call()
    eye = wend.eye(2).to_sparse()
    with pytest.raises(NotImplementedError, match="to_dense"):
        wend.masked.masked_tensor(eye, eye.bool())
