"""Arrays that the launcher makes: as `numpy.empty` and `numpy.ndarray` would."""

import numpy as np
import pytest

from wend._engine.base.dtypes import bfloat16
from wend._engine.runtime.native.launcher import launcher, maker

MADE, LEAF, FOUND, SHOWN = launcher.sources()
DTYPES = [np.dtype(t) for t in (np.bool_, np.int64, np.float32, np.complex64)] + [bfloat16.numpy]


def idle_frame():
    """A frame that runs nothing, with room for three addresses."""
    memory = np.zeros(8, np.int64)
    frame = launcher.ArgumentBlock(memory)
    frame.table, frame.fault = memory.ctypes.data, memory.ctypes.data + 32
    frame.patches = 0
    frame.leaves = frame.moves = frame.numbers = frame.weights = frame.steps = ()
    return frame


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3, 1)])
def test_results_are_like_numpys_own(shape, dtype):
    frame = idle_frame()
    make = maker(shape, dtype)
    frame.outs = (make, shape, dtype, True), (make, shape, dtype, False)
    made, none = launcher.launch(frame, [], [], [], 0, None)
    like = np.empty(shape, dtype)
    assert none is None and type(made) is np.ndarray
    assert (made.shape, made.strides, made.dtype) == (like.shape, like.strides, like.dtype)
    assert made.base is None and made.flags.num == like.flags.num
    assert frame.memory[1] == made.ctypes.data


def test_what_cannot_be_had_is_an_error():
    frame = idle_frame()
    frame.outs = ((np.empty, (-1, 2), np.dtype(np.float32), True),)
    with pytest.raises(ValueError, match="negative dimensions"):
        launcher.launch(frame, [], [], [], 0, None)


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize(
    ("shape", "offset", "strides"),
    [((3, 2), 4, (4, 16)), ((), 20, ()), ((2, 2), 44, (-16, -4)), ((2, 0), 0, (4, 4))],
)
def test_parts_lie_in_their_arrays(shape, offset, strides, writeable):
    whole = np.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    whole.flags.writeable = writeable
    frame = launcher.ArgumentBlock(None)
    frame.shows = ((MADE, 0, False, shape, whole.dtype, offset, strides),)
    (part,) = launcher.show(frame, [], [whole])
    np.testing.assert_array_equal(part, np.ndarray(shape, whole.dtype, whole, offset, strides))
    assert part.dtype == whole.dtype
    if part.size:
        assert part.base is whole and part.strides == strides
        assert part.flags.writeable == writeable and not part.flags.owndata
