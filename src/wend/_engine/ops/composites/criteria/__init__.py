"""Losses, and distances that losses are made of."""
