"""Static graphs of functions: `torch.export`, `torch.jit` and the like are views of these."""
