"""Archives of PyTorch's TorchScript: read as data, checked, and interpreted op by op."""
