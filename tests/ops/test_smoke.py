"""Every op once: quick enough to run before each commit."""

import harness
import pytest

from wend._engine.base import dtypes


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore")
def test_every_op_runs_on_its_first_sample():
    faults = []
    for op in harness.OPS:
        dtype = dtypes.float32 if "float" in op.facts.supports else harness.supported(op)[-1]
        sample = harness.samples(op, dtype)[0]
        error = harness.outcomes(harness.computed, op, sample)[1]
        if error is not None:
            faults.append(harness.snippet(op, sample, f"raises {error!r}"))
    harness.report(faults)
