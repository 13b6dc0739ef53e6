"""Sizes, counts and dims that are 0-d tensors, in lists too, and `out` by position: as PyTorch."""

import pytest

import wend

torch = pytest.importorskip("torch")

x = "t.arange(24.).reshape(4, 6)"
image = "t.arange(48.).reshape(1, 3, 4, 4)"
CALLS = f"""
t.split({x}, [T(1), T(3)])
{x}.split((T(1), T(3)))
{x}.split(T(2))
{x}.split([1, T(3)])
{x}.split([T(2), T(4)], T(1))
{x}.split([T([1]), T([3])])
t.split_with_sizes({x}, [T(1), T(3)])
t.unsafe_split({x}, T(2))
t.unsafe_chunk({x}, T(2))
t.tensor_split({x}, [T(1), T(3)])
t.tensor_split({x}, T(2))
t.hsplit({x}, [T(1), T(3)])
{x}.chunk(T(2))
{x}.chunk(T(3), T(1))
{x}.reshape([T(2), T(12)])
{x}.view(T(2), -1)
t.ones(1, 3).expand([T(2), T(3)])
{x}.repeat([T(2), T(1)])
{x}.permute([T(1), T(0)])
t.zeros((T(2), T(3)))
{x}.new_full((T(2), 3), 1.)
{x}.sum([T(0), T(1)])
{x}.flip([T(0)])
{x}.roll([T(1)], [T(0)])
{x}.movedim([T(0)], [T(1)])
{x}.narrow(T(0), T(1), T(2))
{x}.as_strided([T(2), T(2)], [T(1), T(2)])
{x}.unflatten(1, [T(2), T(3)])
F.pad({x}, [T(1), T(2)])
F.interpolate({image}, size=[T(2), T(2)])
F.adaptive_avg_pool2d({image}, [T(2), T(2)])
F.adaptive_max_pool2d({image}, [T(2), T(2)])
F.avg_pool2d({image}, [T(2), T(2)])
F.max_pool2d({image}, [T(2), T(2)], stride=[T(1), T(1)])
F.conv2d({image}, t.ones(2, 3, 2, 2), stride=[T(2), T(1)], padding=[T(1), T(0)])
F.conv_transpose2d({image}, t.ones(3, 2, 2, 2), stride=[T(2), T(1)], output_padding=[T(1), T(0)])
F.unfold({image}, [T(2), T(2)], stride=[T(2), T(2)])
F.layer_norm({x}, [T(6)])
t.fft.fftn({x}, [T(2), T(3)]).abs()
t.tensordot({x}, {x}.T, dims=([T(1)], [T(0)]))
t.linalg.vector_norm({x}, dim=[T(0), T(1)])
{x}[[T(1), T(2)]]
""".strip().splitlines()


def outcome(t, call):
    names = {"t": t, "F": t.nn.functional, "T": t.tensor}
    results = eval(call, names)
    results = results if isinstance(results, tuple | list) else [results]
    return [(tuple(r.shape), r.tolist()) for r in results]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
def test_tensors_stand_for_numbers(call):
    assert outcome(wend, call) == outcome(torch, call)


def test_parts_by_counted_sizes_train():
    """Sizes that come from `unique_consecutive`, anew in each step, with a backward pass."""
    for step in range(4):
        index = wend.tensor([0, 0, 1, 2, 2, 2][: 6 - step % 2])
        counts = tuple(wend.unique_consecutive(index, return_counts=True)[1])
        x = wend.randn(len(index), 3, requires_grad=True)
        parts = wend.split(x.sigmoid() * x, counts)
        assert [len(p) for p in parts] == [2, 1, 3 - step % 2]
        wend.stack([p.sum(0) for p in parts]).sum().backward()
        assert x.grad.shape == x.shape


PLACES = {
    "tensordot": lambda t, a, out: t.tensordot(a, a.T, 1, out),
    "tensordot of lists": lambda t, a, out: t.tensordot(a, a.T, ([1], [0]), out),
    "norm": lambda t, a, out: t.norm(a, 2, 1, False, out[:, 0]),
    "norm with a dtype": lambda t, a, out: t.norm(a, 2, 1, False, out[:, 0], t.float32),
    "a method norm with a dtype": lambda t, a, out: a.norm(2, 1, False, t.float64),
    "lu": lambda t, a, out: t.lu(a[:, :2], True, False, (out, t.zeros(2, dtype=t.int32)))[0],
}


@pytest.mark.parametrize("module", ["", "functional"])
@pytest.mark.parametrize("name", PLACES)
def test_out_by_position(name, module):
    found = []
    for library in (wend, torch):
        t = library
        a, out = t.arange(6.0).reshape(2, 3), t.full((2, 2), -1.0)

        class Namespace:
            def __getattr__(self, name, t=t):
                where = t.functional if module and hasattr(t.functional, name) else t
                return getattr(where, name)

        result = PLACES[name](Namespace(), a, out)
        found.append((out.tolist(), result.tolist()))
    assert found[0] == found[1]


def test_too_many_arguments_are_still_refused():
    a = wend.ones(2, 2)
    with pytest.raises(TypeError, match="takes 3 positional arguments but 5"):
        wend.tensordot(a, a, 1, a, a)
    with pytest.raises(TypeError, match="multiple values"):
        wend.norm(a, 2, 0, False, a[0], wend.float32, dtype=wend.float32)


class Power(wend.nn.Module):
    def forward(self, x, exponent):
        return wend.pow(x, exponent)


def test_a_tensor_that_may_be_an_operand_is_not_read():
    """An exponent of one element is an operand of `pow`: a static graph keeps the tensor."""
    x = wend.arange(1.0, 4.0)
    program = wend.export.export(Power(), (x, wend.tensor(2.0)))
    assert program.module()(x, wend.tensor(3.0)).tolist() == [1.0, 8.0, 27.0]
