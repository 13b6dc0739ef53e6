"""Blocks in which somebody is asked about ops: autocast, and modes of torch.overrides."""
