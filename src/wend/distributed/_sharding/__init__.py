"""Tensors of which each rank has a part: the parts' places, and what ranks tell one another."""
