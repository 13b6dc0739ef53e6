"""Arrays that share memory with views: strided as the views are, writable, seen by the base.

The elements of the base say where they are, so that the right values follow from the view itself.
"""

import numpy as np
import pytest

import wend

VIEWS = {
    "transposed": lambda x: x.t(),
    "rows": lambda x: x[1:],
    "steps": lambda x: x[::2, ::3],
    "column": lambda x: x[:, 2],
    "diagonal": lambda x: x.diagonal(),
    "upper diagonal": lambda x: x.diagonal(1),
    "windows": lambda x: x.unfold(1, 3, 1),
    "windows apart": lambda x: x.unfold(0, 2, 2),
    "expanded": lambda x: x[:1].expand(4, 6),
    "broadcast": lambda x: x.broadcast_to(2, 4, 6),
    "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 1),
    "transposed part": lambda x: x.t()[1:, ::2],
    "reshaped": lambda x: x.reshape(2, 12),
    "permuted": lambda x: x.reshape(2, 2, 6).permute(2, 0, 1)[1:],
    "unbound": lambda x: x.unbind(1)[1],
    "split": lambda x: x.split(4, 1)[1],
    "number": lambda x: x[2, 3],
    "detached": lambda x: x.t().detach()[2:],
    "data": lambda x: x[1:].data.t(),
    "parameter": lambda x: wend.nn.Parameter(x[1:]).detach(),
    "nothing": lambda x: x[:, 6:],
}
SOURCES = {
    "tensor": lambda: wend.arange(24.0).view(4, 6),
    "pending": lambda: (wend.arange(24.0) * 1).view(4, 6),
    "array": lambda: wend.from_numpy(np.arange(24, dtype="f4").reshape(4, 6)),
    "transposed array": lambda: wend.from_numpy(
        np.arange(24, dtype="f4").reshape(4, 6).T.copy().T[:, ::1]
    ),
    "part of an array": lambda: wend.from_numpy(np.arange(96, dtype="f4").reshape(8, 12)[::2, ::2]),
}
EXPORTS = {"numpy": lambda v: v.numpy(), "asarray": np.asarray, "dlpack": np.from_dlpack}


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", VIEWS)
def test_writes_reach_the_base(name, source, export):
    x = SOURCES[source]()
    if name in ("as_strided", "reshaped", "permuted") and not x.is_contiguous():
        pytest.skip("memory in another order is not walked, or copied")
    before = np.array(x.tolist())
    view = VIEWS[name](x)
    places = np.array(view.tolist())
    array = EXPORTS[export](view)
    assert array.flags.writeable
    assert np.array_equal(array, places)
    if array.size:
        assert array.strides == tuple(4 * s for s in view.stride())
    array[...] = -1
    wanted = np.where(np.isin(before, places), -1, before)
    assert np.array_equal(x.tolist(), wanted)
    assert np.array_equal(view.tolist(), np.full(places.shape, -1))
    x.mul_(3)
    assert np.array_equal(array, np.full(places.shape, -3))


@pytest.mark.parametrize("name", VIEWS)
def test_writes_of_the_tensor_reach_the_array(name):
    whole = np.arange(48, dtype="f4").reshape(6, 8)
    x = wend.from_numpy(whole.T[::2])  # (4, 6)
    if name in ("as_strided", "reshaped", "permuted"):
        pytest.skip("memory in another order is not walked, or copied")
    places = np.array(VIEWS[name](x).tolist())
    with wend.no_grad():
        VIEWS[name](x).fill_(-5)
    wanted = np.arange(48.0).reshape(6, 8)
    assert np.array_equal(whole, np.where(np.isin(wanted, places), -5, wanted))


def test_parts_of_repeated_elements_can_be_written():
    """Each element of memory is what was written last at one of its places."""
    row = wend.arange(3.0)
    rows = row.expand(2, 3)
    rows[1, 0] = 7
    rows[0, 2:] = 9
    assert row.tolist() == [7, 1, 9] and rows.tolist() == [[7, 1, 9]] * 2
    rows.masked_fill_(rows == 1, 4)
    assert row.tolist() == [7, 4, 9]
    line = wend.arange(5.0)
    windows = line.unfold(0, 3, 1)
    windows[1, 1] = 20
    windows[2] *= 2
    assert line.tolist() == [0, 1, 40, 6, 8]
    strided = line.as_strided((2, 2), (1, 1))
    strided[0, 1] = wend.nan
    strided[1, 0] = 5
    assert line.tolist() == [0, 5, 40, 6, 8]


@pytest.mark.parametrize(
    "write",
    [
        lambda v: v.add_(1),
        lambda v: v.copy_(wend.ones(2, 3)),
        lambda v: v.__setitem__(..., 1.0),
        lambda v: v.__setitem__((slice(None), 1), 1.0),
        lambda v: wend.add(wend.ones(2, 3), 1, out=v),
    ],
)
def test_all_of_a_repeated_element_cannot(write):
    row = wend.arange(3.0)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        write(row.expand(2, 3))
    assert row.tolist() == [0, 1, 2]
