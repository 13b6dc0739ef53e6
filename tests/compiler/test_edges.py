"""Machine code gives PyTorch's numbers at zeros, infinities, NaN and the ends of domains, too."""

import edges
import harness
import pytest

from tries import own_trie
from wend._engine.base import config, dtypes

pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in edges.comparable()])
def test_results_and_gradients(op, dtype):
    function = harness.torch_function(op)
    given = edges.pointwise_calls(op, function, dtype)
    with own_trie(), config.override(compile=True, wait=True):
        harness.report(edges.faults(op, function, given, 1))
