"""Elements chosen by keys and by tensors of indices."""
