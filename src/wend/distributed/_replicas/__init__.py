"""Modules that are the same in all ranks: gradients averaged, buffers sent, batches normalized."""
