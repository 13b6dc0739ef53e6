"""Bad input as a user meets it: the text of each error, and its type, which is PyTorch's too."""

import pytest

import wend
from wend._engine.base import errors


def twice(ns):
    x = ns.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


def pending_index(ns):
    """Its range shows in the flush only."""
    return ns.ones(2, 3)[ns.tensor([7]) + 0].tolist()


CASES = [
    ("shapes", lambda ns: ns.ones(2, 3) + ns.ones(4, 5), errors.ShapeError,
     r"add: shapes \(2, 3\) and \(4, 5\) do not broadcast: dim -2 has sizes 2 and 4"),
    ("product", lambda ns: ns.ones(2, 3) @ ns.ones(4, 5), errors.ShapeError,
     r"shapes cannot be multiplied \(2x3 and 4x5\)"),
    ("dtypes", lambda ns: ns.ones(2, 3) @ ns.ones(3, 5, dtype=ns.int64), errors.DTypeError,
     r"expected all operands to have the same dtype, but got torch.float32 and torch.int64"),
    ("masks", lambda ns: ns.tensor([True]) - ns.tensor([False]), errors.DTypeError,
     r"sub: subtraction, the `-` operator, with a bool tensor"),
    ("gradient of integers", lambda ns: ns.ones(2, dtype=ns.int64, requires_grad=True),
     errors.GraphError, r"only Tensors of floating point and complex dtype can require gradients"),
    ("index", lambda ns: ns.ones(2, 3)[5], errors.IndexOutOfRange,
     r"index 5 is out of bounds for dimension 0 with size 2"),
    ("pending index", pending_index, errors.IndexOutOfRange,
     r"index 7 is out of bounds for dimension 0 with size 2[\s\S]*test_bad_input\.py:\d+ in pend"),
    ("freed graph", twice, errors.GraphError,
     r"backward through the graph a second time[\s\S]*retain_graph=True"),
    ("no scalar", lambda ns: (ns.ones(2, requires_grad=True) * 2).backward(), errors.GraphError,
     r"only for scalar outputs, and this one has shape \(2,\)"),
    ("no history", lambda ns: ns.ones(2).sum().backward(), errors.GraphError,
     r"element 0 of tensors does not require grad"),
    ("leaf", lambda ns: ns.ones(2, requires_grad=True).add_(1), errors.GraphError,
     r"add_: a leaf Variable that requires grad is being used in an in-place operation"),
    ("view of a leaf", lambda ns: ns.ones(2, requires_grad=True)[0].add_(1), errors.GraphError,
     r"add_: a view of a leaf Variable that requires grad"),
    ("device", lambda ns: ns.ones(2) + ns.ones(2, device="cuda"), errors.DeviceError,
     r"ones: device 'cuda' is not available: no such device is at hand"),
    ("device of a copy", lambda ns: ns.ones(2).to("cuda"), errors.DeviceError,
     r"to: device 'cuda' is not available"),
    ("device of a module", lambda ns: ns.nn.Linear(2, 2).to("cuda"), errors.DeviceError,
     r"device 'cuda' is not available"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "kind", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_type_and_text(program, kind, text):
    with pytest.raises(kind, match=text):
        program(wend)


@pytest.mark.parametrize(
    ("program", "kind"),
    [case[1:3] for case in CASES if not case[0].startswith("device")],  # there may be a GPU
    ids=[case[0] for case in CASES if not case[0].startswith("device")],
)
def test_whoever_catches_pytorchs_error_catches_this(program, kind):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:
        program(torch)
    assert issubclass(kind, theirs.type)


def test_dims_beyond_those_of_numpy():
    """PyTorch has such tensors, with few ops on them."""
    for program in (lambda: wend.zeros([1] * 65), lambda: wend.ones(2)[(None,) * 64]):
        with pytest.raises(errors.ShapeError, match="at most 64 dims, as in NumPy, and not 65"):
            program()


@pytest.mark.parametrize("ops", [["norm"], ["out"], ["norm", "out"], []], ids="-".join)
def test_an_index_before_a_loss_is_told_by_its_backward_pass(ops):
    """The loss keeps numbers of its own for the pass, which do not come into being."""
    functional = wend.nn.functional
    table = wend.nn.Embedding(11, 8)
    layers = {"norm": wend.nn.LayerNorm(8), "out": wend.nn.Linear(8, 8)}
    x, y = wend.tensor([[1, 11, 3], [2, 0, 4]]), wend.zeros(6, dtype=wend.int64)
    for _ in range(2):
        h = table(x + 0)  # the range of what is computed shows in the flush only
        for name in ops:
            h = layers[name](h)
        with pytest.raises(IndexError, match="embedding: index 11 is out of bounds"):
            functional.cross_entropy(h.flatten(0, 1), y).backward()
            table.weight.grad.sum().item()
        table.weight.grad = None


def test_parameters_made_behind_a_failing_op_are_kept():
    """The op is still to fail when the parameters are drawn, and what they were before is gone."""
    table = wend.ones(3, 2)
    kept = table[wend.tensor([7]) + 0]  # fails when it is computed
    weight = wend.nn.Parameter(wend.empty(2, 2))
    wend.nn.init.constant_(weight, 3.0)
    before = wend.zeros(2) + 1
    changed = before * 2
    changed.fill_(5.0)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        wend.synchronize()
    assert weight.shape == (2, 2)
    weight.tolist()
    assert changed.tolist() == [2.0, 2.0]  # as if nothing behind the error had run
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        kept.tolist()
