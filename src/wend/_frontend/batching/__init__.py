"""Batching by the engine, as programs ask for it and see it."""
