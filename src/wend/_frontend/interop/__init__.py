"""Tensors and the world outside: NumPy, DLPack, buffers, pickle."""
