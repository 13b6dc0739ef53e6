"""Programs that are put together from ways to write: see ``benchmarks/hands.py``."""
