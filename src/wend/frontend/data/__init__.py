"""Data sets, samplers, and the loader that brings their samples in batches."""
