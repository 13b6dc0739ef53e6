"""Accelerators: drivers, memory, and the queue of kernels."""
