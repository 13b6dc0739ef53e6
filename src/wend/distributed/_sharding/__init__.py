"""Tensors of which each rank has a part: the parts' places, and facts that ranks share."""
