"""Special functions that SciPy or a recurrence computes, op by op: no kernel has code for them."""
