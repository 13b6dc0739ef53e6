"""Ops of neural networks that have kernels of their own."""
