"""The parts of `Module`: members, state, hooks, conversions; and the sequence walk of RNNs."""
