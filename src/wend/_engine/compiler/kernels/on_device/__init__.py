"""Kernels of accelerators that are no loop nests."""
