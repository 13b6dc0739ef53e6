"""Special functions by polynomials or a recurrence, op by op: no kernel has code for them."""
