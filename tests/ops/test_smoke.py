"""Every op once: quick enough to run before each commit."""

import harness
import pytest

from wend._engine.base import dtypes

#: Their references ask SciPy, and loading it takes as long as all smoke tests.
WITH_SCIPY = tuple(
    f"wend._engine.ops.{name}"
    for name in "special linalg elementwise.special fourier implicit "
    "composites.products.factored composites.products.linalg".split()
)
SO_DO = frozenset("gelu mvlgamma ndtr".split())


def asks_scipy(op):
    return getattr(op, "__module__", type(op).__module__).startswith(WITH_SCIPY) or op.name in SO_DO


def run(operations):
    faults = []
    for op in operations:
        dtype = dtypes.float32 if "float" in op.facts.supports else harness.supported(op)[-1]
        sample = harness.samples(op, dtype)[0]
        error = harness.outcomes(harness.computed, op, sample)[1]
        if error is not None:
            faults.append(harness.snippet(op, sample, f"raises {error!r}"))
    harness.report(faults)


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore")
def test_every_op_runs_on_its_first_sample():
    found = [op for op in harness.OPS if not asks_scipy(op)]
    assert len(found) > len(harness.OPS) / 2
    run(found)


@pytest.mark.filterwarnings("ignore")
def test_so_do_ops_whose_references_ask_scipy():
    run(op for op in harness.OPS if asks_scipy(op))
