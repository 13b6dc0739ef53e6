"""Layers of networks, composed of primitives."""
