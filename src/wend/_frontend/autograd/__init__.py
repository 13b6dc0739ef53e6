"""Gradients as programs ask for them: backward, functions, modes, nodes of the graph."""
